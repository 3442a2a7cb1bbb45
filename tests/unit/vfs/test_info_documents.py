"""What the info.json of a node shows makes an equal node where it is written."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nczfs.errors import BadArgument, NczfsError, NotPermitted
from nczfs.library.api import Group
from nczfs.library.opening import open_zmap
from nczfs.model import hierarchy as model
from nczfs.testing.datasets import put_array, put_group, put_json
from nczfs.vfs.datasets.making import Making
from nczfs.vfs.filesystem import TreeFileSystem
from nczfs.vfs.tree import VfsOptions, mount_tree
from nczfs.views.declaration import wanted_node
from nczfs.zmap.base import ZMap
from nczfs.zmap.keys import parse_prefix
from nczfs.zmap.memory import MemoryZMap
from nczfs.zmap.registry import open_store
from nczfs.zmap.wrappers import Prefixed
from tests.support.hierarchies import FORMATS, comparable
from tests.support.trees import read
from tests.support.writing import mkdir, write

_stores = itertools.count()

NAN = float("nan")


def opened(store: ZMap, name: str, mode: str = "r", **options: Any) -> Any:
    return open_zmap(Prefixed(store, parse_prefix(name)) if name else store, mode, **options)


def tree_of(store: ZMap, name: str) -> model.Group:
    """The dataset as somebody reads it who shares nothing with the mount."""
    with opened(store, name) as root:
        assert root.problems == ()
        found: model.Group = root.tree()
        return found


def copy_documents(
    fs: TreeFileSystem, group: model.Group, source: str, target: str, order: Callable[[Any], Any]
) -> None:
    """Make the groups and write every info.json, those of variables in some order."""
    write(fs, f"{target}/info.json", read(fs, f"{source}/info.json"))
    for child in group.groups:
        mkdir(fs, f"{target}/{child.name}")
        copy_documents(fs, child, f"{source}/{child.name}", f"{target}/{child.name}", order)
    for variable in order(group.variables):
        mkdir(fs, f"{target}/{variable.name}")
        document = read(fs, f"{source}/{variable.name}/info.json")
        write(fs, f"{target}/{variable.name}/info.json", document)


def fill(root: Group, format: str) -> None:
    early = format in ("nczarr-L1", "nczarr-L2U")
    root.attrs["title"] = 'é \\ " \n'
    root.attrs["count"] = np.int16(3)
    root.attrs["weights"] = np.array([0.1, NAN, np.inf], "f4")
    root.attrs["none"] = ""
    root.attrs["large"] = np.uint64(2**64 - 1)
    if not early:
        root.attrs["names"] = ["a", '["b"]']
        root.attrs["one"] = ["x"]
    root.create_dimension("time", None if not early else 2)
    root.create_dimension("x", 3)
    root.create_dimension("unused", 7)
    root.create_dimension("nothing", 0)
    group = root.create_group("g")
    group.create_dimension("x", 5)
    inner = group.create_group("inner")
    inner.attrs["note"] = "deep"
    inner.create_group("empty")
    numbers = ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8"]
    for code in numbers:
        root.create_variable(code, ("time", "x"), code, chunks=(1, 2), byte_order=">")
    if not early:
        root.resize_dimension("time", 4)
    root.create_variable("scalar", (), "<f8", attributes={"units": "K", "n": np.uint8(7)})
    root.create_variable("zero", ("nothing", "x"), "<f4")
    root.create_variable("nan", ("x",), "<f4", fillvalue=NAN, attributes={"a": np.float64(1)})
    root.create_variable("nofill", ("x",), "<i4", fillvalue=None)
    root.create_variable("odd", ("x",), "<i4", fillvalue=-7, codecs=[])
    root.create_variable("char", ("x",), "S1", fillvalue=b"z")
    if not early:
        root.create_variable("text", ("x",), str, string_bytes=9)
    names = ("x", "/nothing") if format == "zarr2" else ("x", "/x", "/nothing")
    inner.create_variable("v", names, "<f4", codecs=[{"id": "zlib", "level": 9}])
    inner.create_variable("anonymous", (4, 6), "<i2")


def fill_pure(root: Group) -> None:
    root.attrs["object"] = {"a": [1, None, True], "b": "c"}
    root.attrs["flag"] = True
    dtypes = ["?", "c8", "c16", "f2", "S5", "U3", "M8[ns]", "m8[D]", "V6", "S1"]
    fills: list[Any] = [True, 1 + 2j, complex(NAN, np.inf), 0.5, b"\xe9x", "zé"]
    fills += [np.datetime64("2001-02-03T04:05:06", "ns"), np.timedelta64("NaT", "D")]
    fills += [b"abc\xff", b"q"]
    for dtype, value in zip(dtypes, fills, strict=True):
        name = dtype.replace("[", "_").strip("]?") or "bool"
        root.create_variable(name, ("x",), np.dtype(dtype), fillvalue=value)
        root.create_variable(f"{name}_none", ("x",), np.dtype(dtype), fillvalue=None)
    fields = [("a", "<i4"), ("b", ">f8", (2,)), ("c", [("d", "S3"), ("e", "<M8[s]")])]
    record = np.zeros((), np.dtype(fields))
    record["a"], record["b"], record["c"]["d"] = 7, [NAN, 2.5], b"\xe9"
    root.create_variable("record", ("x",), np.dtype(fields), fillvalue=record[()])
    root.create_variable("vlen", ("x",), str, fillvalue="ü")


@pytest.mark.parametrize("is_reversed", [False, True])
@pytest.mark.parametrize("format", FORMATS)
def test_the_documents_of_a_dataset_make_an_equal_one(format: str, is_reversed: bool) -> None:
    """SEMANTICS W13."""
    url = f"memory://documents{next(_stores)}"
    store = open_store(url)
    with opened(store, "a.zarr", "w", format=format) as root:
        fill(root, format)
        if format == "zarr2":
            fill_pure(root)
    opened(store, "b.zarr", "w", format=format).close()
    source = tree_of(store, "a.zarr")
    fs = mount_tree(url, options=VfsOptions(read_only=False))
    order = reversed if is_reversed else iter
    copy_documents(fs, source, "datasets/a.zarr", "datasets/b.zarr", order)
    fs.close()
    assert comparable(tree_of(store, "b.zarr")) == comparable(source)


def test_what_other_programs_wrote_is_described_to_the_letter() -> None:
    """SEMANTICS W13."""
    url = f"memory://documents{next(_stores)}"
    store = open_store(url)
    put_group(store, "a.zarr", {"a/b": 1, " odd": "x"})
    put_array(store, "a.zarr/v", np.arange(6, dtype="<f4").reshape(2, 3), (1, 2))
    put_json(store, "a.zarr/v/.zattrs", {"_ARRAY_DIMENSIONS": ["y", "x"], ".a": [1, 2.5]})
    put_array(store, "a.zarr/w", np.arange(4, dtype="<i4"), (2,))
    objects = {"zarr_format": 2, "shape": [2], "chunks": [2], "dtype": "|O", "order": "C"}
    for name, codec in {
        "bytes": {"id": "vlen-bytes"},
        "arrays": {"id": "vlen-array", "dtype": "<i2"},
        "json": {"id": "json2", "encoding": "utf-8"},
    }.items():
        document = {**objects, "filters": [codec], "compressor": None, "fill_value": 0}
        put_json(store, f"a.zarr/{name}/.zarray", document)
    opened(store, "b.zarr", "w", format="zarr2").close()
    source = tree_of(store, "a.zarr")
    assert {d.anonymous for v in source.variables for d in v.dimensions} == {True, False}
    fs = mount_tree(url, options=VfsOptions(read_only=False))
    copy_documents(fs, source, "datasets/a.zarr", "datasets/b.zarr", iter)
    fs.close()
    assert comparable(tree_of(store, "b.zarr")) == comparable(source)


DOCUMENT: dict[str, Any] = {
    **{"name": "v", "path": "/g/v", "format": "zarr2", "shape": [2], "chunk_shape": [2]},
    **{"dtype": "<f4", "nc_type": "float", "fill_value": None, "problems": [], "codecs": []},
    "dimensions": [{"name": "x", "size": 2, "unlimited": False, "group": "/"}],
    "attributes": {"units": "K"},
    "attribute_types": {"units": "char"},
}
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=3)
    | st.sampled_from(["|O", "vlen-bytes", "json2", "<M8[s]", "V3", "U2", "NaN", "short", "/g"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["id", "name", "size", "group", "units"]), inner)
    ),
    max_leaves=4,
)
CODES = [["a", "<i2"], ["b", "S2", [2]]]


@settings(max_examples=200, deadline=None)
@given(
    st.dictionaries(st.sampled_from(sorted(DOCUMENT)), values, max_size=3),
    st.sampled_from(["<f4", "|O", "<M8[s]", "|V3", "<U2", "<c8", "|b1", "|S2", CODES]),
    st.sampled_from([[], ["vlen-bytes"], ["vlen-array"], ["json2"], ["vlen-utf8"]]),
)
@example({"fill_value": 2**63}, "<M8[s]", [])
@example({"fill_value": [2**70, "x", ["y", "z"]]}, CODES, [])
@example({"fill_value": [None, "x", ["y", "z"]]}, CODES, [])
def test_any_document_is_taken_or_refused(
    members: dict[str, Any], dtype: Any, codecs: list[str]
) -> None:
    base = {"dtype": dtype, "codecs": [{"id": name, "dtype": "<i2"} for name in codecs]}
    if dtype != "<f4":
        base["nc_type"] = None
    data = json.dumps(DOCUMENT | base | members).encode()
    with opened(MemoryZMap(), "", "w", format="zarr2") as root:
        root.create_group("g").create_group("v")
        with suppress(NczfsError):
            Making(root.editor).make("g/v", wanted_node("v", data))
            root.sync()
        assert root.tree().broken == ()


@pytest.fixture
def fs() -> Any:
    url = f"memory://documents{next(_stores)}"
    with opened(open_store(url), "n.zarr", "w") as root:
        root.create_dimension("x", 3)
        root.create_dimension("t", None)
        group = root.create_group("g")
        group.create_dimension("y", 2)
        group.create_variable("v", ("x", "y", "t"), "<f4")
        root.create_group("h").create_group("i")
    tree = mount_tree(url, options=VfsOptions(read_only=False))
    yield tree
    tree.close()


def dimensions(fs: TreeFileSystem, path: str) -> list[str]:
    document = json.loads(read(fs, f"datasets/n.zarr/{path}/info.json"))
    return [f"{d['group']}:{d['name']}" for d in document["dimensions"]]


@pytest.mark.parametrize(
    ("target", "found"),
    [
        ("g/w", ["/:x", "/g:y", "/:t"]),
        ("h/w", ["/:x", "/h:y", "/:t"]),
        ("h/i/w", ["/h:x", "/h/i:y", "/h:t"]),
        ("w", ["/:x", "/:y", "/:t"]),
    ],
)
def test_dimensions_are_declared_as_many_groups_above_the_variable_as_they_were(
    fs: TreeFileSystem, target: str, found: list[str]
) -> None:
    """SEMANTICS W13."""
    mkdir(fs, f"datasets/n.zarr/{target}")
    write(fs, f"datasets/n.zarr/{target}/info.json", read(fs, "datasets/n.zarr/g/v/info.json"))
    assert dimensions(fs, target) == found


def test_the_document_of_a_group_gives_another_one_its_dimensions_and_attributes(
    fs: TreeFileSystem,
) -> None:
    """SEMANTICS W13."""
    document = json.loads(read(fs, "datasets/n.zarr/g/info.json"))
    document |= {"attributes": {"n": 3}, "attribute_types": {"n": "short"}}
    for group in ("h", "h/i"):
        write(fs, f"datasets/n.zarr/{group}/info.json", json.dumps(document).encode())
        assert dimensions(fs, group) == [f"/{group}:y"]
        assert read(fs, f"datasets/n.zarr/{group}/attributes/n") == b"3\n"
    document["dimensions"][0]["size"] = 4
    with pytest.raises(BadArgument, match="'y' has length 2"):
        write(fs, "datasets/n.zarr/h/info.json", json.dumps(document).encode())
    with pytest.raises(NotPermitted):
        write(fs, "datasets/n.zarr/g/v/info.json", json.dumps(document).encode())


def test_unlimited_dimensions_of_a_group_become_as_long_as_the_document_says(
    fs: TreeFileSystem,
) -> None:
    """SEMANTICS W13."""
    document = json.loads(read(fs, "datasets/n.zarr/info.json"))
    assert document["dimensions"][1]["name"] == "t"
    document["dimensions"][1]["size"] = 5
    write(fs, "datasets/n.zarr/info.json", json.dumps(document).encode())
    assert json.loads(read(fs, "datasets/n.zarr/g/v/info.json"))["shape"] == [3, 2, 5]
