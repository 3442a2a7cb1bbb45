"""A source becomes the content of a group, whole or not at all."""

from __future__ import annotations

import itertools
import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

import nczfs
from nczfs.engine.dataset import Dataset, Engine, open_dataset
from nczfs.engine.metadata.documents import MetadataCache
from nczfs.engine.process import current_process
from nczfs.engine.structure.editor import Editor
from nczfs.errors import Conflict, NczfsError, NoSpace, ObjectExists, StoreError, Unavailable
from nczfs.formats.base import FormatOptions
from nczfs.library.api import OpenDataset
from nczfs.library.opening import open_zmap
from nczfs.testing.faults import Fault, Faulty
from nczfs.tools.progress import Progress
from nczfs.tools.transfer.cdl_source import cdl_source
from nczfs.tools.transfer.group_target import fill_group, is_empty, replace_group
from nczfs.tools.transfer.source import Source
from nczfs.tools.transfer.unfinished import Mark
from nczfs.zmap.base import ZMap
from nczfs.zmap.directory import DirectoryZMap
from nczfs.zmap.keys import ROOT, Key, Prefix
from nczfs.zmap.memory import MemoryZMap
from tests.conftest import ExpectedWarnings

LIMIT = 64 << 20
CDL = """netcdf new {
dimensions: x = 4 ;
variables: int v(x) ; v:units = "m" ; double w ;
data: v = 1, 2, 3, 4 ; w = 0.5 ;
group: below { variables: int n(x) ; data: n = 5, 6, 7, 8 ; }
}
"""
FORMATS = pytest.mark.parametrize("layout", ["nczarr-L3", "zarr2"])


def source() -> Source:
    return cdl_source(CDL, "/new.cdl")


def editor(dataset: Dataset) -> Editor:
    return Editor(dataset, ".")


def filled(opened: OpenDataset, path: str = "", progress: Progress = lambda _: None) -> None:
    fill_group(source(), opened.engine_dataset, path, editor, LIMIT, progress)


def made(zmap: ZMap, layout: str = "nczarr-L3", *, consolidated: bool = False) -> OpenDataset:
    opened = open_zmap(zmap, "x", format=layout, consolidated=consolidated)
    opened.sync()
    return opened


def keys_of(zmap: ZMap) -> set[str]:
    return {stat.key for stat in zmap.list(ROOT)}


def is_whole(opened: OpenDataset, path: str = "") -> bool:
    at = f"{path}/" if path else ""
    values = [np.asarray(opened[f"{at}{name}"]).tolist() for name in ("v", "w", "below/n")]
    return values == [[1, 2, 3, 4], 0.5, [5, 6, 7, 8]]


@FORMATS
@pytest.mark.parametrize("path", ["", "a", "a/b"])
def test_a_group_gets_everything_of_a_source(layout: str, path: str) -> None:
    zmap = MemoryZMap()
    with made(zmap, layout) as opened:
        if path:
            opened.editor.create_group(path)
            opened.sync()
        filled(opened, path)
        assert is_whole(opened, path)
    with open_zmap(zmap) as again:
        assert is_whole(again, path)
    assert not [key for key in keys_of(zmap) if ".nczfs" in key]


@FORMATS
@pytest.mark.parametrize("error", [NoSpace, Unavailable])
def test_a_store_that_fails_at_any_call_has_all_or_nothing(
    layout: str, error: type[StoreError], expected_warnings: ExpectedWarnings
) -> None:
    expected_warnings.add("could not be removed")
    for call in itertools.count():
        zmap = Faulty(MemoryZMap())
        opened = made(zmap, layout)
        before = keys_of(zmap)
        zmap.arm(Fault(call, error, operations=frozenset({"write", "write_parts", "delete"})))
        try:
            filled(opened)
        except NczfsError:
            assert zmap.fired
            assert keys_of(zmap) == before
        else:
            assert is_whole(opened)
        fired = zmap.fired
        opened.close()
        if not fired:
            assert call > 5
            return


@FORMATS
def test_what_is_given_up_in_the_middle_leaves_nothing(layout: str) -> None:
    zmap = MemoryZMap()
    with made(zmap, layout) as opened:
        before = keys_of(zmap)
        total = source().nbytes
        for share in (0.0, 0.5, 0.9):
            done = 0.0

            def progress(nbytes: float, stop: float = share * total) -> None:
                nonlocal done
                done += nbytes
                if done > stop:
                    raise Unavailable("given up")

            with pytest.raises(Unavailable, match="given up"):
                filled(opened, progress=progress)
            assert keys_of(zmap) == before
        filled(opened)
        assert is_whole(opened)


def test_what_another_client_makes_meanwhile_stays() -> None:
    zmap = MemoryZMap()
    with made(zmap) as opened:

        def progress(_: float) -> None:
            if ".nczfs_unfinished" in keys_of(zmap) and "other/.zarray" not in keys_of(zmap):
                with open_zmap(zmap, "r+") as client:
                    client.create_dimension("y", 2)
                    client.create_variable("other", ("y",), data=np.arange(2))

        with pytest.raises(Conflict, match="something else was put there"):
            filled(opened, progress=progress)
    with open_zmap(zmap) as again:
        assert list(again.variables) == ["other"]
        assert np.asarray(again["other"]).tolist() == [0, 1]
    assert "v/0" not in keys_of(zmap)


@FORMATS
def test_what_a_killed_import_left_is_removed_first(layout: str) -> None:
    zmap = MemoryZMap()
    ours = current_process()
    assert ours is not None
    with made(zmap, layout) as opened:
        dead = replace(Mark("import").started(), process=replace(ours, started=ours.started + 1))
        zmap.write(Key(".nczfs_unfinished"), json.dumps(asdict(dead)).encode())
        zmap.write(Key("left/0.0"), b"chunk")
        zmap.write(Key("README"), b"of a user")
        assert is_empty(opened.engine_dataset, "")
        filled(opened)
        assert is_whole(opened)
    assert "left/0.0" not in keys_of(zmap)
    assert ".nczfs_unfinished" not in keys_of(zmap)
    assert "README" in keys_of(zmap)


@pytest.mark.parametrize("machine", [None, "another"])
def test_an_import_that_may_be_under_way_is_left_alone(machine: str | None) -> None:
    zmap = MemoryZMap()
    mark = Mark("import").started()
    assert mark.process is not None
    if machine is not None:
        mark = replace(mark, process=replace(mark.process, machine=machine))
    with made(zmap) as opened:
        zmap.write(Key(".nczfs_unfinished"), json.dumps(asdict(mark)).encode())
        zmap.write(Key("left/0.0"), b"chunk")
        before = keys_of(zmap)
        with pytest.raises(ObjectExists, match="is writing there"):
            filled(opened)
        assert keys_of(zmap) == before


@pytest.mark.parametrize("consolidated", [False, True])
@pytest.mark.parametrize("path", ["", "a"])
@FORMATS
def test_a_group_is_replaced_with_all_below_it(
    tmp_path: Path, layout: str, path: str, *, consolidated: bool
) -> None:
    url = str(tmp_path / "d.zarr")
    with nczfs.open(url, "w", format=layout, consolidated=consolidated) as root:
        for name in ("a", "b"):
            group = root.create_group(name)
            group.create_dimension("z", 3)
            group.create_variable("old", ("z",), data=np.arange(3))
    zmap = DirectoryZMap(tmp_path)
    replaced_in(zmap, path)
    with nczfs.open(url) as root:
        at = f"{path}/" if path else ""
        assert np.asarray(root[f"{at}v"]).tolist() == [1, 2, 3, 4]
        assert np.asarray(root[f"{at}below/n"]).tolist() == [5, 6, 7, 8]
        assert "old" not in (root.groups[path] if path else root).variables
        assert ("b" in root.groups) == bool(path)
    copied = tmp_path / "d.zarr/.zmetadata"
    assert copied.exists() == consolidated
    if consolidated:
        documents = json.loads(copied.read_text())["metadata"]
        assert f"{at}v/.zarray" in documents
        assert "a/old/.zarray" not in documents
    assert [each.name for each in tmp_path.iterdir()] == ["d.zarr"]


def replaced_in(zmap: ZMap, path: str) -> None:
    """Replace a group of the dataset `d.zarr` of a store."""
    engine = Engine()
    metadata = MetadataCache(zmap, engine.options, engine.pools, ledger=engine.ledger)
    dataset = open_dataset(engine, metadata, Prefix("d.zarr"), FormatOptions(), writable=True)
    assert dataset is not None
    try:
        replace_group(source(), dataset, path, editor, LIMIT, lambda _: None)
    finally:
        engine.close()
