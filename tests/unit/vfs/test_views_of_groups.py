"""A file of several variables: what any view of a group needs, tried with a small one."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping

import numpy as np
import pytest

from nczfs.engine.dataset import Dataset
from nczfs.errors import NotPermitted
from nczfs.library.opening import open_zmap
from nczfs.model.hierarchy import GroupHeader, Variable
from nczfs.testing.datasets import put_array, put_group
from nczfs.vfs.filesystem import TreeFileSystem
from nczfs.vfs.tree import VfsOptions, mount_tree
from nczfs.views import catalog
from nczfs.views.base import Variables, View, Writing
from nczfs.views.elements import ArrayElements
from nczfs.views.forms import BinaryForm
from nczfs.views.layout import Layout
from nczfs.views.records import Records
from nczfs.views.segments import Literal, Run
from nczfs.zmap.base import ZMap
from nczfs.zmap.keys import parse_prefix
from nczfs.zmap.registry import open_store
from nczfs.zmap.wrappers import Prefixed
from tests.support.kernels import Kernel
from tests.support.trees import find, read

_stores = itertools.count()

TEMPERATURE = np.linspace(0, 1, 12, dtype="f4").reshape(4, 3)
LEVEL = np.arange(4, dtype="i2")
HEADER = b"PAIR"
PAIR = "datasets/a.zarr/a.pair"


def expected(temperature: np.ndarray, level: np.ndarray) -> bytes:
    """The file: a header, and records of three floats and a short, padded to four bytes."""
    rows = np.zeros(len(level), np.dtype([("t", ">f4", 3), ("level", ">i2"), ("pad", "V2")]))
    rows["t"], rows["level"] = temperature, level
    return HEADER + rows.tobytes()


def pair_view(dataset: Dataset) -> View:
    """A file with the records of `t` and `level`."""

    def run(variable: Variable) -> Run:
        array = dataset.array(variable)
        dtype = variable.array.dtype.native
        elements = ArrayElements(array, variable)
        count = int(np.prod(variable.array.shape[1:]))
        return Run(elements, BinaryForm(dtype.newbyteorder(">")), 0, count, is_compared=True)

    def layout(shown: Variables) -> Layout:
        t, level = map(run, shown)
        records = Records(((0, t), (12, level)), 16, shown[0].array.shape[0])
        return Layout([Literal(HEADER), records])

    nodes = (dataset.node("t"), dataset.node("level"))
    variables = tuple(node for node in nodes if isinstance(node, Variable))
    return View(layout, variables=variables, writing=Writing.IN_PLACE)


@pytest.fixture
def url() -> str:
    return f"memory://pairs{next(_stores)}"


@pytest.fixture
def store(url: str) -> ZMap:
    store = open_store(url)
    put_group(store, "a.zarr")
    put_array(store, "a.zarr/t", TEMPERATURE, (2, 2), dimensions=("time", "x"))
    put_array(store, "a.zarr/level", LEVEL, (3,), dimensions=("time",))
    return store


@pytest.fixture
def kernel() -> Kernel:
    return Kernel()


@pytest.fixture
def fs(
    store: ZMap, url: str, kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> Iterator[TreeFileSystem]:
    known = catalog.group_views

    def with_pair(
        dataset: Dataset, header: GroupHeader, file_name: str, notes: catalog.Notes = tuple
    ) -> Mapping[str, View]:
        views = known(dataset, header, file_name, notes)
        return {**views, f"{file_name}.pair": pair_view(dataset)}

    monkeypatch.setattr(catalog, "group_views", with_pair)
    tree = mount_tree(url, options=VfsOptions(read_only=False), notifier=kernel)
    yield tree
    tree.close()


def write(fs: TreeFileSystem, path: str, data: bytes, offset: int) -> None:
    handle = fs.open(find(fs, path).ino, os.O_WRONLY).handle
    try:
        fs.write(handle, offset, data)
        fs.flush(handle)
    finally:
        fs.release(handle)


def test_it_is_listed_with_its_size_and_read_like_any_other(fs: TreeFileSystem) -> None:
    wanted = expected(TEMPERATURE, LEVEL)
    assert find(fs, PAIR).size == len(wanted)
    assert read(fs, PAIR) == wanted
    assert read(fs, PAIR, 9, 20) == wanted[9:29]


def test_what_is_written_goes_to_each_of_its_variables(fs: TreeFileSystem, store: ZMap) -> None:
    temperature, level = TEMPERATURE.copy(), LEVEL.copy()
    temperature[1:3, 1] = 7, 8
    level[2] = 99
    write(fs, PAIR, expected(temperature, level), 0)
    assert read(fs, PAIR) == expected(temperature, level)
    assert read(fs, "datasets/a.zarr/t/values.raw") == temperature.tobytes()
    with open_zmap(Prefixed(store, parse_prefix("a.zarr"))) as root:
        assert root.variables["t"][...].tolist() == temperature.tolist()
        assert root.variables["level"][...].tolist() == level.tolist()


def test_a_write_that_changes_the_header_changes_nothing(fs: TreeFileSystem) -> None:
    data = expected(TEMPERATURE + 1, LEVEL + 1)
    with pytest.raises(NotPermitted, match="a\\.pair: byte 3 "):
        write(fs, PAIR, b"PAIN" + data[4:], 0)
    assert read(fs, PAIR) == expected(TEMPERATURE, LEVEL)


def test_the_kernel_forgets_its_pages_when_one_of_its_variables_is_written(
    fs: TreeFileSystem, kernel: Kernel
) -> None:
    read(fs, PAIR)
    write(fs, "datasets/a.zarr/level/values.raw", np.int16(5).tobytes(), 0)
    assert find(fs, PAIR).ino in kernel.inodes
    level = LEVEL.copy()
    level[0] = 5
    assert read(fs, PAIR) == expected(TEMPERATURE, level)


def test_the_access_log_tells_of_each_variable(fs: TreeFileSystem) -> None:
    read(fs, PAIR, 4, 32)
    log = read(fs, ".nczfs/access.log").decode()
    assert "/ a.pair box=t[0:2,0:3],level[0:2] " in log
