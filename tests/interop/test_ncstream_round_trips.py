"""Other programs' datasets through an ncstream and back: the values that those programs read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nczfs
from nczfs.cli.main import main
from tests.support.cdl import header_lines, numbers
from tests.support.reference import load, reference_root, zarr_cases


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


def is_ragged(elements: list[Any]) -> bool:
    return bool(elements) and isinstance(elements[0], np.ndarray)


def comparable(values: Any) -> Any:
    """Values as bytes, in the types that ncstream has; texts as lists."""
    array = np.asarray(values)
    flat = array.reshape(-1).tolist()
    if array.dtype.kind == "U" or (flat and isinstance(flat[0], str)):
        return array.tolist()
    if array.dtype.kind == "O":
        return [each.tolist() for each in flat] if is_ragged(flat) else b"".join(flat)
    if array.dtype.kind in "mM":
        array = array.view(array.dtype.str.replace(array.dtype.str[1:], "i8"))
    if array.dtype.kind == "f" and array.dtype.itemsize == 2:
        array = array.astype("f4")
    return array.astype(array.dtype.newbyteorder("=")).tobytes()


OF_NETCDF_C = (
    ("nczarr_test/ref_oldformat.zip", "nczarr_test/ref_oldformat.cdl", ("lat", "pos")),
    ("nczarr_test/ref_oldkeys.file.zip", "nczarr_test/ref_oldkeys.cdl", ("v",)),
    (
        "old-releases/v4.9.2-ref_oldformat.zip",
        "old-releases/v4.9.2-ref_oldformat.cdl",
        ("lat",),
    ),
)


@pytest.mark.parametrize(("dataset", "dump", "names"), OF_NETCDF_C)
def test_a_dataset_of_netcdf_c_comes_back_as_its_dump(
    dataset: str,
    dump: str,
    names: tuple[str, ...],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    root = reference_root()
    assert root is not None
    expected = (root / "netcdf-c" / dump).read_text()
    stem = expected.split()[1]
    assert run("export", root / "netcdf-c" / dataset, tmp_path / "a.ncs") == 0
    assert run("import", tmp_path / "a.ncs", tmp_path / "b") == 0
    capsys.readouterr()
    assert run("dump", tmp_path / "b", "-n", stem) == 0
    found = capsys.readouterr().out
    assert header_lines(found) == header_lines(expected)
    for name in names:
        assert numbers(found, name) == numbers(expected, name)


BROKEN = "gdal-zarr/array_attrs.zarr"


def of_others() -> list[str]:
    """The datasets of GDAL and netcdf-c without such notes, by their paths."""
    root = reference_root() or Path("/nowhere")
    patterns = "gdal-zarr/*.zarr", "gdal-zarr/v3/*", "netcdf-c/*/*.zarr", "netcdf-c/*/*.zip"
    found = {str(path.relative_to(root)) for pattern in patterns for path in root.glob(pattern)}
    return sorted(found - {BROKEN} | {"zarr/v2-objects/data.zarr"})


TIFF = "uint16_imagecodecs_tiff"
LEFT_OUT = {
    "compound_complex.zarr": "compound_complex.zarr",  # structures in structures
    "data.zarr": "json2",
    f"{TIFF}.zarr": TIFF,  # no program here has the codec
    f"{TIFF}_invalid_tiff.zarr": TIFF,
}


@pytest.mark.parametrize("dataset", of_others())
def test_a_dataset_of_others_comes_back_as_the_engine_reads_it(
    dataset: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = reference_root()
    assert root is not None
    place = root / dataset
    assert run("export", place, tmp_path / "a.ncs", "--skip-unsupported") == 0
    left_out = capsys.readouterr().err
    assert run("import", tmp_path / "a.ncs", tmp_path / "b", "--format", "zarr2") == 0
    with nczfs.open(str(place)) as expected, nczfs.open(str(tmp_path / "b")) as found:
        wanted, came = dict(variables(expected)), dict(variables(found))
        if (missing := LEFT_OUT.get(place.name)) is not None:
            assert f"{missing}: " in left_out
            del wanted[missing]
        assert came.keys() == wanted.keys()
        for path, one in wanted.items():
            other = came[path]
            names = [name.rstrip("_") for name in other.dimensions]  # "_" where one is hidden
            assert tuple(names[: len(one.dimensions)]) == one.dimensions
            assert comparable(other[...]) == comparable(one[...]), path
