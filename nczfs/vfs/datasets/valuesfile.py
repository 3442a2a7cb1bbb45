"""The values of one variable or several, or of one chunk, as a file."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from nczfs.engine.chunks.storedarray import StoredArray, newest_revision
from nczfs.engine.dataset import Dataset
from nczfs.errors import StaleHandle
from nczfs.model.hierarchy import Variable
from nczfs.vfs.datasets.arraysfile import ArraysFile
from nczfs.vfs.datasets.growing import Growing
from nczfs.vfs.datasets.viewfile import ViewContext
from nczfs.vfs.nodes import NodeStat, OpenFile
from nczfs.views.base import Variables, View, Writing
from nczfs.views.catalog import FILE_BYTES_MAX
from nczfs.views.layout import Layout


class ValuesFile(ArraysFile):
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
        super().__init__(context, dataset)
        self._own_name = name
        self._view = view
        self._mtime_ns = mtime_ns
        self._group = group
        arrays = [dataset.array(dataset.latest(variable)) for variable in view.variables]
        self.arrays = tuple([array.stored for array in arrays])
        can_change = context.editing_of(dataset) is not None
        can_change = can_change and all(array.is_writable for array in arrays)
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
        size = self.layout().size
        if self._context.editing is not None and self._view.writing is Writing.RECORDS:
            size += sum(map(self._context.editing.held_bytes, self.arrays))
        return self._stat_of(size, self._mtime_ns)

    def listing_stat(self) -> NodeStat:
        if not self._view.is_arithmetic and self._known(self._now()) is None:
            return NodeStat(0, self._mtime_ns, exact=False)
        return self.stat()

    def layout(self) -> Layout:
        """Return the present layout of the file, anew if a rename comes in between."""
        while True:
            moves = self._dataset.edits.names.moves
            variables = self._now()
            with self._lock:
                found = self._known(variables)
                if found is not None:
                    return found
                found = self._view.build(variables)
                if found.size > FILE_BYTES_MAX:
                    raise StaleHandle(f"{self.place}: the variable has become too large for it")
                if moves == self._dataset.edits.names.moves:
                    self._layout = variables, found
                    return found

    def open(self, *, writing: bool = False, truncate: bool = False) -> OpenFile:
        context = self._context
        if context.is_prompt:
            self._look_anew()
        for variable in self._view.variables:
            context.opened(self._dataset, variable)
        return self.writer(rewrite=truncate) if writing or truncate else self.reader()

    def truncate(self, size: int) -> None:
        file = self.open(writing=True)
        try:
            file.truncate(size)
            file.flush()
        finally:
            file.close()

    @property
    def grows(self) -> bool:
        """Whether records can be added at its end."""
        return self._growing() is not None

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

    def _shown(self) -> tuple[Variables, Sequence[StoredArray]]:
        return self._now(), self.arrays

    def _now(self) -> Variables:
        """Return the variables with their present lengths and paths."""
        latest = self._dataset.latest
        return tuple(map(latest, self._view.variables, self.arrays))

    @property
    def _name(self) -> str:
        return self._own_name

    @property
    def _node_path(self) -> str:
        return self._now()[0].path if self._group is None else self._group

    def _growing(self) -> Growing | None:
        editing = self._context.editing_of(self._dataset)
        if editing is None or self._view.writing is not Writing.RECORDS:
            return None
        return editing.growing(self._dataset, self._now()[0])
