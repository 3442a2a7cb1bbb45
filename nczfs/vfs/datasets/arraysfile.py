"""A file with values of arrays: how it is opened for reading and writing, whatever it shows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from nczfs.engine.chunks.storedarray import StoredArray
from nczfs.engine.dataset import Dataset
from nczfs.errors import NotPermitted
from nczfs.formats.names import below
from nczfs.vfs.base import AttributeChanges
from nczfs.vfs.datasets.growing import Growing
from nczfs.vfs.datasets.viewfile import OpenView, ViewContext
from nczfs.vfs.datasets.writing import WritingView
from nczfs.vfs.nodes import File, NodeStat
from nczfs.views.base import Variables
from nczfs.views.layout import Layout


class ArraysFile(File):
    """A file of a node of a dataset, in which values can be read and written.

    Parameters
    ----------
    dataset : of all arrays that it shows.
    """

    def __init__(self, context: ViewContext, dataset: Dataset) -> None:
        self._context = context
        self._dataset = dataset

    @abstractmethod
    def layout(self) -> Layout:
        """Return the layout of the file if it is opened now."""

    @property
    @abstractmethod
    def _node_path(self) -> str:
        """The present path of the node that the file belongs to."""

    @property
    @abstractmethod
    def _name(self) -> str:
        """The name of the file, for messages and the access log."""

    @abstractmethod
    def _shown(self) -> tuple[Variables, Sequence[StoredArray]]:
        """Return the variables as they are now, and their arrays."""

    def _growing(self) -> Growing | None:
        """Return the end at which records can be added; None: there is none."""
        return None

    @property
    def place(self) -> str:
        """The place of the file in its dataset, for messages."""
        return f"/{below(self._node_path, self._name)}"

    def change(self, changes: AttributeChanges) -> None:
        self._context.check_changes(changes)

    def reader(self) -> OpenView:
        """Return the file as it is now, open for reading."""
        context, layout = self._context, self.layout()
        what = f"{self._dataset.url('')} /{self._node_path} {self._name}"
        access = context.access_log.opened(what, layout)
        return OpenView(
            context.engine, layout, access, context.fresh_since, self._store, self.layout
        )

    def writer(self, *, rewrite: bool) -> WritingView:
        """Return the file open for writing.

        Parameters
        ----------
        rewrite : whether it was truncated, so that complete new contents replace everything.

        Raises
        ------
        NotPermitted : it can only be read. CodecError : values could not be encoded.
        """
        if self._context.editing_of(self._dataset) is None or not self.writable:
            raise NotPermitted(f"{self.place}: can only be read")
        for variable in self._shown()[0]:
            self._dataset.array(variable).require_codecs()
        return WritingView(
            self.place,
            self.reader,
            self.layout,
            self._store,
            self._context.engine.writeback.wait_for_room,
            self._growing(),
            self.arrays,
            self._dataset.lease,
            rewrite=rewrite,
        )

    def _stat_of(self, size: int, mtime_ns: int) -> NodeStat:
        written_ns = max((array.written_ns for array in self.arrays), default=0)
        return NodeStat(size, max(mtime_ns, written_ns))

    def _store(self) -> None:
        """Store everything that was written to the variables, through any file or handle."""
        editing = self._context.editing_of(self._dataset)
        if editing is not None:
            editing.store(self._dataset, *self._shown())
