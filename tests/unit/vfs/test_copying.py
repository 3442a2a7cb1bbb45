"""Copying into a mount with ``--views copy``: what new directories show, hold and refuse."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest

from nczfs.errors import (
    BadArgument,
    BadValue,
    CrossesTrees,
    NoSpace,
    NoSuchPath,
    NotPermitted,
    PathExists,
)
from nczfs.library.opening import open_zmap
from nczfs.testing.datasets import put_group, put_json
from nczfs.vfs.base import AttributeChanges, HandleNo
from nczfs.vfs.filesystem import TreeFileSystem
from nczfs.vfs.tree import VfsOptions, mount_tree
from nczfs.zmap.base import ZMap
from nczfs.zmap.keys import parse_key, parse_prefix
from nczfs.zmap.registry import open_store
from nczfs.zmap.wrappers import Prefixed
from tests.support.trees import exists, find, listing, read
from tests.support.writing import (
    close,
    mkdir,
    open_file,
    rename,
    rmdir,
    split,
    truncate,
    unlink,
    write,
)

_stores = itertools.count()

A, B = "datasets/a.zarr", "datasets/b.zarr"
VALUES = np.arange(6, dtype="<f4").reshape(2, 3)
RAW = VALUES.tobytes()
Mount = Callable[..., TreeFileSystem]


@pytest.fixture
def url() -> str:
    return f"memory://copying{next(_stores)}"


@pytest.fixture
def store(url: str) -> ZMap:
    store = open_store(url)
    with open_zmap(Prefixed(store, parse_prefix("a.zarr")), "w") as root:
        root.create_dimension("t", None)
        root.create_dimension("x", 3)
        attributes = {"units": "K", "count": np.int16(3)}
        root.create_variable("v", ("t", "x"), "<f4", VALUES, attributes=attributes)
        root.create_group("g").attrs["title"] = "t"
    return store


@pytest.fixture
def mount(url: str, store: ZMap, tmp_path: Path) -> Iterator[Mount]:
    made: list[TreeFileSystem] = []

    def mount(views: tuple[str, ...] | None = ("copy",), **options: Any) -> TreeFileSystem:
        chosen = {"read_only": False, "spool_dir": tmp_path / "spool", **options}
        words = None if views is None else frozenset(views)
        made.append(mount_tree(url, options=VfsOptions(views=words, **chosen)))
        return made[-1]

    yield mount
    for fs in made:
        fs.close()
    assert not list((tmp_path / "spool").glob("*"))


@pytest.fixture
def fs(mount: Mount) -> TreeFileSystem:
    return mount()


def create(fs: TreeFileSystem, path: str, data: bytes = b"", *, excl: bool = True) -> HandleNo:
    """Make a file as cp does in a directory that it has made itself, and write to it."""
    flags = os.O_WRONLY | os.O_CREAT | (os.O_EXCL if excl else 0)
    opened, _ = fs.create(*split(fs, path), flags, 0o644)
    if data:
        fs.write(opened.handle, 0, data)
    return opened.handle


def put(fs: TreeFileSystem, path: str, data: bytes) -> None:
    close(fs, create(fs, path, data))


def arrays(store: ZMap, name: str = "b.zarr") -> dict[str, Any]:
    """As somebody reads them who shares nothing with the mount."""
    with open_zmap(Prefixed(store, parse_prefix(name))) as root:
        return {name: np.asarray(variable[...]) for name, variable in root.variables.items()}


def names(fs: TreeFileSystem, path: str) -> set[str]:
    return set(listing(fs, path))


def problems(fs: TreeFileSystem, path: str) -> list[str]:
    found: list[str] = json.loads(read(fs, f"{path}/info.json"))["problems"]
    return found


@pytest.fixture
def document(fs: TreeFileSystem) -> bytes:
    return read(fs, f"{A}/v/info.json")


@pytest.fixture
def new(fs: TreeFileSystem) -> str:
    """A new directory in a new dataset."""
    mkdir(fs, B)
    mkdir(fs, f"{B}/v")
    return f"{B}/v"


# -- what is shown


def test_each_value_is_shown_once(mount: Mount, store: ZMap) -> None:
    """SEMANTICS W93."""
    with open_zmap(Prefixed(store, parse_prefix("p.zarr")), "w", format="zarr2") as root:
        root.create_variable("s", (2,), str)
    fs = mount()
    assert names(fs, A) == {"info.json", "attributes", "v", "g"}
    assert list(listing(fs, f"{A}/v")) == ["info.json", "attributes", "values.raw"]
    assert names(fs, "datasets/p.zarr/s") == {"info.json", "attributes", "values.txt"}
    for hidden in (f"{A}/v/values.npy", f"{A}/v/chunks", f"{A}/a.cdl"):
        assert not exists(fs, hidden)
    assert exists(mount(views=("copy", "cdl")), f"{A}/a.cdl")


def test_a_new_directory_shows_what_is_put_into_it(
    fs: TreeFileSystem, new: str, document: bytes
) -> None:
    """SEMANTICS W29."""
    assert names(fs, B) == {"v"}
    assert names(fs, new) == set()
    with pytest.raises(NoSuchPath):
        find(fs, f"{new}/attributes")
    put(fs, f"{new}/info.json", document)
    assert names(fs, new) == {"info.json"}
    mkdir(fs, f"{new}/attributes")
    assert names(fs, f"{new}/attributes") == set()
    put(fs, f"{new}/attributes/units", b"K\n")
    assert names(fs, f"{new}/attributes") == {"units"}
    with pytest.raises(PathExists):
        create(fs, f"{new}/attributes/units")
    fs.refresh(f"{new}")
    assert names(fs, new) == {"info.json", "attributes", "values.raw"}
    assert names(fs, f"{new}/attributes") == {"units", "count"}


def test_the_next_mount_shows_everything(mount: Mount) -> None:
    """SEMANTICS W29."""
    fs = mount()
    mkdir(fs, B)
    assert names(fs, B) == set()
    assert names(mount(), B) == {"info.json", "attributes"}


def test_modes_owners_and_times_are_taken(fs: TreeFileSystem, new: str, document: bytes) -> None:
    """SEMANTICS W29."""
    handle = create(fs, f"{new}/info.json", document)
    changes = AttributeChanges(mode=0o400, uid=7, gid=8, mtime_ns=1, atime_ns=1)
    paths = [A, f"{A}/v", f"{A}/v/info.json", f"{A}/v/values.raw", f"{A}/v/attributes"]
    paths += [f"{A}/v/attributes/units", f"{A}/info.json", f"{new}/info.json", new]
    for path in paths:
        before = find(fs, path)
        after = fs.setattr(before.ino, changes, None)
        assert (after.mode, after.uid, after.gid) == (before.mode, before.uid, before.gid)
    fs.setattr(find(fs, f"{new}/info.json").ino, changes, handle)
    close(fs, handle)


def test_modes_and_owners_are_refused_where_nothing_is_copied(mount: Mount) -> None:
    """SEMANTICS W11."""
    fs = mount(views=None)
    for path in (A, f"{A}/v/values.raw", f"{A}/v/info.json", f"{A}/v/chunks", f"{A}/a.cdl"):
        ino = find(fs, path).ino
        with pytest.raises(NotPermitted):
            fs.setattr(ino, AttributeChanges(mode=0o400), None)
        fs.setattr(ino, AttributeChanges(mtime_ns=1, atime_ns=1), None)


def test_a_mount_that_is_read_only_takes_nothing(mount: Mount) -> None:
    """SEMANTICS L1."""
    fs = mount(read_only=True)
    assert names(fs, f"{A}/v") == {"info.json", "attributes", "values.raw"}
    with pytest.raises(Exception, match="read-only"):
        mkdir(fs, B)


# -- values before their variable


@pytest.mark.parametrize("is_renamed", [False, True])
def test_values_wait_for_their_variable(
    fs: TreeFileSystem, store: ZMap, new: str, document: bytes, is_renamed: bool
) -> None:
    """SEMANTICS W30."""
    name = ".values.raw.aB3xYz" if is_renamed else "values.raw"
    handle = create(fs, f"{new}/{name}", RAW[:9])
    fs.write(handle, 9, RAW[9:])
    with pytest.raises(BadArgument, match=r"info\.json"):
        fs.fsync(handle, data_only=False)
    close(fs, handle)
    assert (names(fs, new), find(fs, f"{new}/{name}").size) == ({name}, len(RAW))
    assert read(fs, f"{new}/{name}") == RAW
    if is_renamed:
        rename(fs, f"{new}/{name}", f"{new}/values.raw")
    assert names(fs, new) == {"values.raw"}
    put(fs, f"{new}/info.json", document)
    assert names(fs, new) == {"values.raw", "info.json"}
    np.testing.assert_array_equal(arrays(store)["v"], VALUES)
    assert read(fs, f"{new}/values.raw") == RAW


def test_a_variable_that_values_do_not_fit_is_refused_by_the_write(
    fs: TreeFileSystem, store: ZMap, new: str, document: bytes
) -> None:
    """SEMANTICS W30."""
    put(fs, f"{new}/values.raw", RAW[:-4])
    handle = create(fs, f"{new}/info.json")
    with pytest.raises(BadArgument, match="20 bytes already, and the variable 24"):
        fs.write(handle, 0, document)
    close(fs, handle)
    assert arrays(store) == {}
    truncate(fs, f"{new}/values.raw", 24)
    write(fs, f"{new}/info.json", document)
    assert arrays(store)["v"].tolist() == [[0, 1, 2], [3, 4, 0]]


def test_values_that_are_still_written_go_to_their_variable_at_their_close(
    fs: TreeFileSystem, store: ZMap, new: str, document: bytes
) -> None:
    """SEMANTICS W30."""
    handle = create(fs, f"{new}/values.raw", RAW[:9])
    put(fs, f"{new}/info.json", document)
    fs.write(handle, 9, RAW[9:])
    fs.fsync(handle, data_only=False)
    np.testing.assert_array_equal(arrays(store)["v"], VALUES)
    fs.write(handle, 0, b"\0\0\x80\x3f")
    close(fs, handle)
    assert arrays(store)["v"][0].tolist() == [1, 1, 2]


def test_values_that_have_no_room_are_refused(mount: Mount) -> None:
    """SEMANTICS W30."""
    fs = mount(spool_bytes_max=100)
    mkdir(fs, B)
    mkdir(fs, f"{B}/v")
    handle = create(fs, f"{B}/v/values.raw", bytes(80))
    with pytest.raises(NoSpace, match="--max-spool-size"):
        fs.write(handle, 80, bytes(80))
    close(fs, handle)
    assert find(fs, f"{B}/v/values.raw").size == 80
    unlink(fs, f"{B}/v/values.raw")
    close(fs, create(fs, f"{B}/v/values.raw", bytes(90)))
    unlink(fs, f"{B}/v/values.raw")


def test_what_never_comes_to_its_place_is_dropped_and_the_log_says_so(
    fs: TreeFileSystem, store: ZMap, expected_warnings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """SEMANTICS W104."""
    expected_warnings.add("24 bytes are dropped")
    mkdir(fs, B)
    for name in ("v", "w"):
        mkdir(fs, f"{B}/{name}")
        put(fs, f"{B}/{name}/values.raw", RAW)
    with pytest.raises(NotPermitted):
        rmdir(fs, f"{B}/w")
    unlink(fs, f"{B}/w/values.raw")
    rmdir(fs, f"{B}/w")
    fs.close()
    assert caplog.text.count("b.zarr/v/values.raw: 24 bytes are dropped") == 1
    assert arrays(store) == {}


def test_a_file_that_is_held_and_was_removed_can_be_written_until_it_is_closed(
    fs: TreeFileSystem, new: str, store: ZMap
) -> None:
    """SEMANTICS W30."""
    handle = create(fs, f"{new}/values.raw", RAW)
    unlink(fs, f"{new}/values.raw")
    fs.write(handle, 24, b"more")
    assert bytes(fs.read(handle, 20, 8)) == RAW[20:] + b"more"
    close(fs, handle)
    assert names(fs, new) == set()


# -- values of a variable that is known


def test_values_go_to_a_new_variable_as_they_come(
    fs: TreeFileSystem, store: ZMap, new: str, document: bytes, tmp_path: Path
) -> None:
    """SEMANTICS W31."""
    put(fs, f"{new}/info.json", document)
    handle = create(fs, f"{new}/values.raw", RAW[:12])
    assert not list((tmp_path / "spool").glob("*/*"))
    with pytest.raises(BadArgument, match="12 bytes were written, and it has 24"):
        fs.flush(handle)
    fs.write(handle, 12, RAW[12:])
    close(fs, handle)
    assert problems(fs, new) == []
    np.testing.assert_array_equal(arrays(store)["v"], VALUES)


def test_bytes_that_are_skipped_are_zeros(
    fs: TreeFileSystem, store: ZMap, new: str, document: bytes
) -> None:
    """SEMANTICS W31."""
    put(fs, f"{new}/info.json", document)
    handle = create(fs, f"{new}/values.raw")
    fs.write(handle, 8, RAW[8:12])
    fs.setattr(find(fs, f"{new}/values.raw").ino, AttributeChanges(size=24), handle)
    close(fs, handle)
    assert arrays(store)["v"].tolist() == [[0, 0, 2], [0, 0, 0]]


def test_too_many_and_too_few_bytes_are_refused(
    fs: TreeFileSystem, store: ZMap, document: bytes, new: str
) -> None:
    """SEMANTICS W31."""
    fixed = json.loads(document)
    for dimension in fixed["dimensions"]:
        dimension["unlimited"] = False
    put(fs, f"{new}/info.json", json.dumps(fixed).encode())
    handle = create(fs, f"{new}/values.raw", RAW[:12])
    with pytest.raises(BadArgument):
        close(fs, handle)
    assert "12 bytes were written" in problems(fs, new)[0]
    handle = open_file(fs, f"{new}/values.raw", os.O_WRONLY)
    fs.write(handle, 12, RAW[12:])
    close(fs, handle)
    mkdir(fs, f"{B}/w")
    put(fs, f"{B}/w/info.json", json.dumps(fixed).encode())
    handle = create(fs, f"{B}/w/values.raw", RAW)
    with pytest.raises(NotPermitted, match="ends at byte 24"):
        fs.write(handle, 24, b"more")
    close(fs, handle)
    np.testing.assert_array_equal(arrays(store)["v"], VALUES)
    np.testing.assert_array_equal(arrays(store)["w"], VALUES)


# -- names


def test_a_temporary_file_becomes_what_its_name_says(
    fs: TreeFileSystem, store: ZMap, new: str, document: bytes
) -> None:
    """SEMANTICS W28."""
    mkdir(fs, f"{new}/attributes")
    contents = {"info.json": document, "values.raw": RAW, "attributes/units": b"m\n"}
    for path, data in contents.items():
        directory, _, name = f"{new}/{path}".rpartition("/")
        put(fs, f"{directory}/.{name}.aB3xYz", data)
        rename(fs, f"{directory}/.{name}.aB3xYz", f"{directory}/{name}")
        assert not exists(fs, f"{directory}/.{name}.aB3xYz")
    np.testing.assert_array_equal(arrays(store)["v"], VALUES)
    assert names(fs, new) == {"info.json", "values.raw", "attributes"}
    assert read(fs, f"{new}/attributes/units") == b"m\n"


def test_a_temporary_file_goes_nowhere_else(fs: TreeFileSystem, new: str, document: bytes) -> None:
    """SEMANTICS W93."""
    put(fs, f"{new}/.info.json.aB3xYz", b"[]")
    with pytest.raises(NotPermitted):
        rename(fs, f"{new}/.info.json.aB3xYz", f"{new}/other")
    with pytest.raises(CrossesTrees):
        rename(fs, f"{new}/.info.json.aB3xYz", f"{B}/info.json")
    with pytest.raises(BadArgument):
        rename(fs, f"{new}/.info.json.aB3xYz", f"{new}/info.json")
    assert names(fs, new) == {".info.json.aB3xYz"}
    put(fs, f"{new}/info.json", document)
    put(fs, f"{new}/.info.json.aB3xYy", document)
    with pytest.raises(PathExists):
        rename(fs, f"{new}/.info.json.aB3xYy", f"{new}/info.json", replace=False)
    rename(fs, f"{new}/.info.json.aB3xYy", f"{new}/info.json")
    unlink(fs, f"{new}/.info.json.aB3xYz")
    assert names(fs, new) == {"info.json"}


@pytest.mark.parametrize(
    "name", ["values.npy", "values.txt", "b.cdl", "0.0", ".x", ".values.npy.aB3xYz", "notes"]
)
def test_what_only_repeats_others_is_refused(
    fs: TreeFileSystem, new: str, document: bytes, name: str
) -> None:
    """SEMANTICS W93."""
    put(fs, f"{new}/info.json", document)
    with pytest.raises(NotPermitted, match=r"only info\.json, values\.raw"):
        create(fs, f"{new}/{name}")
    assert problems(fs, new)[0].startswith(f"{name}: ")


def test_members_that_are_called_like_a_file_keep_their_names(
    fs: TreeFileSystem, store: ZMap
) -> None:
    """SEMANTICS W28, D11."""
    with open_zmap(Prefixed(store, parse_prefix("n.zarr")), "w") as root:
        root.create_group("attributes").create_group("info.json")
    mkdir(fs, B)
    mkdir(fs, f"{B}/attributes")
    mkdir(fs, f"{B}/attributes~")
    mkdir(fs, f"{B}/attributes~/info.json~")
    fs.refresh("")
    assert names(fs, B) == names(fs, "datasets/n.zarr")
    with open_zmap(Prefixed(store, parse_prefix("b.zarr"))) as root:
        assert list(root.groups) == ["attributes"]
        assert list(root.groups["attributes"].groups) == ["info.json"]


def test_attributes_keep_names_that_are_none_of_netcdf(fs: TreeFileSystem, store: ZMap) -> None:
    """SEMANTICS W28."""
    put_group(store, "p.zarr", {"a/b": 1, ".x": "y", " z": 2.5})
    fs.refresh("")
    shown = names(fs, "datasets/p.zarr/attributes")
    mkdir(fs, B)
    mkdir(fs, f"{B}/attributes")
    for name in sorted(shown):
        put(fs, f"{B}/attributes/{name}", read(fs, f"datasets/p.zarr/attributes/{name}"))
    put(fs, f"{B}/info.json", read(fs, "datasets/p.zarr/info.json"))
    assert names(fs, f"{B}/attributes") == shown
    document = json.loads(bytes(store.read(parse_key("b.zarr/.zattrs")).data))
    assert document == {"a/b": 1, ".x": "y", " z": 2.5}
    with pytest.raises(NotPermitted):
        create(fs, f"{B}/attributes/_ARRAY_DIMENSIONS")


# -- once more


def test_a_variable_takes_its_document_once_more_and_grows(
    fs: TreeFileSystem, store: ZMap, new: str, document: bytes
) -> None:
    """SEMANTICS W29."""
    put(fs, f"{new}/info.json", document)
    put(fs, f"{new}/values.raw", RAW)
    write(fs, f"{new}/info.json", document)
    longer = json.loads(document)
    longer["shape"][0] = longer["dimensions"][0]["size"] = 3
    longer["attributes"]["units"] = "m"
    write(fs, f"{new}/info.json", json.dumps(longer).encode())
    put(fs, f"{new}/.values.raw.aB3xYz", RAW + RAW[:12])
    rename(fs, f"{new}/.values.raw.aB3xYz", f"{new}/values.raw")
    assert arrays(store)["v"].tolist() == [[0, 1, 2], [3, 4, 5], [0, 1, 2]]
    fs.refresh(new)
    assert read(fs, f"{new}/attributes/units") == b"m\n"
    other = longer | {"chunk_shape": [1, 1]}
    with pytest.raises(NotPermitted, match="another variable"):
        write(fs, f"{new}/info.json", json.dumps(other).encode())


# -- formats


def test_the_first_document_tells_the_format_of_a_new_dataset(
    fs: TreeFileSystem, store: ZMap
) -> None:
    """SEMANTICS W92."""
    for name, format in (("p.zarr", "zarr2"), ("q.zarr", "nczarr-L1")):
        with open_zmap(Prefixed(store, parse_prefix(name)), "w", format=format) as root:
            root.create_variable("v", (2,), "<i4" if format != "zarr2" else "?")
    fs.refresh("")
    mkdir(fs, B)
    mkdir(fs, f"{B}/g")
    mkdir(fs, f"{B}/attributes")
    put(fs, f"{B}/attributes/title", b"kept\n")
    mkdir(fs, f"{B}/g/v")
    put(fs, f"{B}/g/v/info.json", read(fs, "datasets/p.zarr/v/info.json"))
    mkdir(fs, f"{B}/w")
    put(fs, f"{B}/w/info.json", read(fs, "datasets/q.zarr/v/info.json"))
    with open_zmap(Prefixed(store, parse_prefix("b.zarr"))) as root:
        assert root.stored.format == "zarr2"
        assert root.attrs["title"] == "kept"
        assert root.variables["w"].dtype == np.int32
        assert root.groups["g"].variables["v"].dtype == np.bool_


def test_a_format_that_is_not_written_here_is_passed_over(
    fs: TreeFileSystem, store: ZMap, new: str, document: bytes
) -> None:
    """SEMANTICS W28."""
    other = json.loads(document) | {"format": "zarr9"}
    put(fs, f"{new}/info.json", json.dumps(other).encode())
    with open_zmap(Prefixed(store, parse_prefix("b.zarr"))) as root:
        assert root.stored.format == "nczarr-L3"


# -- elements of variable length

ELEMENTS: dict[str, tuple[dict[str, Any], list[Any]]] = {
    "texts": ({"id": "vlen-utf8"}, ["", "zwölf", 'with "quotes"\n\x85\u2028', "x" * 5000]),
    "bytes": ({"id": "vlen-bytes"}, [b"", b"\0\xff", b"abc\n", b"]"]),
    "arrays": (
        {"id": "vlen-array", "dtype": "<f4"},
        [np.array(v, "<f4") for v in ([], [1.5], [0.1, np.nan, np.inf], [2, 3])],
    ),
    "json": ({"id": "json2"}, [None, {"a": [1, 2.5]}, "text", [True, []]]),
}


@pytest.mark.parametrize("kind", ELEMENTS)
@pytest.mark.parametrize("is_first", [False, True])
def test_elements_of_variable_length_are_copied_by_their_lines(
    fs: TreeFileSystem, store: ZMap, kind: str, is_first: bool
) -> None:
    """SEMANTICS W28, W93, D16."""
    config, elements = ELEMENTS[kind]
    codec = numcodecs.get_codec(dict(config))
    values = np.empty(4, object)
    values[:] = elements
    put_group(store, "p.zarr")
    document = {"zarr_format": 2, "shape": [4], "chunks": [2], "dtype": "|O", "order": "C"}
    document |= {"filters": [codec.get_config()], "compressor": None, "fill_value": 0}
    put_json(store, "p.zarr/s/.zarray", document)
    for chunk in range(2):
        data = codec.encode(values[2 * chunk : 2 * chunk + 2])
        store.write(parse_key(f"p.zarr/s/{chunk}"), bytes(data))
    fs.refresh("")
    assert names(fs, "datasets/p.zarr/s") == {"info.json", "attributes", "values.txt"}
    mkdir(fs, B)
    mkdir(fs, f"{B}/s")
    order = ["values.txt", "info.json"] if is_first else ["info.json", "values.txt"]
    for name in order:
        put(fs, f"{B}/s/{name}", read(fs, f"datasets/p.zarr/s/{name}"))
    for chunk in range(2):
        copies = [bytes(store.read(parse_key(f"{d}.zarr/s/{chunk}")).data) for d in "pb"]
        assert copies[0] == copies[1]
    assert read(fs, f"{B}/s/values.txt") == read(fs, "datasets/p.zarr/s/values.txt")


@pytest.mark.parametrize(
    ("lines", "error"),
    [
        (b'"a"\n', BadArgument),
        (b'"a"\n"b"\n"c"\n', BadArgument),
        (b'"a"\n7\n', BadValue),
        (b'"a"\nb\n', BadValue),
        (b'"a"\n' + b"[" * 10**5 + b"\n", BadValue),
    ],
)
def test_lines_that_are_not_the_elements_change_nothing(
    fs: TreeFileSystem, store: ZMap, lines: bytes, error: type[Exception]
) -> None:
    """SEMANTICS W28."""
    with open_zmap(Prefixed(store, parse_prefix("p.zarr")), "w", format="zarr2") as root:
        root.create_dimension("x", 2)
        root.create_variable("s", ("x",), str, np.array(["one", "two"], object))
    fs.refresh("")
    path = "datasets/p.zarr/s/values.txt"
    with pytest.raises(error, match=r"values\.txt"):
        write(fs, path, lines)
    assert read(fs, path) == b'"one"\n"two"\n'
    write(fs, path, b'"three"\n"four"')
    assert read(fs, path) == b'"three"\n"four"\n'
    assert arrays(store, "p.zarr")["s"].tolist() == ["three", "four"]


def test_values_of_another_kind_than_the_variable_copies_are_refused(
    fs: TreeFileSystem, store: ZMap, new: str, document: bytes
) -> None:
    """SEMANTICS W93."""
    put(fs, f"{new}/values.txt", b"1\n")
    with pytest.raises(BadArgument, match="values of type <f4 cannot be copied through this file"):
        put(fs, f"{new}/info.json", document)
    unlink(fs, f"{new}/values.txt")


@pytest.mark.parametrize("path", ["", "g"])
def test_values_are_not_held_where_no_variable_can_be(fs: TreeFileSystem, path: str) -> None:
    """SEMANTICS W30."""
    mkdir(fs, B)
    if path:
        mkdir(fs, f"{B}/{path}")
        mkdir(fs, f"{B}/{path}/inner")
    with pytest.raises(NotPermitted, match=r"only info\.json and attributes/"):
        create(fs, f"{B}/{path}/values.raw".replace("//", "/"))


def test_where_values_wait_no_group_is_made(
    fs: TreeFileSystem, store: ZMap, new: str, document: bytes
) -> None:
    """SEMANTICS W103: nothing could become of the values afterwards."""
    put(fs, f"{new}/values.raw", RAW)
    with pytest.raises(NotPermitted, match=r"values wait here for the info\.json"):
        mkdir(fs, f"{new}/chunks")
    mkdir(fs, f"{new}/attributes")
    put(fs, f"{new}/info.json", document)
    np.testing.assert_array_equal(arrays(store)["v"], VALUES)
