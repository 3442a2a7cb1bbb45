"""Codecs of objects: texts, byte strings, arrays and JSON values of any length."""

from __future__ import annotations

import codecs
import json
import sys
from abc import abstractmethod
from collections.abc import Iterator
from math import prod
from typing import Any

import msgpack
import numcodecs  # noqa: F401 - before its modules; see registry.py
import numpy as np
from numcodecs.vlen import VLenArray, VLenBytes, VLenUTF8

from nczfs.codecs import packed
from nczfs.codecs.arrayfilters import NumcodecsCodec
from nczfs.codecs.codec import Codec, CodecSettings, Flat, Order, Size, as_bytes, from_buffer
from nczfs.errors import CodecError
from nczfs.messages import shown
from nczfs.model import jsonshape
from nczfs.model.dtypes import VlenKind

_REFERENCE_BYTES = np.dtype(object).itemsize
_COUNT_BYTES = 4
_TEXT_BYTES = 60  # of an object of text or bytes, besides its contents, with what malloc adds
_ARRAY_BYTES = 160

# First bytes in UTF-8 of characters that take two and four bytes in memory, if one in a text does.
_TWO_BYTES_FROM, _FOUR_BYTES_FROM = 0xC4, 0xF0

# Values of a JSON chunk, and members of all of them besides: no other thread runs while they are
# parsed.
MEMBERS_MAX = 1 << 22
_MEMBER_BYTES = 100  # that two bytes of JSON can become in memory
DEPTH_MAX = 200
NDIM_MAX = 64  # limit of numpy

_ASCII_WITHIN = frozenset({"utf-8", "ascii", "iso8859-1"})
_ENCODINGS = _ASCII_WITHIN | {"utf-16", "utf-32"}


def check_count(count: int, kind: VlenKind, memory_bytes: int) -> None:
    """Raise CodecError if chunks of so many elements of variable length cannot be read.

    Parameters
    ----------
    memory_bytes : that the elements of a chunk may take.
    """
    if kind is VlenKind.JSON and count > MEMBERS_MAX:
        raise CodecError(f"chunks of {count} JSON values are not read (max {MEMBERS_MAX})")
    if count * _REFERENCE_BYTES > memory_bytes:
        raise _too_large(count, count * _REFERENCE_BYTES, memory_bytes)


def _too_large(count: int, needed: int, memory_bytes: int) -> CodecError:
    return CodecError(
        f"a chunk of {count} elements of variable length may take {needed} bytes of memory, more "
        f"than the limit of {memory_bytes} (--memory-limit)"
    )


class ObjectCodec(Codec):
    """A codec between an array of objects and bytes.

    Only the chunk itself states the lengths of its values, so they have the limit of all caches.

    Parameters
    ----------
    memory_bytes : that the elements of a chunk may take.
    """

    def __init__(self, memory_bytes: int) -> None:
        self._memory_bytes = memory_bytes

    def encoded_size(self, size: Size) -> Size:
        return Size(None, self._memory_bytes)


class VLen(ObjectCodec):
    """A count, then every value after its length (numcodecs' layout of ``vlen-*``).

    Parameters
    ----------
    element_bytes : of a value in memory, besides its contents.
    """

    def __init__(self, inner: NumcodecsCodec, memory_bytes: int, element_bytes: int) -> None:
        super().__init__(memory_bytes)
        self._inner = inner
        self._element_bytes = element_bytes

    def needed(self, data: Flat, size: Size) -> int:
        """Return the memory that the values take, as the data claim, which cannot be more.

        Raises
        ------
        ValueError : the data claim more values than they contain, or than `size` allows.
        """
        count = int.from_bytes(as_bytes(data)[:_COUNT_BYTES].tobytes(), "little")
        contents = data.nbytes - _COUNT_BYTES * (count + 1)
        # numcodecs trusts the count, and allocates so many references.
        if count * _REFERENCE_BYTES > size.limit or contents < 0:
            raise ValueError(f"{count} values are claimed in {data.nbytes} bytes")
        # All empty values are one object.
        return data.nbytes + count * _REFERENCE_BYTES + min(count, contents) * self._element_bytes

    def decode(self, data: Flat, size: Size) -> Flat:
        data = as_bytes(data)
        needed = self.needed(data, size)
        if needed > self._memory_bytes:
            count = int.from_bytes(data[:_COUNT_BYTES].tobytes(), "little")
            raise _too_large(count, needed, self._memory_bytes)
        decoded: Flat = self._inner.decode(data)
        return decoded

    def encode(self, data: Flat) -> Flat:
        return from_buffer(self._inner.encode(_writable(data)))


class VLenText(VLen):
    """Texts. All characters of a text take as many bytes in memory as its widest one."""

    def needed(self, data: Flat, size: Size) -> int:
        data = as_bytes(data)
        stored = super().needed(data, size)
        # As if all texts were one: looking at each of them takes longer than decoding.
        if (roughly := stored + _widened(data[_COUNT_BYTES:])) <= self._memory_bytes:
            return roughly
        return stored + sum(map(_widened, _values(data)))


def _values(data: Flat) -> Iterator[Flat]:
    """Yield the bytes of each value, as far as the data contain them."""
    lengths = data.data
    at = _COUNT_BYTES
    for _ in range(int.from_bytes(lengths[:_COUNT_BYTES], "little")):
        start = at + _COUNT_BYTES
        at = start + int.from_bytes(lengths[at:start], "little")
        yield data[start:at]


def _widened(text: Flat) -> int:
    """Return how many bytes more than in UTF-8 a text may take in memory."""
    largest = int(text.max(initial=0))
    if largest < _TWO_BYTES_FROM:
        return 0
    # Bytes within a character are 0x80 to 0xBF: as signed numbers, the lowest ones.
    characters = text.size - int(np.count_nonzero(text.view(np.int8) < -64))
    width = 4 if largest >= _FOUR_BYTES_FROM else 2
    return max(0, characters * width - text.size)


class VLenNativeArray(VLen):
    """Arrays of numbers, decoded to this machine's byte order.

    They are stored like byte strings. Reading them as byte strings takes a third of the time that
    numcodecs needs for arrays, during which no other thread runs.
    """

    def __init__(self, settings: CodecSettings, memory_bytes: int) -> None:
        self._stored = settings.dtype("dtype")
        self._array = VLenArray(self._stored)
        super().__init__(VLenBytes(), memory_bytes, _ARRAY_BYTES)

    def decode(self, data: Flat, size: Size) -> Flat:
        decoded = super().decode(data, size)
        native = self._stored.newbyteorder("=")
        for place, value in enumerate(decoded):
            decoded[place] = np.frombuffer(value, self._stored).astype(native)
        return decoded

    def encode(self, data: Flat) -> Flat:
        return from_buffer(self._array.encode(_writable(data)))


def vlen_utf8(settings: CodecSettings, memory_bytes: int) -> VLen:
    return VLenText(VLenUTF8(), memory_bytes, _TEXT_BYTES)


def vlen_bytes(settings: CodecSettings, memory_bytes: int) -> VLen:
    return VLen(VLenBytes(), memory_bytes, _TEXT_BYTES)


class ListedValues(ObjectCodec):
    """A list of the values, followed by their dtype and shape (numcodecs' json2, msgpack2).

    Parameters
    ----------
    order : of the elements in the chunk. Lists that are nested as the chunk is are always in C
        order; other writers' flat lists are in this order.
    """

    def __init__(self, order: Order, memory_bytes: int) -> None:
        super().__init__(memory_bytes)
        self._order = order

    @abstractmethod
    def _load(self, data: bytes, members_max: int) -> object: ...

    @abstractmethod
    def _dump(self, items: list[Any]) -> bytes: ...

    def decode(self, data: Flat, size: Size) -> Flat:
        elements = size.limit // _REFERENCE_BYTES
        members_max = min(MEMBERS_MAX, self._memory_bytes // _MEMBER_BYTES) + elements
        items = self._load(as_bytes(data).tobytes(), members_max)
        if not isinstance(items, list) or len(items) < 2 or not isinstance(items[-1], list):
            raise TypeError("the data are not a list of values and their shape")
        shape, values = items[-1], items[:-2]
        _check_shape(shape)
        for _ in shape[1:]:
            if not all(isinstance(row, list) for row in values):
                raise TypeError(f"the lists are not nested as the shape {shown(shape)} is")
            values = [value for row in values for value in row]
        if len(values) != prod(shape):
            raise ValueError(f"{len(values)} values do not have the shape {shown(shape)}")
        flat = np.fromiter(values, object, len(values))
        return flat.reshape(shape).ravel(self._order) if len(shape) > 1 else flat

    def encode(self, data: Flat) -> Flat:
        return from_buffer(self._dump([*data.tolist(), data.dtype.str, [data.size]]))


def _writable(data: Flat) -> Flat:
    """Return values that numcodecs takes: its encoders refuse what they cannot write to."""
    return data if data.flags.writeable else data.copy()


def _check_shape(shape: list[Any]) -> None:
    """Raise ValueError unless a list could be a shape, before anything is multiplied."""
    if len(shape) > NDIM_MAX:
        raise ValueError(f"the shape has {len(shape)} dimensions (max {NDIM_MAX})")
    for length in shape:
        if not isinstance(length, int) or isinstance(length, bool) or not 0 <= length < 1 << 63:
            raise ValueError(f"the shape is {shown(shape)}")


class Json2(ListedValues):
    def __init__(self, settings: CodecSettings, order: Order, memory_bytes: int) -> None:
        super().__init__(order, memory_bytes)
        self._strict = settings.flag("strict", True)
        self._ascii = settings.flag("ensure_ascii", True)
        self._sorted = settings.flag("sort_keys", True)
        name = settings.text("encoding", "utf-8")
        try:
            self._encoding = codecs.lookup(name).name
        except LookupError as error:
            raise settings.refused(f"encoding {shown(name)} is not known") from error
        if self._encoding not in _ENCODINGS:
            raise settings.refused(f"encoding {shown(name)} is not supported")

    def _load(self, data: bytes, members_max: int) -> object:
        if self._encoding == "utf-8":
            needed = len(data) + _widened(from_buffer(data))
            if needed > self._memory_bytes:
                raise ValueError(
                    f"the text takes {needed} bytes of memory, more than the limit of "
                    f"{self._memory_bytes} (--memory-limit)"
                )
        text = data.decode(self._encoding)
        if self._encoding not in _ASCII_WITHIN:
            data = text.encode("utf-8", "surrogatepass")
        if wrong := jsonshape.fault(data, depth_max=DEPTH_MAX, members_max=members_max):
            raise ValueError(f"the text {wrong}")
        try:
            return json.loads(text, strict=self._strict)
        except json.JSONDecodeError:
            raise
        except ValueError:
            digits = sys.get_int_max_str_digits()
            raise ValueError(f"the text has an integer of more than {digits} digits") from None

    def _dump(self, items: list[Any]) -> bytes:
        text = json.dumps(
            items, ensure_ascii=self._ascii, sort_keys=self._sorted, separators=(",", ":")
        )
        return text.encode(self._encoding)


class MsgPack2(ListedValues):
    def __init__(self, settings: CodecSettings, order: Order, memory_bytes: int) -> None:
        super().__init__(order, memory_bytes)
        self._raw = settings.flag("raw", False)
        self._single = settings.flag("use_single_float", False)
        self._bin = settings.flag("use_bin_type", True)

    def _load(self, data: bytes, members_max: int) -> object:
        if wrong := packed.fault(data, depth_max=DEPTH_MAX, members_max=members_max):
            raise ValueError(f"the data {wrong}")
        loaded: object = msgpack.unpackb(data, raw=self._raw)
        return loaded

    def _dump(self, items: list[Any]) -> bytes:
        data: bytes = msgpack.packb(items, use_bin_type=self._bin, use_single_float=self._single)
        return data
