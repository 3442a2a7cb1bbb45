"""Values to data messages.

Everything is written big-endian, and says so: netcdf-java's file reader believes the flag, and all
other readers take numbers as big-endian whatever it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any, Final

import numpy as np

from nczfs import zlibs
from nczfs.buffers import Buffer, Values
from nczfs.errors import BadValue
from nczfs.model.boxes import Box
from nczfs.ncstream import ncStream_pb2 as pb
from nczfs.ncstream.framing import BLOCK_BYTES_MAX, DATA, ERROR, block, message, vint
from nczfs.ncstream.messages import DataType, Section, StreamError
from nczfs.ncstream.names import text

VERSION: Final = 3
_ROWS_TAG: Final = b"\x12"  # StructureData.data
_ROWS_BYTES_MAX: Final = 1 << 28  # a message of rows is made and read as a whole


def error_message(error: StreamError) -> bytes:
    """Return the message after which a reader expects nothing."""
    found: Any = pb.Error(message=text(error.message), code=error.code)
    return message(ERROR, found.SerializeToString())


def array_head(
    name: str, type_: DataType, section: Section, *, nbytes: int, inflated_bytes: int | None = None
) -> bytes:
    """Return what stands before the bytes of numbers or characters.

    Parameters
    ----------
    name : as of `full_name`.
    nbytes : that follow: the elements in C order, big-endian, or one zlib stream of them.
    inflated_bytes : what these are when inflated; None: they are not deflated.
    """
    assert nbytes <= BLOCK_BYTES_MAX
    found = _data(name, type_, section)
    if inflated_bytes is not None:
        found.compress = pb.DEFLATE
        found.uncompressedSize = inflated_bytes
    return message(DATA, found.SerializeToString()) + vint(nbytes)


def list_head(name: str, type_: DataType, section: Section) -> bytes:
    """Return what stands before strings or opaque elements, each of which is a `block`."""
    return message(DATA, _data(name, type_, section).SerializeToString()) + vint(section.size)


def rows_frame(name: str, section: Section, row_bytes: int) -> tuple[bytes, bytes]:
    """Return what stands before and after the rows of a structure without strings.

    Parameters
    ----------
    row_bytes : of one row: its members without gaps, big-endian.
    """
    after: Any = pb.StructureData(nrows=section.size, rowLength=row_bytes)
    tail = after.SerializeToString()
    nbytes = section.size * row_bytes
    before = _ROWS_TAG + vint(nbytes)
    length = vint(len(before) + nbytes + len(tail))
    head = message(DATA, _data(name, DataType.STRUCTURE, section).SerializeToString())
    return head + length + before, tail


def data_messages(
    name: str,
    type_: DataType,
    section: Section,
    values: Values,
    *,
    deflate: int | None = None,
    block_bytes_max: int = BLOCK_BYTES_MAX,
) -> Iterator[Buffer]:
    """Yield the data messages of a part of a variable, in pieces; mostly it is a single message.

    Parameters
    ----------
    name : as of `full_name`.
    values : of the shape of the section, in any byte order. STRING: objects that are str. OPAQUE:
        objects that are bytes, or of a void dtype. STRUCTURE: a structured dtype, in which objects
        are strings, or tuples of them.
    deflate : the level of compression of numbers and characters; None: none.

    Raises
    ------
    BadValue : the values are not of the type.
    """
    assert values.shape == section.shape
    match type_:
        case DataType.STRING:
            yield list_head(name, type_, section)
            for string in values.reshape(-1).tolist():
                yield block(text(str(string)).encode())
        case DataType.OPAQUE:
            yield list_head(name, type_, section)
            for opaque in values.reshape(-1):
                yield block(bytes(opaque))
        case DataType.STRUCTURE:
            dtype = _packed(values.dtype)
            for box in parts(values.shape, max(1, _ROWS_BYTES_MAX // max(1, dtype.itemsize))):
                inside = section.part(box.start, box.shape)
                yield _rows_message(name, inside, _of(values, box), dtype)
        case DataType.SEQUENCE:
            raise BadValue(f"{name}: sequences are not written")
        case _:
            yield from _arrays(name, type_, section, values, deflate, block_bytes_max)


def ragged_message(
    name: str, type_: DataType, section: Section, values: Values
) -> Iterator[Buffer]:
    """Yield the message of elements that are one-dimensional arrays of numbers.

    Parameters
    ----------
    section : of the elements, without the dimension of variable length.
    values : objects that are arrays.
    """
    found = _data(name, type_, section)
    found.vdata = True
    yield message(DATA, found.SerializeToString()) + vint(section.size)
    for element in values.reshape(-1):
        yield block(np.asarray(element).astype(type_.dtype).tobytes())


def parts(shape: tuple[int, ...], most: int) -> Iterator[Box]:
    """Yield boxes of up to so many elements; together they are all elements in C order."""
    if prod(shape) <= most:
        yield Box((0,) * len(shape), shape)
        return
    d = next(d for d in range(len(shape)) if prod(shape[d + 1 :]) <= most)
    step = most // prod(shape[d + 1 :])
    rest = shape[d + 1 :]
    for index in Box((0,) * d, shape[:d]).indexes():
        for first in range(0, shape[d], step):
            last = min(first + step, shape[d])
            yield Box((*index, first, *(0 for _ in rest)), (*(i + 1 for i in index), last, *rest))


def big_endian(values: Values, type_: DataType) -> memoryview:
    """Return the bytes of numbers or characters, in C order."""
    wanted = type_.dtype
    if values.dtype.itemsize != wanted.itemsize:
        raise BadValue(f"values of {values.dtype} are not of type {type_.name}")
    if values.dtype.kind != wanted.kind:  # bytes that are the same: of bool, of enumerations
        values = np.ascontiguousarray(values).view(wanted.newbyteorder(values.dtype.byteorder))
    return np.ascontiguousarray(values, wanted).reshape(-1).view(np.uint8).data


def _of(values: Values, box: Box) -> Values:
    index: tuple[Any, ...] = (*box.slices(), ...)  # an array, also of a scalar
    part: Values = values[index]
    return part


def _arrays(
    name: str,
    type_: DataType,
    section: Section,
    values: Values,
    deflate: int | None,
    block_bytes_max: int,
) -> Iterator[Buffer]:
    for box in parts(values.shape, max(1, block_bytes_max // type_.dtype.itemsize)):
        inside = section.part(box.start, box.shape)
        data: Buffer = big_endian(_of(values, box), type_)
        nbytes = len(data)
        if deflate is not None and nbytes:
            data = zlibs.compressed(data, deflate)
            yield array_head(name, type_, inside, nbytes=len(data), inflated_bytes=nbytes)
        else:
            yield array_head(name, type_, inside, nbytes=nbytes)
        yield data


def _data(name: str, type_: DataType, section: Section) -> Any:
    found: Any = pb.Data(varName=text(name), dataType=int(type_), bigend=True, version=VERSION)
    found.section.SetInParent()
    for each in section.ranges:
        found.section.range.add(start=each.start, size=each.size, stride=each.stride)
    return found


def _packed(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return a structured dtype big-endian and without gaps; objects become indexes of a heap."""
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return np.dtype((_packed(base), shape))
    if dtype.names is None:
        return np.dtype(">i4") if dtype.hasobject else dtype.newbyteorder(">")
    assert dtype.fields is not None
    return np.dtype([(name, _packed(dtype.fields[name][0])) for name in dtype.names])


def _rows_message(name: str, section: Section, values: Values, dtype: np.dtype[Any]) -> bytes:
    rows = np.ascontiguousarray(values).reshape(-1)
    found: Any = pb.StructureData(nrows=len(rows), rowLength=dtype.itemsize)
    packed = np.zeros(len(rows), dtype)
    _fill_rows(packed, rows, found)
    found.data = packed.tobytes()
    head = message(DATA, _data(name, DataType.STRUCTURE, section).SerializeToString())
    return head + block(found.SerializeToString())


def _fill_rows(packed: Values, rows: Values, found: Any) -> None:
    """Copy rows, with their strings on the heap of a message."""
    for name in rows.dtype.names or ():
        column = rows[name]
        if not column.dtype.hasobject:
            packed[name] = column
        elif column.dtype.names is not None:
            _fill_rows(packed[name], column, found)
        else:
            for place, value in np.ndenumerate(column):
                packed[name][place] = len(found.heapCount)
                strings = [value] if isinstance(value, str) else list(value)
                found.heapCount.append(len(strings))
                found.sdata.extend(text(each) for each in strings)
