"""A zom.json that is being written."""

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
)
from nczfs.formats.zom.nodes import Node
from nczfs.formats.zom.text import LIMITS, loads
from nczfs.vfs.datasets.editing import TreeEditing
from nczfs.vfs.datasets.judged import JudgedText, OpenJudged
from nczfs.vfs.datasets.refusals import RefusalsOfFile
from nczfs.views.catalog import ZOM
from nczfs.zmap.keys import Prefix
from nczfs.zom.declaring import check, declare


class WrittenHierarchy(OpenJudged):
    """An open zom.json; the flush makes what it declares."""

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
