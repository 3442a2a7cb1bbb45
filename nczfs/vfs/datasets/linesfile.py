"""The `values.txt` of variable-length elements in mounts for copies."""

from __future__ import annotations

from functools import partial

from nczfs.errors import NotPermitted
from nczfs.library.resolved import At
from nczfs.vfs.datasets.landing import land
from nczfs.vfs.datasets.viewfile import ViewContext, ViewFile
from nczfs.vfs.nodes import OpenFile
from nczfs.views.base import View
from nczfs.views.catalog import LINES


class LinesFile(ViewFile):
    """A file with one JSON value a line, which is written as a whole at the close."""

    def __init__(
        self, context: ViewContext, view: View, token: object, mtime_ns: int, at: At
    ) -> None:
        super().__init__(context, view, token, mtime_ns)
        self._at = at
        self.writable = context.arrivals is not None

    def open(self, *, writing: bool = False, truncate: bool = False) -> OpenFile:
        if not (writing or truncate):
            return super().open()
        arrivals, at = self._context.arrivals, self._at
        if arrivals is None:
            raise NotPermitted(f"/{at.path}/{LINES}: can only be read")
        place = partial(land, self._context, at.dataset, at.path, LINES)
        held = arrivals.apart(at.dataset.prefix(at.path), LINES, place)
        if not truncate:
            held.write(0, self._current_text())
        file = held.open(writing=True)
        held.let_go()
        return file
