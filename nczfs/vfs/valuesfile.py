"""The values of a variable, or of one chunk of it, as a file."""

from __future__ import annotations

import threading
from collections.abc import Callable

from nczfs.engine.dataset import Dataset
from nczfs.errors import NotPermitted, StaleHandle
from nczfs.model.hierarchy import Variable
from nczfs.vfs.base import Changes
from nczfs.vfs.editing import Growing
from nczfs.vfs.nodes import File, NodeStat, OpenFile
from nczfs.vfs.viewfile import OpenView, ViewContext
from nczfs.vfs.writing import WritingView
from nczfs.views.catalog import View
from nczfs.views.layout import Layout

GROWING_VIEW = "values.raw"


class ValuesFile(File):
    """A view of values. Its layout follows the variable when that grows.

    `_lock` guards the layout; building it is arithmetic.

    Parameters
    ----------
    name : for the access log.
    view_of : the view of an incarnation of the variable.
    """

    def __init__(
        self,
        context: ViewContext,
        dataset: Dataset,
        variable: Variable,
        name: str,
        view_of: Callable[[Variable], View],
        mtime_ns: int,
    ) -> None:
        self._context = context
        self._dataset = dataset
        self._variable = variable
        self._name = name
        self._view_of = view_of
        self._mtime_ns = mtime_ns
        self._array = dataset.array(dataset.latest(variable))
        self.writable = context.editing_of(dataset) is not None
        self._lock = threading.Lock()
        self._layout: tuple[Variable, Layout] | None = None

    @property
    def token(self) -> object:
        """Another one when bytes lie elsewhere by now; when the file has grown, they do not."""
        inner = self._variable.dimensions[1:]
        return self._array.stored, tuple(each.size for each in inner if not each.unlimited)

    @property
    def pages_token(self) -> object:
        return self._array.stored, self._array.stored.revision

    def stat(self) -> NodeStat:
        return self.listing_stat()

    def listing_stat(self) -> NodeStat:
        size = self.layout().size
        if self._context.editing is not None and self._name == GROWING_VIEW:
            size += self._context.editing.held_bytes(self._array.stored)
        return NodeStat(size, max(self._mtime_ns, self._array.stored.written_ns))

    def layout(self) -> Layout:
        """What the file is made of by now."""
        variable = self._now()
        with self._lock:
            if self._layout is None or self._layout[0] is not variable:
                self._layout = variable, self._view_of(variable).build()
            return self._layout[1]

    def open(self, *, writing: bool = False, truncate: bool = False) -> OpenFile:
        context = self._context
        if context.is_prompt:
            self._look_anew()
        context.opened(self._dataset, self._variable)
        if not (writing or truncate):
            return self.reader()
        editing = context.editing_of(self._dataset)
        if editing is None:
            raise NotPermitted(f"{self.place}: can only be read")
        self._array.require_codecs()
        return WritingView(
            self.place,
            self.reader,
            self.layout,
            self._store,
            self._dataset.zmap.flush,
            context.engine.writeback.wait_for_room,
            self._growing(),
            self._array.stored,
            self._dataset.lease,
            rewrite=truncate,
        )

    def truncate(self, size: int) -> None:
        file = self.open(writing=True)
        try:
            file.truncate(size)
            file.flush()
        finally:
            file.close()

    def change(self, changes: Changes) -> None:
        self._context.check_changes(changes)

    def reader(self) -> OpenView:
        """The file as it is now, open for reading."""
        context, layout = self._context, self.layout()
        what = f"{self._dataset.url('')} /{self._variable.path} {self._name}"
        access = context.access_log.opened(what, layout)
        fresh_since = context.fresh_since
        return OpenView(
            context.engine, layout, access, self._array.stored, fresh_since, self._store
        )

    def _look_anew(self) -> None:
        """Have the layout be that of the variable now.

        Raises
        ------
        StaleHandle : it was removed, or made anew; the kernel looks the path up again then.
        """
        loaded = self._context.load(self._dataset, self._variable.path)
        node = loaded.node if loaded is not None else None
        is_same = isinstance(node, Variable) and (
            self._dataset.array(node).stored is self._array.stored
        )
        if not is_same:
            raise StaleHandle(f"{self.place}: the variable was removed or replaced")

    def _store(self) -> None:
        """Have all stored that was written to the variable, through whichever file or handle."""
        editing = self._context.editing_of(self._dataset)
        if editing is not None:
            editing.store(self._dataset, self._now(), self._array.stored)

    @property
    def place(self) -> str:
        """Of the file in its dataset, for messages."""
        return f"/{self._now().path}/{self._name}"

    def _now(self) -> Variable:
        """The variable as long as it is by now, and where it is."""
        return self._dataset.latest(self._variable, self._array.stored)

    @property
    def grows(self) -> bool:
        """Whether records can be added at its end."""
        return self._growing() is not None

    def _growing(self) -> Growing | None:
        editing = self._context.editing_of(self._dataset)
        if editing is None or self._name != GROWING_VIEW:
            return None
        return editing.growing(self._dataset, self._now())
