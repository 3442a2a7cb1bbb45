"""Copies of arrays of every kind, made file by file in a mount with ``--views copy``."""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from nczfs.library.opening import open_zmap
from nczfs.testing.datasets import put_group, put_json
from nczfs.vfs.base import FileKind
from nczfs.vfs.filesystem import TreeFileSystem
from nczfs.vfs.tree import VfsOptions, mount_tree
from nczfs.zmap.base import ZMap
from nczfs.zmap.keys import parse_key, parse_prefix
from nczfs.zmap.registry import open_store
from nczfs.zmap.wrappers import Prefixed
from tests.support.arrays import RECORD, Array
from tests.support.copies import checksums
from tests.support.trees import listing, read
from tests.support.writing import close, mkdir, open_file

_stores = itertools.count()

TYPES: dict[str, list[Any]] = {
    "|b1": [None, True],
    "|i1": [None, -3],
    "|u1": [0, 255],
    ">i2": [None, -300],
    "<u4": [0, 2**32 - 1],
    "<i8": [None, -(2**63)],
    ">u8": [2**64 - 1],
    "<f2": ["NaN", 0.5],
    "<f4": [None, "NaN", "-Infinity", 0.1, 9.96921e36],
    ">f8": [0, 0.1, -0.0],
    "<c8": [None, ["NaN", 0.5]],
    ">c16": [[1.5, "Infinity"]],
    "|S1": [None, "eA=="],
    "|S5": [None, "AAAAAAA=", "6XgAAAA="],
    "<U3": [None, "", "zé"],
    ">U1": ["é"],
    "<M8[ns]": [None, "NaT", 981173106000000000],
    ">m8[D]": ["NaT", -7],
    "|V6": [None, "YWJj/wAA"],
}
OBJECTS: dict[str, list[Any]] = {
    "vlen-utf8": [None, 0, "", "ü"],
    "vlen-bytes": [None, "", "/w=="],
    "vlen-array": [None],
    "json2": [None, 0, False, "", "x", {"a": 1}],
}
CODECS: dict[str, tuple[list[dict[str, Any]] | None, dict[str, Any] | None]] = {
    "none": (None, None),
    "zlib": (None, {"id": "zlib", "level": 9}),
    "blosc": (
        None,
        {"id": "blosc", "cname": "zstd", "clevel": 3, "shuffle": 2, "blocksize": 4096},
    ),
    "shuffle and zstd": ([{"id": "shuffle", "elementsize": 4}], {"id": "zstd", "level": 1}),
    "delta": ([{"id": "delta", "dtype": "<f4", "astype": "<f4"}], {"id": "bz2", "level": 1}),
    "packed": (
        [{"id": "fixedscaleoffset", "scale": 10, "offset": 1, "dtype": "<f4", "astype": "<i2"}],
        None,
    ),
    "a checksum": ([{"id": "crc32"}], None),
    "a checksum behind": ([{"id": "zlib", "level": 1}, {"id": "adler32"}], None),
    "lzma": (
        None,
        {
            "id": "lzma",
            "format": 1,
            "check": -1,
            "preset": None,
            "filters": [{"id": 33, "preset": 1}],
        },
    ),
}
SHAPES: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "a scalar": ((), ()),
    "no elements": ((0,), (4,)),
    "an empty row": ((3, 0, 2), (2, 1, 2)),
    "one chunk": ((3, 2), (3, 2)),
    "chunks beyond the edge": ((3, 2), (5, 4)),
    "edges": ((5, 7, 3), (2, 3, 2)),
    "chunks of one": ((3,), (1,)),
}


def cases() -> Iterator[tuple[str, Array]]:
    """Every dtype with every fill value; every codec and shape in both orders."""
    for dtype, fills in TYPES.items():
        for fill in fills:
            yield f"{dtype} {fill}", Array(dtype, fill)
        yield f"{dtype} F", Array(dtype, fills[0], order="F")
    record = Array(RECORD, None)
    item = np.ones((), record.numpy_dtype)
    yield "record", record
    yield "record with a fill value", replace(record, fill_value=base64_of(item.tobytes()))
    yield "record F", replace(record, order="F", separator="/")
    for codec, fills in OBJECTS.items():
        filters = [{"id": codec} | ({"dtype": "<i2"} if codec == "vlen-array" else {})]
        for fill in fills:
            yield f"{codec} {fill!r}", Array("|O", fill, filters=filters)
        yield f"{codec} F", Array("|O", fills[0], filters=filters, order="F", separator="/")
    for name, (filters_, compressor) in CODECS.items():
        for order, separator in (("C", "/"), ("F", "."), ("F", "/")):
            array = Array(filters=filters_, compressor=compressor, order=order, separator=separator)
            yield f"{name} {order} {separator}", array
    for name, (shape, chunks) in SHAPES.items():
        for order, separator in itertools.product("CF", "./"):
            array = Array("<i4", -1, shape, chunks, order, separator)
            yield f"{name} {order} {separator}", array
    yield "attributes", Array(attributes={"units": "K", "_FillValue": 0, "odd": [1, {"a": None}]})


def base64_of(data: bytes) -> str:
    return base64.b64encode(data).decode()


CASES = dict(cases())


def copy(fs: TreeFileSystem, source: str, target: str) -> None:
    """What ``cp -r`` does."""
    mkdir(fs, target)
    for name, attributes in listing(fs, source).items():
        if attributes.kind is FileKind.DIRECTORY:
            copy(fs, f"{source}/{name}", f"{target}/{name}")
        else:
            handle = open_file(fs, f"{target}/{name}", 0o301)  # O_WRONLY | O_CREAT | O_EXCL
            if data := read(fs, f"{source}/{name}"):
                fs.write(handle, 0, data)
            close(fs, handle)


def copy_in_a_mount(url: str, tmp_path: Path) -> None:
    options = VfsOptions(read_only=False, views=frozenset({"copy"}), spool_dir=tmp_path / "spool")
    fs = mount_tree(url, options=options)
    copy(fs, "datasets/a.zarr", "datasets/b.zarr")
    fs.close()


def document(store: ZMap, path: str) -> Any:
    return json.loads(bytes(store.read(parse_key(f"{path}/.zarray")).data))


def test_each_kind_of_array_is_copied_to_the_letter(tmp_path: Path) -> None:
    """SEMANTICS W28."""
    url = f"memory://arrays{next(_stores)}"
    store = open_store(url)
    put_group(store, "a.zarr", {"title": "t"})
    for number, array in enumerate(CASES.values()):
        array.put(store, f"a.zarr/v{number}")
    copy_in_a_mount(url, tmp_path)
    different = {}
    for number, name in enumerate(CASES):
        documents = [document(store, f"{dataset}.zarr/v{number}") for dataset in "ab"]
        if documents[0] != documents[1]:
            different[name] = {
                member: [d.get(member) for d in documents]
                for member in documents[0] | documents[1]
                if documents[0].get(member) != documents[1].get(member)
            }
    assert different == {}
    assert checksums(f"{url}/b.zarr") == checksums(f"{url}/a.zarr")
    assert_sound(store)


def assert_sound(store: ZMap) -> None:
    for dataset in "ab":
        with open_zmap(Prefixed(store, parse_prefix(f"{dataset}.zarr"))) as root:
            assert root.problems == ()


def test_in_nczarr_chunks_come_out_in_the_order_that_netcdf_c_reads(tmp_path: Path) -> None:
    """SEMANTICS W28."""
    url = f"memory://arrays{next(_stores)}"
    store = open_store(url)
    with open_zmap(Prefixed(store, parse_prefix("a.zarr")), "w") as root:
        root.create_dimension("y", 5)
        root.create_dimension("x", 7)
        root.create_variable("v", ("y", "x"), "<f4", chunks=(2, 3), fillvalue=None)
    nczarr = document(store, "a.zarr/v")
    array = Array(order="F", separator="/")
    array.put(store, "a.zarr/v")
    put_json(store, "a.zarr/v/.zarray", nczarr | array.document)
    copy_in_a_mount(url, tmp_path)
    found = document(store, "b.zarr/v")
    assert (found["order"], found["dimension_separator"]) == ("C", "/")
    assert checksums(f"{url}/b.zarr") == checksums(f"{url}/a.zarr")
    assert_sound(store)
