"""Other programs' datasets through an ncstream and back: the values that those programs read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nczfs
from nczfs.cli.main import main
from tests.support.reference import load, zarr_cases


def run(*words: str | Path) -> int:
    return main([str(word) for word in words])


OF_CODECS = ("v2-compressors", "v2-filters", "v3-codecs", "v3-numcodecs")


# Streams know nothing of codecs, so the cases of codecs are for long runs.
CASES = [
    pytest.param(
        folder, marks=[pytest.mark.long] if folder.name in OF_CODECS else [], id=folder.name
    )
    for folder in zarr_cases()
]


@pytest.mark.parametrize("folder", CASES)
def test_a_dataset_comes_back_from_its_stream(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Zarr v2 takes them all: it has the types of ncstream, but for sequences."""
    case = load(folder)
    assert run("export", case.store, tmp_path / "a.ncs", "--skip-unsupported") == 0
    left_out = capsys.readouterr().err
    assert run("import", tmp_path / "a.ncs", tmp_path / "b", "--format", "zarr2") == 0
    assert "left out" not in capsys.readouterr().err
    with nczfs.open(str(tmp_path / "b")) as root:
        found = dict(variables(root))
        for path, expected in case.values.items():
            name = path or case.store.name
            if name not in found:
                assert f"{path}: " in left_out, path
                continue
            values = found[name][...]
            assert comparable(values) == comparable(expected), path
    assert found


def variables(group: Any, above: str = "") -> Iterator[tuple[str, Any]]:
    for name, variable in group.variables.items():
        yield f"{above}{name}", variable
    for name, child in group.groups.items():
        yield from variables(child, f"{above}{name}/")


def comparable(values: Any) -> Any:
    """Values as bytes, in the types that ncstream has; texts as lists."""
    array = np.asarray(values)
    flat = array.reshape(-1).tolist()
    if array.dtype.kind == "U" or (flat and isinstance(flat[0], str)):
        return array.tolist()
    if array.dtype.kind == "O":
        return b"".join(flat)
    if array.dtype.kind in "mM":
        array = array.view(array.dtype.str.replace(array.dtype.str[1:], "i8"))
    if array.dtype.kind == "f" and array.dtype.itemsize == 2:
        array = array.astype("f4")
    return array.astype(array.dtype.newbyteorder("=")).tobytes()
