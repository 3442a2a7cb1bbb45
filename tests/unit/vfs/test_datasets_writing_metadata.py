"""Attributes, groups and variables made through ``datasets/``, over a store in memory."""

from __future__ import annotations

import errno
import itertools
import json
import os
import time
from collections.abc import Iterator

import numpy as np
import pytest

from nczfs.errors import (
    BadArgument,
    BadValue,
    CrossesTrees,
    NczfsError,
    NoSuchPath,
    NotPermitted,
    NotWritable,
    PathExists,
)
from nczfs.fuse.errno import to_errno
from nczfs.library.opening import open_zmap
from nczfs.model.dtypes import NcType
from nczfs.model.hierarchy import Attribute
from nczfs.testing.datasets import put_group
from nczfs.tools.metadata_conversion import MetadataConversion
from nczfs.tools.verify.subject import subject_at
from nczfs.vfs.filesystem import TreeFileSystem
from nczfs.vfs.tree import VfsOptions, mount_tree
from nczfs.zmap.base import ZMap
from nczfs.zmap.keys import ROOT, parse_key, parse_prefix
from nczfs.zmap.registry import open_store
from nczfs.zmap.wrappers import Prefixed
from tests.support.trees import exists, find, listing, read
from tests.support.writing import close, mkdir, open_file, rmdir

_stores = itertools.count()

A = "datasets/n.zarr/v/attributes"


@pytest.fixture
def url() -> str:
    return f"memory://metadata{next(_stores)}"


@pytest.fixture
def store(url: str) -> ZMap:
    store = open_store(url)
    with open_zmap(Prefixed(store, parse_prefix("n.zarr")), "w") as root:
        attributes = {
            "units": "K",
            "count": np.int16(3),
            "range": np.array([1.5, 2.5], "f4"),
            "names": ["a", "b"],
        }
        root.create_variable("v", (), "<f4", attributes=attributes)
        root.create_group("g").attrs["kept"] = 1
    return store


@pytest.fixture
def fs(store: ZMap, url: str) -> Iterator[TreeFileSystem]:
    tree = mount_tree(url, options=VfsOptions(read_only=False))
    yield tree
    tree.close()


def echo(fs: TreeFileSystem, path: str, text: str) -> None:
    """What ``echo text > path`` does: an early flush by the shell, then write, flush, release."""
    parent, _, name = path.rpartition("/")
    if exists(fs, path):
        handle = fs.open(find(fs, path).ino, os.O_WRONLY | os.O_TRUNC).handle
    else:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        handle = fs.create(find(fs, parent).ino, name.encode(), flags, 0o644)[0].handle
    try:
        fs.flush(handle)
        fs.write(handle, 0, f"{text}\n".encode())
        fs.flush(handle)
    finally:
        fs.release(handle)


def test_a_node_with_documents_of_two_versions_of_zarr_keeps_its_metadata(
    store: ZMap, url: str
) -> None:
    """SEMANTICS W65."""
    with subject_at(f"{url}/n.zarr") as subject:
        conversion = MetadataConversion(subject, lambda _: None)
        conversion.check()
        conversion.run()
    fs = mount_tree(url, options=VfsOptions(read_only=False))
    before = {stat.key: stat.version for stat in store.list(ROOT)}
    with pytest.raises(NotWritable, match="is described twice") as caught:
        echo(fs, f"{A}/units", "m")
    assert to_errno(caught.value) == errno.EROFS
    assert read(fs, f"{A}/units") == b"K\n"
    (problem,) = json.loads(read(fs, "datasets/n.zarr/v/info.json"))["problems"]
    assert "is described twice" in problem
    assert "attributes/units" in problem
    for group in ("n.zarr", "n.zarr/g"):
        with pytest.raises(NotWritable, match="nothing can be made in it") as caught:
            fs.mkdir(find(fs, f"datasets/{group}").ino, b"new", 0o755)
        assert to_errno(caught.value) == errno.EROFS
    fs.sync()
    assert {stat.key: stat.version for stat in store.list(ROOT)} == before
    handle = open_file(fs, "datasets/n.zarr/v/values.raw", os.O_WRONLY)
    fs.write(handle, 0, np.float32(2.5).tobytes())
    close(fs, handle)
    fs.close()
    with open_zmap(Prefixed(store, parse_prefix("n.zarr"))) as root:
        assert root.variables["v"][...] == 2.5


def test_a_text_that_is_known_already_tells_what_was_changed_below_it(fs: TreeFileSystem) -> None:
    """SEMANTICS W23."""
    cdl = find(fs, "datasets/n.zarr/n.cdl")
    echo(fs, f"{A}/units", "degree_Celsius")
    assert fs.getattr(cdl.ino).size == cdl.size + len("degree_Celsius") - len("K")


def stored(store: ZMap, name: str, path: str = "v") -> tuple[NcType, object]:
    """An attribute as a client reads it that shares nothing with the mount."""
    with open_zmap(Prefixed(store, parse_prefix("n.zarr"))) as root:
        node = root[path].stored if path else root.stored
        (found,) = (a for a in node.attributes if a.name == name)
        return found.type, found.value


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("units", "degC", (NcType.CHAR, "degC")),
        ("units", "3", (NcType.CHAR, "3")),
        ("units", '"K"', (NcType.CHAR, '"K"')),
        ("count", "7", (NcType.SHORT, (7,))),
        ("count", "7, -8 9", (NcType.SHORT, (7, -8, 9))),
        ("count", "12LL", (NcType.SHORT, (12,))),
        ("range", "0.5 3", (NcType.FLOAT, (0.5, 3.0))),
        ("names", '["x", "y", "z"]', (NcType.STRING, ("x", "y", "z"))),
        ("names", "x", (NcType.STRING, ("x",))),
    ],
)
def test_an_attribute_that_is_written_keeps_its_type(
    fs: TreeFileSystem, store: ZMap, name: str, text: str, value: object
) -> None:
    """SEMANTICS W9."""
    echo(fs, f"{A}/{name}", text)
    assert stored(store, name) == value
    if not text.startswith(("7,", "12LL", "0.5")):
        assert read(fs, f"{A}/{name}") == f"{text}\n".encode()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("count", "2.5"),
        ("count", "40000"),
        ("count", "many"),
        ("range", "1e99"),
        ("range", ""),
    ],
)
def test_what_does_not_fit_the_type_is_refused_and_changes_nothing(
    fs: TreeFileSystem, store: ZMap, name: str, text: str
) -> None:
    """SEMANTICS W9."""
    before = stored(store, name)
    shown = read(fs, f"{A}/{name}")
    with pytest.raises(BadValue, match=name):
        echo(fs, f"{A}/{name}", text)
    assert stored(store, name) == before
    assert read(fs, f"{A}/{name}") == shown


def test_an_attribute_that_is_json_stays_json(fs: TreeFileSystem, store: ZMap) -> None:
    """SEMANTICS W9."""
    put_group(store, "j.zarr", {"note": {"a": 1}})
    note = "datasets/j.zarr/attributes/note"
    echo(fs, note, '{"b": [1, 2.5, null]}')
    with pytest.raises(BadValue):
        echo(fs, note, "{")
    assert json.loads(bytes(store.read(parse_key("j.zarr/.zattrs")).data)) == {
        "note": {"b": [1, 2.5, None]}
    }


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", (NcType.INT, (3,))),
        ("2.5", (NcType.DOUBLE, (2.5,))),
        ("2.5f", (NcType.FLOAT, (2.5,))),
        ("7s", (NcType.SHORT, (7,))),
        ("1 2,3", (NcType.INT, (1, 2, 3))),
        ("1, 2.5", (NcType.DOUBLE, (1.0, 2.5))),
        ("3000000000", (NcType.UINT, (3000000000,))),
        ("K", (NcType.CHAR, "K")),
        ("3 m", (NcType.CHAR, "3 m")),
        ("2001-01-01", (NcType.CHAR, "2001-01-01")),
        ("1,,2", (NcType.CHAR, "1,,2")),
        ("3 // three", (NcType.CHAR, "3 // three")),
        ('"3"', (NcType.CHAR, "3")),
        ('"a" b', (NcType.CHAR, '"a" b')),
        ("a\nb", (NcType.CHAR, "a\nb")),
        ("_", (NcType.CHAR, "_")),
        ("é", (NcType.CHAR, "é")),
    ],
)
def test_a_new_attribute_has_the_type_that_cdl_gives_the_literal(
    fs: TreeFileSystem, store: ZMap, text: str, value: object
) -> None:
    """SEMANTICS W35."""
    echo(fs, f"{A}/new", text)
    assert stored(store, "new") == value
    assert "new" in listing(fs, A)


def test_groups_have_attributes_too_and_a_slash_is_escaped(fs: TreeFileSystem, store: ZMap) -> None:
    """SEMANTICS W35."""
    echo(fs, "datasets/n.zarr/attributes/title", "a test")
    echo(fs, "datasets/n.zarr/g/attributes/title", "a group")
    assert stored(store, "title", "") == (NcType.CHAR, "a test")
    assert stored(store, "title", "g") == (NcType.CHAR, "a group")
    assert b"a test" in read(fs, "datasets/n.zarr/n.cdl")


def test_text_can_be_appended_and_bytes_replaced(fs: TreeFileSystem, store: ZMap) -> None:
    """SEMANTICS W9."""
    echo(fs, f"{A}/history", "first")
    handle = fs.open(find(fs, f"{A}/history").ino, os.O_WRONLY | os.O_APPEND).handle
    fs.write(handle, 6, b"second\n")
    assert fs.getattr(find(fs, f"{A}/history").ino).size in (6, 13)
    fs.flush(handle)
    fs.release(handle)
    assert stored(store, "history") == (NcType.CHAR, "first\nsecond")


def test_a_file_that_was_only_truncated_stays_what_it_was(fs: TreeFileSystem, store: ZMap) -> None:
    """SEMANTICS W37."""
    handle = fs.open(find(fs, f"{A}/units").ino, os.O_WRONLY | os.O_TRUNC).handle
    fs.flush(handle)
    fs.release(handle)
    assert stored(store, "units") == (NcType.CHAR, "K")
    assert read(fs, f"{A}/units") == b"K\n"


def test_a_new_file_that_is_closed_without_a_byte_is_no_attribute(
    fs: TreeFileSystem, store: ZMap
) -> None:
    """SEMANTICS W37."""
    before = bytes(store.read(parse_key("n.zarr/v/.zattrs")).data)
    close(fs, open_file(fs, f"{A}/new", os.O_WRONLY | os.O_CREAT))
    assert not exists(fs, f"{A}/new")
    fs.sync()
    assert bytes(store.read(parse_key("n.zarr/v/.zattrs")).data) == before


def test_a_rename_moves_the_text_and_the_type_of_what_it_replaces_stays(
    fs: TreeFileSystem, store: ZMap
) -> None:
    """SEMANTICS W10."""
    here = find(fs, A).ino
    echo(fs, f"{A}/sedXyz", "12")
    fs.rename(here, b"sedXyz", here, b"count", replace=True)
    assert stored(store, "count") == (NcType.SHORT, (12,))
    assert not exists(fs, f"{A}/sedXyz")
    fs.rename(here, b"count", here, b"number", replace=False)
    assert stored(store, "number") == (NcType.SHORT, (12,))
    with pytest.raises(PathExists):
        fs.rename(here, b"number", here, b"units", replace=False)
    with pytest.raises(BadValue):
        fs.rename(here, b"units", here, b"number", replace=True)
    with pytest.raises(NoSuchPath):
        fs.rename(here, b"absent", here, b"units", replace=True)
    with pytest.raises(CrossesTrees):
        fs.rename(
            here, b"units", find(fs, "datasets/n.zarr/attributes").ino, b"units", replace=True
        )
    assert set(listing(fs, A)) == {"units", "number", "range", "names"}


@pytest.mark.parametrize("name", ["_ARRAY_DIMENSIONS", "_nczarr_attrs", "_NCProperties"])
def test_attributes_of_the_format_cannot_be_made(fs: TreeFileSystem, name: str) -> None:
    """SEMANTICS W38."""
    with pytest.raises(NotPermitted):
        echo(fs, f"{A}/{name}", "x")


def test_nothing_can_be_removed(fs: TreeFileSystem, store: ZMap) -> None:
    """SEMANTICS W11."""
    root = "datasets/n.zarr"
    for parent, name in ((A, b"units"), (f"{root}/v", b"values.raw"), (root, b"n.cdl")):
        with pytest.raises(NotPermitted):
            fs.unlink(find(fs, parent).ino, name)
    with pytest.raises(NotPermitted):
        fs.rmdir(find(fs, root).ino, b"v")
    assert stored(store, "units") == (NcType.CHAR, "K")


def test_mkdir_makes_a_dataset_and_groups_in_it(fs: TreeFileSystem, store: ZMap) -> None:
    """SEMANTICS W12."""
    fs.mkdir(find(fs, "datasets").ino, b"new.zarr", 0o755)
    fs.mkdir(find(fs, "datasets/new.zarr").ino, b"ocean", 0o755)
    fs.mkdir(find(fs, "datasets/new.zarr/ocean").ino, b"deep", 0o755)
    with open_zmap(Prefixed(store, parse_prefix("new.zarr"))) as root:
        assert root.stored.format == "nczarr-L3"
        assert list(root.groups) == ["ocean"]
        assert list(root["ocean"].groups) == ["deep"]  # type: ignore[union-attr]
    assert "ocean" in listing(fs, "datasets/new.zarr")
    assert "new.zarr" in listing(fs, "datasets")
    echo(fs, "datasets/new.zarr/ocean/attributes/depth", "3")


def test_a_new_directory_has_the_time_of_its_making(fs: TreeFileSystem, store: ZMap) -> None:
    """SEMANTICS W100."""
    of_mounting = find(fs, "datasets").mtime_ns
    before = time.time_ns()
    mkdir(fs, "datasets/new.zarr")
    mkdir(fs, "datasets/new.zarr/g")
    after = time.time_ns()
    for path in ("datasets/new.zarr", "datasets/new.zarr/g"):
        assert before <= find(fs, path).mtime_ns <= after
    assert find(fs, "datasets/n.zarr").mtime_ns == of_mounting
    rmdir(fs, "datasets/new.zarr/g")
    with open_zmap(Prefixed(store, parse_prefix("new.zarr")), "r+") as root:
        root.create_group("g")
    fs.refresh("datasets/new.zarr")
    assert find(fs, "datasets/new.zarr/g").mtime_ns == of_mounting


def test_mkdir_takes_no_name_that_is_taken_or_means_something(
    fs: TreeFileSystem, store: ZMap
) -> None:
    """SEMANTICS W12."""
    root = find(fs, "datasets/n.zarr").ino
    for taken in (b"g", b"v", b"attributes"):
        with pytest.raises(NczfsError):
            fs.mkdir(root, taken, 0o755)
    with pytest.raises(PathExists):
        fs.mkdir(find(fs, "datasets").ino, b"n.zarr", 0o755)
    for parent in ("datasets/n.zarr/v", "datasets/n.zarr/v/chunks", A):
        with pytest.raises(NotPermitted):
            fs.mkdir(find(fs, parent).ino, b"x", 0o755)
    store.write(parse_key("plain/a"), b"x")
    fs.refresh("")
    with pytest.raises(PathExists):
        fs.mkdir(find(fs, "datasets").ino, b"plain", 0o755)


def declare(fs: TreeFileSystem, path: str, info: object) -> None:
    parent, _, name = path.rpartition("/")
    fs.mkdir(find(fs, parent).ino, name.encode(), 0o755)
    echo(fs, f"{path}/info.json", json.dumps(info))


def test_an_empty_group_becomes_a_variable_by_its_info_json(
    fs: TreeFileSystem, store: ZMap
) -> None:
    """SEMANTICS W13."""
    info = {
        "shape": [2, 3],
        "dtype": "<i2",
        "dimensions": ["y", {"name": "x", "size": 3, "unlimited": False}],
        "chunk_shape": [1, 3],
        "codecs": [{"id": "zlib", "level": 1}],
        "fill_value": -1,
        "attributes": {"units": "m", "scale": 0.5},
    }
    path = "datasets/n.zarr/g/w"
    declare(fs, path, info)
    assert read(fs, f"{path}/values.raw") == np.full((2, 3), -1, "<i2").tobytes()
    shown = json.loads(read(fs, f"{path}/info.json"))
    assert {name: shown[name] for name in ("shape", "dtype", "chunk_shape", "codecs")} == {
        name: info[name] for name in ("shape", "dtype", "chunk_shape", "codecs")
    }
    with open_zmap(Prefixed(store, parse_prefix("n.zarr"))) as root:
        group = root.groups["g"]
        assert list(group.groups) == []
        variable = group.variables["w"]
        assert variable.dimensions == ("y", "x")
        assert variable.attrs["units"] == "m"
        assert group.dimensions["y"].size == 2
    handle = fs.open(find(fs, f"{path}/values.raw").ino, os.O_WRONLY).handle
    fs.write(handle, 2, b"\5\0")
    fs.flush(handle)
    fs.release(handle)
    with open_zmap(Prefixed(store, parse_prefix("n.zarr"))) as root:
        assert root.groups["g"].variables["w"][0].tolist() == [-1, 5, -1]


@pytest.mark.parametrize("left", [".zgroup", "the list of groups"])
def test_the_same_info_json_completes_a_variable_of_which_a_kill_left_the_group(
    fs: TreeFileSystem, store: ZMap, left: str
) -> None:
    """SEMANTICS W13."""
    info = {"shape": [2], "dtype": "<i2", "dimensions": ["y"], "attributes": {"units": "m"}}
    path = "datasets/n.zarr/g/w"
    with open_zmap(Prefixed(store, parse_prefix("n.zarr")), "r+") as root:
        root.groups["g"].create_dimension("y", 2)
    fs.mkdir(find(fs, "datasets/n.zarr/g").ino, b"w", 0o755)
    fs.sync()
    keys = [parse_key(f"n.zarr/g/{name}") for name in ("w/.zgroup", ".zattrs", ".zgroup")]
    before = {key: bytes(store.read(key).data) for key in keys}
    echo(fs, f"{path}/info.json", json.dumps(info))
    after = {str(stat.key): bytes(store.read(stat.key).data) for stat in store.list(ROOT)}
    for key in keys[:1] if left == ".zgroup" else keys[1:]:
        store.write(key, before[key])
    fs.refresh("")
    assert find(fs, f"{path}/info.json").mode & 0o200
    with pytest.raises(NotPermitted, match="is another variable"):
        echo(fs, f"{path}/info.json", json.dumps({**info, "shape": [3], "dimensions": ["z"]}))
    echo(fs, f"{path}/info.json", json.dumps(info))
    fs.refresh("")
    assert {str(s.key): bytes(store.read(s.key).data) for s in store.list(ROOT)} == after
    assert not find(fs, f"{path}/info.json").mode & 0o222


@pytest.mark.parametrize("source", ["v", "r"])
def test_an_info_json_that_was_read_declares_another_variable(
    fs: TreeFileSystem, store: ZMap, source: str
) -> None:
    """SEMANTICS W13."""
    with open_zmap(Prefixed(store, parse_prefix("n.zarr")), "r+") as root:
        root.create_dimension("time", None)
        root.create_variable("r", ("time",), "<f8", np.arange(3.0), attributes={"a": 1})
    fs.refresh("")
    known = json.loads(read(fs, f"datasets/n.zarr/{source}/info.json"))
    declare(fs, "datasets/n.zarr/copy", known)
    made = json.loads(read(fs, "datasets/n.zarr/copy/info.json"))
    for name in set(known) - {"name", "path"}:
        assert made[name] == known[name]


@pytest.mark.parametrize(
    "info",
    [
        {},
        {"shape": [2]},
        {"dtype": "<f4"},
        {"shape": [-1], "dtype": "<f4"},
        {"shape": 3, "dtype": "<f4"},
        {"shape": [2], "dtype": "float12"},
        {"shape": [2], "nc_type": "floot"},
        {"shape": [2], "dtype": "<f4", "chunk_shape": [0]},
        {"shape": [2], "dtype": "<f4", "chunk_shape": [1, 1]},
        {"shape": [2], "dtype": "<f4", "dimensions": ["a", "b"]},
        {"shape": [2], "dtype": "<f4", "codecs": [{"level": 1}]},
        {"shape": [2], "dtype": "<f4", "order": "c"},
        {"shape": [2], "dtype": "<f4", "order": ["C"]},
        {"shape": [2], "dtype": "<f4", "dimension_separator": ""},
        {"shape": [2], "dtype": "<f4", "fill_value": "many"},
        {"shape": [2], "dtype": "<f4", "shap": [2]},
        {"shape": [2], "dtype": "<f4", "attributes": {"_nczarr_x": 1}},
        {"shape": [2], "dtype": "<c8"},
        {"shape": [2], "dtype": "<f4", "nc_type": "int"},
        {"shape": [2], "dtype": "float"},
        {"shape": [2], "dtype": "uint"},
        {"shape": [2], "dtype": "<i4", "fill_value": 1.5},
        {"shape": [2], "dtype": "<i4", "attributes": {"_FillValue": 1.5}},
        {"shape": [2], "dtype": "<i1", "attributes": {"_FillValue": 200}},
        {"shape": [2], "dtype": "<f4", "attributes": {"_FillValue": "none"}},
        {"shape": [2], "dtype": "<f4", "codecs": [{"id": "nope"}]},
        {"shape": [2], "dtype": "<f4", "codecs": [{"id": "zlib", "foo": 1}]},
        {"shape": [2], "dtype": "<f4", "codecs": [{"id": "zlib", "level": 99}]},
        {"shape": [10**18, 10**18], "dtype": "<f4", "dimensions": ["a", "b"]},
        {"shape": [2**63], "dtype": "<f4"},
        {"shape": [1] * 65, "dtype": "<f4"},
        {"shape": [10**7, 10**7], "dtype": "<i4", "chunk_shape": [10**6, 10**6]},
        {"shape": [2, 3], "dtype": "<f4", "dimensions": ["a", "a"]},
        {"shape": [2, 3], "dtype": "<f4", "dimensions": ["a", "b/c"]},
        [],
    ],
)
def test_a_wrong_info_json_is_refused_and_the_group_stays(
    fs: TreeFileSystem, store: ZMap, info: object
) -> None:
    """SEMANTICS W13."""
    path = "datasets/n.zarr/g/w"
    with pytest.raises(BadArgument, match=r"g/w/info.json"):
        declare(fs, path, info)
    assert json.loads(read(fs, f"{path}/info.json"))["variables"] == []
    with open_zmap(Prefixed(store, parse_prefix("n.zarr"))) as root:
        assert list(root.groups["g"].groups) == ["w"]
        assert not root.groups["g"].dimensions


def test_the_info_json_of_strings_of_any_length_declares_others(
    fs: TreeFileSystem, store: ZMap
) -> None:
    """SEMANTICS W13."""
    with open_zmap(Prefixed(store, parse_prefix("p.zarr")), "w", format="zarr2") as root:
        root.create_dimension("x", 2)
        root.create_variable("s", ("x",), str, np.array(["a", "bc"], object))
    fs.refresh("")
    known = json.loads(read(fs, "datasets/p.zarr/s/info.json"))
    declare(fs, "datasets/p.zarr/copy", known)
    made = json.loads(read(fs, "datasets/p.zarr/copy/info.json"))
    assert (made["codecs"], made["dtype"]) == (known["codecs"], "|O")


@pytest.mark.parametrize("kind", ["zarr2", "zarr3", "nczarr"])
@pytest.mark.parametrize("dtype", ["string", "|O", "object"])
def test_an_info_json_can_call_strings_of_any_length_as_zarr_does(
    fs: TreeFileSystem, store: ZMap, kind: str, dtype: str
) -> None:
    """SEMANTICS W13. "string" is the name of Zarr v3."""
    with open_zmap(Prefixed(store, parse_prefix("p.zarr")), "w", format=kind) as root:
        root.create_dimension("x", 2)
    fs.refresh("")
    declare(fs, "datasets/p.zarr/s", {"shape": [2], "dtype": dtype, "dimensions": ["x"]})
    with open_zmap(Prefixed(store, parse_prefix("p.zarr"))) as root:
        assert root.variables["s"][...].tolist() == ["", ""]


@pytest.mark.parametrize("fill", [7.5, "NaN", "-Infinity"])
def test_the_fill_value_of_an_info_json_is_of_the_type_of_its_variable(
    fs: TreeFileSystem, store: ZMap, fill: object
) -> None:
    """SEMANTICS W13."""
    info = {"shape": [2], "dtype": "<f4", "fill_value": fill, "attributes": {"_FillValue": fill}}
    declare(fs, "datasets/n.zarr/w", info)
    shown = json.loads(read(fs, "datasets/n.zarr/w/info.json"))
    assert (shown["fill_value"], shown["attributes"]) == (fill, {"_FillValue": fill})
    with open_zmap(Prefixed(store, parse_prefix("n.zarr"))) as root:
        assert [a.type for a in root.variables["w"].description.attributes] == [NcType.FLOAT]


def test_a_fill_value_that_is_written_gets_the_type_of_its_variable(
    fs: TreeFileSystem, store: ZMap
) -> None:
    """SEMANTICS W36."""
    declare(fs, "datasets/n.zarr/w", {"shape": [2], "dtype": "<f4"})
    echo(fs, "datasets/n.zarr/w/attributes/_FillValue", "-999")
    with open_zmap(Prefixed(store, parse_prefix("n.zarr"))) as root:
        (attribute,) = root.variables["w"].description.attributes
        assert attribute == Attribute("_FillValue", NcType.FLOAT, (-999.0,))


@pytest.mark.parametrize("text", ["1.5", "70000", "1 2", "none"])
def test_a_fill_value_that_is_none_of_the_type_is_refused(fs: TreeFileSystem, text: str) -> None:
    """SEMANTICS W36."""
    declare(fs, "datasets/n.zarr/w", {"shape": [2], "dtype": "<i2"})
    with pytest.raises(BadValue, match="_FillValue"):
        echo(fs, "datasets/n.zarr/w/attributes/_FillValue", text)


def test_only_an_empty_group_becomes_a_variable(fs: TreeFileSystem) -> None:
    """SEMANTICS W13."""
    fs.mkdir(find(fs, "datasets/n.zarr/g").ino, b"inner", 0o755)
    for path in ("g", "", "v"):
        with pytest.raises(NotPermitted):
            echo(fs, f"datasets/n.zarr/{path}/info.json", '{"shape": [2], "dtype": "<f4"}')
