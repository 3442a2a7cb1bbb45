"""Consolidated metadata that name what no store has: the rest of the dataset is read."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from nczfs.engine.dataset import Engine, open_dataset
from nczfs.engine.metadata.documents import MetadataCache
from nczfs.engine.options import EngineOptions
from nczfs.errors import BadMetadata
from nczfs.formats.base import FormatOptions
from nczfs.formats.zarr3.consolidated import FORM, MEMBERS_MAX
from nczfs.library.opening import open_url
from nczfs.testing.datasets import put_json
from nczfs.zmap.keys import Prefix
from tests.conftest import ExpectedWarnings
from tests.support.counted import CountedStore, opened

NAMES = ["..", "../..", "a/../../x", "/etc", ".", "a//b", "a\0b", "\ud800", "x" * 300, "zarr.json",
         "/".join(["y" * 200] * 30), ".nczfs-x"]  # fmt: skip


@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
def test_impossible_names_in_a_copy_are_asked_of_no_store(tmp_path: Path, format: str) -> None:
    """A NUL in one made ``info.json`` of the dataset fail."""
    path = tmp_path / "d.zarr"
    with open_url(str(path), "w", format=format, consolidated=True) as dataset:
        dataset.create_variable("v", (3,), "i4", np.arange(3))
    copy = path / (".zmetadata" if format == "zarr2" else "zarr.json")
    outside = "" if format == "zarr3" else "/.zarray"
    document = json.loads(copy.read_text())
    inner = document if format == "zarr2" else document["consolidated_metadata"]
    entry = inner["metadata"]["v" + outside]
    inner["metadata"] = {name + outside: entry for name in NAMES} | inner["metadata"]
    copy.write_text(json.dumps(document))
    (tmp_path / (".zarray" if outside else "zarr.json")).write_text(json.dumps(entry))
    with open_url(str(path)) as dataset:
        assert dataset.variables["v"][...].tolist() == [0, 1, 2]
        assert [*dataset.variables] == ["v"]
        found = dataset._dataset.stale()
    key = outside or "/zarr.json"
    assert set(found) == {name + key for name in NAMES}


def store_with_copy(at: str, entries: dict[str, object]) -> CountedStore:
    store = CountedStore(near=True)
    copy = {"kind": "inline", "must_understand": False, "metadata": entries}
    group = {"zarr_format": 3, "node_type": "group"}
    put_json(store, f"{at}zarr.json", group | {"consolidated_metadata": copy})
    return store


def test_of_a_large_copy_only_the_first_documents_are_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A million entries took minutes, and a kilobyte of memory each."""
    monkeypatch.setattr("nczfs.engine.metadata.copies.COMPARED_MAX", 5)
    store = store_with_copy("", {f"v{n}": {"x": 1} for n in range(1000)})
    dataset = opened(store, Engine(EngineOptions()))
    (problem,) = dataset.group("").header.problems
    assert "5 of their documents differ" in problem
    assert {key for key in store.reads if "/" in key} == {f"v{n}/zarr.json" for n in range(5)}


def test_a_copy_of_more_documents_than_datasets_have_is_refused_by_name() -> None:
    many = b",".join([b'"":{}'] * (MEMBERS_MAX + 1))
    data = b'{"consolidated_metadata": {"kind": "inline", "metadata": {%b}}}' % many
    with pytest.raises(BadMetadata, match=r"zarr\.json: consolidated_metadata: has more than"):
        FORM.read(data)


@pytest.mark.parametrize("near", [True, False])
@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
def test_a_refused_copy_is_named_where_users_look(
    format: str, near: bool, expected_warnings: ExpectedWarnings
) -> None:
    """Only the log said so."""
    expected_warnings.add("the single documents are read instead")
    store = CountedStore(near=near)
    put_json(store, "v/.zattrs", {})
    if format == "zarr2":
        put_json(store, ".zgroup", {"zarr_format": 2})
        put_json(store, ".zmetadata", {"zarr_consolidated_format": 7, "metadata": {"v/.zarray": 1}})
        message = ".zmetadata: zarr_consolidated_format is '7', not 1"
    else:
        group = {"zarr_format": 3, "node_type": "group"}
        put_json(store, "zarr.json", group | {"consolidated_metadata": {"kind": "elsewhere"}})
        message = "zarr.json: consolidated_metadata: kind is '\"elsewhere\"', not 'inline'"
    engine = Engine(EngineOptions())
    now = [0.0]
    cache = MetadataCache(store, engine.options, engine.pools, lambda: now[0])
    dataset = open_dataset(engine, cache, Prefix(""), FormatOptions())
    assert dataset is not None
    expected = [f"{message}: the single documents are shown instead"]
    assert [*dataset.group("").header.problems] == expected
    now[0] += 1e6
    assert [*dataset.group("").header.problems] == expected
    put_json(store, ".zmetadata" if format == "zarr2" else "zarr.json", mended(format))
    now[0] += 1e6
    assert [*dataset.group("").header.problems] == []


def mended(format: str) -> object:
    if format == "zarr2":
        return {"zarr_consolidated_format": 1, "metadata": {".zgroup": {"zarr_format": 2}}}
    return {"zarr_format": 3, "node_type": "group"}


def test_a_root_with_a_large_copy_is_confirmed_wherever_it_lies() -> None:
    """Below the root of a store it was an error as soon as its version was asked again."""
    store = store_with_copy("d/", {f"v{n}": {"x": 1} for n in range(100)})
    engine = Engine(EngineOptions())
    now = [0.0]
    cache = MetadataCache(store, engine.options, engine.pools, lambda: now[0])
    dataset = open_dataset(engine, cache, Prefix("d"), FormatOptions(document_bytes_max=1000))
    assert dataset is not None
    before = dataset.load("")
    now[0] += 1e6
    assert dataset.load("") is before
