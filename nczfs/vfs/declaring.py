"""The info.json of a group, and what becomes of the group when somebody writes one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from nczfs.engine.dataset import Dataset
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
from nczfs.formats.jsontext import Unfinished
from nczfs.vfs.base import Buffer
from nczfs.vfs.editing import Editing
from nczfs.vfs.judged import JudgedText
from nczfs.vfs.making import Making
from nczfs.vfs.nodes import OpenFile
from nczfs.vfs.refusals import RefusalsOfFile
from nczfs.vfs.viewfile import ViewContext, ViewFile
from nczfs.views.catalog import View
from nczfs.views.declaration import WantedVariable, wanted_node

INFO = "info.json"
INFO_BYTES_MAX = 16 << 20


class GroupInfoFile(ViewFile):
    """What a group is; what another one shows can be written into it.

    A group that is still empty becomes a variable when it is the document of one.
    """

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
        self._editing = context.editing_of(dataset)
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
        return OpenDeclaration(
            self._editing, self._dataset, self._path, self._refusals, self._became_variable
        )

    def _became_variable(self) -> None:
        self._is_variable = True


class OpenDeclaration(OpenFile):
    """An info.json while it is written: what it describes is made at the flush.

    The write that makes the document complete is refused when it asks for nothing that can be
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
                wanted = wanted_node(self._name, data)
                self._making().make(self._path, wanted)
            if isinstance(wanted, WantedVariable):
                self._made()

    def close(self) -> None:
        """What was not a variable at the last flush is dropped: its writer was told."""

    def _judge(self, data: bytes) -> None:
        """Refuse a document that is complete and wrong, or can never be complete."""
        with self._refused(), suppress(Unfinished):
            self._making().check(self._path, wanted_node(self._name, data))

    def _making(self) -> Making:
        return Making(self._editing.editor(self._dataset))

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
