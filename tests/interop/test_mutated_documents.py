"""Damaged metadata: each dataset opens or is refused alone, in bounded time and memory."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import nczfs
from tests.support.reference import load, zarr2_cases

FORMATS = ("nczarr-L3", "nczarr-L2l", "nczarr-L2U", "nczarr-L1", "zarr2")


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small dataset in each layout, and some of other writers."""
    root = tmp_path_factory.mktemp("originals")
    for name in FORMATS:
        consolidated = name in ("zarr2", "nczarr-L3")
        with nczfs.open(str(root / name), "w", format=name, consolidated=consolidated) as dataset:
            dataset.create_dimension("x", 5)
            attributes = {"units": "K", "n": np.array([1, 2], "i2"), "j": {"a": [1]}}
            dataset.create_variable(
                "a", ("x",), "f4", np.ones(5), fillvalue=-1.0, attributes=attributes
            )
            dataset.create_variable("s", (), "i8", 3)
            dataset.create_group("g").create_variable("b", ("x",), "S1", "text.")
    for case in zarr2_cases():
        if (store := load(case).store).is_dir():
            shutil.copytree(store, root / case.name)
    return root


@pytest.mark.parametrize("rounds", [1_500, pytest.param(10_000, marks=pytest.mark.long)])
def test_hundreds_of_damaged_documents_are_opened_or_refused_alone(
    originals: Path, rounds: int
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.mutated", str(originals), str(rounds), "1"],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == 0, done.stderr[-4000:]
    ends = ast.literal_eval(done.stdout.splitlines()[-1])
    assert sum(ends.values()) == rounds
    # Both sides must have been met: damage that never hurts proves nothing.
    assert ends["opened"] > rounds / 10
    assert ends["broken member"] > rounds / 20
    assert ends["refused"] > rounds / 1000
