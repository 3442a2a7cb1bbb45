"""Sentences of docs/SEMANTICS.md that belong to no layer alone."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from nczfs.engine.dataset import Engine
from nczfs.engine.metadata.documents import MetadataCache
from nczfs.engine.options import EngineOptions
from nczfs.errors import NoSuchPath
from nczfs.testing.datasets import put_array, put_group, put_json
from nczfs.testing.faults import Faulty
from nczfs.vfs.tree import mount_tree
from nczfs.zmap.base import Features, ZMap
from nczfs.zmap.keys import ROOT, parse_key
from nczfs.zmap.memory import MemoryZMap
from nczfs.zmap.registry import open_store
from tests.support.mounts import mounted
from tests.support.trees import exists, find, listing, read

_stores = itertools.count()


@pytest.fixture
def url() -> str:
    return f"memory://promise{next(_stores)}"


@pytest.fixture
def store(url: str) -> ZMap:
    return open_store(url)


def test_links_are_followed_inside_the_store_and_never_out_of_it(tmp_path: Path) -> None:
    """SEMANTICS L5."""
    root = tmp_path / "store"
    (root / "real").mkdir(parents=True)
    (root / "real/file").write_bytes(b"inside")
    (tmp_path / "secret").write_bytes(b"outside")
    (root / "near").symlink_to("real/file")
    (root / "directory").symlink_to("real")
    (root / "far").symlink_to(tmp_path / "secret")
    (root / "up").symlink_to("../secret")
    fs = mount_tree(str(root))
    assert read(fs, "objects/near") == b"inside"
    assert read(fs, "objects/directory/file") == b"inside"
    assert {"near", "directory", "real"} == set(listing(fs, "objects"))
    for name in ("far", "up"):
        with pytest.raises(NoSuchPath):
            find(fs, f"objects/{name}")
    fs.close()


class Far(Faulty):
    """A store that says of itself that it is across a network."""

    @property
    def features(self) -> Features:
        return replace(super().features, near=False)


@pytest.mark.parametrize(("kind", "believed_s"), [(Far, 60.0), (Faulty, 1.0)])
def test_a_listing_is_believed_for_its_time(kind: type[Faulty], believed_s: float) -> None:
    """SEMANTICS O3."""
    now = 100.0
    inner = MemoryZMap("memory://listed")
    inner.write(parse_key("a"), b"")
    zmap = kind(inner)
    engine = Engine()
    cache = MetadataCache(zmap, EngineOptions(metadata_ttl_s=60.0), engine.pools, clock=lambda: now)
    assert [entry.name for entry in cache.entries(ROOT)] == ["a"]
    inner.write(parse_key("b"), b"")
    asked = zmap.calls
    now += believed_s * 0.99
    assert [entry.name for entry in cache.entries(ROOT)] == ["a"]
    assert zmap.calls == asked
    now += believed_s * 0.02
    assert [entry.name for entry in cache.entries(ROOT)] == ["a", "b"]
    engine.close()


def test_the_members_of_an_nczarr_group_are_those_that_it_lists(store: ZMap, url: str) -> None:
    """SEMANTICS D15."""
    values = np.arange(4, dtype="<i4")
    superblock = {"version": "2.0.0"}
    group = {"dimensions": {"x": 4}, "arrays": ["listed"], "groups": []}
    put_json(store, "d/.zgroup", {"zarr_format": 2})
    put_json(
        store, "d/.zattrs", {"_nczarr_superblock": superblock, "_nczarr_group": group, "a": "b"}
    )
    put_array(store, "d/listed", values, (4,))
    put_array(store, "d/stray", values + 1, (4,))
    put_group(store, "d/other.zarr", {"title": "of its own"})
    store.write(parse_key("d/notes/readme.txt"), b"")
    fs = mount_tree(url)
    info = json.loads(read(fs, "datasets/d/info.json"))
    assert (info["format"], info["variables"], info["groups"]) == ("nczarr-L3", ["listed"], [])
    assert set(listing(fs, "datasets/d")) >= {"listed", "stray", "other.zarr", "notes"}
    assert json.loads(read(fs, "datasets/d/listed/info.json"))["path"] == "/listed"
    # The others are datasets of their own, or no datasets.
    stray = json.loads(read(fs, "datasets/d/stray/info.json"))
    assert (stray["path"], stray["format"]) == ("/", "zarr2")
    assert read(fs, "datasets/d/stray/values.raw") == (values + 1).tobytes()
    assert exists(fs, "datasets/d/other.zarr/other.cdl")
    assert listing(fs, "datasets/d/notes") == {}
    fs.close()


def test_elements_of_variable_length_are_json_and_have_no_raw_form(store: ZMap, url: str) -> None:
    """SEMANTICS D16."""
    texts = ["a", "", "zwölf", 'with "quotes"\n']
    stored = b"".join(
        len(data).to_bytes(4, "little") + data for data in (text.encode() for text in texts)
    )
    put_group(store, "d")
    put_json(
        store,
        "d/s/.zarray",
        {
            "zarr_format": 2,
            "shape": [4],
            "chunks": [4],
            "dtype": "|O",
            "filters": [{"id": "vlen-utf8"}],
            "compressor": None,
            "fill_value": "",
            "order": "C",
        },
    )
    store.write(parse_key("d/s/0"), (4).to_bytes(4, "little") + stored)
    fs = mount_tree(url)
    shown = {"values.txt", "info.json", "chunks", "attributes", "s.nc"}
    assert set(listing(fs, "datasets/d/s")) == shown
    lines = read(fs, "datasets/d/s/values.txt").decode().splitlines()
    assert [json.loads(line) for line in lines] == texts
    assert json.loads(read(fs, "datasets/d/s/chunks/0")) == texts
    fs.close()


def test_no_secret_stands_in_the_files_of_the_mount(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SEMANTICS N3."""
    secrets = ("first-secret", "second-secret")
    (tmp_path / "store").mkdir()
    (tmp_path / "store/object").write_bytes(b"x")
    monkeypatch.setenv("AWS_SESSION_TOKEN", secrets[0])
    words = f"env.AWS_SECRET_ACCESS_KEY={secrets[1]},profile=shown"
    log = tmp_path / "log"
    with mounted(tmp_path / "store", "-o", words, "--debug", "--log-file", str(log)) as mount:
        assert (mount / "objects/object").read_bytes() == b"x"
        control = mount / ".nczfs"
        assert json.loads((control / "config.json").read_text())["profile"] == "shown"
        names = ("config.json", "status.json", "log", "access.log", "metrics")
        found = [name for name in names for s in secrets if s in (control / name).read_text()]
        assert found == []
    assert not any(secret in log.read_text() for secret in secrets)
