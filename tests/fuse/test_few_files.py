"""Many chunks for programs, few files for the disk: what docs/few-files.md promises."""

from __future__ import annotations

import json
import os
from pathlib import Path

import dask.array
import numpy as np
import pytest
import xarray as xr
import zarr
from zarr.storage import ZipStore

from tests.support.commands import printed
from tests.support.settled import settled

VALUES = np.arange(1, 40 * 60 + 1, dtype="<f4").reshape(40, 60)
CHUNKS = 4, 6


def files_below(directory: Path) -> list[str]:
    return sorted(path.relative_to(directory).as_posix() for path in directory.rglob("*"))


@pytest.mark.filterwarnings("ignore:Consolidated metadata is currently not part")
def test_zarr_python_and_xarray_write_chunk_files_of_which_the_disk_has_one(
    tmp_path: Path,
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    archive = disk / "run.zip"
    printed("create", archive, "--format", "zarr3", "--zip-form", "root")
    with settled(archive, tmp_path / "spool") as mount:
        objects = mount.path / "objects"
        root = zarr.open_group(objects, mode="a", zarr_format=3)
        array = root.create_array("v", shape=VALUES.shape, chunks=CHUNKS, dtype="f4")
        array[...] = VALUES
        lazy = dask.array.from_array(VALUES, CHUNKS)  # type: ignore[no-untyped-call]
        dataset = xr.Dataset({"t": (("time", "x"), lazy)}, attrs={"title": "run"})
        dataset.to_zarr(objects / "model", zarr_format=3)
        dataset.to_zarr(objects / "model", append_dim="time")
        assert len([name for name in files_below(objects) if "/c/" in name]) > 300
        with (mount.path / ".nczfs/flush").open("w") as flush:
            flush.write("flush\n")
        assert set(files_below(disk)) == {"run.zip", "run.zip.nczfs-tail"}
        shown = mount.path / "datasets/run.zip"
        assert (shown / "v/values.raw").read_bytes() == VALUES.tobytes()
        assert (shown / "model/t/values.raw").read_bytes() == 2 * VALUES.tobytes()
    assert files_below(disk) == ["run.zip"]
    store = ZipStore(archive, mode="r")
    assert np.array_equal(zarr.open_array(store, path="v", mode="r")[...], VALUES)
    with xr.open_zarr(store, group="model", consolidated=False) as read:
        assert read.attrs["title"] == "run"
        assert np.array_equal(read["t"].values, np.vstack([VALUES, VALUES]))
    store.close()


def test_programs_write_values_and_chunks_of_which_the_disk_has_shards(tmp_path: Path) -> None:
    disk, spool = tmp_path / "disk", tmp_path / "spool"
    disk.mkdir()
    shape = {"shape": VALUES.shape, "dtype": "<f4", "dimensions": ["y", "x"]}
    chunks = {"chunk_shape": CHUNKS, "shard_shape": (20, 60)}
    with settled(disk, spool, "-o", "create_format=zarr3") as mount:
        dataset = mount.path / "datasets/run.zarr"
        for name in ("v", "w"):
            (dataset / name).mkdir(parents=True)
            (dataset / name / "info.json").write_text(json.dumps(shape | chunks))
        saved = np.load(dataset / "v/values.npy", mmap_mode="r+")
        lazy = dask.array.from_array(VALUES, CHUNKS)  # type: ignore[no-untyped-call]
        dask.array.store(lazy, saved, lock=False)
        saved.flush()
        for name in os.listdir(dataset / "w/chunks"):
            i, j = (int(part) * n for part, n in zip(name.split("."), CHUNKS, strict=True))
            chunk = VALUES[i : i + CHUNKS[0], j : j + CHUNKS[1]]
            chunk.tofile(dataset / "w/chunks" / name)
        assert len(os.listdir(dataset / "w/chunks")) == 100
    kept = [name for name in files_below(disk) if (disk / name).is_file()]
    documents = ["run.zarr/v/zarr.json", "run.zarr/w/zarr.json", "run.zarr/zarr.json"]
    shards = [f"run.zarr/{name}/c/{row}/0" for name in "vw" for row in range(2)]
    assert kept == sorted(documents + shards)
    root = zarr.open_group(disk / "run.zarr", mode="r")
    for name in ("v", "w"):
        assert np.array_equal(np.asarray(root[name]), VALUES)
