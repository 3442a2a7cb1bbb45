"""Putting back: over the newest version, once or twice, and nothing that does not fit."""

from __future__ import annotations

import json
import os
import subprocess
import time
import tracemalloc
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import google_crc32c
import numpy as np
import pytest

from nczfs.cli import main
from nczfs.engine.arrays.array import Array
from nczfs.engine.dataset import Dataset, Engine, open_dataset
from nczfs.engine.metadata.documents import MetadataCache
from nczfs.engine.options import EngineOptions, Tally, format_options
from nczfs.engine.spool.records import packed
from nczfs.engine.spool.renames import noted
from nczfs.engine.spool.space import Spool, spool_url
from nczfs.engine.spool.staged import KeptFacts, Staged
from nczfs.errors import CorruptChunk, SpoolError, Unavailable
from nczfs.library.opening import open_url
from nczfs.model.boxes import Box
from nczfs.model.hierarchy import Variable
from nczfs.testing.faults import Fault, Faulty
from nczfs.tools import recovery
from nczfs.tools.verify.subject import subject_at
from nczfs.tools.verify.verification import Verification
from nczfs.zmap.base import ABSENT
from nczfs.zmap.directory.store import DirectoryZMap
from nczfs.zmap.keys import Prefix, parse_key, parse_prefix
from nczfs.zmap.registry import open_store
from nczfs.zmap.url import parse_url
from tests.support.power import Disk

PLAIN: dict[str, Any] = {"dimensions": (10,), "dtype": "i4", "chunks": (4,), "fillvalue": -1}


@pytest.fixture(autouse=True)
def unsaved(expected_warnings: Any) -> None:
    expected_warnings.add("not stored, but kept in")


@pytest.fixture
def url(tmp_path: Path) -> str:
    return str(tmp_path / "store")


@pytest.fixture
def spool_dir(tmp_path: Path) -> Path:
    return tmp_path / "spool"


@contextmanager
def dying_mount(url: str, spool_dir: Path, root: str = "", name: str = "v") -> Iterator[Array]:
    """A variable in a mount that ends without storing anything."""
    place = parse_url(url)
    zmap = open_store(place)
    zmap.prepare_writing()
    spool = Spool(spool_dir, spool_url(place))
    engine = Engine(EngineOptions(cache_bytes_max=0), spool)
    metadata = MetadataCache(zmap, engine.options, engine.pools)
    options = format_options(place.modes, engine.options)
    dataset = open_dataset(engine, metadata, parse_prefix(root), options, writable=True)
    assert isinstance(dataset, Dataset)
    node = dataset.node(name)
    assert isinstance(node, Variable)
    yield dataset.array(node)
    engine.close()
    spool.close()
    zmap.close()


def write(array: Array, start: tuple[int, ...], values: Any) -> None:
    """Write so that no chunk is stored at once."""
    data = np.asarray(values, array.description.dtype.native)
    box = Box(start, tuple(a + n for a, n in zip(start, data.shape, strict=True)))
    shape = array.description.chunk_shape
    chunk = tuple(a // n for a, n in zip(start, shape, strict=True))
    array._chunks.write(chunk, box.relative_to(array.description.grid.origin(chunk)), data)


def forget_versions(array: Array) -> None:
    """From now on no version is known of what is written to."""
    setattr(array._chunks._writeback._dirty, "known_version", lambda *_: None)  # noqa: B010


def put_back(spool_dir: Path, **options: Any) -> list[str]:
    """As ``nczfs recover``: what went wrong."""
    problems = []
    for group in recovery.together(recovery.entries(spool_dir)):
        place = parse_url(group[0].url)
        store = recovery.Store(open_store(place), place)
        for found, problem in zip(group, store.put_back(group, **options), strict=True):
            if problem is None:
                found.remove()
            else:
                problems.append(str(problem))
        store.close()
    return problems


def create(url: str, **options: Any) -> None:
    format_name = options.pop("format", None)
    with open_url(url, "w", format=format_name) as dataset:
        dataset.create_variable("v", **PLAIN | options)


def values_of(url: str, name: str = "v") -> Any:
    with open_url(url) as dataset:
        return dataset.variables[name][...].tolist()


def test_elements_that_others_have_stored_since_are_put_over_by_force_alone(
    url: str, spool_dir: Path
) -> None:
    """SEMANTICS W51."""
    create(url)
    with dying_mount(url, spool_dir) as v:
        write(v, (1,), [11, 12])
        write(v, (9,), [19])
    with open_url(url, "r+") as dataset:
        dataset.variables["v"][:4] = [1, 2, 12, 4]
    (problem,) = put_back(spool_dir)
    assert "the chunk was stored since" in problem
    assert "1 elements differ, the first at [1]: the store has 2, the spool 11; --force" in problem
    assert values_of(url) == [1, 2, 12, 4, -1, -1, -1, -1, -1, 19]
    assert put_back(spool_dir, force=True) == []
    assert values_of(url) == [1, 11, 12, 4, -1, -1, -1, -1, -1, 19]
    assert os.listdir(spool_dir) == []


def test_elements_are_put_over_what_others_stored_before_they_were_written(
    url: str, spool_dir: Path
) -> None:
    """SEMANTICS W51."""
    create(url)
    with dying_mount(url, spool_dir) as v:
        forget_versions(v)
        with open_url(url, "r+") as dataset:
            dataset.variables["v"][:4] = [1, 2, 3, 4]
        write(v, (1,), [11])
    assert put_back(spool_dir) == []
    assert values_of(url)[:4] == [1, 11, 3, 4]


def test_a_chunk_that_was_put_there_since_with_an_older_time_is_newer(
    url: str, spool_dir: Path, tmp_path: Path
) -> None:
    """SEMANTICS W51: as by ``cp -p`` or ``rsync -t`` of a backup."""
    create(url)
    with open_url(url, "r+") as dataset:
        dataset.variables["v"][:4] = [1, 2, 3, 4]
    subprocess.run(["cp", "-p", Path(url, "v", "0"), tmp_path / "backup"], check=True)
    with dying_mount(url, spool_dir) as v:
        forget_versions(v)
        write(v, (1,), [11])
    subprocess.run(["cp", "-p", tmp_path / "backup", Path(url, "v", "0")], check=True)
    (problem,) = put_back(spool_dir)
    assert "the chunk was stored since" in problem
    assert values_of(url)[:4] == [1, 2, 3, 4]
    assert put_back(spool_dir, force=True) == []
    assert values_of(url)[:4] == [1, 11, 3, 4]


def test_an_object_that_was_put_there_since_with_an_older_time_is_not_renamed(
    spool_dir: Path, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    (store / "a").mkdir(parents=True)
    (store / "a/old").write_bytes(b"old")
    spool = Spool(spool_dir, spool_url(parse_url(str(store))))
    with pytest.raises(Unavailable), noted(spool, Prefix("a"), Prefix("b")):
        raise Unavailable("no connection")
    spool.close()
    (store / "a/new").write_bytes(b"new")
    os.utime(store / "a/new", (0, 0))
    (problem,) = put_back(spool_dir)
    assert "a: 1 objects stay there: a/new is newer than the rename" in problem
    assert (store / "a/new").exists()
    assert (store / "b/old").read_bytes() == b"old"


@pytest.mark.parametrize("is_known", [True, False])
def test_a_chunk_that_others_have_removed_since_is_made_anew_by_force_alone(
    url: str, spool_dir: Path, is_known: bool
) -> None:
    create(url)
    with open_url(url, "r+") as dataset:
        dataset.variables["v"][:4] = [1, 2, 3, 4]
    with dying_mount(url, spool_dir) as v:
        if is_known:
            v.read_box(Box((0,), (4,)), np.empty(4, np.int32), Tally())
        write(v, (1,), [11])
    Path(url, "v", "0").unlink()
    problems = put_back(spool_dir)
    assert ["has removed the chunk since" in problem for problem in problems] == [True] * is_known
    assert put_back(spool_dir, force=True) == []
    assert values_of(url)[:4] == [-1, 11, -1, -1]


def test_what_arrived_after_the_mount_was_gone_is_no_other_clients(
    url: str, spool_dir: Path
) -> None:
    create(url)
    with dying_mount(url, spool_dir) as v:
        write(v, (1,), [11])
        lost = patch.object(DirectoryZMap, "write", side_effect=Unavailable("no answer"))
        with lost as sending, pytest.raises(Unavailable):
            v.flush()
        write(v, (2,), [12])
    (key, data), _ = sending.call_args
    Path(url, key).write_bytes(data)
    assert put_back(spool_dir) == []
    assert values_of(url)[:4] == [-1, 11, 12, -1]


def test_putting_back_twice_is_putting_back_once(url: str, spool_dir: Path) -> None:
    create(url)
    with dying_mount(url, spool_dir) as v:
        write(v, (1,), [11])
    (found,) = recovery.entries(spool_dir)
    data = found.path.read_bytes()
    assert put_back(spool_dir) == []
    found.path.parent.mkdir()
    found.path.write_bytes(data)
    assert put_back(spool_dir) == []
    assert values_of(url)[:3] == [-1, 11, -1]


def test_what_the_store_has_already_is_made_durable_before_the_entry_goes(
    url: str, spool_dir: Path
) -> None:
    """SEMANTICS W53: the mount that stored it need not have waited for the disk."""
    create(url)
    with dying_mount(url, spool_dir) as v:
        write(v, (1,), [11])
    with open_url(url, "r+") as dataset:
        dataset.variables["v"][1] = 11
    synced: list[str] = []
    (found,) = recovery.entries(spool_dir)

    def noted(fd: int) -> None:
        synced.extend([os.readlink(f"/proc/self/fd/{fd}")] if found.path.exists() else [])

    with patch.object(os, "fsync", noted):
        assert put_back(spool_dir) == []
    root = os.path.realpath(url)
    assert {f"{root}/v/0", f"{root}/v", root} <= set(synced)


def test_of_two_mounts_the_later_one_is_put_back_last(url: str, spool_dir: Path) -> None:
    create(url)
    for value in (1, 2, 3):
        with dying_mount(url, spool_dir) as v:
            write(v, (1,), [value])
            write(v, (4 + value,), [value])
    store = recovery.Store(open_store(parse_url(url)), parse_url(url))
    for group in recovery.together(recovery.entries(spool_dir)):
        assert store.put_back(group) == [None] * 3
    store.close()
    assert values_of(url) == [-1, 3, -1, -1, -1, 1, 2, 3, -1, -1]


@pytest.mark.parametrize("there", [True, False], ids=["written", "only grown"])
def test_an_unlimited_dimension_is_made_as_long_as_it_was(
    url: str, spool_dir: Path, there: bool
) -> None:
    with open_url(url, "w") as dataset:
        dataset.create_dimension("t", None)
        for name in ("v", "w"):
            dataset.create_variable(name, ("t", 3), "i4", chunks=(4, 3), fillvalue=-1)
        dataset.resize_dimension("t", 6)
    with dying_mount(url, spool_dir) as v:
        write(v, (5, 1), [[55]])
    with open_url(url, "r+") as dataset:
        dataset.resize_dimension("t", 2 if there else 9)
    assert put_back(spool_dir) == []
    length = 6 if there else 9
    with open_url(url) as dataset:
        assert dataset.dimensions["t"].size == length
        assert dataset.variables["w"].shape == (length, 3)
        expected = np.full((length, 3), -1)
        expected[5, 1] = 55
        np.testing.assert_array_equal(dataset.variables["v"][...], expected)


def test_a_length_that_was_stored_before_the_end_is_in_the_consolidated_metadata(
    url: str, spool_dir: Path
) -> None:
    with open_url(url, "w", consolidated=True) as dataset:
        dataset.create_dimension("t", None)
        dataset.create_variable("v", ("t",), "i4", chunks=(4,))
        dataset.resize_dimension("t", 2)
    copy = Path(url, ".zmetadata")
    old = copy.read_bytes()
    with open_url(url, "r+") as dataset:
        dataset.resize_dimension("t", 6)
    with dying_mount(url, spool_dir) as v:
        write(v, (5,), [55])
    copy.write_bytes(old)
    assert put_back(spool_dir) == []
    assert json.loads(copy.read_bytes())["metadata"]["v/.zarray"]["shape"] == [6]


@pytest.mark.parametrize("metadata_format", ["nczarr", "zarr2", "zarr3"])
def test_a_length_that_the_store_has_already_is_made_durable_before_the_entry_goes(
    metadata_format: str, url: str, spool_dir: Path, tmp_path: Path
) -> None:
    """SEMANTICS W53: the mount that stored it need not have waited for the disk."""
    with open_url(url, "w", format=metadata_format, consolidated=True) as dataset:
        dataset.create_dimension("t", None)
        dataset.create_variable("v", ("t",), "i4", chunks=(4,), fillvalue=-1)
        dataset.resize_dimension("t", 2)
    disk = Disk(Path(url))
    with open_url(url, "r+") as dataset:
        dataset.resize_dimension("t", 6)
    with dying_mount(url, spool_dir) as v:
        write(v, (5,), [55])
    with disk.watched():
        assert main.main(["recover", "--spool-dir", str(spool_dir)]) == 0
    assert list(spool_dir.iterdir()) == []
    after = disk.after_failure(tmp_path / "after")
    with open_url(str(after)) as dataset:
        assert dataset.variables["v"][:].tolist() == [-1] * 5 + [55]
    with subject_at(str(after)) as subject:
        assert list(Verification(subject).run("")) == []


CHANGES: dict[str, dict[str, Any]] = {
    "another type": {"dtype": "i8"},
    "another byte order": {"byte_order": ">"},
    "other chunks": {"chunks": (5,)},
    "other codecs": {"codecs": []},
    "another length": {"dimensions": (11,)},
    "another rank": {"dimensions": (10, 1), "chunks": (4, 1)},
    "another name": {"name": "w"},
}


@pytest.mark.parametrize("changes", CHANGES.values(), ids=CHANGES)
def test_what_does_not_fit_any_more_is_refused_and_kept_and_can_be_exported(
    url: str, spool_dir: Path, tmp_path: Path, changes: dict[str, Any]
) -> None:
    create(url)
    with dying_mount(url, spool_dir) as v:
        write(v, (1,), [11])
    with open_url(url, "w") as dataset:
        dataset.create_variable(**{"name": "v"} | PLAIN | changes)
        before = dataset.variables[changes.get("name", "v")][...].tolist()
    (problem,) = put_back(spool_dir)
    assert "--export DIR gives you the values" in problem
    assert values_of(url, changes.get("name", "v")) == before
    (found,) = recovery.entries(spool_dir)
    exported = np.load(found.export(tmp_path))
    assert exported["value"][exported["written"]].tolist() == [11]
    assert exported["written"].tolist() == [False, True, False, False]


def test_a_chunk_that_cannot_be_merged_does_not_keep_others_from_being_put_back(
    url: str, spool_dir: Path
) -> None:
    create(url)
    with open_url(url, "r+") as dataset:
        dataset.variables["v"][...] = range(10)
    with dying_mount(url, spool_dir) as v:
        write(v, (1,), [11])
        write(v, (5,), [15])
    Path(url, "v", "0").write_bytes(b"rubbish")
    entries = recovery.entries(spool_dir)
    place = parse_url(url)
    store = recovery.Store(open_store(place), place)
    (problem,) = store.put_back(entries[:1])
    assert isinstance(problem, CorruptChunk)
    assert store.put_back(entries[1:]) == [None]
    store.close()
    with open_url(url) as dataset:
        assert dataset.variables["v"][4:8].tolist() == [4, 15, 6, 7]


@pytest.mark.parametrize("call", range(8))
@pytest.mark.parametrize("after", [False, True], ids=["refused", "answer lost"])
def test_whichever_call_fails_it_can_be_done_again(
    url: str, spool_dir: Path, call: int, after: bool
) -> None:
    with open_url(url, "w") as dataset:
        dataset.create_dimension("t", None)
        dataset.create_variable("v", ("t",), "i4", chunks=(4,), fillvalue=-1)
        dataset.resize_dimension("t", 6)
    with dying_mount(url, spool_dir) as v:
        write(v, (5,), [55])
    with open_url(url, "r+") as dataset:
        dataset.resize_dimension("t", 2)
    (found,) = recovery.entries(spool_dir)
    place = parse_url(url)
    operations = frozenset({"write", "read", "flush"})
    zmap = Faulty(open_store(place), Fault(call, after=after, operations=operations))
    store = recovery.Store(zmap, place)
    (problem,) = store.put_back([found])
    assert problem is None or (zmap.fired and isinstance(problem, Unavailable))
    store.close()
    assert put_back(spool_dir) == []
    assert values_of(url) == [-1] * 5 + [55]


# Where it was


@pytest.mark.parametrize("root", ["", "a", "a/b c", "ä#?&%41"])
@pytest.mark.parametrize("format_name", ["nczarr-L3", "zarr2"])
@pytest.mark.parametrize("is_array", [False, True], ids=["a group", "an array"])
def test_it_works_wherever_a_dataset_lies_below_the_url(
    tmp_path: Path, spool_dir: Path, root: str, format_name: str, is_array: bool
) -> None:
    directory = tmp_path / "store"
    at = directory / root
    at.mkdir(parents=True)
    with open_url(str(at), "w", format=format_name) as dataset:
        group = dataset.create_group("g é")
        group.create_variable("v %", (4,), "i4", chunks=(4,), fillvalue=-1)
    inner, name = ("g é/v %", "") if is_array else ("", "g é/v %")
    opened = "/".join(part for part in (root, inner) if part)
    with dying_mount(str(directory), spool_dir, opened, name) as v:
        write(v, (1,), [11])
    assert put_back(spool_dir) == []
    with open_url(str(at)) as dataset:
        assert dataset.groups["g é"].variables["v %"][...].tolist() == [-1, 11, -1, -1]


@pytest.mark.parametrize(
    ("name", "text"), [(".zgroup", "{"), (".zgroup", '{"zarr_format": 9}'), (".zarray", "{")]
)
def test_a_broken_dataset_above_does_not_matter(
    tmp_path: Path, spool_dir: Path, name: str, text: str
) -> None:
    (tmp_path / "store/a").mkdir(parents=True)
    create(str(tmp_path / "store/a"))
    with dying_mount(str(tmp_path / "store"), spool_dir, "a") as v:
        write(v, (1,), [11])
    (tmp_path / "store" / name).write_text(text)
    assert put_back(spool_dir) == []
    assert values_of(str(tmp_path / "store/a"))[1] == 11


@pytest.mark.parametrize("name", ["data.zip", "data.nc"])
def test_it_works_in_an_archive_also_where_only_the_url_says_that_it_is_one(
    tmp_path: Path, spool_dir: Path, name: str
) -> None:
    url = f"{tmp_path / name}#mode=zarr,zip"
    create(url)
    with dying_mount(url, spool_dir) as v:
        write(v, (1,), [11])
    assert put_back(spool_dir) == []
    assert values_of(url)[:3] == [-1, 11, -1]
    assert zipfile.is_zipfile(tmp_path / name)


@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        ("i1", [1, -1]),
        ("f8", [-0.0, 1e300]),
        ("S1", [b"a", b"\xff"]),
        (str, ["ö", ""]),
    ],
)
@pytest.mark.parametrize("format_name", ["nczarr-L3", "zarr2"])
def test_elements_of_all_kinds_are_put_back(
    url: str, spool_dir: Path, dtype: Any, values: list[Any], format_name: str
) -> None:
    create(url, dtype=dtype, fillvalue=None, format=format_name)
    with open_url(url, "r+") as dataset:
        dataset.variables["v"][4:6] = values[::-1]
    with dying_mount(url, spool_dir) as v:
        native = v.description.dtype.native
        if dtype is str and native.kind == "S":
            write(v, (6,), [text.encode() for text in values])
        else:
            write(v, (6,), np.asarray(values, native))
    assert put_back(spool_dir) == []
    assert values_of(url)[4:8] == values[::-1] + values


def test_a_scalar_is_put_back(url: str, spool_dir: Path) -> None:
    with open_url(url, "w", format="zarr2") as dataset:
        dataset.create_variable("v", (), "i4")
    with dying_mount(url, spool_dir) as v:
        write(v, (), 7)
    (found,) = recovery.entries(spool_dir)
    assert found.describe().endswith(" v: 1 elements")
    assert put_back(spool_dir) == []
    assert values_of(url) == 7


def test_elements_of_variable_length_are_exported_as_the_codecs_have_them(
    url: str, spool_dir: Path, tmp_path: Path
) -> None:
    create(url, dtype=str, fillvalue=None, format="zarr2")
    with dying_mount(url, spool_dir) as v:
        write(v, (1,), np.array(["text"], object))
        pipeline = v.writer().pipeline((0,))
    (found,) = recovery.entries(spool_dir)
    exported = found.export(tmp_path)
    assert exported.name.endswith(".chunk")
    assert pipeline.decode(exported.read_bytes())[1] == "text"


# What is there


def test_an_entry_tells_which_elements_it_has(url: str, spool_dir: Path) -> None:
    create(url, dimensions=(10, 10), chunks=(4, 4))
    with dying_mount(url, spool_dir) as v:
        write(v, (4, 8), [[1, 2], [3, 4]])
        write(v, (0, 0), np.ones((4, 1)))
        write(v, (0, 3), np.ones((1, 1)))
    told = [found.describe() for found in recovery.entries(spool_dir)]
    assert told == [f"{url} v[4:6, 8:10]", f"{url} v[0:4, 0:4]: 5 of 16 elements"]


def test_what_is_torn_is_named_and_left_alone(url: str, spool_dir: Path) -> None:
    create(url)
    with dying_mount(url, spool_dir) as v:
        write(v, (1,), [11])
        write(v, (5,), [15])
    whole, torn = (found.path for found in recovery.entries(spool_dir))
    torn.write_bytes(torn.read_bytes()[:-1])
    (whole.parent / "9-half").write_bytes(b"ab")
    found = {each.path: each for each in recovery.entries(spool_dir)}
    assert len(found) == 3
    assert "torn" in found[torn].problem
    assert "killed" in found[whole.parent / "9-half"].describe()
    with pytest.raises(SpoolError, match="incomplete"):
        found[torn].describe()
    for each in found.values():
        each.remove()
    assert os.listdir(spool_dir) == []


def test_what_a_living_mount_has_is_left_alone(url: str, spool_dir: Path) -> None:
    create(url)
    with dying_mount(url, spool_dir) as v:
        write(v, (1,), [11])
        v._chunks._writeback.close()
        (found,) = recovery.entries(spool_dir)
        assert found.is_owned
        with pytest.raises(SpoolError, match="its mount is running"):
            found.remove()
    (found,) = recovery.entries(spool_dir)
    assert not found.is_owned


def test_entries_of_two_mounts_are_exported_beside_each_other(
    url: str, spool_dir: Path, tmp_path: Path
) -> None:
    create(url)
    for value in (1, 2):
        with dying_mount(url, spool_dir) as v:
            write(v, (1,), [value])
    exported = [np.load(f.export(tmp_path)) for f in recovery.entries(spool_dir)]
    assert [each["value"][1] for each in exported] == [1, 2]


def test_of_a_whole_chunk_at_the_edge_nothing_beyond_it_is_told_or_exported(
    url: str, spool_dir: Path, tmp_path: Path
) -> None:
    create(url)
    with dying_mount(url, spool_dir) as v:
        write(v, (8,), [1, 2])
    (found,) = recovery.entries(spool_dir)
    assert found.describe() == f"{url} v[8:10]"
    assert np.load(found.export(tmp_path))["written"].sum() == 2


# Objects


def keep_object(
    spool_dir: Path, url: str, content: bytes, replaces: str, missing: list[Any], key: str = "a/b"
) -> None:
    spool = Spool(spool_dir, url)
    path = spool.new_path(key)
    path.write_bytes(content)
    kept = KeptFacts("no way", time.time(), len(content), google_crc32c.value(content))
    document = Staged(key, replaces, kept=kept).document(path.name) | {"missing": missing}
    del document["changed"]  # as of an earlier version of nczfs: all that is there was written
    spool.log.append([packed(document)])
    spool.log.hold(path.name, lambda: [packed(document)])
    spool.close()


@pytest.fixture
def objects(url: str) -> Iterator[Any]:
    os.makedirs(url)
    zmap = open_store(url)
    yield zmap
    zmap.close()


KEY = parse_key("a/b")


def test_an_object_is_put_back_and_what_was_never_fetched_comes_from_its_version(
    objects: Any, url: str, spool_dir: Path
) -> None:
    version = objects.write(KEY, b"0123456789")
    keep_object(spool_dir, url, b"\0\0ab\0\0\0\0\0\0cd", version, [(0, 2), (4, 10)])
    assert put_back(spool_dir) == []
    assert objects.read(KEY).data == b"01ab456789cd"


def test_what_two_mounts_left_of_an_object_is_put_back_together(
    objects: Any, url: str, spool_dir: Path
) -> None:
    """SEMANTICS W59: nobody else has written it in between."""
    version = objects.write(KEY, b"0123456789")
    keep_object(spool_dir, url, b"\0\0ab\0\0\0\0\0\0", version, [(0, 2), (4, 10)])
    keep_object(spool_dir, url, b"\0\0\0cd\0\0\0\0\0", version, [(0, 3), (5, 10)])
    assert put_back(spool_dir) == []
    assert objects.read(KEY).data == b"01acd56789"
    assert os.listdir(spool_dir) == []


@pytest.mark.parametrize("missing", [[], [(5, 90 << 20)]], ids=["whole", "in part"])
def test_an_object_is_put_back_in_blocks_however_large_it_is(
    objects: Any, url: str, spool_dir: Path, missing: list[Any]
) -> None:
    size = 96 << 20
    version = objects.write(KEY, bytes(size)) if missing else ABSENT
    content = np.arange(size // 4, dtype=np.int32).view(np.uint8)
    keep_object(spool_dir, url, content.tobytes(), version, missing)
    tracemalloc.start()
    try:
        assert put_back(spool_dir) == []
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 48 << 20
    for start, stop in missing:
        content[start:stop] = 0
    assert objects.read(KEY).data == content.tobytes()


def test_an_object_that_has_what_was_written_is_not_put_back_again(
    objects: Any, url: str, spool_dir: Path
) -> None:
    version = objects.write(KEY, b"0123456789")
    keep_object(spool_dir, url, b"\0\0ab\0\0\0\0\0\0", version, [(0, 2), (4, 10)])
    objects.write(KEY, b"01ab456789")
    assert put_back(spool_dir) == []
    assert objects.read(KEY).data == b"01ab456789"


@pytest.mark.parametrize("content", [b"", b"new"])
def test_an_object_that_was_new_is_put_where_there_is_none(
    objects: Any, url: str, spool_dir: Path, content: bytes
) -> None:
    keep_object(spool_dir, url, content, ABSENT, [])
    assert put_back(spool_dir) == []
    assert bytes(objects.read(KEY).data) == content


@pytest.mark.parametrize("deleted", [True, False])
def test_an_object_that_others_have_changed_is_left_to_them_unless_forced(
    objects: Any, url: str, spool_dir: Path, deleted: bool
) -> None:
    version = objects.write(KEY, b"first")
    keep_object(spool_dir, url, b"ours!", version, [])
    if deleted:
        objects.delete(KEY)
    else:
        objects.write(KEY, b"theirs")
    (problem,) = put_back(spool_dir)
    assert "--force" in problem
    if not deleted:
        assert objects.read(KEY).data == b"theirs"
    assert put_back(spool_dir, force=True) == []
    assert objects.read(KEY).data == b"ours!"


def test_an_object_that_was_put_back_before_is_only_removed_from_the_spool(
    objects: Any, url: str, spool_dir: Path
) -> None:
    version = objects.write(KEY, b"first")
    keep_object(spool_dir, url, b"ours!", version, [])
    objects.write(KEY, b"ours!")
    assert put_back(spool_dir) == []
    assert objects.read(KEY).data == b"ours!"
    assert os.listdir(spool_dir) == []


def test_an_object_whose_other_bytes_are_gone_is_refused(
    objects: Any, url: str, spool_dir: Path
) -> None:
    version = objects.write(KEY, b"first")
    keep_object(spool_dir, url, b"ours!", version, [(0, 2)])
    objects.write(KEY, b"other")
    for force in (False, True):
        assert len(put_back(spool_dir, force=force)) == 1
    assert objects.read(KEY).data == b"other"


@pytest.mark.parametrize(
    ("missing", "key"),
    [
        ([(-1, 2)], "a/b"),
        ([(0, 2**40)], "a/b"),
        ([(3, 2)], "a/b"),
        (["x"], "a/b"),
        (3, "a/b"),
        ([], "../b"),
        ([], "/etc/b"),
        ([], ""),
    ],
)
def test_an_object_entry_that_makes_no_sense_is_refused(
    objects: Any, url: str, spool_dir: Path, missing: Any, key: str
) -> None:
    version = objects.write(KEY, b"first")
    keep_object(spool_dir, url, b"ours!", version, missing, key)
    assert put_back(spool_dir, force=True) != []
    assert objects.read(KEY).data == b"first"


def test_an_object_is_exported_as_it_is(
    objects: Any, url: str, spool_dir: Path, tmp_path: Path
) -> None:
    keep_object(spool_dir, url, b"content", ABSENT, [])
    (found,) = recovery.entries(spool_dir)
    assert found.describe() == f"{url} a/b: 7 bytes"
    assert found.export(tmp_path).read_bytes() == b"content"
