"""The consolidated copy, beside what another program makes of the same documents."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import zarr

import nczfs

FORMATS = ("nczarr-L3", "nczarr-L2l", "nczarr-L2U", "zarr2")


@pytest.mark.parametrize("layout", FORMATS)
def test_the_consolidated_copy_is_what_zarr_python_makes(tmp_path: Path, layout: str) -> None:
    place = tmp_path / "d.zarr"
    with nczfs.open(str(place), "w", format=layout, consolidated=True) as dataset:
        dataset.attrs["title"] = "t"
        dataset.create_dimension("x", 3)
        variable = dataset.create_variable("v", ("x",), "f4", fillvalue=np.nan)
        dataset.sync()
        variable.attrs["units"] = "m"
        dataset.create_group("g/h").create_variable("w", (), "i2", data=1)
        dataset.create_group("empty")
    ours = json.loads((place / ".zmetadata").read_text())
    zarr.consolidate_metadata(str(place), zarr_format=2)
    theirs = json.loads((place / ".zmetadata").read_text())
    assert ours.keys() == theirs.keys()
    assert ours["zarr_consolidated_format"] == theirs["zarr_consolidated_format"] == 1
    for key, document in theirs["metadata"].items():
        if key.endswith(".zattrs"):
            assert ours["metadata"].get(key, {}) == document
        else:
            # Version 3 of the program puts a member of its own there, and leaves out a default.
            document.pop("consolidated_metadata", None)
            assert {"dimension_separator": ".", **ours["metadata"][key]} == {
                "dimension_separator": ".",
                **ours["metadata"][key],
                **document,
            }
    assert {k for k in ours["metadata"] if k.endswith((".zarray", ".zgroup"))} == {
        k for k in theirs["metadata"] if k.endswith((".zarray", ".zgroup"))
    }
