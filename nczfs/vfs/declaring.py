"""The info.json of a group, and how an empty group becomes a variable by writing one."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

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
    StaleHandle,
    UsageError,
)
from nczfs.formats.dimensions import anonymous
from nczfs.formats.jsontext import Unfinished
from nczfs.formats.names import checked_name, parent_of
from nczfs.model.hierarchy import Dimension, GroupHeader
from nczfs.vfs.base import Buffer
from nczfs.vfs.editing import Editing
from nczfs.vfs.judged import JudgedText
from nczfs.vfs.nodes import OpenFile
from nczfs.vfs.refusals import RefusalsOfFile
from nczfs.vfs.viewfile import ViewContext, ViewFile
from nczfs.views.catalog import View
from nczfs.views.declaration import WantedDimension, WantedVariable, wanted_variable

INFO = "info.json"
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
        self._refusals = context.refusals.file(dataset.prefix(path), INFO)
        super().__init__(
            context,
            view,
            token,
            mtime_ns,
            lambda: dataset.edits.revision + context.refusals.revision,
            self._refusals.check,
        )
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
        return OpenDeclaration(
            self._editing, self._dataset, self._path, self._refusals, self._became_variable
        )

    def _became_variable(self) -> None:
        self._is_variable = True


class OpenDeclaration(OpenFile):
    """An info.json while it is written: the variable is made at the flush.

    The write that makes the document complete is refused when it asks for no variable that can be
    made, and so is one behind which nothing can make it a document.

    Parameters
    ----------
    made : called when the variable was made.
    """

    judges_writes = True

    def __init__(
        self,
        editing: Editing,
        dataset: Dataset,
        path: str,
        refusals: RefusalsOfFile,
        made: Callable[[], None],
    ) -> None:
        self._editing = editing
        self._dataset = dataset
        self._path = path
        self._made = made
        self._text = JudgedText(INFO, b"", INFO_BYTES_MAX, refusals, self._judge)

    def read(self, offset: int, size: int) -> Buffer:
        return self._text.read(offset, size)

    def read_if_cached(self, offset: int, size: int) -> Buffer | None:
        return None

    def write(self, offset: int, data: Buffer) -> int:
        self._text.write(offset, data)
        return len(data)

    def truncate(self, size: int) -> None:
        self._text.truncate(size)

    def flush(self) -> None:
        with self._text.taken() as data:
            if data is None:
                return
            with self._refused():
                declare(self._editing.editor(self._dataset), self._path, data)
            self._made()

    def close(self) -> None:
        """What was not a variable at the last flush is dropped: its writer was told."""

    def _judge(self, data: bytes) -> None:
        """Refuse a document that is complete and wrong, or can never be complete."""
        with self._refused(), suppress(Unfinished):
            wanted = wanted_variable(self._name, data)
            check(self._editing.editor(self._dataset), self._path, wanted)

    @property
    def _name(self) -> str:
        return self._path.rpartition("/")[2]

    @contextmanager
    def _refused(self) -> Iterator[None]:
        """What is wrong with the document, as the errors of a file."""
        try:
            yield
        except NotWritable as error:
            raise NotPermitted(str(error)) from error
        except (BadValue, CodecError, MetadataError, NoSuchNode, UsageError) as error:
            why = str(error).removeprefix(f"{INFO}: ")
            raise BadArgument(f"/{self._path}/{INFO}: {why}") from error


def declare(editor: Editor, path: str, data: bytes) -> None:
    """Make of an empty group the variable that an info.json asks for, and store it.

    Raises
    ------
    BadValue, CodecError, MetadataError, NoSuchNode, NotWritable, StoreError, UsageError.
    """
    wanted = wanted_variable(path.rpartition("/")[2], data)
    check(editor, path, wanted)  # before a dimension is made for it
    group = parent_of(path)
    names = tuple(_made(editor, group, dimension) for dimension in wanted.dimensions)
    declaration = dataclasses.replace(wanted.declaration, dimensions=names)
    editor.turn_into_variable(path, declaration)
    editor.sync()


def check(editor: Editor, path: str, wanted: WantedVariable) -> None:
    """Raise as `declare` does where it would; nothing is made."""
    group = parent_of(path)
    dimensions = [_known(editor, group, dimension) for dimension in wanted.dimensions]
    editor.described(path, wanted.declaration, dimensions)


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
