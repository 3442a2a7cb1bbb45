"""Messages of which something must be known of all values before the first byte can be sent.

They wait in a nameless file, unless they are small. While they are made, an empty piece is yielded
after each block, so that the work may end there.
"""

from __future__ import annotations

import tempfile
from array import array
from collections.abc import Callable, Iterator
from itertools import accumulate
from math import prod
from typing import IO, Final

import numpy as np

from nczfs import zlibs
from nczfs.buffers import Buffer, Values
from nczfs.errors import BadSelection
from nczfs.messages import shown, size_text
from nczfs.ncstream.columns import Members, ragged_head, structure_heads
from nczfs.ncstream.messages import DataType, Section
from nczfs.ncstream.parsing import VALUES_BYTES_MAX

_MEMORY_BYTES: Final = 1 << 20


def deflated(
    head: Callable[[int], bytes], numbers: Iterator[Buffer], level: int, block_bytes: int
) -> Iterator[Buffer]:
    """Yield a message with one zlib stream.

    Parameters
    ----------
    head : returns what stands before so many bytes.
    block_bytes : that are read of the file at a time.
    """
    compressor = zlibs.compressor(level)
    with _spool() as spooled:
        for values in numbers:
            spooled.write(compressor.compress(values))
            yield b""
        spooled.write(compressor.flush())
        nbytes = spooled.tell()
        spooled.seek(0)
        yield head(nbytes)
        yield from _next(spooled, nbytes, block_bytes)


def structures(
    name: str, section: Section, members: Members, rows: Iterator[Values], block_bytes: int
) -> Iterator[Buffer]:
    """Yield a message of structures, which has the numbers of one member after the other.

    Parameters
    ----------
    rows : one-dimensional, of a structured dtype that is little-endian.
    """
    widths = {each: type_.dtype.itemsize * prod(shape) for each, (type_, shape) in members.items()}
    sizes = [section.size * width for width in widths.values()]
    starts = dict(zip(widths, accumulate(sizes, initial=0), strict=False))
    done = 0
    with _spool(sum(sizes)) as spooled:
        for values in rows:
            for member, width in widths.items():
                spooled.seek(starts[member] + done * width)
                spooled.write(values[member].tobytes())
            done += len(values)
            yield b""
        spooled.seek(0)
        for head, nbytes in zip(structure_heads(name, section, members), sizes, strict=True):
            yield head
            yield from _next(spooled, nbytes, block_bytes)


def ragged(
    name: str, type_: DataType, section: Section, blocks: Iterator[Values], block_bytes: int
) -> Iterator[Buffer]:
    """Yield a message of elements that are one-dimensional arrays of numbers.

    Raises
    ------
    BadSelection : they are more than clients read as a whole.
    """
    lengths, dtype = array("I"), type_.dtype.newbyteorder("<")
    with _spool() as spooled:
        for values in blocks:
            for element in values:
                numbers = np.asarray(element).astype(dtype)
                lengths.append(len(numbers))
                spooled.write(numbers.tobytes())
            if (nbytes := spooled.tell()) > VALUES_BYTES_MAX:
                raise BadSelection(
                    f"{shown(name)}: {size_text(nbytes)} are more than a message can have "
                    f"({size_text(VALUES_BYTES_MAX)}); ask for parts"
                )
            yield b""
        nbytes = spooled.tell()
        spooled.seek(0)
        yield ragged_head(name, type_, section, lengths)
        yield from _next(spooled, nbytes, block_bytes)


def _spool(nbytes: int = 0) -> IO[bytes]:
    """Return a place for so many bytes, or more; in memory, a seek would take all up to there."""
    if nbytes > _MEMORY_BYTES:
        return tempfile.TemporaryFile()
    return tempfile.SpooledTemporaryFile(_MEMORY_BYTES)


def _next(spooled: IO[bytes], nbytes: int, block_bytes: int) -> Iterator[Buffer]:
    """Yield the next bytes of a file."""
    for start in range(0, nbytes, block_bytes):
        yield spooled.read(min(block_bytes, nbytes - start))
