"""Datasets of Zarr v2, as zarr-python reads them after their metadata became those of Zarr v3.

The reference data are named by ``NCZFS_REFERENCE_DATA`` alone.
"""

from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import nczfs
from nczfs.errors import Unsupported
from nczfs.model.hierarchy import Variable
from nczfs.tools.metadata_conversion import MetadataConversion
from nczfs.tools.verify.digest import digest_of
from nczfs.tools.verify.nodes import Nodes
from nczfs.tools.verify.subject import subject_at
from tests.support.reference import zarr2_cases

REFUSED = {"v2-objects": ("json2", "vlen_array"), "v2-structured": ("nested", "rec")}
"""What Zarr v3 cannot say: JSON and arrays as elements, and fields of several byte orders."""


def convert(place: Path) -> None:
    with subject_at(str(place)) as subject:
        subject.zmap.prepare_writing()
        conversion = MetadataConversion(subject, lambda _: None)
        conversion.check()
        conversion.run()


def digests(place: Path) -> dict[str, str]:
    """Return the checksums of all values, as nczfs reads them."""
    with subject_at(str(place)) as subject:
        nodes = Nodes(subject)
        list(nodes.walk())
        return {
            node.path: digest_of(subject.dataset.array(node))
            for node in nodes.found.values()
            if isinstance(node, Variable)
        }


def read(place: Path, version: int) -> Any:
    """Return the values of an array as zarr-python reads them, in the byte order of the machine."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of types and codecs that Zarr v3 does not specify
        array: Any = zarr.open_array(str(place), mode="r", zarr_format=version)  # type: ignore[arg-type]
        values = np.asarray(array[...])
    if values.dtype.kind in "OT":
        return values.astype(object)
    return values.astype(values.dtype.newbyteorder("="))


def arrays(place: Path) -> list[Path]:
    found = [
        p for p in place.rglob("zarr.json") if json.loads(p.read_text())["node_type"] == "array"
    ]
    return [path.parent for path in found]


@pytest.mark.parametrize("case", zarr2_cases(), ids=lambda case: case.name)
def test_every_array_reads_the_same_in_both_versions(case: Path, tmp_path: Path) -> None:
    source = next(case.glob("data.*"))
    place = tmp_path / source.name
    (shutil.copytree if source.is_dir() else shutil.copy)(source, place)
    for name in REFUSED.get(case.name, ()):
        shutil.rmtree(place / name)
    before = digests(place)
    convert(place)
    assert digests(place) == before
    if place.is_dir():
        found = arrays(place)
        assert len(found) == len(before)
        for each in found:
            old, new = read(each, 2), read(each, 3)
            assert (old.dtype, old.shape) == (new.dtype, new.shape)
            same = (
                old.tolist() == new.tolist()
                if old.dtype.hasobject
                else old.tobytes() == new.tobytes()
            )
            assert same, each


@pytest.mark.parametrize(
    "case", [c for c in zarr2_cases() if c.name in REFUSED], ids=lambda c: c.name
)
def test_what_zarr_v3_cannot_say_is_refused_by_name(case: Path, tmp_path: Path) -> None:
    place = tmp_path / "data.zarr"
    shutil.copytree(case / "data.zarr", place)
    with pytest.raises(Unsupported) as caught:
        convert(place)
    for name in REFUSED[case.name]:
        assert f"{name}/.zarray: dtype" in str(caught.value)
    assert not list(place.rglob("zarr.json"))


TYPES = ["|b1", "|i1", "<i2", ">i2", "<u8", ">f4", "<f8", ">c16", "<U3", ">U3", "|S3", "|V3"]
TYPES += ["<M8[ms]", ">m8[25s]", "|O"]


@pytest.mark.parametrize("dtype", [*TYPES, [("a", "<i4"), ("b", "|S2"), ("c", "<f8")]])
@pytest.mark.parametrize("order", ["C", "F"])
def test_what_zarr_python_writes_now_reads_the_same(dtype: Any, order: Any, tmp_path: Path) -> None:
    place = tmp_path / "d.zarr"
    wanted = "string" if dtype == "|O" else np.dtype(dtype)
    values = np.arange(24) if dtype != "|O" else np.array([str(n) for n in range(24)], dtype=object)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        group = zarr.open_group(str(place), mode="w", zarr_format=2)
        array = group.create_array("v", shape=(4, 6), chunks=(3, 4), dtype=wanted, order=order)
        if isinstance(dtype, list):
            record = np.zeros((4, 6), dtype)
            record["a"], record["c"] = values.reshape(4, 6), values.reshape(4, 6) / 3
            array[...] = record
        elif str(dtype)[1] in "SUV":
            array[...] = values.astype("S3").astype(dtype).reshape(4, 6)
        else:
            array[...] = values.reshape(4, 6).astype(np.dtype(object) if dtype == "|O" else dtype)
    convert(place)
    old, new = read(place / "v", 2), read(place / "v", 3)
    assert old.tolist() == new.tolist()
    with nczfs.open(str(place)) as root:
        ours = root.variables["v"][...]
        assert np.asarray(ours).astype(new.dtype).tolist() == new.tolist()
