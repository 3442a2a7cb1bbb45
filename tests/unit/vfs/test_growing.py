"""Bytes written at and behind the end of a variable to which records can be added."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

import numpy as np
import pytest

import nczfs
from nczfs.errors import BadArgument, NotPermitted, StaleHandle
from nczfs.vfs.base import AttributeChanges
from nczfs.vfs.filesystem import TreeFileSystem
from nczfs.vfs.tree import VfsOptions, mount_tree
from tests.support.copies import new_url
from tests.support.kernels import Kernel
from tests.support.trees import exists, find, read
from tests.support.writing import close, open_file, truncate

FILL = bytes((1, 2, 3, 4))
WIDTH = 3
RECORD_BYTES = WIDTH * len(FILL)
RAW = "datasets/d.zarr/r/values.raw"
NUMBERS = "datasets/d.zarr/n/values.raw"  # with a record of 8 bytes
TURNS = 30


@pytest.fixture
def url() -> str:
    url = new_url()
    with nczfs.open(f"{url}/d.zarr", "w") as root:
        root.create_dimension("t", None)
        root.create_dimension("x", WIDTH)
        fill = int.from_bytes(FILL, "little")
        root.create_variable("r", ("t", "x"), "<i4", chunks=(4, 2), fillvalue=fill)
        root.create_variable("n", ("t",), "<f8", chunks=(1 << 20,), fillvalue=0)
    return url


@pytest.fixture
def kernel() -> Kernel:
    return Kernel()


@pytest.fixture
def fs(url: str, kernel: Kernel) -> Iterator[TreeFileSystem]:
    tree = mount_tree(url, options=VfsOptions(read_only=False), notifier=kernel)
    yield tree
    tree.close()


@pytest.mark.parametrize("seed", range(8))
def test_bytes_stand_where_they_were_written_and_those_between_are_fill(
    fs: TreeFileSystem, url: str, seed: int
) -> None:
    """SEMANTICS W8: whichever of two open files they come through."""
    handles = [open_file(fs, RAW) for _ in range(2)]
    chosen, wanted = random.Random(seed), bytearray()
    for _ in range(TURNS):
        end = len(wanted)
        if chosen.random() < 0.15:
            size = (end // RECORD_BYTES + chosen.randrange(1, 4)) * RECORD_BYTES
            truncate(fs, RAW, size)
            wanted = filled(wanted, size)
        else:
            offset, data = chosen.randrange(end + 40), chosen.randbytes(chosen.randrange(1, 30))
            fs.write(chosen.choice(handles), offset, data)
            wanted = filled(wanted, offset)
            wanted[offset : offset + len(data)] = data
        assert find(fs, RAW).size == len(wanted)
        whole = len(wanted) // RECORD_BYTES * RECORD_BYTES
        assert read(fs, RAW)[:whole] == wanted[:whole]
    rest = bytes(-len(wanted) % RECORD_BYTES)
    fs.write(handles[0], len(wanted), rest)
    for handle in handles:
        close(fs, handle)
    with nczfs.open(f"{url}/d.zarr") as root:
        assert root.variables["r"][...].astype("<i4").tobytes() == wanted + rest


def filled(content: bytearray, size: int) -> bytearray:
    """The content, at least so long."""
    return content + (FILL * size)[len(content) : size]


@pytest.mark.parametrize("name", ["values.txt", "values.npy", "chunks/0.0"])
def test_no_other_file_of_a_variable_can_be_made_longer(fs: TreeFileSystem, name: str) -> None:
    """SEMANTICS W6, W8."""
    truncate(fs, RAW, RECORD_BYTES)
    path = RAW.replace("values.raw", name)
    size, handle = find(fs, path).size, open_file(fs, path)
    with pytest.raises(NotPermitted, match=f"ends at byte {size}: only values.raw"):
        fs.write(handle, size, bytes(RECORD_BYTES))
    with pytest.raises(NotPermitted, match=f"has {size} bytes"):
        fs.setattr(find(fs, path).ino, AttributeChanges(size=size + RECORD_BYTES), handle)
    close(fs, handle)


def test_a_record_far_behind_the_end_takes_no_room_for_the_fill_before_it(
    fs: TreeFileSystem,
) -> None:
    """SEMANTICS W8."""
    handle, place = open_file(fs, NUMBERS), 1 << 43
    fs.write(handle, place, b"12345678")
    close(fs, handle)
    assert find(fs, NUMBERS).size == place + 8
    assert read(fs, NUMBERS, place - 8, 100) == bytes(8) + b"12345678"


def test_a_file_that_has_become_too_long_for_a_file_is_looked_up_again_and_is_gone(
    fs: TreeFileSystem,
) -> None:
    """SEMANTICS W8: the lines of numbers are longer than their bytes."""
    lines, path = find(fs, NUMBERS.replace("raw", "txt")), NUMBERS.replace("raw", "txt")
    truncate(fs, NUMBERS, 8 << 59)
    with pytest.raises(StaleHandle):
        fs.getattr(lines.ino)
    assert not exists(fs, path)
    assert find(fs, NUMBERS).size == 8 << 59


@pytest.mark.parametrize("flags", [os.O_RDWR, os.O_WRONLY | os.O_APPEND])
def test_the_kernel_is_told_when_a_part_of_a_record_is_discarded(
    fs: TreeFileSystem, kernel: Kernel, flags: int
) -> None:
    """SEMANTICS W8, W54: at the last close, or at that of the file that appended it."""
    one, other = (open_file(fs, RAW, flags) for _ in range(2))
    fs.write(one, 0, bytes(RECORD_BYTES))
    fs.write(one, RECORD_BYTES, b"123")
    with pytest.raises(BadArgument, match="last 3 bytes"):
        fs.flush(one)
    attributes = find(fs, RAW)
    first, last = (one, other) if flags == os.O_RDWR else (other, one)
    fs.release(first)
    assert find(fs, RAW).size == attributes.size == RECORD_BYTES + 3
    kernel.inodes.clear()
    fs.release(last)
    assert find(fs, RAW).size == RECORD_BYTES
    assert attributes.ino in kernel.inodes


@pytest.mark.parametrize("flags", [0, os.O_APPEND])
def test_no_record_is_added_to_a_square_whose_records_would_become_longer(flags: int) -> None:
    """SEMANTICS W8: nor does what is written there get to other elements."""
    url, values = new_url(), bytes(range(2 * 2))
    with nczfs.open(f"{url}/d.zarr", "w") as root:
        root.create_dimension("t", None)
        root.create_variable("r", ("t", "t"), "|u1", chunks=(4, 4), fillvalue=0)
        root.resize_dimension("t", 2)
        root.variables["r"][...] = np.frombuffer(values, np.uint8).reshape(2, 2)
    fs = mount_tree(url, options=VfsOptions(read_only=False))
    handle = open_file(fs, RAW, os.O_RDWR | flags)
    with pytest.raises(NotPermitted):
        fs.write(handle, len(values), bytes(2))
    with pytest.raises(NotPermitted):
        truncate(fs, RAW, 6)
    close(fs, handle)
    assert read(fs, RAW) == values
    fs.close()
