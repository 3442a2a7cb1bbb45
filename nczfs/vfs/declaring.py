"""The info.json of a group, and how an empty group becomes a variable by writing one."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable

from nczfs.engine.dataset import Dataset
from nczfs.engine.editor import Editor
from nczfs.errors import (
    BadArgument,
    BadValue,
    CodecError,
    MetadataError,
    NoSuchNode,
    NotPermitted,
    NotWritable,
    ObjectTooLarge,
    StaleHandle,
    UsageError,
)
from nczfs.formats.dimensions import anonymous
from nczfs.formats.names import checked_name, parent_of
from nczfs.model.hierarchy import Dimension, GroupHeader
from nczfs.vfs.base import Buffer
from nczfs.vfs.editing import Editing
from nczfs.vfs.nodes import OpenFile
from nczfs.vfs.viewfile import ViewContext, ViewFile
from nczfs.views.catalog import View
from nczfs.views.declaration import WantedDimension, wanted_variable

INFO_BYTES_MAX = 16 << 20


class GroupInfoFile(ViewFile):
    """What a group is; in one that is still empty, a shape can be written into it."""

    def __init__(
        self,
        context: ViewContext,
        view: View,
        token: object,
        mtime_ns: int,
        dataset: Dataset,
        path: str,
    ) -> None:
        super().__init__(context, view, token, mtime_ns, lambda: dataset.edits.revision)
        self._dataset = dataset
        self._path = path
        self._editing = context.editing_of(dataset) if path else None
        self.writable = self._editing is not None
        self._is_variable = False

    def open(self, *, writing: bool = False, truncate: bool = False) -> OpenFile:
        if self._is_variable:
            # The kernel then looks the path up again, and shows the program the file of that.
            raise StaleHandle(f"/{self._path}/info.json: the group is a variable now")
        if not (writing or truncate):
            return super().open()
        if self._editing is None:
            raise NotPermitted("info.json: can only be read")
        node = self._dataset.node(self._path)
        if not isinstance(node, GroupHeader) or self._dataset.names(self._path):
            raise NotPermitted(
                f"/{self._path}/info.json: only a group that is still empty becomes a variable; "
                "make another one beside it (mkdir)"
            )
        return OpenDeclaration(self._editing, self._dataset, self._path, self._became_variable)

    def _became_variable(self) -> None:
        self._is_variable = True


class OpenDeclaration(OpenFile):
    """An info.json while it is written: the variable is made at the flush. `_lock` guards it.

    Parameters
    ----------
    made : called when the variable was made.
    """

    def __init__(
        self, editing: Editing, dataset: Dataset, path: str, made: Callable[[], None]
    ) -> None:
        self._editing = editing
        self._dataset = dataset
        self._path = path
        self._made = made
        self._lock = threading.Lock()
        self._data = bytearray()
        self._is_dirty = False

    def read(self, offset: int, size: int) -> Buffer:
        with self._lock:
            return bytes(self._data[offset : offset + size])

    def read_if_cached(self, offset: int, size: int) -> Buffer | None:
        return None

    def write(self, offset: int, data: Buffer) -> int:
        if offset + len(data) > INFO_BYTES_MAX:
            raise ObjectTooLarge(f"info.json: at most {INFO_BYTES_MAX} bytes")
        with self._lock:
            self._data += bytes(max(0, offset - len(self._data)))
            self._data[offset : offset + len(data)] = data
            self._is_dirty = True
        return len(data)

    def truncate(self, size: int) -> None:
        with self._lock:
            if size > len(self._data):
                raise NotPermitted("info.json: holds what is written into it")
            del self._data[size:]

    def flush(self) -> None:
        with self._lock:
            if not self._is_dirty:
                return
            try:
                declare(self._editing.editor(self._dataset), self._path, bytes(self._data))
            except NotWritable as error:
                raise NotPermitted(str(error)) from error
            except (BadValue, CodecError, MetadataError, NoSuchNode, UsageError) as error:
                raise BadArgument(f"/{self._path}/info.json: {error}") from error
            self._is_dirty = False
            self._made()

    def close(self) -> None:
        """What was not a variable at the last flush is dropped: its writer was told."""


def declare(editor: Editor, path: str, data: bytes) -> None:
    """Make of an empty group the variable that an info.json asks for, and store it.

    Raises
    ------
    BadValue, CodecError, MetadataError, NoSuchNode, NotWritable, StoreError, UsageError.
    """
    wanted = wanted_variable(path.rpartition("/")[2], data)
    group = parent_of(path)
    # Before a dimension is made for it.
    editor.described(
        path, wanted.declaration, [_known(editor, group, one) for one in wanted.dimensions]
    )
    names = tuple(_made(editor, group, dimension) for dimension in wanted.dimensions)
    declaration = dataclasses.replace(wanted.declaration, dimensions=names)
    editor.turn_into_variable(path, declaration)
    editor.sync()


def _known(editor: Editor, group: str, wanted: WantedDimension) -> Dimension:
    """A dimension of the wanted length, which may have to be made."""
    if wanted.name is None:
        return anonymous(wanted.size)
    try:
        known = editor.dimension(group, wanted.name)
    except NoSuchNode:
        return Dimension(checked_name(wanted.name), wanted.size, wanted.unlimited, group)
    if known.size != wanted.size:
        raise BadValue(
            f"dimension {wanted.name!r} has length {known.size}, and the shape says {wanted.size}"
        )
    return known


def _made(editor: Editor, group: str, wanted: WantedDimension) -> str:
    """The name of a dimension, made where there is none."""
    if wanted.name is None:
        return editor.anonymous_dimension(wanted.size)
    try:
        editor.dimension(group, wanted.name)
    except NoSuchNode:
        size = None if wanted.unlimited else wanted.size
        made = editor.create_dimension(group, wanted.name, size)
        if wanted.unlimited and wanted.size:
            editor.resize(made, wanted.size)
    return wanted.name
