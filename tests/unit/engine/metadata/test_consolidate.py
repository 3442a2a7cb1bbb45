"""The consolidated copy, beside what another program makes of the same documents."""

from __future__ import annotations

import itertools
import json
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import zarr

import nczfs
from nczfs.errors import Unavailable
from nczfs.formats.base import FormatOptions
from nczfs.formats.registry import FORMATS
from nczfs.library.opening import open_zmap
from nczfs.testing.faults import Fault, Faulty
from nczfs.zmap.keys import ROOT, parse_key
from nczfs.zmap.memory import MemoryZMap

LAYOUTS = ("nczarr-L3", "nczarr-L2l", "nczarr-L2U", "zarr2")


@pytest.mark.parametrize("layout", LAYOUTS)
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


@pytest.mark.parametrize("after", [False, True], ids=["refused", "answer lost"])
@pytest.mark.parametrize("format", FORMATS.names)
def test_a_new_group_that_waited_is_in_a_copy_that_another_client_made_meanwhile(
    format: str, after: bool
) -> None:
    single = FORMATS.named(format, FormatOptions())
    for call in itertools.count():
        zmap = MemoryZMap()
        with open_zmap(zmap, "w", format=format, consolidated=True):
            pass
        faulty = Faulty(zmap)
        with open_zmap(faulty, "r+") as root:
            root.create_group("a/b", {"units": "m"})
            faulty.arm(Fault(call, Unavailable, after=after, operations=frozenset({"write"})))
            with suppress(Unavailable):
                root.sync()
            has_failed = bool(faulty.fired)
            faulty.arm()
            with open_zmap(zmap, "r+") as other:
                other.create_group("theirs")
        assert single.copy is not None
        found = single.copy.read(bytes(zmap.read(parse_key(single.copy.key)).data))
        assert found is not None
        for path in ("a", "a/b"):
            keys = {*single.consolidated_keys(path)}
            stored = {str(stat.key) for stat in zmap.list(ROOT)}
            assert keys.intersection(found.keys) == keys.intersection(stored) != set()
        if not has_failed:
            break
