"""Groups of which no netCDF file, or hardly one, can be made: what fits is shown, within bounds."""

from __future__ import annotations

import errno
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.enduring import enduring
from tests.support.looking import failing_with, store_served
from tests.support.netcdf import ncdump

HEADER_BYTES = 1 << 20
FILES = ("d.nc", "d.classic.nc")
GROUP = {".zgroup": {"zarr_format": 2}}
TEXT: dict[str, Any] = {"dtype": "|O", "filters": [{"id": "vlen-utf8"}]}


def array(
    shape: tuple[int, ...] = (2,),
    dims: tuple[str, ...] | None = None,
    attributes: Mapping[str, object] | None = None,
    **members: Any,
) -> tuple[dict[str, Any], dict[str, object]]:
    """The two documents of an array."""
    document = {
        "zarr_format": 2,
        "shape": shape,
        "chunks": [min(max(n, 1), 100) for n in shape],
        "dtype": "<f4",
        "compressor": None,
        "filters": None,
        "fill_value": 0,
        "order": "C",
        **members,
    }
    named = {} if dims is None else {"_ARRAY_DIMENSIONS": dims}
    return document, {**named, **(attributes or {})}


def archive(directory: Path, documents: Mapping[str, object]) -> Path:
    """A zip archive with a dataset of these documents, and a good one."""
    path = directory / "hostile.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        for key, document in documents.items():
            file.writestr(f"d.zarr/{key}", json.dumps(document))
        file.writestr("good.zarr/.zgroup", json.dumps({"zarr_format": 2}))
        file.writestr("good.zarr/v/.zarray", json.dumps(array()[0]))
    return path


def group(
    arrays: Mapping[str, tuple[dict[str, Any], dict[str, object]]],
    attributes: Mapping[str, object] | None = None,
) -> dict[str, object]:
    documents: dict[str, object] = {**GROUP, ".zattrs": attributes or {}}
    for name, (document, own) in arrays.items():
        documents |= {f"{name}/.zarray": document, f"{name}/.zattrs": own}
    return documents


LENGTHS = [(2**62,), (2**62, 2**62), (2**31,) * 3, (2**63 - 1,), (2**63,), (0, 2**62), (2**32 - 1,)]
FIELDS: dict[str, object] = {
    "many": [[f"field{i}", "<f4"] for i in range(5000)],
    "odd": [["a/b", "<f4"], ["\0", "<i4"], ["x" * 70_000, "<i4"], ["\ud800", "<i4"]],
    "long": [["a", "<f4", [100_000_000]], ["b", "<i4"]],
    "rank": [["a", "<f4", [1] * 40]],
    "vast": [["a", "|S2000000000"]],
    "opaque": "|V100000000",
    "wide": "|S2000000000",
}
NAMES = [
    *("a/b", "\0x", "x" * 65_536, "\ud800", ".", "..", "", " ", "CLASS", "DIMENSION_LIST"),
    *("_NCProperties", "_FillValue", "a\nb", "e\u0301", "\u00e9", "NAME", "[", "nczfs_name"),
]
DEEP = {f"{'a/' * level}.zgroup": {"zarr_format": 2} for level in range(500)}

STORES: dict[str, tuple[dict[str, object], str]] = {
    "deep": (dict(DEEP), "groups deep"),
    "lengths": (
        group({f"v{i}": array(s, tuple(f"{i}_{j}" for j in s)) for i, s in enumerate(LENGTHS)}),
        "has a dimension longer than",
    ),
    "texts": (
        group({f"v{i}": array(s, **TEXT) for i, s in enumerate(LENGTHS)}),
        "strings of variable length",
    ),
    "fields": (
        group({n: array(dtype=dtype, fill_value=None) for n, dtype in FIELDS.items()}),
        "has elements of 400000004 bytes",
    ),
    "names": (
        group(
            {f"v{i}": array((2,), (n,), dict.fromkeys(NAMES, 1)) for i, n in enumerate(NAMES)},
            dict.fromkeys(NAMES, "x"),
        ),
        "netCDF reserves it",
    ),
    "nuls": (
        group({"v": array(fill_value="a\0b", **TEXT)}, {"a": ["a\0b", "c"], "b": "a\0b"}),
        "contain NUL",
    ),
    "attributes": (
        group({"v": array(attributes={f"a{i}": i for i in range(70_000)})}),
        "are too many",
    ),
}


@pytest.mark.parametrize("name", STORES)
def test_what_a_netcdf_file_cannot_hold_is_left_out_and_named(tmp_path: Path, name: str) -> None:
    """SEMANTICS A4, A7."""
    documents, reason = STORES[name]
    url = archive(tmp_path, documents)
    options = ("--memory-limit", "256MiB", "--request-timeout", "3m")
    with store_served(url, *options, expect="names are not keys|left out") as mount:
        place = mount.path / "datasets/d.zarr"
        with enduring(mount, mount.path / "datasets/good.zarr/v/values.raw"):
            for file in FILES:
                with (place / file).open("rb") as opened:
                    assert opened.read(HEADER_BYTES)
        assert reason in ncdump(place / "d.nc", "-h")
        if name not in ("nuls", "names", "attributes"):  # which the classic format can hold
            assert "nczfs_omitted" in ncdump(place / "d.classic.nc", "-h")


def test_a_netcdf_file_with_more_members_than_memory_is_refused_alone(tmp_path: Path) -> None:
    """SEMANTICS A7."""
    url = archive(tmp_path, group({f"v{i}": array(dims=("x",)) for i in range(14_000)}))
    options = ("--memory-limit", "64MiB", "--request-timeout", "100s")
    with store_served(url, *options, expect=r"d\.nc.*\(--memory-limit\)") as mount:
        place = mount.path / "datasets/d.zarr"
        with enduring(mount, mount.path / "datasets/good.zarr/v/values.raw"):
            with failing_with(errno.EFBIG):
                (place / "d.nc").read_bytes()
            assert (place / "v7/v7.nc").read_bytes()
