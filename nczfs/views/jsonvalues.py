"""Elements of variable length as JSON text, and back."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from nczfs.buffers import Values
from nczfs.engine.weight import weight_of_objects
from nczfs.errors import CodecError
from nczfs.messages import shown
from nczfs.model.dtypes import DataType, VlenKind

PIECE_BYTES = 1 << 20
_PIECE_NUMBERS = 1 << 14
_PIECE_CHARACTERS = 1 << 16


class JsonText:
    """A text of elements, up to a limit, because one byte of a chunk may become any text.

    Parameters
    ----------
    place : of the values, for messages.
    bytes_max : a longer text is refused.
    """

    def __init__(self, place: str, bytes_max: int) -> None:
        self._place = place
        self._bytes_max = bytes_max
        self._text = io.BytesIO()

    def add_lines(self, values: Values) -> None:
        """Add one JSON value a line. Raises CodecError if the text becomes too long."""
        for value in values.reshape(-1):
            self._add(json_pieces(value))
            self._write("\n")

    def add_list(self, values: Values) -> None:
        """Add a list of all elements, and a newline. Raises CodecError as `add_lines` does."""
        between = "["
        for value in values.reshape(-1):
            self._write(between)
            self._add(json_pieces(value))
            between = ", "
        self._write("[]\n" if between == "[" else "]\n")

    def taken(self) -> bytes:
        """Return the complete text."""
        return self._text.getvalue()

    def _add(self, pieces: Iterable[str]) -> None:
        for piece in pieces:
            self._write(piece)

    def _write(self, piece: str) -> None:
        self._text.write(piece.encode("utf-8", "surrogatepass"))
        if self._text.tell() > self._bytes_max:
            raise CodecError(
                f"{self._place}: as text, the values take more than {self._bytes_max} bytes"
            )


def json_pieces(value: object) -> Iterator[str]:
    """Yield the JSON of an element, bytes as Latin-1 text; no piece takes much memory."""
    if isinstance(value, str) and len(value) <= _PIECE_CHARACTERS:
        yield _encode(value)
        return
    if not isinstance(value, str | bytes | np.ndarray) and (
        weight_of_objects((value,)) <= PIECE_BYTES
    ):
        try:
            yield _encode(value)
            return
        except TypeError:  # MessagePack has bytes for names of members
            pass
    todo: list[object] = [value]
    while todo:
        item = todo.pop()
        match item:
            case _Mark():
                yield item
            case str():
                yield from _of_text(item)
            case bytes():
                yield from _of_text(item.decode("latin-1"))
            case np.ndarray():
                yield from _of_numbers(item)
            case list():
                todo.append(_Mark("]"))
                for place in range(len(item) - 1, -1, -1):
                    todo.append(item[place])
                    if place:
                        todo.append(_COMMA)
                todo.append(_Mark("["))
            case dict():
                todo.append(_Mark("}"))
                for place, (name, member) in enumerate(reversed(item.items())):
                    if place:
                        todo.append(_COMMA)
                    todo += [member, _COLON, name if isinstance(name, str | bytes) else str(name)]
                todo.append(_Mark("{"))
            case _:
                yield _encode(item)


class _Mark(str):
    """A text between values."""

    __slots__ = ()


_COMMA = _Mark(", ")
_COLON = _Mark(": ")


def _plain(value: object) -> object:
    """Convert a value that JSON lacks to one that it has."""
    match value:
        case bytes():
            return value.decode("latin-1")
        case np.ndarray():
            return value.tolist()
        case np.generic():
            return value.item()
        case _:
            return str(value)


_encode = json.JSONEncoder(ensure_ascii=False, default=_plain).encode


def _of_text(value: str) -> Iterator[str]:
    yield '"'
    for start in range(0, len(value), _PIECE_CHARACTERS):
        yield _encode(value[start : start + _PIECE_CHARACTERS])[1:-1]
    yield '"'


def _of_numbers(value: Values) -> Iterator[str]:
    if value.ndim != 1:
        yield _encode(value)
        return
    between = "["
    for start in range(0, value.size, _PIECE_NUMBERS):
        yield between
        yield _encode(value[start : start + _PIECE_NUMBERS])[1:-1]
        between = ", "
    yield "]" if value.size else "[]"


def elements_of_lines(lines: Sequence[bytes], dtype: DataType) -> Values:
    """Parse elements of a variable-length type from lines: the inverse of `JsonText.add_lines`.

    Raises
    ------
    ValueError : a line is not JSON, or does not fit the type.
    """
    values = np.empty(len(lines), object)
    for number, line in enumerate(lines):
        try:
            element = json.loads(line.decode("utf-8", "surrogatepass"))
        except (ValueError, RecursionError):
            raise ValueError(f"{shown(line)} is not JSON") from None
        values[number] = _element(element, dtype)
    return values


def _element(value: object, dtype: DataType) -> object:
    """Parse an element: the inverse of `json_pieces`."""
    match dtype.vlen, value:
        case VlenKind.JSON, _:
            return value
        case VlenKind.TEXT, str():
            return value
        case VlenKind.BYTES, str() if all(ord(character) < 256 for character in value):
            return value.encode("latin-1")
        case VlenKind.ARRAY, list():
            return _array(value, dtype)
        case VlenKind.ARRAY, None:
            return None
    raise ValueError(
        f"{shown(value)} is not of type {dtype.vlen.value if dtype.vlen else dtype.typestr}"
    )


def _array(items: list[object], dtype: DataType) -> Values:
    try:
        found = np.array(items, dtype.base)
    except (TypeError, OverflowError) as error:
        raise ValueError(f"{shown(items)} is not a list of {dtype.base}") from error
    if found.ndim != 1:
        raise ValueError(f"{shown(items)} is not a list of {dtype.base}")
    return found
