"""What opening a dataset in xarray takes for each variable: by calls, not by time."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
import zarr

import nczfs
from tests.support.calls import counted_calls

pytestmark = pytest.mark.usefixtures("lasting_documents")

OURS = str(Path(nczfs.__file__).parent)


def made(place: Path, zarr_format: int, count: int) -> Path:
    """A dataset of some variables of two dimensions, and a coordinate."""
    path = place / f"{count}.zarr"
    root = zarr.create_group(path, zarr_format=zarr_format)  # type: ignore[arg-type]
    is_v3 = zarr_format == 3
    for name in ("x", *(f"v{number}" for number in range(count))):
        axes = ("x",) if name == "x" else ("y", "x")
        shape = tuple({"x": 4, "y": 3}[axis] for axis in axes)
        root.create_array(
            name,
            data=np.zeros(shape, "f4"),
            chunks=shape,
            dimension_names=axes if is_v3 else None,
            attributes={"units": "K"} if is_v3 else {"_ARRAY_DIMENSIONS": list(axes)},
        )
    return path


def opened(path: Path) -> None:
    with xr.open_dataset(path, engine="nczfs"):
        pass


@pytest.mark.parametrize(("zarr_format", "calls_max"), [(2, 300), (3, 295)])
def test_a_variable_takes_few_calls(zarr_format: int, calls_max: int, tmp_path: Path) -> None:
    few, many = (made(tmp_path, zarr_format, count) for count in (10, 30))
    opened(few)  # imports
    totals = []
    for path in (few, many):
        with counted_calls() as calls:
            opened(path)
        totals.append(sum(count for file, count in calls.items() if file.startswith(OURS)))
    assert (totals[1] - totals[0]) / 20 <= calls_max


@pytest.mark.parametrize(("zarr_format", "documents"), [(2, 2), (3, 1)])
def test_a_variable_takes_the_system_calls_of_its_documents(
    zarr_format: int, documents: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few, many = (made(tmp_path, zarr_format, count) for count in (10, 30))
    opened(few)
    made_calls: list[str] = []

    def note(name: str) -> None:
        call = getattr(os, name)

        def counted(*arguments: object, **options: object) -> object:
            made_calls.append(name)
            return call(*arguments, **options)

        monkeypatch.setattr(os, name, counted)

    names = ("open", "scandir", "readlink", "stat")
    for name in names:
        note(name)
    found = []
    for path in (few, many):
        made_calls.clear()
        opened(path)
        found.append([made_calls.count(name) for name in names])
    # A document is opened in its directory, which is opened before.
    assert np.subtract(found[1], found[0]).tolist() == [20 * 2 * documents, 0, 0, 0]
