"""Consolidated metadata that name what no store has: the rest of the dataset is read."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from nczfs.library.opening import open_url

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
