"""Reading single points with xarray: the chunks that have any, and no more than these."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import nczfs
from nczfs.library.xarray import points
from nczfs.library.xarray.points import is_scattered

SHAPE = (7, 40, 50)
VALUES = np.arange(np.prod(SHAPE), dtype="i4").reshape(SHAPE)
RANDOM = np.random.default_rng(3)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(points, "ELEMENTS_READ_AT_ONCE", 16)
    with nczfs.open(tmp_path / "d", "w") as root:
        for name, length in zip("tyx", SHAPE, strict=True):
            root.create_dimension(name, length)
        root.create_variable("v", ("t", "y", "x"), "i4", VALUES, chunks=(3, 8, 9))
    return str(tmp_path / "d")


@pytest.mark.parametrize("is_near", [True, False], ids=["near", "far"])
@pytest.mark.parametrize(
    "names", [("y", "x"), ("t", "x"), ("t", "y", "x"), ("x", "y")], ids="".join
)
@pytest.mark.parametrize("form", [(30,), (5, 6)], ids=str)
def test_points_are_those_of_numpy(
    names: tuple[str, ...],
    form: tuple[int, ...],
    is_near: bool,
    place: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    original, calls = points.read_points, []

    def read_points(*arguments: Any, **options: Any) -> Any:
        calls.append(arguments)
        return original(*arguments, is_near=is_near)

    monkeypatch.setattr("nczfs.library.xarray.array.read_points", read_points)
    dimensions = ("p", "q")[: len(form)]
    wanted = {
        name: xr.DataArray(RANDOM.integers(0, SHAPE["tyx".index(name)], form), dims=dimensions)
        for name in names
    }
    expected = xr.DataArray(VALUES, dims=tuple("tyx"))
    with xr.open_dataset(place, engine="nczfs", create_default_indexes=False) as ds:
        for others in ({}, {"t": slice(1, 6, 2)}):
            box = {name: part for name, part in others.items() if name not in names}
            found = ds.v.isel(box).isel(wanted)
            xr.testing.assert_equal(found.compute(), expected.isel(box).isel(wanted))
    assert calls


def test_few_values_are_read_for_points_far_apart(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    original = nczfs.Variable.read

    def counted(self: nczfs.Variable, selection: Any) -> Any:
        found = original(self, selection)
        read.append(found.size)
        return found

    monkeypatch.setattr(nczfs.Variable, "read", counted)
    diagonal = xr.DataArray(np.arange(40), dims="p")
    with xr.open_dataset(place, engine="nczfs") as ds:
        found = ds.v.isel(y=diagonal, x=diagonal).compute()
    np.testing.assert_array_equal(found.values, VALUES[:, range(40), range(40)])
    assert max(read) <= 7 * 8 * 9
    assert sum(read) < VALUES.size / 4


def test_points_close_together_are_read_at_once() -> None:
    near = (np.arange(100), np.arange(100) % 3)
    assert not is_scattered(near, (10**6, 10**6))
    far = (np.arange(0, 10**6, 100), np.arange(0, 10**6, 100))
    assert is_scattered(far, (10**6, 10**6))
    assert not is_scattered((far[0], slice(None)), (10**6, 10**6))
    assert not is_scattered((*far, slice(None, None, -1)), (10**6, 10**6, 10))


@pytest.mark.parametrize("index", [-5, 4])
def test_an_index_outside_of_the_array_is_an_error(index: int) -> None:
    key = (np.array([0, index]), np.array([0, 1]))
    with pytest.raises(IndexError, match="out of bounds"):
        points.read_points(
            key,
            (4, 3),
            (2, 2),
            VALUES.dtype,
            lambda _: pytest.fail("nothing is read"),
            is_near=True,
        )
