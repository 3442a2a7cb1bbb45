"""The values of one variable or several, or of one chunk, as a file."""

from __future__ import annotations

import threading

from nczfs.engine.chunks.storedarray import newest_revision
from nczfs.engine.dataset import Dataset
from nczfs.errors import NotPermitted, StaleHandle
from nczfs.model.hierarchy import Variable
from nczfs.vfs.base import AttributeChanges
from nczfs.vfs.datasets.growing import Growing
from nczfs.vfs.datasets.viewfile import OpenView, ViewContext
from nczfs.vfs.datasets.writing import WritingView
from nczfs.vfs.nodes import File, NodeStat, OpenFile
from nczfs.views.base import Variables, View, Writing
from nczfs.views.catalog import FILE_BYTES_MAX
from nczfs.views.layout import Layout


class ValuesFile(File):
    """A view of values. Its layout follows the variables when they grow.

    `_lock` guards the layout, also while it is built, which blocks unless it is pure arithmetic.

    Parameters
    ----------
    name : for messages and the access log.
    group : the path of the group that the file belongs to; None: it belongs to its one variable.
    """

    def __init__(
        self,
        context: ViewContext,
        dataset: Dataset,
        name: str,
        view: View,
        mtime_ns: int,
        group: str | None = None,
    ) -> None:
        self._context = context
        self._dataset = dataset
        self._name = name
        self._view = view
        self._mtime_ns = mtime_ns
        self._group = group
        self.arrays = tuple(
            dataset.array(dataset.latest(variable)).stored for variable in view.variables
        )
        can_change = context.editing_of(dataset) is not None
        self.writable = can_change and view.writing is not Writing.NOTHING
        self._lock = threading.Lock()
        self._layout: tuple[Variables, Layout] | None = None

    @property
    def token(self) -> object:
        """A token that changes when the positions of bytes change.

        They do not change when a file's only variable has grown.
        """
        fixed = tuple(
            each.size
            for variable in self._view.variables
            for each in variable.dimensions[1:]
            if not each.unlimited
        )
        if len(self.arrays) == 1:
            return self.arrays, fixed
        return self.arrays, tuple(variable.array.shape for variable in self._view.variables)

    @property
    def pages_token(self) -> object:
        return self.arrays, newest_revision(self.arrays)

    def stat(self) -> NodeStat:
        return self._stat_of(self.layout())

    def listing_stat(self) -> NodeStat:
        if not self._view.is_arithmetic and self._known(self._now()) is None:
            return NodeStat(0, self._mtime_ns, exact=False)
        return self._stat_of(self.layout())

    def layout(self) -> Layout:
        """Return the present layout of the file."""
        variables = self._now()
        with self._lock:
            found = self._known(variables)
            if found is None:
                found = self._view.build(variables)
                if found.size > FILE_BYTES_MAX:
                    raise StaleHandle(f"{self.place}: the variable has become too large for it")
                self._layout = variables, found
            return found

    def open(self, *, writing: bool = False, truncate: bool = False) -> OpenFile:
        context = self._context
        if context.is_prompt:
            self._look_anew()
        for variable in self._view.variables:
            context.opened(self._dataset, variable)
        if not (writing or truncate):
            return self.reader()
        editing = context.editing_of(self._dataset)
        if editing is None or not self.writable:
            raise NotPermitted(f"{self.place}: can only be read")
        for variable in self._now():
            self._dataset.array(variable).require_codecs()
        return WritingView(
            self.place,
            self.reader,
            self.layout,
            self._store,
            self._dataset.zmap.flush,
            context.engine.writeback.wait_for_room,
            self._growing(),
            self.arrays,
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

    def change(self, changes: AttributeChanges) -> None:
        self._context.check_changes(changes)

    def reader(self) -> OpenView:
        """Return the file as it is now, open for reading."""
        context, layout = self._context, self.layout()
        what = f"{self._dataset.url('')} /{self._node_path} {self._name}"
        access = context.access_log.opened(what, layout)
        return OpenView(context.engine, layout, access, context.fresh_since, self._store)

    @property
    def place(self) -> str:
        """The place of the file in its dataset, for messages."""
        path = self._node_path
        return f"/{path}/{self._name}" if path else f"/{self._name}"

    @property
    def grows(self) -> bool:
        """Whether records can be added at its end."""
        return self._growing() is not None

    def _stat_of(self, layout: Layout) -> NodeStat:
        size = layout.size
        if self._context.editing is not None and self._view.writing is Writing.RECORDS:
            size += sum(map(self._context.editing.held_bytes, self.arrays))
        written_ns = max((array.written_ns for array in self.arrays), default=0)
        return NodeStat(size, max(self._mtime_ns, written_ns))

    def _known(self, variables: Variables) -> Layout | None:
        """Return the layout, if it was built for these incarnations of the variables."""
        known = self._layout
        if known is None or not all(a is b for a, b in zip(known[0], variables, strict=True)):
            return None
        return known[1]

    def _look_anew(self) -> None:
        """Update the layout to the present variables.

        Raises
        ------
        StaleHandle : one was removed or replaced; the kernel then looks the path up again.
        """
        for variable, array in zip(self._view.variables, self.arrays, strict=True):
            loaded = self._context.load(self._dataset, variable.path)
            node = loaded.node if loaded is not None else None
            if not (isinstance(node, Variable) and self._dataset.array(node).stored is array):
                raise StaleHandle(f"{self.place}: the variable was removed or replaced")

    def _store(self) -> None:
        """Store everything that was written to the variables, through any file or handle."""
        editing = self._context.editing_of(self._dataset)
        if editing is not None:
            editing.store(self._dataset, self._now(), self.arrays)

    def _now(self) -> Variables:
        """Return the variables with their present lengths and paths."""
        latest = self._dataset.latest
        return tuple(map(latest, self._view.variables, self.arrays))

    @property
    def _node_path(self) -> str:
        return self._now()[0].path if self._group is None else self._group

    def _growing(self) -> Growing | None:
        editing = self._context.editing_of(self._dataset)
        if editing is None or self._view.writing is not Writing.RECORDS:
            return None
        return editing.growing(self._dataset, self._now()[0])
