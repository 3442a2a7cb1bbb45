"""The bytes of a stream, from a file or a pipe, with the position for messages."""

from __future__ import annotations

from typing import Final, NoReturn, Protocol

from nczfs import zlibs
from nczfs.errors import BadMetadata, CorruptStore
from nczfs.messages import reason
from nczfs.model.printing import printable

VINT_BYTES_MAX: Final = 10
_PIECE_BYTES: Final = 8 << 20
_MESSAGE_MAX: Final = 300


class Readable(Protocol):
    """What a stream is read from; `read` may return fewer bytes, and none only at the end."""

    def read(self, size: int, /) -> bytes: ...


class ByteSource:
    """Takes the bytes of a stream in order.

    Parameters
    ----------
    name : of the stream, for messages.
    size : in bytes, if it is known.

    Attributes
    ----------
    offset : of the next byte.
    """

    def __init__(self, file: Readable, name: str, size: int | None = None) -> None:
        self._file = file
        self._name = name
        self._size = size
        self.offset = 0

    def fail(self, what: str, offset: int | None = None) -> NoReturn:
        """Raise BadMetadata with a position, which is that of the next byte if none is given."""
        if len(what) > _MESSAGE_MAX:  # names may be as long as a message
            what = f"{what[: _MESSAGE_MAX - 3]}..."
        raise BadMetadata(f"{self._name}: at byte {self._at(offset)}: {printable(what)}")

    def _at(self, offset: int | None) -> int:
        return self.offset if offset is None else offset

    def up_to(self, size: int) -> bytes:
        """Take so many bytes, or fewer at the end. Takes memory only for bytes that come."""
        if size <= _PIECE_BYTES:
            found = self._read(size)
            if len(found) in (0, size):
                return found
            pieces = bytearray(found)
        else:
            pieces = bytearray()
        while len(pieces) < size:
            more = self._read(min(size - len(pieces), _PIECE_BYTES))
            if not more:
                break
            pieces += more
        return bytes(pieces)

    def _read(self, size: int) -> bytes:
        try:
            found = self._file.read(size) if size else b""
        except OSError as error:
            raise CorruptStore(f"{self._name}: {reason(error)}") from error
        self.offset += len(found)
        return found

    def take(self, size: int, what: str) -> bytes:
        """Take so many bytes. Raises BadMetadata: the stream ends before."""
        begin = self.offset
        self.check(size, what)
        found = self.up_to(size)
        if len(found) < size:
            self._ends(what, size, len(found), begin)
        return found

    def check(self, size: int, what: str) -> None:
        """Raise BadMetadata if a stream of known size has fewer bytes left."""
        if self._size is not None and size > self._size - self.offset:
            self._ends(what, size, max(0, self._size - self.offset), self.offset)

    def _ends(self, what: str, size: int, left: int, offset: int) -> NoReturn:
        self.fail(f"{what} has {size} bytes, but the stream ends after {left} of them", offset)

    def vint(self, what: str) -> int:
        """Take a length."""
        begin, found = self.offset, 0
        for place in range(VINT_BYTES_MAX):
            byte = self.up_to(1)
            if not byte:
                self.fail(f"the stream ends in the length of {what}", begin)
            found |= (byte[0] & 0x7F) << 7 * place
            if byte[0] < 0x80:
                return found
        self.fail(f"the length of {what} has more than {VINT_BYTES_MAX} bytes", begin)

    def length(self, what: str, most: int) -> int:
        """Take the length of what follows, which has at most so many bytes."""
        begin = self.offset
        found = self.vint(what)
        if found > most:
            self.fail(f"{what} of {found} bytes is longer than {most}", begin)
        self.check(found, what)
        return found

    def block(self, what: str, most: int) -> bytes:
        """Take a length and so many bytes."""
        return self.take(self.length(what, most), what)


class Inflating:
    """A block that is one zlib stream, taken in pieces.

    Parameters
    ----------
    nbytes : of the block.
    inflated_bytes : that it must have.
    """

    def __init__(self, source: ByteSource, nbytes: int, inflated_bytes: int, what: str) -> None:
        self._source = source
        self._left = nbytes
        self._what = what
        self._begin = source.offset
        self._inflated_bytes = inflated_bytes
        self._inflater = zlibs.decompressor()
        self._waiting = b""

    def take(self, size: int) -> bytes:
        """Take so many inflated bytes. Raises BadMetadata: there are fewer."""
        found = bytearray()
        while len(found) < size:
            piece = self._inflated(size - len(found))
            if not piece and (self._inflater.eof or not (self._left or self._waiting)):
                self._fail("inflates to fewer bytes than its section has")
            found += piece
        return bytes(found)

    def end(self) -> None:
        """Take the rest of the block, which inflates to nothing."""
        while not self._inflater.eof:
            if self._inflated(1):
                self._fail(f"inflates to more than the {self._inflated_bytes} bytes it should have")
            if not (self._left or self._waiting) and not self._inflater.eof:
                self._fail("ends before its zlib stream does")
        if self._left or self._inflater.unused_data or self._waiting:
            self._fail("has bytes behind its zlib stream")

    def _inflated(self, most: int) -> bytes:
        if not self._waiting and self._left:
            self._waiting = self._source.take(min(self._left, _PIECE_BYTES), self._what)
            self._left -= len(self._waiting)
        try:
            found: bytes = self._inflater.decompress(self._waiting, most)
        except zlibs.errors as error:
            self._fail(f"is no zlib stream: {reason(error)}")
        self._waiting = self._inflater.unconsumed_tail
        return found

    def _fail(self, what: str) -> NoReturn:
        self._source.fail(f"{self._what} {what}", self._begin)
