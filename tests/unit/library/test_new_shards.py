"""Variables whose chunks are stored in shards are made, copied and declared."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import zarr

import nczfs
from nczfs.cli.main import main
from nczfs.errors import Unsupported, UsageError

VALUES = np.arange(35, dtype="i4").reshape(7, 5)


def make(place: Path, **how: object) -> None:
    with nczfs.open(str(place), "w", format="zarr3") as dataset:
        dataset.create_dimension("y", 7)
        dataset.create_dimension("x", 5)
        variable = dataset.create_variable("v", ("y", "x"), "i4", **how)  # type: ignore[arg-type]
        variable[...] = VALUES


@pytest.fixture
def place(tmp_path: Path) -> Path:
    make(tmp_path / "a.zarr", chunks=(2, 3), shards=(4, 3))
    return tmp_path / "a.zarr"


def objects(place: Path) -> list[str]:
    found = (path.relative_to(place).as_posix() for path in place.rglob("*") if path.is_file())
    return sorted(name for name in found if not name.endswith("zarr.json"))


def test_a_shard_is_one_object_that_zarr_python_reads(place: Path) -> None:
    assert objects(place) == ["v/c/0/0", "v/c/0/1", "v/c/1/0", "v/c/1/1"]
    array = zarr.open_group(place, mode="r")["v"]
    assert isinstance(array, zarr.Array)
    assert (array.chunks, array.shards) == ((2, 3), (4, 3))
    assert np.array_equal(np.asarray(array[...]), VALUES)


@pytest.mark.parametrize("shards", [(3, 3), (4,), (0, 3), (4, 3, 1)])
def test_shards_are_whole_chunks(tmp_path: Path, shards: tuple[int, ...]) -> None:
    with pytest.raises(UsageError, match="are not whole chunks"):
        make(tmp_path / "a.zarr", chunks=(2, 3), shards=shards)


def test_a_format_without_shards_refuses_them(tmp_path: Path) -> None:
    with nczfs.open(str(tmp_path / "a.zarr"), "w", format="zarr2") as dataset:
        dataset.create_dimension("x", 4)
        with pytest.raises(Unsupported, match="zarr2 has no shards; zarr3 has"):
            dataset.create_variable("v", ("x",), "i4", chunks=(2,), shards=(4,))


def test_a_copy_has_the_shards_of_its_source_unless_other_chunks_are_wanted(
    place: Path, tmp_path: Path
) -> None:
    assert main(["cp", str(place), str(tmp_path / "b.zarr")]) == 0
    assert objects(tmp_path / "b.zarr") == objects(place)
    assert main(["cp", "--chunks", "y=3", str(place), str(tmp_path / "d.zarr")]) == 0
    assert main(["diff", str(place), str(tmp_path / "d.zarr")]) == 0


def test_cdl_says_what_the_shards_are(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["dump", "-h", "-s", str(place)]) == 0
    text = capsys.readouterr().out
    assert "v:_ShardSizes = 4, 3 ;" in text
    (tmp_path / "a.cdl").write_text(text)
    made = tmp_path / "b.zarr"
    assert main(["create", "--format", "zarr3", str(made), "--cdl", str(tmp_path / "a.cdl")]) == 0
    (codec,) = json.loads((made / "v/zarr.json").read_text())["codecs"]
    assert codec["name"] == "sharding_indexed"
    assert codec["configuration"]["chunk_shape"] == [2, 3]
