"""netCDF's BitRound: rounded as numcodecs rounds, kept as netcdf-c keeps it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest
from numcodecs import BitRound

import nczfs
from nczfs.engine.values.quantize import ATTRIBUTE
from nczfs.errors import UsageError

VALUES = np.random.default_rng(1).normal(280, 10, (40, 50)).astype("f4")
CODECS: list[dict[str, Any]] = [
    {"id": "bitround", "keepbits": 6},
    {"id": "shuffle"},
    {"id": "zlib", "level": 4},
]


def written(path: Path, values: Any, **options: Any) -> np.ndarray[Any, np.dtype[Any]]:
    with nczfs.open(str(path), "w", **options) as dataset:
        dataset.create_dimension("y", values.shape[0])
        dataset.create_dimension("x", values.shape[1])
        variable = dataset.create_variable(
            "v", ("y", "x"), "f4", chunks=(16, 16), codecs=CODECS, fillvalue=-1.5
        )
        variable[...] = values
        assert np.array_equal(variable[...], variable[...], equal_nan=True)
    with nczfs.open(str(path)) as dataset:
        found: np.ndarray[Any, np.dtype[Any]] = dataset.variables["v"][...]
        return found


@pytest.mark.parametrize("options", [{}, {"format": "zarr2"}])
def test_values_are_rounded_as_numcodecs_does(tmp_path: Path, options: dict[str, Any]) -> None:
    expected = np.asarray(BitRound(6).encode(VALUES)).view("f4").reshape(VALUES.shape)
    assert np.array_equal(written(tmp_path / "d", VALUES, **options), expected)


def test_netcdf_c_reads_it_and_knows_the_bits(tmp_path: Path) -> None:
    found = written(tmp_path / "d", VALUES)
    with netCDF4.Dataset(f"file://{tmp_path}/d#mode=nczarr,file") as dataset:
        variable = dataset["v"]
        assert variable.getncattr(ATTRIBUTE) == 6
        assert variable.quantization() == (6, "BitRound")
        variable.set_auto_mask(False)
        assert np.array_equal(variable[...], found)


def test_fill_values_and_what_is_not_finite_stay_exact(tmp_path: Path) -> None:
    values = VALUES.copy()
    values[0, :4] = [-1.5, np.nan, np.inf, -np.inf]
    found = written(tmp_path / "d", values)
    assert np.array_equal(found[0, :4], values[0, :4], equal_nan=True)


def test_a_later_session_rounds_too(tmp_path: Path) -> None:
    written(tmp_path / "d", VALUES)
    with nczfs.open(str(tmp_path / "d"), "r+") as dataset:
        dataset.variables["v"][3, 4] = 1.00001
        assert dataset.variables["v"][3, 4] == 1.0


def test_bits_that_a_float_does_not_have_are_refused(tmp_path: Path) -> None:
    with (
        nczfs.open(str(tmp_path / "d"), "w") as dataset,
        pytest.raises(UsageError, match="1 to 23"),
    ):
        dataset.create_variable("v", (), "f4", codecs=[{"id": "bitround", "keepbits": 24}])
