"""Writing a zom.json while others change the group, and while requests of the store fail."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as StillWaiting
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from nczfs.engine.options import EngineOptions
from nczfs.errors import AccessDenied, BadArgument, NczfsError
from nczfs.library.opening import open_zmap
from nczfs.testing.faults import Fault, Faulty
from nczfs.vfs.filesystem import TreeFileSystem
from nczfs.vfs.tree import VfsOptions
from nczfs.zmap.base import ZMap
from nczfs.zmap.keys import ROOT, Prefix, parse_prefix
from nczfs.zmap.memory import MemoryZMap
from nczfs.zmap.wrappers import Prefixed
from nczfs.zom import declaring
from tests.support.gated import WAIT_S, GatedZMap
from tests.support.trees import read, tree_over
from tests.support.writing import close, open_file, rename, write

FORMATS = ("zarr2", "zarr3")
GROUP = "datasets/d.zarr/g"
BLOCKED_S = 0.2
NEW = {
    "zarr2": {"zarr_format": 2, "attributes": {"b": 1}, "members": {}},
    "zarr3": {"zarr_format": 3, "node_type": "group", "attributes": {"b": 1}, "members": {}},
}


@pytest.fixture
def store() -> GatedZMap:
    return GatedZMap()


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as threads:
        yield threads


def made(store: ZMap, layout: str, **options: Any) -> None:
    with open_zmap(Prefixed(store, parse_prefix("d.zarr")), "w", format=layout, **options) as root:
        root.create_group("g").attrs["a"] = 1


def mounted(store: ZMap, place: Path) -> TreeFileSystem:
    engine = EngineOptions(cache_bytes_max=0, flush_age_s=None)
    options = VfsOptions(engine=engine, read_only=False, allow_delete=True, spool_dir=place)
    return tree_over(store, options)


def changed(fs: TreeFileSystem, layout: str) -> bytes:
    """A hierarchy with another attribute and another member."""
    node = json.loads(read(fs, f"{GROUP}/zom.json"))
    node["attributes"]["a"] = 2
    node["members"]["new"] = NEW[layout]
    return json.dumps(node).encode()


def keys(store: ZMap, prefix: Prefix = ROOT) -> list[str]:
    return sorted(str(stat.key) for stat in store.list(prefix))


def renamed_attributes(store: ZMap, path: str) -> dict[str, object]:
    with open_zmap(Prefixed(store, parse_prefix("e.zarr"))) as root:
        return dict(root[path].attrs)


@pytest.mark.parametrize("layout", FORMATS)
def test_a_group_that_another_client_removes_meanwhile_is_not_made_again(
    store: GatedZMap, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: str
) -> None:
    """SEMANTICS W27."""
    store_attributes = declaring._store_attributes

    def too_late(*arguments: Any) -> None:
        for stat in list(store.list(parse_prefix("d.zarr/g"))):
            MemoryZMap.delete(store, stat.key)
        store_attributes(*arguments)

    monkeypatch.setattr(declaring, "_store_attributes", too_late)
    made(store, layout)
    with closing(mounted(store, tmp_path)) as fs:
        data = changed(fs, layout)
        with pytest.raises(BadArgument, match="another client has removed it"):
            write(fs, f"{GROUP}/zom.json", data)
    assert keys(store, parse_prefix("d.zarr/g")) == []


@pytest.mark.parametrize("layout", FORMATS)
def test_what_is_declared_just_before_a_rename_of_its_directory_is_renamed_with_it(
    store: GatedZMap, tmp_path: Path, threads: ThreadPoolExecutor, layout: str
) -> None:
    """SEMANTICS D33, O27."""
    made(store, layout)
    document = "zarr.json" if layout == "zarr3" else ".zgroup"
    with closing(mounted(store, tmp_path)) as fs:
        data = changed(fs, layout)
        with store.stopping("write", f"d.zarr/g/new/{document}") as gate:
            writing = threads.submit(write, fs, f"{GROUP}/zom.json", data)
            assert gate.reached.wait(WAIT_S)
            renaming = threads.submit(rename, fs, "objects/d.zarr", "objects/e.zarr")
            with suppress(StillWaiting):
                renaming.result(BLOCKED_S)
            gate.open()
            renaming.result(WAIT_S)
            with suppress(NczfsError):  # what remained to be done found no dataset any more
                writing.result(WAIT_S)
    assert renamed_attributes(store, "g")["a"] == 2
    assert renamed_attributes(store, "g/new")["b"] == 1
    assert keys(store, parse_prefix("d.zarr")) == []


@pytest.mark.parametrize("layout", FORMATS)
def test_nothing_is_declared_where_a_dataset_was(
    store: GatedZMap, tmp_path: Path, threads: ThreadPoolExecutor, layout: str
) -> None:
    """SEMANTICS D33, O27."""
    made(store, layout)
    document = "zarr.json" if layout == "zarr3" else ".zgroup"
    with closing(mounted(store, tmp_path)) as fs:
        handle = open_file(fs, f"{GROUP}/zom.json")
        fs.write(handle, 0, changed(fs, layout))
        with store.stopping("delete", f"d.zarr/{document}") as gate:
            renaming = threads.submit(rename, fs, "objects/d.zarr", "objects/e.zarr")
            assert gate.reached.wait(WAIT_S)
            closing_it = threads.submit(fs.flush, handle)
            with suppress(StillWaiting, NczfsError):
                closing_it.result(BLOCKED_S)
            gate.open()
            renaming.result(WAIT_S)
            with pytest.raises(NczfsError):
                closing_it.result(WAIT_S)
        fs.release(handle)
    assert renamed_attributes(store, "g") == {"a": 1}
    assert keys(store, parse_prefix("d.zarr")) == []


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("layout", FORMATS)
def test_whichever_write_fails_the_consolidated_copy_follows(
    tmp_path: Path, layout: str, *, after: bool
) -> None:
    """SEMANTICS D33, W1: what was declared, or a part of it, and the copy agrees at a `sync`."""
    for call in itertools.count():
        memory = MemoryZMap()
        made(memory, layout, consolidated=True)
        store = Faulty(memory)
        with closing(mounted(store, tmp_path / str(call))) as fs:
            handle = open_file(fs, f"{GROUP}/zom.json")
            fs.write(handle, 0, changed(fs, layout))
            fault = Fault(call, AccessDenied, operations=frozenset({"write"}), after=after)
            store.arm(fault)
            with suppress(NczfsError):
                close(fs, handle)
            fired = store.fired
            store.arm()
            fs.sync()
        check_copy(memory, layout)
        if not fired:
            break
    assert call >= 3


def check_copy(memory: MemoryZMap, layout: str) -> None:
    here = Prefixed(memory, parse_prefix("d.zarr"))
    documents = {str(s.key): json.loads(bytes(here.read(s.key).data)) for s in here.list(ROOT)}
    if layout == "zarr3":
        copy = documents.pop("zarr.json")["consolidated_metadata"]
        documents = {key.removesuffix("/zarr.json"): data for key, data in documents.items()}
    else:
        copy = documents.pop(".zmetadata")
        # Those of a group precede what makes it one.
        groups = {key.removesuffix(".zgroup") for key in documents if key.endswith(".zgroup")}
        documents = {k: data for k, data in documents.items() if k[: k.rindex(".")] in groups}
    assert copy["metadata"] == documents
