"""Commands that read or copy long texts: a chunk of them fits into memory, but not many."""

from __future__ import annotations

import contextlib
import os
import tracemalloc
from pathlib import Path

import netCDF4
import pytest

import nczfs
from nczfs.cli.main import main

MIB = 1 << 20
TEXTS = [chr(ord("a") + number % 26) * MIB for number in range(40)]


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    place = tmp_path / "d.zarr"
    with nczfs.open(place, "w", format="zarr2") as root:
        root.create_dimension("x", len(TEXTS))
        variable = root.create_variable("t", ("x",), str, chunks=(1,))
        for number, text in enumerate(TEXTS):
            variable[number] = text
    return place


@pytest.mark.parametrize(
    "words",
    [
        "verify --digest {dataset}",
        "dump {dataset}",
        "cp --format zarr3 {dataset} {copy}",
        "export {dataset} {file}",
    ],
    ids=lambda words: words.partition(" ")[0],
)
def test_no_command_has_many_of_them_in_memory(
    dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    monkeypatch.setenv("NCZFS_MEMORY_LIMIT", "16MiB")
    copy, file = tmp_path / "copy.zarr", tmp_path / "d.nc"
    tracemalloc.start()
    try:
        with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
            assert main(words.format(dataset=dataset, copy=copy, file=file).split()) == 0
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 16 * MIB
    if copy.exists():
        with nczfs.open(copy) as root:
            assert root.variables["t"][...].tolist() == TEXTS
    if file.exists():
        with netCDF4.Dataset(file) as exported:
            assert exported["t"][:].tolist() == TEXTS
