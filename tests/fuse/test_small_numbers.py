"""Numbers of ml_dtypes in a mount: every view shows them, and files of values take them."""

from __future__ import annotations

import errno
import json
import subprocess
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest

from nczfs.model.smallnumbers import SMALL_NUMBERS, number_kind
from tests.support.mounts import mounted


def stored(directory: Path, name: str, endian: str = "big") -> np.ndarray[Any, np.dtype[Any]]:
    """Make a dataset of one array, whose last chunk is missing; return its values."""
    dtype = SMALL_NUMBERS[name]
    array = directory / name
    (array / "c").mkdir(parents=True)
    (directory / "zarr.json").write_text(
        json.dumps({"zarr_format": 3, "node_type": "group", "attributes": {}})
    )
    document = {
        "zarr_format": 3, "node_type": "array", "shape": [4], "data_type": name,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": [1, 0] if number_kind(dtype) == "c" else 1, "attributes": {},
        "codecs": [{"name": "bytes", "configuration": {"endian": endian}}],
        "dimension_names": ["x"],
    }  # fmt: skip
    (array / "zarr.json").write_text(json.dumps(document))
    values = np.array([1, 1, 1, 1] if name.endswith("e8m0fnu") else [0, 1, 1, 1]).astype(dtype)
    parts = values[:2].view("u1" if dtype.itemsize == 1 else "u2")
    (array / "c" / "0").write_bytes(
        parts.astype(parts.dtype.newbyteorder(">" if endian == "big" else "<")).tobytes()
    )
    return values


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    for name in SMALL_NUMBERS:
        stored(tmp_path / "d.zarr", name)
    return tmp_path / "d.zarr"


def test_every_view_shows_numbers_of_ml_dtypes(dataset: Path) -> None:
    with mounted(dataset.parent) as root:
        shown = root / "datasets" / "d.zarr"
        with netCDF4.Dataset(shown / "d.nc") as file:
            file.set_auto_mask(False)
            found = {name: variable[...] for name, variable in file.variables.items()}
            omitted = file.getncattr("nczfs_omitted")
        for name, dtype in SMALL_NUMBERS.items():
            values = stored(dataset.parent.parent / "again" / name, name)
            view = shown / name
            assert (view / "values.raw").read_bytes() == values.tobytes()
            assert np.load(view / "values.npy").view(dtype).tobytes() == values.tobytes()
            lines = [complex(*map(float, line.split())) for line in
                     (view / "values.txt").read_text().splitlines()]  # fmt: skip
            assert lines == values.astype(complex).tolist()
            info = json.loads((view / "info.json").read_text())
            assert info["dtype"] == name
            if number_kind(dtype) == "c":
                assert info["problems"] == [f"{name}.nc: is of type {name}"]
                assert f"/{name}: is of type {name}" in omitted
            else:
                assert found[name].tolist() == values.astype(float).tolist()
        text = (shown / "d.cdl").read_bytes()
        assert subprocess.run(["ncgen", "-c", "-"], input=text, check=False).returncode == 0


@pytest.mark.parametrize("name", ["int4", "bfloat16", "float8_e5m2", "complex_float16"])
def test_values_of_ml_dtypes_are_written(dataset: Path, name: str) -> None:
    dtype = SMALL_NUMBERS[name]
    with mounted(dataset.parent) as root:
        view = root / "datasets" / "d.zarr" / name
        new = np.array([3, -2, 1, 0]).astype(dtype)
        (view / "values.raw").write_bytes(new.tobytes())
        assert (view / "values.raw").read_bytes() == new.tobytes()
        lines = (view / "values.txt").read_bytes()
        (view / "values.raw").write_bytes(new[::-1].tobytes())
        (view / "values.txt").write_bytes(lines)
        assert (view / "values.raw").read_bytes() == new.tobytes()
    chunk = np.frombuffer((dataset / name / "c" / "0").read_bytes(), "u1")
    swapped = chunk if dtype.itemsize == 1 else chunk.view(">u2").astype("u2")
    assert swapped.tobytes() == new[:2].tobytes()


def test_bits_that_a_number_does_not_have_are_refused(dataset: Path) -> None:
    with mounted(dataset.parent, expect="EINVAL") as root:
        view = root / "datasets" / "d.zarr" / "int4"
        for name, data in (("values.raw", b"\xff\x01\x01\x01"), ("values.txt", b"   9\n" * 4)):
            with pytest.raises(OSError) as caught:  # noqa: PT011  # its number is checked
                (view / name).write_bytes(data)
            assert caught.value.errno == errno.EINVAL
        assert (view / "values.raw").read_bytes() == bytes([0, 1, 1, 1])
