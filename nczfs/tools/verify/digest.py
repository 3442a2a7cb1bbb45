"""A checksum of a variable's values that does not depend on how they are stored.

SHA-256 over the elements in C order:

* numbers, booleans and dates: their bytes, little-endian, at the size of the type; the bits of NaN
  as they are; netCDF text (char): its bytes; structures: their fields one after the other.
* strings, of fixed or variable length: a little-endian 4-byte length and then the UTF-8 of each,
  without NULs at its end.
* bytes and arrays of variable length: the same with their (little-endian) bytes; any other value
  that JSON has: the same with its most compact JSON, members sorted.

Elements that were never written count as the fill value, which they read as.
"""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from math import prod
from typing import Any

import numpy as np
from numpy.lib.recfunctions import repack_fields

from nczfs.buffers import Values
from nczfs.engine.arrays.array import Array
from nczfs.engine.arrays.selection import select
from nczfs.engine.options import Tally
from nczfs.model.boxes import index_of
from nczfs.model.dtypes import NcType
from nczfs.model.grid import Slices
from nczfs.plaindata import frozen
from nczfs.tools.chunkset import ChunkSet
from nczfs.tools.progress import Progress
from nczfs.tools.sparse import sparse_reader

BLOCK_BYTES = 8 << 20
"""The usual size of a read.

The C library reuses the memory of a block; from 32 MiB on, it has the kernel clear new pages for
each one (mallopt(3), M_MMAP_THRESHOLD).
"""
FAR_BLOCK_BYTES = 16 << 20  # from far stores: the chunks of a block are requested together
READERS = 2
"""Blocks that are read at a time: no thread that decodes waits for the last chunk of a block."""
BLOCK_BYTES_MAX = 512 << 20
_OBJECT_BYTES = 256  # estimate for an element of variable length


@frozen
class DigestElements:
    """The elements of a digest.

    Attributes
    ----------
    chunks : a block of these lengths costs no more to read than any part of it.
    is_char : whether elements of one byte are netCDF text rather than strings.
    read : reads the elements of a box.
    readers : the most threads that may read at a time.
    block_bytes : the usual size of a read.
    elements_max : of a read, if their size is unknown; None: any number.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    chunks: tuple[int, ...]
    is_char: bool
    read: Callable[[Slices], Values]
    readers: int = 1
    block_bytes: int = BLOCK_BYTES
    elements_max: int | None = None


def digest_of(
    array: Array,
    block_bytes_max: int = BLOCK_BYTES_MAX,
    progress: Progress = lambda _count: None,
    stored: ChunkSet | None = None,
) -> str:
    """Return the checksum of the values of an array, in hexadecimal.

    Parameters
    ----------
    block_bytes_max : of values in memory at a time. Each chunk is decoded once if a row of chunks
        fits.
    progress : called with the number of elements after each block.
    stored : the chunks or shards that are stored; None: unknown.

    Raises
    ------
    UnknownCodec, CorruptChunk, MissingChunk, StoreError.
    """
    description = array.description

    def read(selection: Slices) -> Values:
        selected = select(selection, description.shape)
        values = np.empty(selected.shape, description.dtype.native)
        array.read_selection(selected, values, Tally())
        return values

    is_char = description.dtype.nc_type is NcType.CHAR
    elements = DigestElements(
        description.shape,
        description.dtype.native,
        description.chunk_shape,
        is_char,
        read if stored is None else sparse_reader(read, stored),
        READERS,
        FAR_BLOCK_BYTES if array.far else BLOCK_BYTES,
        None if description.dtype.vlen is None else prod(description.chunk_shape),
    )
    return digest_of_elements(elements, block_bytes_max, progress)


def digest_of_elements(
    elements: DigestElements,
    block_bytes_max: int = BLOCK_BYTES_MAX,
    progress: Progress = lambda _count: None,
) -> str:
    """Return the checksum of any elements. Raises what reading them raises.

    A block is hashed while the next ones are read, as far as they all have no more bytes than
    allowed.
    """
    hasher = hashlib.sha256()

    def add(values: Values) -> None:
        for piece in _encoded(values.reshape(-1), is_char=elements.is_char):
            hasher.update(piece)

    item = _OBJECT_BYTES if elements.dtype.hasobject else max(1, elements.dtype.itemsize)
    usual, most = (max(1, size // item) for size in (elements.block_bytes, block_bytes_max))
    if elements.elements_max is not None:  # a chunk of them fits into memory
        usual, most = (min(count, elements.elements_max) for count in (usual, most))
    selections = blocks(elements.shape, elements.chunks, usual, most)
    for values in _read_ahead(elements, selections, most):
        add(values)
        progress(values.size)
        del values
    return hasher.hexdigest()


def _read_ahead(
    elements: DigestElements, selections: Iterator[Slices], most: int
) -> Iterator[Values]:
    """Yield the values of boxes, the largest of which is the first.

    Parameters
    ----------
    most : limit of the elements in memory, as far as one box has no more.
    """
    under_way: deque[Future[Values]] = deque()
    with ThreadPoolExecutor(elements.readers, "nczfs-digest") as reading:

        def begin(selection: Slices) -> None:
            under_way.append(reading.submit(elements.read, selection))

        for selection in selections:
            size = prod(part.stop - part.start for part in selection)
            ahead = min(elements.readers, most // size - 1)
            if len(under_way) < max(1, ahead):
                begin(selection)
            elif ahead > 0:
                values = under_way.popleft().result()
                begin(selection)
                yield values
            else:
                yield under_way.popleft().result()
                begin(selection)
        while under_way:
            yield under_way.popleft().result()


def blocks(
    shape: tuple[int, ...], chunks: tuple[int, ...], usual: int, most: int
) -> Iterator[Slices]:
    """Cut an array into boxes that follow each other in C order, of whole chunk rows if they fit.

    Parameters
    ----------
    usual : approximate number of elements in a box.
    most : limit up to which a box becomes larger to contain whole rows of chunks.
    """
    if not prod(shape):
        return
    # Cut along the slowest dimension in which a step is small enough; those before it, index by
    # index.
    d = next((i for i in range(len(shape)) if prod(shape[i + 1 :]) <= most), None)
    if d is None:
        yield ()
        return
    behind_size = prod(shape[d + 1 :])
    step = most // behind_size
    if step >= chunks[d]:
        rows = max(1, min(usual, most) // (behind_size * chunks[d]))
        step = rows * chunks[d]
    behind = tuple(slice(0, length) for length in shape[d + 1 :])
    for number in range(prod(shape[:d])):
        before = tuple(slice(i, i + 1) for i in index_of(number, shape[:d]))
        for start in range(0, shape[d], step):
            yield (*before, slice(start, min(start + step, shape[d])), *behind)


def _encoded(flat: Values, *, is_char: bool) -> Iterator[bytes | memoryview]:
    if flat.dtype.hasobject or (flat.dtype.kind in "SU" and not is_char):
        yield b"".join(map(element_bytes, flat.tolist()))
        return
    little = np.ascontiguousarray(flat.astype(_little(flat.dtype), copy=False))
    yield little.view(np.uint8).data


def _little(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the same type little-endian, and without padding between its fields."""
    packed: np.dtype[Any] = repack_fields(dtype, recurse=True) if dtype.names else dtype
    return packed.newbyteorder("<")


def element_bytes(value: object) -> bytes:
    """Return the bytes of a string or an element of variable length for the digest."""
    match value:
        case str():
            data = value.rstrip("\0").encode("utf-8", "surrogatepass")
        case bytes():
            data = value
        case np.ndarray():
            data = value.astype(value.dtype.newbyteorder("<")).tobytes()
        case _:
            text = json.dumps(
                value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=repr
            )
            data = text.encode("utf-8", "surrogatepass")
    return len(data).to_bytes(4, "little") + data
