"""``nczfs doctor`` with datasets and directories in which something is wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import zarr

from tests.support.examined import examined, examined_by


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    path = tmp_path / "data.zarr"
    group = zarr.open_group(path, mode="w", zarr_format=2)
    group.create_array("t", shape=(1 << 20,), chunks=(1 << 20,), dtype="u1")[...] = np.uint8(1)
    group.create_group("g").create_array("u", shape=(4,), chunks=(4,), dtype="i4")
    zarr.consolidate_metadata(path, zarr_format=2)
    return path


def test_a_sound_dataset_has_nothing_wrong(dataset: Path) -> None:
    found = examined(dataset, "--write")
    assert found.status == 0
    assert "zarr2 with 2 variables and 1 group" in found.line("dataset")
    assert "1MiB (/t), of" in found.line("largest chunk")
    assert {"metadata", "consolidated", "listing", "reading", "writing", "conditions"} & (
        found.not_well()
    ) == set()
    assert [path.name for path in dataset.glob(".nczfs*")] == []


@pytest.mark.parametrize(("limit", "grade"), [("2MiB", "doubtful"), ("512KiB", "wrong")])
def test_a_chunk_that_is_large_for_the_memory_is_named(
    dataset: Path, limit: str, grade: str
) -> None:
    found = examined(dataset, "--memory-limit", limit)
    assert found.grade("largest chunk") == grade
    assert "--memory-limit 4MiB" in found.line("largest chunk")
    assert found.status == (grade == "wrong")


def test_stale_consolidated_metadata_are_doubtful(dataset: Path) -> None:
    (dataset / "t/.zattrs").write_text('{"units": "K"}')
    found = examined(dataset)
    assert "doubtful" in found.line("consolidated")
    assert "1 document differ" in found.line("consolidated")


def test_broken_metadata_and_unknown_codecs_are_named_with_their_paths(dataset: Path) -> None:
    (dataset / ".zmetadata").unlink()
    description = json.loads((dataset / "t/.zarray").read_bytes())
    (dataset / "t/.zarray").write_text(
        json.dumps(description | {"compressor": {"id": "secret-sauce"}})
    )
    (dataset / "g/u/.zarray").write_text("{")
    found = examined(dataset)
    assert "secret-sauce" in found.line("metadata")
    assert "(and 1 more)" in found.line("metadata")
    assert "nczfs verify" in found.line("metadata")


def test_a_store_of_datasets_is_no_fault(dataset: Path) -> None:
    found = examined(dataset.parent)
    assert found.status == 0
    assert "none at this place itself" in found.line("dataset")


def test_places_where_nothing_is_are_wrong(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert "nothing is there" in examined(tmp_path / "empty").line("listing")
    found = examined(tmp_path / "none")
    assert (found.status, found.grade("store")) == (1, "wrong")
    assert examined("ftp://host/x").grade("store") == "wrong"


def test_a_root_that_cannot_be_read_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "zarr.json").write_text("{")
    found = examined(tmp_path)
    assert (found.status, found.grade("dataset")) == (1, "wrong")


def test_a_directory_that_cannot_be_written_is_wrong(dataset: Path) -> None:
    dataset.chmod(0o555)
    words = [sys.executable, "-m", "nczfs.cli.main", "doctor", str(dataset), "--write", "--json"]
    if os.geteuid() == 0:  # as any user: without the capabilities that pass over modes
        words = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", *words]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
    assert examined_by(done).grade("writing") == "wrong"


def test_a_store_that_can_only_be_read_is_wrong_for_writing(dataset: Path) -> None:
    found = examined(dataset, "--write", "--read-only")
    assert (found.status, found.grade("writing")) == (1, "wrong")


def test_names_of_others_do_not_control_the_output(
    dataset: Path,
) -> None:
    (dataset / ".zmetadata").unlink()
    evil = dataset / "g/\x1b[31mevil\n"
    evil.mkdir()
    (evil / ".zarray").write_text("{")
    found = examined(dataset)
    assert "\x1b" not in found.findings["metadata"]["text"]
    assert "\n" not in found.findings["metadata"]["text"]


def test_a_dataset_of_many_groups_is_not_looked_through_endlessly(tmp_path: Path) -> None:
    path = tmp_path / "many.zarr"
    path.mkdir()
    for number in range(300):
        (path / f"g{number}").mkdir()
        (path / f"g{number}/.zgroup").write_text('{"zarr_format": 2}')
    (path / ".zgroup").write_text('{"zarr_format": 2}')
    assert "with at least" in examined(path).line("dataset")
