"""Pages for readers that go backwards: no write, open or refresh is followed by older bytes."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import nczfs
from nczfs.buffers import Buffer
from nczfs.vfs.base import AttributeChanges, HandleNo, InodeNo, PageTicket
from nczfs.vfs.datasets.viewfile import OpenView
from nczfs.vfs.filesystem import TreeFileSystem
from nczfs.vfs.tree import VfsOptions, mount_tree
from tests.support.kernels import Kernel
from tests.support.trees import find
from tests.support.waiting import until
from tests.support.writing import close, open_file

PAGE = 4096
VALUES = np.arange(1 << 20, dtype="<f4")  # 4 MiB
WAIT_S = 120.0


class GatedKernel(Kernel):
    """A kernel that stops what is put, after it was read, until the gate is opened."""

    def __init__(self) -> None:
        super().__init__()
        self.reached = threading.Event()
        self.opened = threading.Event()
        self.opened.set()
        self.refused = 0
        self.asked = 0

    def page_ticket(self, ino: InodeNo) -> PageTicket:
        self.asked += 1
        return super().page_ticket(ino)

    def put_pages(self, ticket: PageTicket, offset: int, data: Buffer) -> bool:
        self.reached.set()
        assert self.opened.wait(WAIT_S)
        is_put = super().put_pages(ticket, offset, data)
        self.refused += not is_put
        return is_put


@pytest.fixture
def kernel() -> GatedKernel:
    return GatedKernel()


@pytest.fixture
def store(tmp_path: Path) -> Path:
    with nczfs.open(str(tmp_path / "d.zarr"), "w") as root:
        root.create_dimension("x", VALUES.size)
        root.create_variable("v", ("x",), data=VALUES, chunks=(1 << 18,))
    return tmp_path


@pytest.fixture
def fs(store: Path, kernel: GatedKernel) -> Iterator[TreeFileSystem]:
    tree = mount_tree(str(store), notifier=kernel, options=VfsOptions(read_only=False))
    yield tree
    kernel.opened.set()
    tree.close()


RAW = "datasets/d.zarr/v/values.raw"
NETCDF = "datasets/d.zarr/d.nc"


def read_backwards(fs: TreeFileSystem, path: str) -> HandleNo:
    """Read the last rows of a file, the last one first, so that the order is plain."""
    inode = find(fs, path).ino
    handle = fs.open(inode, os.O_RDONLY).handle
    last = fs.getattr(inode).size // PAGE * PAGE - PAGE
    for number in range(16):
        offset = last - number * PAGE
        assert fs.read_if_cached(handle, offset, PAGE) or fs.read(handle, offset, PAGE)
    return handle


@pytest.mark.parametrize("path", [RAW, NETCDF])
def test_what_is_put_are_the_bytes_of_the_file(
    fs: TreeFileSystem, kernel: GatedKernel, path: str
) -> None:
    handle = read_backwards(fs, path)
    until(lambda: len(kernel.pages) > 0)
    fs.release(handle)
    fresh = fs.open(find(fs, path).ino, os.O_RDONLY).handle
    for ticket, offset, data in list(kernel.pages):
        assert ticket.ino == find(fs, path).ino
        assert data == bytes(fs.read(fresh, offset, len(data)))
    fs.release(fresh)


def a_write_to_another_file(fs: TreeFileSystem, _path: str) -> None:
    handle = open_file(fs, "datasets/d.zarr/v/values.npy")
    fs.write(handle, 128, b"\1" * PAGE)
    close(fs, handle)


def a_write_to_the_same_file(fs: TreeFileSystem, path: str) -> None:
    handle = open_file(fs, path)
    fs.write(handle, find(fs, path).size - PAGE, b"\1" * PAGE)
    close(fs, handle)


def a_truncation(fs: TreeFileSystem, path: str) -> None:
    fs.setattr(find(fs, path).ino, AttributeChanges(size=find(fs, path).size), None)


def a_refresh(fs: TreeFileSystem, _path: str) -> None:
    fs.refresh("")


def another_open(fs: TreeFileSystem, path: str) -> None:
    fs.release(fs.open(find(fs, path).ino, os.O_RDONLY).handle)


@pytest.mark.parametrize(
    ("change", "path"),
    [
        (a_write_to_another_file, RAW),
        (a_write_to_another_file, NETCDF),
        (a_write_to_the_same_file, RAW),
        (a_write_to_the_same_file, NETCDF),
        (a_truncation, RAW),
        (a_refresh, RAW),
        (a_refresh, NETCDF),
        (another_open, RAW),
        (another_open, NETCDF),
    ],
)
def test_bytes_that_were_read_before_a_change_are_not_put_after_it(
    fs: TreeFileSystem,
    kernel: GatedKernel,
    change: Callable[[TreeFileSystem, str], None],
    path: str,
) -> None:
    """SEMANTICS W2, D9, N2."""
    kernel.opened.clear()
    handle = read_backwards(fs, path)
    assert kernel.reached.wait(WAIT_S)  # the bytes are read, and not put yet
    change(fs, path)
    kernel.opened.set()
    until(lambda: kernel.refused > 0)
    assert kernel.pages == []
    fs.release(handle)


@pytest.mark.parametrize("path", [RAW, NETCDF])
def test_nothing_is_put_while_a_program_can_write_to_the_file(
    fs: TreeFileSystem, kernel: GatedKernel, path: str
) -> None:
    """SEMANTICS W2."""
    writer = open_file(fs, path)
    handle = read_backwards(fs, path)
    last = find(fs, path).size // PAGE * PAGE - 17 * PAGE
    for number in range(16):
        fs.read_if_cached(handle, last - number * PAGE, PAGE)
    reader = fs._files.get(handle).file
    assert isinstance(reader, OpenView)
    until(lambda: not reader._ahead._advancing)
    assert kernel.asked == 0
    close(fs, writer)
    for number in range(16, 32):
        fs.read_if_cached(handle, last - number * PAGE, PAGE)
    assert kernel.reached.wait(WAIT_S)
    fs.release(handle)


def test_a_file_that_was_opened_before_another_program_stored_puts_what_that_has_stored(
    fs: TreeFileSystem, kernel: GatedKernel, store: Path
) -> None:
    """SEMANTICS D9."""
    attributes = find(fs, RAW)
    old = fs.open(attributes.ino, os.O_RDONLY).handle
    fs.read(old, 0, attributes.size)  # every chunk is in memory
    with nczfs.open(str(store / "d.zarr"), "r+") as root:
        root.variables["v"][:] = -VALUES
    new = fs.open(attributes.ino, os.O_RDONLY).handle
    for number in range(1, 17):
        offset = attributes.size - number * PAGE
        fs.read_if_cached(old, offset, PAGE)
    until(lambda: len(kernel.pages) > 0)
    expected = (-VALUES).tobytes()
    for _, offset, data in list(kernel.pages):
        assert data == expected[offset : offset + len(data)]
    fs.release(old)
    fs.release(new)
