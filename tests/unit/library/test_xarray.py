"""The engine of xarray: what xarray's own engines read, and what they do not."""

from __future__ import annotations

import json
import os
import pickle
import re
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr

import nczfs
from nczfs.errors import ReferenceRefused, StructureChanged, UsageError
from nczfs.library.opening import open_zmap
from nczfs.library.xarray.array import LazyArray
from nczfs.library.xarray.backend import NczfsBackend
from nczfs.zmap.base import Blob
from nczfs.zmap.keys import Key, parse_key
from nczfs.zmap.memory import MemoryZMap
from tests.support.counted import CountedStore
from tests.support.dependents import VALUES, write_dependents_sample
from tests.support.reference import load, zarr_cases
from tests.support.sample import zip_up

SUM = "import pickle, sys; print(float(pickle.load(sys.stdin.buffer).v.sum()))"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A dataset of NCZarr with groups, an unlimited dimension, and all kinds of text."""
    with nczfs.open(tmp_path / "d", "w") as root:
        root.attrs["title"] = "t"
        root.attrs["levels"] = [1, 2]
        root.create_dimension("t", None)
        root.create_dimension("x", 3)
        root.create_dimension("none", 0)
        hours = {"units": "hours since 2000-01-01", "calendar": "standard"}
        root.create_variable("t", ("t",), "f8", np.arange(4.0), attributes=hours)
        packed = {"scale_factor": 0.5, "add_offset": 1.0}
        values = np.arange(12, dtype="i2").reshape(4, 3)
        root.create_variable("v", ("t", "x"), ">i2", values, fillvalue=5, attributes=packed)
        root.create_variable("unset", ("x",), "i4", chunks=(2,))
        root.create_variable("names", ("x",), str, ["a", "", "ø"])
        root.create_variable("letters", ("x",), "S1", np.array([b"a", b"b", b"c"]))
        root.create_variable("empty", ("none", "x"), "f4")
        root.create_variable("scalar", (), "i8", 7)
        inner = root.create_group("g/h")
        inner.create_variable("w", ("x",), "i4", [1, 2, 3])
    return tmp_path / "d"


def made_by_xarray() -> xr.Dataset:
    """What xarray itself writes to Zarr."""
    packing = {"dtype": "i2", "scale_factor": 0.5, "_FillValue": np.int16(-9)}
    return xr.Dataset(
        {
            "packed": ("time", [0.5, np.nan, 2.0], {"units": "K"}, packing),
            "moments": ("time", np.array(["2001-01-01", "2001-01-02", "NaT"], "M8[ns]")),
            "f": (("time", "x"), np.arange(6, dtype=">f4").reshape(3, 2)),
            "flag": ("x", [True, False]),
            "fixed": ("x", np.array(["ab", "c"])),
            "objects": ("x", np.array(["ab", "ø"], object)),
            "wait": ("x", np.array([1, 2], "m8[s]").astype("m8[ns]")),
            "scalar": ((), 1.5),
            "none": (("nothing", "x"), np.empty((0, 2))),
        },
        {
            "time": np.array(["2001-01-01", "2001-01-02", "2001-01-04"], "M8[ns]"),
            "lat": ("x", [1.0, 2.0]),
        },
        {"title": "t", "numbers": [1, 2]},
    )


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_what_xarray_wrote_is_what_its_engine_reads(zarr_format: Any, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # zarr-python: fixed-length texts, consolidated v3
        made_by_xarray().to_zarr(tmp_path / "d.zarr", zarr_format=zarr_format)
        theirs = xr.open_dataset(tmp_path / "d.zarr", engine="zarr").load()
    with xr.open_dataset(tmp_path / "d.zarr", engine="nczfs") as ours:
        xr.testing.assert_identical(ours, theirs)
        for name, variable in theirs.variables.items():
            kept = ("preferred_chunks", "_FillValue", "scale_factor", "units", "chunks")
            for key in kept:
                found, expected = ours[name].encoding.get(key), variable.encoding.get(key)
                np.testing.assert_equal(found, expected, err_msg=f"{name} {key}")


def test_nczarr_is_what_netcdf_c_reads(place: Path) -> None:
    url = f"file://{place}#mode=nczarr,file"
    with (
        xr.open_dataset(place, engine="nczfs") as ours,
        xr.open_dataset(url, engine="netcdf4") as theirs,
    ):
        xr.testing.assert_identical(ours.load(), theirs.load())
        assert {n: v.dtype.kind for n, v in ours.items()} == {
            n: v.dtype.kind.replace("U", "O") for n, v in theirs.items()
        }
        assert ours.encoding["unlimited_dims"] == {"t"}
    with (
        xr.open_datatree(place, engine="nczfs") as tree,
        xr.open_dataset(url, engine="netcdf4", group="g/h") as group,
    ):
        xr.testing.assert_identical(
            dict(tree.subtree_with_keys)["g/h"].to_dataset(inherit=False), group
        )
    assert [*xr.open_groups(place, engine="nczfs", group="g")] == ["/", "/h"]


@pytest.mark.parametrize("directory", zarr_cases(), ids=lambda path: path.name)
@pytest.mark.filterwarnings("ignore:.*is left out", "ignore:Duplicate dimension")
def test_reference_values(directory: Path) -> None:
    case = load(directory)
    stored: dict[str, Any] = {
        "mask_and_scale": False,
        "decode_times": False,
        "concat_characters": False,
    }
    groups = xr.open_groups(case.store, engine="nczfs", **stored)
    for path, expected in case.values.items():
        group, _, name = path.rpartition("/")
        dataset = groups[f"/{group}"]
        found = dataset[name or next(iter(dataset))].values
        if found.dtype.kind in "biufc" and found.dtype == expected.dtype.newbyteorder("="):
            np.testing.assert_array_equal(found, expected, err_msg=path)
        assert found.shape == expected.shape
    groups["/"].close()


def test_indexing_is_numpys(place: Path) -> None:
    expected = np.arange(12).reshape(4, 3)
    with xr.open_dataset(place, engine="nczfs", decode_cf=False) as opened:
        v = opened.v.variable
        for key in (
            (2, 1),
            (slice(None, None, -1), slice(0, 3, 2)),
            (slice(1, 1), 0),
            ([3, 0, 0], slice(None)),
            (np.array([True, False, True, False]), -1),
        ):
            np.testing.assert_array_equal(v[key], expected[key])
        outer = v[[3, 1], [2, 0]]
        np.testing.assert_array_equal(outer, expected[np.ix_([3, 1], [2, 0])])
        points = xr.Variable("p", [3, 1, 1]), xr.Variable("p", [2, 0, 2])
        np.testing.assert_array_equal(v[points], expected[[3, 1, 1], [2, 0, 2]])
        assert opened.names.variable[1].values[()] == ""


def test_only_what_is_needed_is_read(place: Path) -> None:
    for chunk in (place / "v").glob("[1-9]*"):
        chunk.write_bytes(b"broken")
    with xr.open_dataset(place, engine="nczfs") as opened:
        assert opened.v[0].values.tolist() == [1.0, 1.5, 2.0]
        with pytest.raises(nczfs.NczfsError, match="v/1"):
            opened.v.load()


def grid(path: Path, shapes: list[Any], shape: list[int]) -> None:
    path.mkdir()
    configuration = {"kind": "inline", "chunk_shapes": shapes}
    document = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": shape,
        "data_type": "int32",
        "chunk_grid": {"name": "rectilinear", "configuration": configuration},
        "chunk_key_encoding": {"name": "default"},
        "fill_value": 0,
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
        "dimension_names": ["y", None],
    }
    (path / "zarr.json").write_text(json.dumps(document))


def test_dask_is_told_of_what_is_stored_together(tmp_path: Path) -> None:
    root = zarr.open_group(tmp_path / "d", mode="w", zarr_format=3)
    named: dict[str, Any] = {"dimension_names": ["y", "x"], "dtype": "u1", "fill_value": 0}
    root.create_array("sharded", shape=(8, 7), chunks=(1, 2), shards=(4, 6), **named)
    huge: dict[str, Any] = {"shape": (8, 1 << 28), "chunks": (4, 1 << 20), "shards": (8, 1 << 27)}
    root.create_array("huge", **{**named, "dimension_names": ["y", "z"]}, **huge)
    grid(tmp_path / "d/uneven", [[3, 1, 6], 2], [8, 4])
    grid(tmp_path / "d/even", [[3, 3, 9], 4], [8, 4])
    grid(tmp_path / "d/endless", [[[1, 1 << 40]], 4], [1 << 40, 4])
    with xr.open_dataset(
        tmp_path / "d", engine="nczfs", chunks={}, drop_variables=["endless"]
    ) as opened:
        assert opened.sharded.chunks == ((4, 4), (6, 1))
        assert opened.huge.encoding["preferred_chunks"] == {"y": 4, "z": 1 << 20}
        assert opened.uneven.chunks == ((3, 1, 4), (2, 2))
        assert opened.even.encoding["preferred_chunks"] == {"y": 3, "_Anonymous_Dim_4": 4}
        assert int(opened.uneven.sum()) == 0
    with xr.open_dataset(
        tmp_path / "d", engine="nczfs", drop_variables=["sharded", "huge", "uneven", "even"]
    ) as opened:
        assert opened.endless.encoding["preferred_chunks"]["y"] == 1


def test_threads_of_dask_read_the_same(place: Path) -> None:
    with xr.open_dataset(place, engine="nczfs", chunks={}) as opened:
        assert opened.v.chunks == ((1, 1, 1, 1), (3,))
        expected = np.nansum(np.where(np.arange(12) == 5, np.nan, np.arange(12) * 0.5 + 1))
        assert float(opened.v.sum().compute(scheduler="threads")) == expected
        assert float(opened.empty.sum()) == 0


def test_threads_share_one_array(place: Path) -> None:
    with xr.open_dataset(place, engine="nczfs", cache=False) as opened:
        with ThreadPoolExecutor(8) as pool:
            rows = [*pool.map(lambda n: opened.v[n % 4].values, range(64))]
        for number, row in enumerate(rows):
            np.testing.assert_array_equal(row, opened.v[number % 4].values)


def test_what_was_pickled_is_opened_where_it_was(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place.parent)
    with xr.open_dataset("d", engine="nczfs", options={"decode_threads": 1}) as opened:
        pickled, expected = pickle.dumps(opened), float(opened.v.sum())
    monkeypatch.chdir("/")
    assert float(pickle.loads(pickled).v.sum()) == expected
    assert forked(lambda: str(float(pickle.loads(pickled).v.sum()))) == str(expected)


@pytest.mark.long
def test_another_process_reads_what_was_pickled(place: Path) -> None:
    with xr.open_dataset(place, engine="nczfs") as opened:
        pickled, expected = pickle.dumps(opened), float(opened.v.sum())
    done = subprocess.run([sys.executable, "-c", SUM], input=pickled, capture_output=True)
    assert done.stderr == b""
    assert float(done.stdout) == expected


@pytest.mark.long
def test_processes_of_dask_read_the_same(place: Path) -> None:
    with xr.open_dataset(place, engine="nczfs", chunks={}) as opened:
        total = opened.v.sum().compute(scheduler="processes", num_workers=2)
        assert float(total) == float(opened.v.sum().compute(scheduler="threads"))


def test_a_forked_process_opens_its_own(place: Path) -> None:
    with xr.open_dataset(place, engine="nczfs", cache=False) as opened:
        expected = str(opened.v.values)
        assert forked(lambda: str(opened.v.values)) == expected
        assert str(opened.v.values) == expected


def forked(action: Callable[[], str]) -> str:
    """Return what an action returns in a process that was forked from this one."""
    ours, theirs = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.write(theirs, action().encode())
        finally:
            os._exit(0)
    os.close(theirs)
    with open(ours) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return text


def test_copies_in_a_process_share_one_open_dataset(place: Path) -> None:
    descriptors = len(os.listdir("/proc/self/fd"))
    with xr.open_dataset(place, engine="nczfs") as opened:
        pickled = pickle.dumps(opened.drop_vars("t"))
    copies = [pickle.loads(pickled) for _ in range(8)]
    for each in copies:
        each.v[0].load()
    assert len(os.listdir("/proc/self/fd")) <= descriptors + 1


def test_many_datasets_share_their_threads(place: Path) -> None:
    before = set(threading.enumerate())
    opened = [
        xr.open_dataset(place, engine="nczfs", options={"decode_threads": 1}) for _ in range(8)
    ]
    for each in opened:
        each.v.load()
    new = set(threading.enumerate()) - before
    for each in opened:
        each.close()
    assert len(new) <= 4


def test_what_was_closed_takes_no_part_of_the_common_memory(place: Path) -> None:
    with xr.open_dataset(place, engine="nczfs", cache=False) as opened:
        opened.v[0, 0].load()
        opened.v[0, 1].load()  # the second time the chunk is kept
        array = opened.v.variable._data
        while not isinstance(array, LazyArray):
            array = array.array
        engine = array._source.dataset.engine_dataset.engine
        kept = engine.cache.used_bytes
    assert engine.cache.used_bytes < kept


class Gated(CountedStore):
    """One in which the chunks of two coordinates are read at the same time, or not at all."""

    def __init__(self) -> None:
        super().__init__()
        self.both = threading.Barrier(2)

    def read(self, key: Key, *arguments: Any, **options: Any) -> Blob:
        if key in ("y/0", "x/0"):
            self.both.wait(60)
        return super().read(key, *arguments, **options)


def test_a_far_dataset_is_opened_in_few_round_trips(tmp_path: Path) -> None:
    values = ("y", "x"), np.zeros((2, 3))
    made = xr.Dataset({"v": values}, {"y": [1.5, 2.5], "x": [1.5, 2.5, 3.5]})
    made.to_zarr(tmp_path / "d", zarr_format=2, consolidated=True)
    store = Gated()
    for path in (tmp_path / "d").rglob("*"):
        if path.is_file():
            store.write(parse_key(path.relative_to(tmp_path / "d").as_posix()), path.read_bytes())
    store.reads.clear()
    with open_zmap(store) as dataset:
        opened = dataset.to_xarray()
        assert opened.x.values.tolist() == [1.5, 2.5, 3.5]
        assert store.searches == 0
        documents = {key for key in store.reads if "/" in key} - {"y/0", "x/0"}
        assert documents == set()
        assert store.reads["x/0"] == store.reads["y/0"] == 1
        opened.close()


def test_a_closed_dataset_is_opened_again_where_it_was(place: Path) -> None:
    opened = xr.open_dataset(place, engine="nczfs")
    opened.close()
    assert opened.v[0].values.tolist() == [1.0, 1.5, 2.0]
    opened.close()


def test_another_variable_of_the_name_is_refused(place: Path) -> None:
    with xr.open_dataset(place, engine="nczfs", drop_variables="t") as opened:
        pickled = pickle.dumps(opened)
    with nczfs.open(place, "r+") as changed:
        del changed["v"]
        changed.create_variable("v", ("x",), "f8", [1.0, 2.0, 3.0])
    with pytest.raises(StructureChanged, match="v has changed; open the dataset again"):
        pickle.loads(pickled).v.load()


def test_records_that_come_later_are_not_seen(place: Path) -> None:
    with xr.open_dataset(place, engine="nczfs") as opened:
        pickled = pickle.dumps(opened)
    with nczfs.open(place, "r+") as changed:
        changed.variables["v"][4:6] = np.zeros((2, 3))
    assert pickle.loads(pickled).v.values.shape == (4, 3)
    with xr.open_dataset(place, engine="nczfs") as opened:
        assert opened.v.shape == (6, 3)


def test_an_open_dataset_becomes_one_of_xarray(place: Path) -> None:
    with nczfs.open(place, "r+") as dataset:
        shown = dataset.to_xarray(decode_cf=False, cache=False)
        dataset.variables["v"][0] = 9
        assert shown.v[0].values.tolist() == [9, 9, 9]
        assert dataset.to_xarray(group="g/h").w.values.tolist() == [1, 2, 3]
        assert dataset.to_xarray(chunks={}).v.chunks is not None
    dataset = nczfs.open(place)
    dataset.to_xarray().close()
    assert dataset.is_closed


def test_a_dataset_without_a_url_cannot_be_pickled() -> None:
    dataset = open_zmap(MemoryZMap(), "w")
    dataset.create_variable("v", (2,), "f4", [1, 2])
    shown = dataset.to_xarray(cache=False)
    assert shown.v.values.tolist() == [1, 2]
    with pytest.raises(UsageError, match="cannot be pickled"):
        pickle.dumps(shown)
    dataset.close()
    with pytest.raises(UsageError, match="was closed"):
        shown.v.load()


def test_what_cannot_be_read_is_left_out_with_a_warning(tmp_path: Path) -> None:
    root = zarr.open_group(tmp_path / "d", mode="w", zarr_format=3)
    root.create_array("good", shape=(2,), dtype="f4", dimension_names=["x"])
    root.create_array("bad", shape=(2,), dtype="f4", dimension_names=["x"])
    document = json.loads((tmp_path / "d/bad/zarr.json").read_text())
    (tmp_path / "d/bad/zarr.json").write_text(json.dumps(document | {"data_type": "unheard-of"}))
    with (
        pytest.warns(UserWarning, match=r"'bad' is left out: .*unheard-of"),
        xr.open_dataset(tmp_path / "d", engine="nczfs") as opened,
    ):
        assert [*opened] == ["good"]
    with xr.open_dataset(tmp_path / "d", engine="nczfs", drop_variables="bad") as opened:
        assert [*opened] == ["good"]


def test_variables_can_be_dropped(place: Path) -> None:
    with xr.open_dataset(place, engine="nczfs", drop_variables=["v", "t"]) as opened:
        assert not {"v", "t"} & {*opened.variables}


def test_dependent_arrays_are_variables(tmp_path: Path) -> None:
    write_dependents_sample(tmp_path)
    with xr.open_dataset(tmp_path, engine="nczfs", decode_cf=False) as opened:
        for path, name in {"t": "t", "t/mask": "t.mask", "t/mask/why": "t.mask.why"}.items():
            np.testing.assert_array_equal(opened[name].values, VALUES[path])
        assert opened["t.mask"].dims == ("y", "x")
        assert "dependent-arrays" not in opened["t"].attrs
        copy = pickle.loads(pickle.dumps(opened["t.mask"]))
    np.testing.assert_array_equal(copy.values, VALUES["t/mask"])


def test_arrays_alone_and_dimensions_without_names(tmp_path: Path) -> None:
    values = np.arange(16).reshape(4, 4)
    zarr.create_array(tmp_path / "a", data=values, zarr_format=3)
    with xr.open_dataset(tmp_path / "a", engine="nczfs") as opened:
        assert opened.a.dims == ("_Anonymous_Dim_4", "_Anonymous_Dim_4_2")
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(opened)).a, values)


def test_archives_and_references(place: Path, tmp_path: Path) -> None:
    zip_up(place, tmp_path / "d.zip")
    references = {
        path.relative_to(place).as_posix(): [path.as_uri()]
        for path in place.rglob("*")
        if path.is_file()
    }
    (tmp_path / "d.json").write_text(json.dumps({"version": 1, "refs": references}))
    with xr.open_datatree(place, engine="nczfs") as expected:
        for name in ("d.zip", "d.json"):
            with xr.open_datatree(tmp_path / name, engine="nczfs") as found:
                xr.testing.assert_identical(found.load(), expected.load())


def test_references_lead_where_the_options_allow(place: Path, tmp_path: Path) -> None:
    (tmp_path / "catalog").mkdir()
    references = tmp_path / "catalog/d.json"
    uris = {
        path.relative_to(place).as_posix(): [path.as_uri()]
        for path in place.rglob("*")
        if path.is_file()
    }
    references.write_text(json.dumps({"version": 1, "refs": uris}))
    with xr.open_dataset(place, engine="nczfs") as expected:
        allowed = {"allow_references": [str(place)]}
        with xr.open_dataset(references, engine="nczfs", store_options=allowed) as found:
            xr.testing.assert_identical(found.load(), expected.load())
    with pytest.raises(ReferenceRefused, match="--allow-references PREFIX allows it"):
        xr.open_dataset(references, engine="nczfs")
    # The first character of a path is a prefix of all paths.
    with pytest.raises(UsageError, match="allow_references: '/nowhere' is a text, not a sequence"):
        xr.open_dataset(references, engine="nczfs", store_options={"allow_references": "/nowhere"})


def test_opening_with_another_engine_imports_nothing_of_ours(tmp_path: Path) -> None:
    """xarray imports every engine that is installed, and asks each that is not named."""
    xr.Dataset({"v": ("x", [1, 2])}).to_netcdf(tmp_path / "a.nc", engine="scipy")
    script = (
        "import sys, xarray\n"
        "for engine in (None, 'scipy'):\n"
        "    xarray.open_dataset(sys.argv[1], engine=engine).close()\n"
        "print(*sorted(name for name in sys.modules if name.startswith('nczfs')))"
    )
    words = [sys.executable, "-c", script, str(tmp_path / "a.nc")]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    ours = "nczfs nczfs.library nczfs.library.xarray nczfs.library.xarray.backend"
    assert done.stdout.split() == ours.split()


def test_other_files_are_left_to_others(place: Path, tmp_path: Path) -> None:
    guess = NczfsBackend().guess_can_open
    (tmp_path / "empty").mkdir()
    place.rename(tmp_path / "e.zarr")
    zarr.open_group(tmp_path / "f", mode="w")
    (tmp_path / "a.nc").write_bytes(b"CDF\x01")
    others: list[object] = [tmp_path / name for name in ("empty", "e.zarr", "a.nc", "missing")]
    others += ["s3://bucket/key", "https://host/a.nc", b"CDF\x01", 1, None]
    assert [each for each in others if guess(each)] == []
    with nczfs.open(tmp_path / "f") as dataset:
        assert guess(dataset)
    with xr.open_dataset(tmp_path / "f") as opened:
        assert [*opened] == []


def test_what_is_missing_is_not_found(place: Path) -> None:
    for group in ("nothing", "v"):
        with pytest.raises(FileNotFoundError, match=group):
            xr.open_dataset(place, engine="nczfs", group=group)
    with pytest.raises(FileNotFoundError, match="no such directory"):
        xr.open_dataset(place / "nothing", engine="nczfs")
    with pytest.raises(FileNotFoundError, match="no Zarr or NCZarr"):
        xr.open_dataset(place.parent, engine="nczfs")


def test_other_engines_store_what_was_opened(place: Path, tmp_path: Path) -> None:
    with xr.open_dataset(place, engine="nczfs", drop_variables="letters") as opened:
        opened.load()
        opened.to_netcdf(tmp_path / "a.nc", engine="netcdf4")
        with xr.open_dataset(tmp_path / "a.nc", engine="netcdf4") as stored:
            xr.testing.assert_identical(stored.load(), opened)
            assert stored.v.encoding["dtype"] == opened.v.encoding["dtype"] == np.dtype("i2")
            assert "t" in stored.encoding["unlimited_dims"]


@pytest.mark.long
def test_xarrays_own_tests_pass(tmp_path: Path) -> None:
    repository = Path(__file__).parents[3]
    words = ["-q", "-c", os.devnull, "--rootdir", str(repository), "-p", "no:cacheprovider"]
    own = repository / "tests/support/xarray_own.py"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words, "-W", "ignore", str(own)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    assert int(re.findall(r"(\d+) passed", done.stdout)[0]) > 100
