"""Elements that are written in part: their other bytes are those that the store has (W2)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import ArrayLike

from nczfs.buffers import Values
from nczfs.library.opening import open_zmap
from nczfs.testing.datasets import put_array, put_group
from nczfs.vfs.filesystem import TreeFileSystem
from nczfs.vfs.tree import VfsOptions, mount_tree
from nczfs.zmap.base import ZMap
from nczfs.zmap.keys import parse_prefix
from nczfs.zmap.registry import open_store
from nczfs.zmap.wrappers import Prefixed
from tests.support.trees import find
from tests.support.writing import close, open_file

_stores = itertools.count()

FIELD = np.arange(24, dtype="<f4").reshape(4, 6)
DATASET = "datasets/a.zarr"
LINE = 16


@pytest.fixture
def url() -> str:
    return f"memory://inpart{next(_stores)}"


@pytest.fixture
def store(url: str) -> ZMap:
    store = open_store(url)
    put_group(store, "a.zarr")
    put_array(store, "a.zarr/v", FIELD, (2, 4), dimensions=("y", "x"))
    put_array(store, "a.zarr/s", np.array([b"one", b"two"], "S5"), (2,), fill_value="")
    return store


@pytest.fixture
def fs(store: ZMap, url: str) -> Iterator[TreeFileSystem]:
    tree = mount_tree(url, options=VfsOptions(read_only=False))
    yield tree
    tree.close()


def another_client_stores(store: ZMap, variable: str, first: ArrayLike) -> None:
    with open_zmap(Prefixed(store, parse_prefix("a.zarr")), "r+") as root:
        values = np.array(root.variables[variable][...])
        values.flat[: np.size(first)] = np.array(first)
        root.variables[variable][...] = values


def stored(store: ZMap, variable: str = "v") -> Values:
    with open_zmap(Prefixed(store, parse_prefix("a.zarr"))) as root:
        return np.array(root.variables[variable][...])


def test_the_other_bytes_of_an_element_stay_as_another_client_stored_them(
    fs: TreeFileSystem, store: ZMap
) -> None:
    """SEMANTICS W69: also where the mount had read the element before."""
    handle = open_file(fs, f"{DATASET}/v/values.raw")
    assert bytes(fs.read(handle, 0, 8)) == FIELD.tobytes()[:8]
    another_client_stores(store, "v", [3.5, 4.5])
    fs.write(handle, 3, b"\x42\x11")
    close(fs, handle)
    expected = bytearray(np.array([3.5, 4.5], "<f4").tobytes())
    expected[3:5] = b"\x42\x11"
    assert stored(store).tobytes()[:8] == bytes(expected)


@pytest.mark.parametrize(
    ("offset", "data"), [(3, b"\x42\x11"), (0, b"\0\0\x10\x42\x11"), (7, b"\x42")]
)
@pytest.mark.parametrize("file", ["a.nc", "a.classic.nc"])
def test_a_netcdf_file_keeps_the_other_bytes_of_an_element_as_another_client_stored_them(
    fs: TreeFileSystem, store: ZMap, file: str, offset: int, data: bytes
) -> None:
    """SEMANTICS W69: what is written there is compared with what the store has at that time."""
    path = f"{DATASET}/{file}"
    dtype = np.dtype(">f4" if "classic" in file else "<f4")
    handle = open_file(fs, path)
    begin = bytes(fs.read(handle, 0, find(fs, path).size)).index(FIELD.astype(dtype).tobytes())
    another_client_stores(store, "v", [3.5, 4.5])
    fs.write(handle, begin + offset, data)
    close(fs, handle)
    expected = bytearray(np.array([3.5, 4.5], dtype).tobytes())
    expected[offset : offset + len(data)] = data
    assert stored(store)[0, :2].astype(dtype).tobytes() == bytes(expected)


@pytest.mark.parametrize(
    ("variable", "new", "column", "byte", "wanted"),
    [("v", 123, LINE - 2, b"9", 129), ("s", b"abc", 1, b"x", b"axc")],
)
def test_the_other_characters_of_a_line_stay_as_another_client_stored_them(
    fs: TreeFileSystem,
    store: ZMap,
    variable: str,
    new: ArrayLike,
    column: int,
    byte: bytes,
    wanted: object,
) -> None:
    """SEMANTICS W69."""
    handle = open_file(fs, f"{DATASET}/{variable}/values.txt")
    assert bytes(fs.read(handle, 0, 100))
    another_client_stores(store, variable, new)
    fs.write(handle, column, byte)
    close(fs, handle)
    assert stored(store, variable).flat[0] == wanted
