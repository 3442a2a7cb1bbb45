"""Streams to headers and arrays, message by message, in little memory.

Nothing that a stream claims is believed before it is checked: a length against what may follow, a
section against the shape in the header, the size of a block against its section.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NoReturn, TypeAlias

import numpy as np

from nczfs.buffers import Values
from nczfs.ncstream import ncStream_pb2 as pb
from nczfs.ncstream.bytesource import ByteSource, Inflating, Readable
from nczfs.ncstream.catalog import Catalog, Described, has_bytes_of
from nczfs.ncstream.data import parts
from nczfs.ncstream.framing import (
    BLOCK_BYTES_MAX,
    DATA,
    DATA2,
    END,
    ERROR,
    HEADER,
    MAGIC_BYTES,
    START,
    VDATA,
    VEND,
)
from nczfs.ncstream.headers import data_type, decoded_header
from nczfs.ncstream.messages import (
    DataType,
    Header,
    Range,
    Section,
    StreamError,
    Structure,
    Variable,
    whole_section,
)
from nczfs.ncstream.names import unescaped
from nczfs.ncstream.parsing import (
    DATA_BYTES_MAX,
    HEADER_BYTES_MAX,
    VALUES_BYTES_MAX,
    parsed,
)
from nczfs.ncstream.rows import Fail, column_values, is_big, rows_of, section_of
from nczfs.plaindata import frozen

PIECE_BYTES: Final = 8 << 20
_OBJECTS_MAX: Final = 4096
_OBJECTS_BYTES_MAX: Final = 256 << 20


@frozen(eq=False)
class Array:
    """Values of a variable, which replace earlier ones.

    Attributes
    ----------
    path : of the variable, ``group/name``, or of a member of a structure, ``group/name.member``.
    section : which elements.
    values : in the shape of the section. Numbers in any byte order; CHAR: S1; STRING: objects that
        are str; OPAQUE: bytes; elements of variable length: arrays; structures: a structured dtype,
        in which a string of a message of rows is a tuple of str.
    """

    path: str
    type: DataType
    section: Section
    values: Values


Item: TypeAlias = "Header | Array | StreamError"


def read(
    file: Readable,
    name: str = "ncstream",
    *,
    size: int | None = None,
    header: Header | None = None,
    believes_bigend: bool = False,
) -> Iterator[Item]:
    """Read a stream, or an answer of CDM Remote, from its beginning to its end.

    Parameters
    ----------
    file : anything with ``read(size)`` that returns bytes: a file, a pipe, an answer of a server.
    name : for messages.
    size : of the file in bytes, if it is known: then a length beyond its end is refused at once.
    header : describes the variables where the stream has no header; structures cannot be read
        without one.
    believes_bigend : take the numbers of DATA in the byte order that messages state. Otherwise they
        are big-endian, which is how netcdf-java writes them whatever it states. Structures,
        sequences and DATA2 always have the order that they state.

    Yields
    ------
    Header : what it adds to earlier ones.
    Array : values, in the order of the stream; a long message gives several arrays, one after the
        other, each of about 8 MiB. A message without elements gives none. Values in a header follow
        it.
    StreamError : the last item, if the writer of the stream could not go on.

    Raises
    ------
    BadMetadata : the stream is broken or cut; ``NAME: at byte N: what was wrong``.
    """
    yield from _Reader(ByteSource(file, name, size), header, believes_bigend).items()


class _Reader:
    def __init__(self, source: ByteSource, header: Header | None, believes_bigend: bool) -> None:
        self._source = source
        self._believes_bigend = believes_bigend
        self._catalog = Catalog()
        if header is not None:
            self._catalog.add(header.root)

    def items(self) -> Iterator[Item]:
        source = self._source
        is_file = False
        while True:
            begin = source.offset
            magic = source.up_to(MAGIC_BYTES)
            if magic == START and not begin:
                is_file = True
            elif magic == HEADER:
                yield from self._header(begin)
            elif magic == DATA:
                yield from self._data(begin)
            elif magic == DATA2:
                yield from self._column(begin)
            elif magic == ERROR:
                found = parsed(source, pb.Error, DATA_BYTES_MAX)
                yield StreamError(found.message, found.code)
                return
            elif magic == END or (not magic and not is_file):
                return
            elif not magic:
                source.fail("the stream was cut: it has no END", begin)
            else:
                source.fail(f"{magic.hex(' ')} begins no message", begin)

    def _header(self, begin: int) -> Iterator[Item]:
        source = self._source
        found = parsed(source, pb.Header, HEADER_BYTES_MAX)
        try:
            header = decoded_header(found)
            added = self._catalog.add(header.root)
        except ValueError as error:
            source.fail(str(error), begin)
        yield header
        yield from self._immediate(added, begin)

    def _immediate(self, added: Sequence[Described], begin: int) -> Iterator[Array]:
        for each in added:
            node = each.node
            if not isinstance(node, Variable) or node.data is None:
                continue
            section = whole_section(each.shape)
            dtype = each.type.dtype
            if each.is_ragged or not each.type.is_fixed:
                self._source.fail(f"/{each.path} has values in the header", begin)
            if len(node.data) != section.size * dtype.itemsize:
                self._source.fail(
                    f"/{each.path} has {len(node.data)} bytes in the header, not {section.size} "
                    f"elements of type {each.type.name}",
                    begin,
                )
            values = np.frombuffer(node.data, dtype).reshape(section.shape)
            yield Array(each.path, each.type, section, values)

    def _data(self, begin: int) -> Iterator[Array]:
        source = self._source
        found = parsed(source, pb.Data, DATA_BYTES_MAX)
        message = self._message(found, found.varName, found.vdata, begin)
        if found.vdata or message.type in (DataType.STRING, DataType.OPAQUE):
            yield from self._lists(message)
        elif message.type is DataType.STRUCTURE:
            yield from self._rows(message, is_big(found))
        elif message.type is DataType.SEQUENCE:
            yield from self._sequence(message, is_big(found))
        elif message.section.size * message.type.dtype.itemsize > BLOCK_BYTES_MAX:
            message.fail(f"has a section of {message.section.size} elements, more than a block")
        elif found.compress == pb.DEFLATE:
            yield from self._deflated(message, found.uncompressedSize)
        elif found.compress == pb.NONE:
            yield from self._plain(message)
        else:
            message.fail(f"is compressed by method {found.compress}")

    def _message(self, found: Any, name: str, is_ragged: bool, begin: int) -> _Message:
        """Check what data messages say first."""
        source = self._source
        path = unescaped(name)
        what = f"data of /{path}"

        def fail(clause: str) -> NoReturn:
            source.fail(f"{what}: {clause}", begin)

        try:
            type_ = data_type(found.dataType, what)
            section, has_length = section_of(found.section)
        except ValueError as error:
            fail(str(error))
        if (has_length and not is_ragged) or (is_ragged and not type_.is_fixed):
            fail(f"has elements of variable length of type {type_.name}")
        described = None
        if not self._catalog.is_empty:
            described = self._catalog.named(name)
            if described is None:
                fail("no header has such a variable")
            if described.is_ragged != is_ragged:
                fail(f"has elements of {'' if is_ragged else 'no '}variable length")
            if type_ is not described.type and not has_bytes_of(type_, described.type):
                fail(f"is of type {type_.name}, not {described.type.name}")
            misfit = described.misfit(section)
            if misfit is not None:
                fail(misfit)
            type_ = described.type
        if len(section.ranges) > 64:
            fail(f"has {len(section.ranges)} dimensions")
        is_swapped = self._believes_bigend and not is_big(found)
        dtype = type_.dtype.newbyteorder("<") if is_swapped else type_.dtype
        return _Message(path, type_, dtype, section, described, what, fail)

    def _plain(self, message: _Message) -> Iterator[Array]:
        source = self._source
        dtype, section = message.dtype, message.section
        wanted = section.size * dtype.itemsize
        nbytes = source.length(message.what, BLOCK_BYTES_MAX)
        if nbytes != wanted:
            message.fail(
                f"has {nbytes} bytes, not {section.size} elements of type {message.type.name}"
            )
        for part in _pieces(section, dtype.itemsize):
            data = source.take(part.size * dtype.itemsize, message.what)
            yield message.array(part, np.frombuffer(data, dtype).reshape(part.shape))

    def _deflated(self, message: _Message, claimed: int) -> Iterator[Array]:
        source = self._source
        dtype, section = message.dtype, message.section
        wanted = section.size * dtype.itemsize
        if claimed not in (0, wanted):
            message.fail(f"inflates to {claimed} bytes, not {wanted}")
        nbytes = source.length(message.what, BLOCK_BYTES_MAX)
        inflating = Inflating(source, nbytes, wanted, message.what)
        for part in _pieces(section, dtype.itemsize):
            data = inflating.take(part.size * dtype.itemsize)
            yield message.array(part, np.frombuffer(data, dtype).reshape(part.shape))
        inflating.end()

    def _lists(self, message: _Message) -> Iterator[Array]:
        """Read elements that each have their length before them."""
        source, section = self._source, message.section
        count = source.vint(message.what)
        if count != section.size:
            message.fail(f"has {count} elements; its section has {section.size}")
        source.check(count, message.what)  # each has a length
        for part in _pieces(section, PIECE_BYTES // _OBJECTS_MAX):
            room = _OBJECTS_BYTES_MAX
            values = np.empty(part.size, object)
            for place in range(part.size):
                begin = source.offset
                data = source.block(f"an element of {message.what}", room)
                room -= len(data)
                values[place] = self._element(message, data, begin)
            yield message.array(part, values.reshape(part.shape))

    def _element(self, message: _Message, data: bytes, begin: int) -> object:
        if message.type is DataType.OPAQUE:
            return data
        if message.type is DataType.STRING:
            try:
                return data.decode("utf-8")
            except UnicodeDecodeError as error:
                self._source.fail(f"a string of {message.what} is not UTF-8: {error.reason}", begin)
        dtype = message.dtype
        if len(data) % dtype.itemsize:
            self._source.fail(
                f"an element of {message.what} has {len(data)} bytes, which are no numbers of "
                f"type {message.type.name}",
                begin,
            )
        return np.frombuffer(data, dtype)

    def _rows(self, message: _Message, big: bool) -> Iterator[Array]:
        found = parsed(self._source, pb.StructureData, VALUES_BYTES_MAX)
        rows = message.rows(found, big)
        if len(rows) != message.section.size:
            message.fail(f"has {len(rows)} rows; its section has {message.section.size} elements")
        if len(rows):
            yield message.array(message.section, rows.reshape(message.section.shape))

    def _sequence(self, message: _Message, big: bool) -> Iterator[Array]:
        source, first = self._source, 0
        waiting: list[Values] = []
        waiting_bytes = 0

        def gathered() -> Array:
            nonlocal first, waiting_bytes
            rows = np.concatenate(waiting)
            waiting.clear()
            waiting_bytes = 0
            section = Section((Range(first, len(rows)),))
            first += len(rows)
            return message.array(section, rows)

        while True:
            begin = source.offset
            magic = source.take(MAGIC_BYTES, message.what)
            if magic == VEND:
                break
            if magic != VDATA:
                source.fail(f"{magic.hex(' ')} continues no sequence", begin)
            found = parsed(source, pb.StructureData, VALUES_BYTES_MAX)
            if len(rows := message.rows(found, big)):
                waiting.append(rows)
                waiting_bytes += rows.nbytes
            if len(waiting) >= _OBJECTS_MAX or waiting_bytes >= PIECE_BYTES:
                yield gathered()
        if waiting:
            yield gathered()

    def _column(self, begin: int) -> Iterator[Array]:
        found = parsed(self._source, pb.DataCol, VALUES_BYTES_MAX)
        message = self._message(found, found.name, found.isVlen, begin)
        values = column_values(found, message.section, is_big(found), message.fail)
        if values.size:
            yield message.array(message.section, values)


@frozen(eq=False)
class _Message:
    """A data message whose section fits its variable.

    Attributes
    ----------
    dtype : of numbers in its payload.
    what : for messages. fail : raises BadMetadata, with a clause about it.
    """

    path: str
    type: DataType
    dtype: np.dtype[Any]
    section: Section
    described: Described | None
    what: str
    fail: Fail

    def array(self, section: Section, values: Values) -> Array:
        return Array(self.path, self.type, section, values)

    def rows(self, found: Any, big: bool) -> Values:
        if self.described is None or self.described.row is None:
            self.fail("no header describes its members")
        assert isinstance(self.described.node, Structure)
        return rows_of(found, self.described.node, self.described.row, big, self.fail)


def _pieces(section: Section, item_bytes: int) -> Iterator[Section]:
    """Yield parts of a section of about `PIECE_BYTES`, in C order; none if it is empty."""
    if section.size:
        for box in parts(section.shape, max(1, PIECE_BYTES // item_bytes)):
            yield section.part(box.start, box.shape)
