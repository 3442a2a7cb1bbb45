"""Writing an ncstream into a new dataset, message by message.

A stream may be longer than any disk, and need not have its values in the order of chunks. So each
message is written as it comes: whole chunks are stored at once, parts of chunks are gathered in the
memory that dirty chunks may take.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import IO, NoReturn, Protocol

import numpy as np

from nczfs.buffers import Values
from nczfs.engine.arrays.selection import Selection
from nczfs.errors import BadMetadata, UsageError
from nczfs.formats.base import MetadataFormat
from nczfs.formats.names import below
from nczfs.library.variable import storable
from nczfs.model.boxes import Box
from nczfs.model.declaration import GroupDeclaration, VariableDeclaration
from nczfs.model.dtypes import NcType
from nczfs.model.hierarchy import Variable
from nczfs.ncstream.bytesource import Readable
from nczfs.ncstream.messages import DataType, Group, Header, Section, StreamError
from nczfs.ncstream.reading import Array, Item, read
from nczfs.plaindata import frozen
from nczfs.tools.progress import Progress
from nczfs.tools.transfer.choices import Choices, Chooser
from nczfs.tools.transfer.declaring import NewVariables, declare, rehearsed
from nczfs.tools.transfer.ncstream_declarations import StreamDeclarations
from nczfs.tools.transfer.source import Notice, groups_of, variables_of, with_variables
from nczfs.tools.transfer.target import NewNode, Target, opened_target
from nczfs.tools.transfer.unfinished import Mark

_COPIED_BYTES = 1 << 20


class Rewindable(Readable, Protocol):
    """What can be read from its beginning again."""

    def seek(self, position: int, /) -> int: ...


@frozen
class Stream:
    """A stream to import.

    Attributes
    ----------
    name : for messages.
    file : of which only one with a size is ever read from its beginning again.
    size : in bytes; None: unknown, and the stream cannot be read twice.
    skip_unsupported : leave out what a dataset cannot hold.
    """

    file: Rewindable
    name: str
    size: int | None
    skip_unsupported: bool


def write_stream(
    stream: Stream, new: NewNode, choices: Choices, notice: Notice, progress: Progress
) -> NewVariables:
    """Make a dataset from a stream. Later messages win; what no message has is fill.

    Parameters
    ----------
    progress : called with the bytes of the stream that are done. If it raises, what was written is
        removed.

    Raises
    ------
    BadMetadata : the stream is broken or cut, or ends with an error: what was written is removed.
    Unsupported, UsageError : the format has no place for something.
    ObjectExists, BadValue, CodecError, StoreError.
    """
    kept = _KeptFile(stream.file, keeps=stream.size is None)
    with kept:
        items = read(kept, stream.name, size=stream.size)
        header = next(items, None)
        if not isinstance(header, Header):
            if isinstance(header, StreamError):
                _end_with(header, stream)
            raise BadMetadata(f"{stream.name}: does not begin with a header")
        importer = _Importer(stream, new, choices, notice)
        if importer.needs_lengths(header.root):
            file = kept.whole()
            importer.lengths = _longest(file, stream, progress)
            file.seek(0)
            items = read(file, stream.name, size=stream.size)
            next(items)
        else:
            kept.keeps_no_more()
        importer.rehearse(header.root)
        with opened_target(new, Mark("import"), notice) as target:
            importer.begin(header.root, target)
            for item in _counted(items, kept, progress):
                importer.take(item, target)
        return importer.variables


def _counted(items: Iterator[Item], kept: _KeptFile, progress: Progress) -> Iterator[Item]:
    done = kept.taken
    for item in items:
        yield item
        progress(kept.taken - done)
        done = kept.taken


class _KeptFile:
    """A file that can be read from its beginning again, also if it is a pipe.

    Parameters
    ----------
    keeps : whether what is read from a pipe goes into a nameless file, too.

    Attributes
    ----------
    taken : bytes that were read.
    """

    def __init__(self, file: Rewindable, *, keeps: bool) -> None:
        self._file = file
        self._copy: IO[bytes] | None = tempfile.TemporaryFile() if keeps else None  # noqa: SIM115
        self.taken = 0

    def read(self, size: int, /) -> bytes:
        found = self._file.read(size)
        self.taken += len(found)
        if self._copy is not None:
            self._copy.write(found)
        return found

    def keeps_no_more(self) -> None:
        """Forget what was kept, and keep nothing of what follows."""
        if self._copy is not None:
            self._copy.close()
            self._copy = None

    def whole(self) -> Rewindable:
        """Return a file of everything, at its beginning."""
        if self._copy is None:
            self._file.seek(0)
            return self._file
        while self.read(_COPIED_BYTES):
            pass
        self._copy.seek(0)
        return self._copy

    def __enter__(self) -> _KeptFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.keeps_no_more()


def _longest(file: Readable, stream: Stream, progress: Progress) -> Mapping[str, int]:
    """Return the bytes of the longest string of each variable, by path."""
    longest: dict[str, int] = {}
    for item in read(file, stream.name, size=stream.size):
        progress(0)
        if isinstance(item, Array) and item.type is DataType.STRING:
            lengths = (len(text.encode("utf-8")) for text in item.values.reshape(-1).tolist())
            longest[item.path] = max(longest.get(item.path, 1), *lengths, 1)
        elif isinstance(item, StreamError):
            _end_with(item, stream)
    return longest


@dataclass
class _Importer:
    """A stream on its way into a dataset.

    Attributes
    ----------
    lengths : of strings in cells, in bytes, by path.
    variables : that were made, by path.
    _groups : paths of the groups that were made.
    """

    stream: Stream
    new: NewNode
    choices: Choices
    notice: Notice
    lengths: Mapping[str, int] = field(default_factory=dict)
    variables: NewVariables = field(default_factory=dict)
    _groups: set[str] = field(default_factory=set)
    _declarations: StreamDeclarations = field(init=False)
    _chooser: Chooser = field(init=False)

    def needs_lengths(self, root: Group) -> bool:
        """Return whether strings must be read before their variables can be made."""
        if self.choices.string_bytes is not None:
            return False
        declared = self._declared(lambda _: None).added(root)
        has_strings = any(v.type is NcType.STRING for _, v in variables_of(declared))
        return has_strings and _stores_cells(self.new.metadata_format)

    def rehearse(self, root: Group) -> None:
        """Raise Unsupported or UsageError if the format cannot hold what a header describes."""
        first = self._declared(lambda _: None).added(root)
        declared = self._sized(Chooser(self.stream.name, first, self.choices).root)
        modes, options = self.new.place.modes, self.new.engine_options
        name = self.stream.name
        rehearsed(name, modes, options, self.new.format, lambda editor: declare(editor, declared))

    def begin(self, root: Group, target: Target) -> None:
        """Make what the first header describes."""
        self._declarations = self._declared(self.notice)
        first = self._declarations.added(root)
        self._chooser = Chooser(self.stream.name, first, self.choices)
        declared = self._sized(self._chooser.root)
        self.variables.update(declare(target.editor, declared))
        self._groups.update(path for path, _ in groups_of(declared))

    def take(self, item: Item, target: Target) -> None:
        """Write what the stream has next."""
        match item:
            case Header():
                self._make(self._declarations.added(item.root), target)
            case StreamError():
                _end_with(item, self.stream)
            case Array():
                variable = self.variables.get(item.path)
                if variable is not None:
                    self._write(item, variable, target)
                elif not self._declarations.has(item.path):  # others are left out
                    raise BadMetadata(
                        f"{self.stream.name}: /{item.path} is a member of a structure, which is "
                        "written as a whole"
                    )

    def _write(self, item: Array, variable: Variable, target: Target) -> None:
        place = f"/{variable.path}"
        values = storable(_plain(item.values, variable), variable, place)
        if values.shape != item.section.shape:  # rows of characters
            raise UsageError(f"{place}: a string has more bytes than an element (--string-bytes)")
        array = target.dataset.array(variable)
        box = _box(item.section)
        if box is not None:
            array.write_box(box, values)
        else:
            array.write_selection(_selection(item.section), values)

    def _declared(self, notice: Notice) -> StreamDeclarations:
        stream, stored_by = self.stream, self.new.metadata_format
        return StreamDeclarations(
            stream.name, stored_by, notice, skip_unsupported=stream.skip_unsupported
        )

    def _sized(self, root: GroupDeclaration) -> GroupDeclaration:
        """Return a declaration whose strings have the lengths of the longest ones."""

        def sized(path: str, variable: VariableDeclaration) -> VariableDeclaration:
            length = self.lengths.get(path)
            if variable.type is not NcType.STRING or variable.string_bytes or length is None:
                return variable
            return replace(variable, string_bytes=length)

        return with_variables(root, sized)

    def _make(self, added: GroupDeclaration, target: Target) -> None:
        """Make what a later header adds to earlier ones."""
        editor = target.editor
        for path, group in groups_of(self._sized(self._chooser.added(added))):
            if path not in self._groups:
                editor.create_group(path)
                self._groups.add(path)
            editor.set_attributes(path, group.attributes)
            editor.create_dimensions(path, group.dimensions)
            for variable in group.variables:
                self.variables[below(path, variable.name)] = editor.create_variable(path, variable)


def _stores_cells(stored_by: MetadataFormat) -> bool:
    """Return whether strings have cells of a length that must be known."""
    stored = stored_by.stored_type(NcType.STRING, byte_order=None, string_bytes=None)
    return stored.dtype.vlen is None


def _plain(values: Values, variable: Variable) -> Values:
    """Return values as their variable has them: complex numbers come as structures."""
    native = variable.array.dtype.native
    if native.kind != "c":
        return values.astype(native) if native.names else values
    found = np.empty(values.shape, native)
    found.real, found.imag = values["r"], values["i"]
    return found


def _box(section: Section) -> Box | None:
    """Return the box of a section; None: it has strides."""
    if any(each.stride != 1 and each.size > 1 for each in section.ranges):
        return None
    start = tuple(each.start for each in section.ranges)
    return Box(start, tuple(a + n for a, n in zip(start, section.shape, strict=True)))


def _selection(section: Section) -> Selection:
    return Selection(
        tuple(
            range(r.start, r.start + (r.size - 1) * r.stride + 1, r.stride) for r in section.ranges
        )
    )


def _end_with(error: StreamError, stream: Stream) -> NoReturn:
    raise BadMetadata(f"{stream.name}: the stream ends with an error: {error.message}")
