"""The zom.json of a group: the hierarchy below it; writing one declares what is to be there."""

from __future__ import annotations

from nczfs.engine.opennode import OpenNode
from nczfs.errors import (
    NotPermitted,
    ReadOnlyMount,
)
from nczfs.library.resolved import At
from nczfs.vfs.datasets.arrivals import goal_of
from nczfs.vfs.datasets.viewfile import MadeText, ViewContext, ViewFile
from nczfs.vfs.nodes import FixedContent, OpenFile
from nczfs.views.base import View
from nczfs.views.catalog import ZOM, is_like_a_view
from nczfs.views.layout import Layout
from nczfs.views.segments import Literal


class HierarchyFile(ViewFile):
    """The file with the Zarr Object Model of a group.

    Parameters
    ----------
    at : the group as it was when it was looked up.
    node : the same, wherever it is.
    """

    def __init__(self, context: ViewContext, at: At, node: OpenNode) -> None:
        dataset = at.dataset
        self._refusals = context.refusals.file(lambda: node.prefix, ZOM)
        super().__init__(
            context,
            _VIEW,
            tuple(at.loaded.used.values()),
            context.mtime_ns_of(at.loaded),
            lambda: dataset.edits.revision + context.refusals.revision,
            self._refusals.check,
        )
        self._dataset = dataset
        self._node = node
        self._editing = context.editing_of(dataset)
        self.writable = self._editing is not None

    @property
    def pages_token(self) -> object:
        return self._token, self._revision()

    def open(self, *, writing: bool = False, truncate: bool = False) -> OpenFile:
        if not (writing or truncate):
            return FixedContent(self._current_text(anew=self._context.is_prompt), self._synced)
        if self._editing is None:
            raise ReadOnlyMount(f"{ZOM}: the dataset can only be read")
        if any(
            is_like_a_view(goal_of(name) or name)
            for name in self._context.refusals.names(self._node.prefix)
            if name != ZOM
        ):
            raise NotPermitted(f"{ZOM}: the files of a dataset are not copied one by one")
        from nczfs.vfs.datasets.writtenhierarchy import WrittenHierarchy  # a mount starts without

        declared = self._context.hierarchies.declared
        return WrittenHierarchy(self._editing, self._dataset, self._node, self._refusals, declared)

    def _current_text(self, *, anew: bool = False) -> bytes:
        with self._lock:
            revision = self._revision()
            made = self._context.hierarchies.present(self._dataset, self._node, anew=anew)
            text = made.shown.text
            self._last_made = MadeText(len(text), revision, made.made_at)
            return text


_VIEW = View(lambda _: Layout([Literal(b"")]), is_arithmetic=False, is_text=True)
