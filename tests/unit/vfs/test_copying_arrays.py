"""Copies of arrays of every kind, made file by file in a mount with ``--views copy``."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

from nczfs.library.opening import open_zmap
from nczfs.testing.datasets import put_group, put_json
from nczfs.vfs.base import FileKind
from nczfs.vfs.filesystem import TreeFileSystem
from nczfs.vfs.tree import VfsOptions, mount_tree
from nczfs.zmap.base import ZMap
from nczfs.zmap.keys import parse_key, parse_prefix
from nczfs.zmap.registry import open_store
from nczfs.zmap.wrappers import Prefixed
from tests.support.array_cases import CASES
from tests.support.arrays import Array
from tests.support.copies import checksums
from tests.support.trees import listing, read
from tests.support.writing import close, mkdir, open_file

_stores = itertools.count()


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


def chained(document: dict[str, Any]) -> dict[str, Any]:
    """The codecs in one list."""
    compressor = document["compressor"]
    codecs = [*(document["filters"] or ()), *([compressor] if compressor else ())]
    return document | {"filters": codecs, "compressor": None}


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
        if name.startswith("a compressor among the filters"):  # info.json has one list of codecs
            documents = [chained(found) for found in documents]
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
    """SEMANTICS W91."""
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
