"""NaN and infinities in attributes without types: numbers, as zarr-python and xarray have them."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import xarray
import zarr

import nczfs
from nczfs.cli.main import main


def written_by_nczfs(path: Path) -> str:
    with nczfs.open(str(path), "w", format="zarr2") as root:
        many = np.array([1.5, np.nan, np.inf, -np.inf])
        attributes = {"missing_value": np.float32(np.nan), "many": many}
        root.create_variable("v", (2,), "<f4", np.ones(2, "f4"), attributes=attributes)
    return (path / "v/.zattrs").read_text()


def test_they_are_written_as_words_without_quotes(tmp_path: Path) -> None:
    assert written_by_nczfs(tmp_path / "d") == (
        '{"missing_value": NaN, "many": [1.5,NaN,Infinity,-Infinity]}'
    )


def test_zarr_python_reads_them_as_numbers(tmp_path: Path) -> None:
    written_by_nczfs(tmp_path / "d")
    attributes = zarr.open_group(tmp_path / "d", mode="r")["v"].attrs.asdict()
    assert math.isnan(attributes["missing_value"])  # type: ignore[arg-type]
    np.testing.assert_equal(attributes["many"], [1.5, math.nan, math.inf, -math.inf])


@pytest.mark.parametrize("consolidated", [False, True])
def test_a_dataset_of_xarray_is_copied_as_it_is(
    tmp_path: Path, consolidated: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    attributes = {"missing_value": math.nan, "deep": {"a": [True, -math.inf]}}
    made = xarray.Dataset({"v": ("x", np.arange(3.0), attributes)}, attrs={"limit": math.inf})
    made.to_zarr(tmp_path / "a", zarr_format=2, consolidated=consolidated)
    assert main(["cp", str(tmp_path / "a"), str(tmp_path / "b")]) == 0
    assert main(["diff", str(tmp_path / "a"), str(tmp_path / "b")]) == 0, capsys.readouterr().out
    copied = xarray.open_zarr(tmp_path / "b", consolidated=consolidated, mask_and_scale=False)
    assert math.isnan(copied["v"].attrs["missing_value"])
    assert copied["v"].attrs["deep"] == {"a": [True, -math.inf]}
    assert copied.attrs == {"limit": math.inf}
    copied.close()
