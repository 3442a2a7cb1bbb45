"""Files with values that are truncated, and written as a whole."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import pytest

import nczfs
from nczfs.buffers import Values
from nczfs.errors import BadArgument, NoSpace, NotPermitted
from nczfs.vfs.base import AttributeChanges
from nczfs.vfs.datasets import writing
from nczfs.vfs.filesystem import TreeFileSystem
from nczfs.vfs.tree import VfsOptions, mount_tree
from tests.support.copies import new_url
from tests.support.trees import find, read
from tests.support.writing import close, open_file, write

OLD = np.arange(12, dtype="<i4").reshape(4, 3)
NEW = -1 - np.arange(21, dtype="<i4").reshape(7, 3)  # no byte as it was
PLACE = "datasets/d.zarr/v"
LINE = 12


@pytest.fixture
def url() -> str:
    url = new_url()
    with nczfs.open(f"{url}/d.zarr", "w") as root:
        root.create_dimension("t", None)
        root.create_dimension("x", 3)
        root.create_variable("v", ("t", "x"), "<i4", data=OLD, chunks=(2, 2))
    return url


@pytest.fixture
def fs(url: str) -> Iterator[TreeFileSystem]:
    tree = mount_tree(url, options=VfsOptions(read_only=False))
    yield tree
    tree.close()


def stored(url: str) -> Values:
    with nczfs.open(f"{url}/d.zarr") as root:
        return np.array(root.variables["v"][...])


def lines(values: Values) -> bytes:
    """Numbers at the left, where the file has them at the right."""
    return b"".join((b"%d" % number).ljust(LINE - 1) + b"\n" for number in values.flat)


def new_bytes(name: str, records: int) -> bytes:
    return lines(NEW[:records]) if name == "values.txt" else NEW[:records].tobytes()


@pytest.mark.parametrize(
    ("name", "records", "block_bytes", "flag"),
    [
        ("values.raw", 4, 1 << 20, 0),
        ("values.raw", 7, 7, os.O_APPEND),
        ("values.txt", 4, 1 << 20, os.O_APPEND),
        ("values.txt", 4, 2 * LINE + 5, 0),
    ],
)
def test_every_byte_is_replaced_in_however_many_pieces_it_is_taken(
    fs: TreeFileSystem,
    url: str,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    records: int,
    block_bytes: int,
    flag: int,
) -> None:
    """SEMANTICS W5, W8."""
    monkeypatch.setattr(writing, "BLOCK_BYTES", block_bytes)
    write(fs, f"{PLACE}/{name}", new_bytes(name, records), flags=os.O_TRUNC | flag)
    np.testing.assert_array_equal(stored(url), NEW[:records])


@pytest.mark.parametrize("size", [0, 1, OLD.nbytes - 1, OLD.nbytes + 1, OLD.nbytes + 18])
def test_what_is_no_whole_number_of_records_changes_nothing(
    fs: TreeFileSystem, url: str, size: int
) -> None:
    """SEMANTICS W5, W8."""
    path = f"{PLACE}/values.raw"
    handle = open_file(fs, path)
    fs.setattr(find(fs, path).ino, AttributeChanges(size=0), handle)
    if size:
        fs.write(handle, 0, NEW.tobytes()[:size])
    with pytest.raises(
        (BadArgument, NotPermitted), match=r"^/v/values\.raw: .*the old values stay"
    ):
        close(fs, handle)
    assert read(fs, path) == OLD.tobytes()
    np.testing.assert_array_equal(stored(url), OLD)


def test_a_program_may_set_the_size_before_it_writes(fs: TreeFileSystem, url: str) -> None:
    """SEMANTICS W5: and sees what it has written; what it leaves out is zeros."""
    path = f"{PLACE}/values.raw"
    ino, handle = find(fs, path).ino, open_file(fs, path, os.O_RDWR | os.O_TRUNC)
    fs.write(handle, 0, NEW.tobytes())
    for size in (4, OLD.nbytes):
        fs.setattr(ino, AttributeChanges(size=size), handle)
    fs.write(handle, 40, NEW.tobytes()[40:44])
    wanted = np.zeros_like(OLD)
    wanted.flat[[0, 10]] = NEW.flat[[0, 10]]
    assert bytes(fs.read(handle, 0, 1000)) == wanted.tobytes()
    close(fs, handle)
    np.testing.assert_array_equal(stored(url), wanted)


def test_a_full_disk_refuses_a_piece_and_the_next_trial_completes_it(
    fs: TreeFileSystem, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SEMANTICS W5: a disk that is nearly full takes less than it is given."""
    room, whole = [10], os.pwrite

    def pwrite(fd: int, data: memoryview, offset: int) -> int:
        taken = min(len(data), room[0], 7)
        if not taken:
            raise OSError(28, "No space left on device")
        room[0] -= taken
        return whole(fd, data[:taken], offset)

    handle = open_file(fs, f"{PLACE}/values.raw", os.O_WRONLY | os.O_TRUNC)
    monkeypatch.setattr("nczfs.vfs.datasets.rewrite.os.pwrite", pwrite)
    with pytest.raises(NoSpace, match="No space left on device"):
        fs.write(handle, 0, NEW[:4].tobytes())
    room[0] = OLD.nbytes
    fs.write(handle, 0, NEW[:4].tobytes())
    close(fs, handle)
    np.testing.assert_array_equal(stored(url), NEW[:4])
