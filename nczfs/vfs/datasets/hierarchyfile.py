"""The zom.json of a group: the hierarchy below it; writing one declares what is to be there."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from nczfs.engine.dataset import Dataset
from nczfs.engine.opennode import OpenNode
from nczfs.errors import (
    BadArgument,
    MetadataError,
    NoSuchNode,
    NotPermitted,
    NotWritable,
    ObjectExists,
    ReadOnlyMount,
)
from nczfs.formats.zom.nodes import Node
from nczfs.formats.zom.text import LIMITS, loads
from nczfs.library.resolved import At
from nczfs.vfs.datasets.arrivals import goal_of
from nczfs.vfs.datasets.editing import TreeEditing
from nczfs.vfs.datasets.judged import JudgedText, OpenJudged
from nczfs.vfs.datasets.refusals import RefusalsOfFile
from nczfs.vfs.datasets.viewfile import MadeText, ViewContext, ViewFile
from nczfs.vfs.nodes import FixedContent, OpenFile
from nczfs.views.base import View
from nczfs.views.catalog import ZOM, is_like_a_view
from nczfs.views.layout import Layout
from nczfs.views.segments import Literal
from nczfs.zmap.keys import Prefix
from nczfs.zom.declaring import check, declare


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
        declared = self._context.hierarchies.declared
        return _OpenHierarchy(self._editing, self._dataset, self._node, self._refusals, declared)

    def _current_text(self, *, anew: bool = False) -> bytes:
        with self._lock:
            revision = self._revision()
            made = self._context.hierarchies.present(self._dataset, self._node, anew=anew)
            text = made.shown.text
            self._last_made = MadeText(len(text), revision, made.made_at)
            return text


_VIEW = View(lambda _: Layout([Literal(b"")]), is_arithmetic=False, is_text=True)


class _OpenHierarchy(OpenJudged):
    """A zom.json that is being written: the flush makes what it declares."""

    def __init__(
        self,
        editing: TreeEditing,
        dataset: Dataset,
        node: OpenNode,
        refusals: RefusalsOfFile,
        declared: Callable[[Prefix], None],
    ) -> None:
        self._declared = declared
        self._editing = editing
        self._dataset = dataset
        self._node = node
        super().__init__(JudgedText(ZOM, b"", LIMITS.bytes_max, refusals, self._judge))

    def flush(self) -> None:
        with self._text.taken() as data:
            if data is None:
                return
            with self._refused():
                wanted = loads(data)
                self._node.follow(lambda path: self._declare(path, wanted))
            if not self._node.path:
                self._declared(self._node.prefix)  # its format may be another one now

    def close(self) -> None:
        """Drop a text that the last flush refused; its writer got the error."""

    def _declare(self, path: str, wanted: Node) -> None:
        """Declare a hierarchy, unless the group has another path when its turn has come."""
        editor = self._editing.editor(self._dataset)
        with self._dataset.edits.names.held(path):
            if path == self._node.path:
                declare(self._dataset, path, wanted, editor)

    def _judge(self, data: bytes) -> None:
        """Refuse a text that is complete and cannot be declared."""
        if not data.rstrip().endswith(b"}"):
            return
        try:
            json.loads(data)
        except RecursionError:
            pass  # it is refused below, as nested too deep
        except ValueError:
            return  # the flush tells what is wrong, unless it is only the beginning
        with self._refused():
            wanted = loads(data)
            self._node.follow(lambda path: check(self._dataset, path, wanted))

    @contextmanager
    def _refused(self) -> Iterator[None]:
        """Turn errors of the text into errors of a file."""
        place = f"/{self._node.path}/{ZOM}" if self._node.path else f"/{ZOM}"
        try:
            yield
        except (NotWritable, ObjectExists) as error:
            raise NotPermitted(f"{place}: {error}") from error
        except (MetadataError, NoSuchNode) as error:
            raise BadArgument(f"{place}: {error}") from error
