"""netcdf-c's own test files: its datasets, its expected dumps, and what it refuses."""

from __future__ import annotations

import re
import shutil
import subprocess
import zipfile
from dataclasses import dataclass
from pathlib import Path

import netCDF4
import numpy as np
import pytest

import nczfs
from nczfs.vfs.tree import mount_tree
from tests.support.cdl import header_lines, numbers
from tests.support.mounts import nczfs as run_nczfs
from tests.support.reference import reference_root
from tests.support.trees import exists, listing, read


def netcdf_c(*paths: str) -> list[Path]:
    """Those of netcdf-c's files; none when there are no reference files."""
    root = reference_root()
    return [root / "netcdf-c" / path for path in paths] if root else []


@dataclass(frozen=True, slots=True)
class Expected:
    """A dataset and the dump that netcdf-c expects of it.

    Attributes
    ----------
    fragment : of the URL.
    format : the layout that is to be found.
    """

    dataset: str
    cdl: str
    fragment: str = ""
    format: str = "zarr2"


EXPECTED = (
    Expected("nczarr_test/ref_byte.zarr.zip", "nczarr_test/ref_byte.cdl"),
    Expected("nczarr_test/ref_oldformat.zip", "nczarr_test/ref_oldformat.cdl", format="nczarr-L3"),
    Expected(
        "nczarr_test/ref_oldkeys.file.zip", "nczarr_test/ref_oldkeys.cdl", format="nczarr-L2l"
    ),
    Expected(
        "nczarr_test/ref_power_901_constants_orig.zip", "nczarr_test/ref_power_901_constants.cdl"
    ),
    Expected(
        "old-releases/v4.9.2-ref_oldformat.zip",
        "old-releases/v4.9.2-ref_oldformat.cdl",
        format="nczarr-L1",
    ),
    Expected(
        "nczarr_test/ref_oldformat.zip", "nczarr_test/ref_newformatpure.cdl", "#mode=zarr,zip"
    ),
)


def cases() -> list[tuple[Path, Path, Expected]]:
    return [
        (dataset, cdl, case)
        for case in EXPECTED
        for dataset, cdl in zip(netcdf_c(case.dataset), netcdf_c(case.cdl), strict=True)
    ]


def shown_cdl(url: str) -> str:
    """The NAME.cdl of the root group of a dataset."""
    fs = mount_tree(url)
    try:
        (top,) = listing(fs, "datasets")
        (name,) = (name for name in listing(fs, f"datasets/{top}") if name.endswith(".cdl"))
        return read(fs, f"datasets/{top}/{name}").decode()
    finally:
        fs.close()


def anonymous_in_the_root(lines: list[str]) -> list[str]:
    """A header with its anonymous dimensions in the root alone.

    So netcdf-c 4.10.1 reads pure Zarr, and nczfs; the development release that made the dump
    declared them in each group.
    """
    anonymous = [line for line in lines if line.startswith("_Anonymous_Dim_")]
    rest = [line for line in lines if line not in anonymous and line != "dimensions:"]
    return [*dict.fromkeys(anonymous), *rest]


@pytest.mark.parametrize(
    ("dataset", "cdl", "case"),
    cases(),
    ids=lambda value: (
        value.dataset.rpartition("/")[2] + value.fragment if isinstance(value, Expected) else ""
    ),
)
def test_the_cdl_view_is_the_expected_dump(dataset: Path, cdl: Path, case: Expected) -> None:
    url = f"file://{dataset}{case.fragment}" if case.fragment else str(dataset)
    found, expected = header_lines(shown_cdl(url)), header_lines(cdl.read_text())
    if case.fragment:
        found, expected = anonymous_in_the_root(found), anonymous_in_the_root(expected)
    assert found == expected
    with nczfs.open(url) as opened:
        assert opened.tree().header.format == case.format
        assert opened.problems == ()


VALUES = (
    ("nczarr_test/ref_byte.zarr.zip", "nczarr_test/ref_byte.cdl", ("byte",)),
    ("nczarr_test/ref_oldformat.zip", "nczarr_test/ref_oldformat.cdl", ("lat", "g1/pos")),
    ("nczarr_test/ref_oldkeys.file.zip", "nczarr_test/ref_oldkeys.cdl", ("v",)),
    ("old-releases/v4.9.2-ref_oldformat.zip", "old-releases/v4.9.2-ref_oldformat.cdl", ("lat",)),
)


@pytest.mark.parametrize(
    ("dataset", "cdl", "variables"),
    [
        (dataset, cdl, variables)
        for where, what, variables in VALUES
        for dataset, cdl in zip(netcdf_c(where), netcdf_c(what), strict=True)
    ],
    ids=lambda value: value.name if isinstance(value, Path) and value.suffix == ".zip" else "",
)
def test_values_are_those_of_the_expected_dump(
    dataset: Path, cdl: Path, variables: tuple[str, ...]
) -> None:
    fs = mount_tree(str(dataset))
    (top,) = listing(fs, "datasets")
    with nczfs.open(str(dataset)) as opened:
        for path in variables:
            variable = opened[path]
            assert isinstance(variable, nczfs.Variable)
            fill = variable.attrs.get("_FillValue", variable.fill_value)
            given = numbers(cdl.read_text(), path.rpartition("/")[2])
            expected = np.array([fill if n is None else n for n in given], variable.dtype)
            np.testing.assert_array_equal(variable[...], expected.reshape(variable.shape))
            assert read(fs, f"datasets/{top}/{path}/values.raw") == expected.tobytes()
    fs.close()


@pytest.mark.parametrize(
    "dataset", netcdf_c("nczarr_test/ref_power_901_constants_orig.zip"), ids=["power_901"]
)
def test_an_array_of_which_no_chunk_is_stored_is_its_fill_value(dataset: Path) -> None:
    fs = mount_tree(str(dataset))
    (top,) = listing(fs, "datasets")
    raw = np.frombuffer(read(fs, f"datasets/{top}/FRLAKE/values.raw"), "f4")
    assert raw.shape == (361 * 576,)
    assert np.isnan(raw).all()
    fs.close()


@pytest.mark.parametrize("dataset", netcdf_c("nczarr_test/ref_data.zarr"), ids=["ref_data"])
def test_a_consolidated_array_with_blosc_is_read(dataset: Path) -> None:
    assert header_lines(shown_cdl(str(dataset))) == [
        "dimensions:",
        "_Anonymous_Dim_10=10;",
        "variables:",
        "int64 data(_Anonymous_Dim_10);",
        "}",
    ]
    fs = mount_tree(str(dataset))
    assert read(fs, "datasets/ref_data.zarr/data/values.raw") == np.arange(10, dtype="i8").tobytes()
    fs.close()


DUMPED_OBJECT = re.compile(r"^\[\d+\] /(\S+) : \([^)]*\) (?:\(ubyte\) )?\|(\{.*\})\|$")


def make_store(listing_of_objects: Path, place: Path) -> Path:
    """A directory store of the documents that netcdf-c's zmapio printed."""
    for line in listing_of_objects.read_text().splitlines():
        found = DUMPED_OBJECT.match(line)
        if found is not None:
            document = place / found[1]
            document.parent.mkdir(parents=True, exist_ok=True)
            document.write_text(found[2])
    return place


@pytest.mark.parametrize(
    ("objects", "layout"),
    [
        *((path, "nczarr-L3") for path in netcdf_c("nczarr_test/ref_jsonconvention.zmap")),
        *((path, "nczarr-L3") for path in netcdf_c("nczarr_test/ref_jsonconvention_be.zmap")),
        *((path, "nczarr-L2l") for path in netcdf_c("old-releases/v4.9.2-ref_jsonconvention.zmap")),
    ],
    ids=lambda value: value.name if isinstance(value, Path) else "",
)
def test_texts_that_are_json_come_back_as_they_are_stored(
    objects: Path, layout: str, tmp_path: Path
) -> None:
    """netcdf-c stores such texts as the JSON that they are, and drops the blanks in them."""
    store = make_store(objects, tmp_path / "d")
    with nczfs.open(str(store)) as dataset:
        assert dataset.tree().header.format == layout
        assert dataset.problems == ()
        assert dataset.attrs["globalfloat"] == 1.0
        assert isinstance(dataset.attrs["globalfloat"], np.float64)
        assert list(dataset.attrs["globalfloatvec"]) == [1.0, 2.0]
        assert dataset.attrs["globalchar"] == "abc"
        assert str(dataset.attrs["globalillegal"]).startswith("[ [ 1.0, 0.0, 0.0 ], [ 0.0, ")
        texts = {str(value).replace(" ", "") for value in dataset.variables["v"].attrs.values()}
        assert texts == {
            '{"key1":[1,2,3],"key2":{"key3":"abc"}}',
            "[[1.0,0.0,0.0],[0.0,1.0,0.0],[0.0,0.0,1.0]]",
            "[0.,0.,1.]",
            "1.0,0.0,0.0",
        }
        order = ">" if "_be" in objects.name else "<"
        assert dataset.variables["v"].description.array.dtype.typestr == f"{order}i4"
        assert dataset.variables["v"].dimensions == ("d1",)


# -- what is no dataset ----------------------------------------------------------------------------


@pytest.fixture
def no_datasets(tmp_path: Path) -> Path:
    """What netcdf-c keeps to try that it is refused: empty ones, and ones of other things."""
    (archive,) = netcdf_c("nczarr_test/ref_notzarr.tar.gz")
    command = ["tar", "--no-same-owner", "-xzf", str(archive), "-C", str(tmp_path)]
    subprocess.run(command, check=True)
    return tmp_path


@pytest.mark.parametrize(
    "name",
    [
        name
        for _ in netcdf_c("nczarr_test/ref_notzarr.tar.gz")
        for name in ("empty.file", "empty.txt", "empty.zip", "notzarr.file", "notzarr.zip")
    ],
)
def test_what_is_no_dataset_is_refused_in_one_line(name: str, no_datasets: Path) -> None:
    done = run_nczfs("info", no_datasets / name)
    # A plain file is no URL of a store at all, which is wrong usage.
    assert done.returncode == (2 if name == "empty.txt" else 1)
    assert done.stdout == ""
    assert done.stderr.startswith("nczfs: ")
    assert done.stderr.count("\n") == 1
    assert name in done.stderr


@pytest.mark.parametrize("_archive", netcdf_c("nczarr_test/ref_notzarr.tar.gz"), ids=["notzarr"])
def test_what_is_no_dataset_is_a_plain_directory_of_a_mount(
    _archive: Path, no_datasets: Path
) -> None:
    fs = mount_tree(str(no_datasets))
    assert list(listing(fs, "datasets")) == ["notzarr.file"]
    assert listing(fs, "datasets/notzarr.file") == {}
    assert (
        read(fs, "objects/notzarr.file/notzarr.txt")
        == (no_datasets / "notzarr.file/notzarr.txt").read_bytes()
    )
    assert not exists(fs, "datasets/notzarr.file/info.json")
    fs.close()
    for name in ("empty.file", "empty.zip", "notzarr.zip"):
        fs = mount_tree(str(no_datasets / name))
        assert listing(fs, "datasets") == {}, name
        fs.close()


# -- what ncgen makes of the CDL files -------------------------------------------------------------

BY_NCGEN = (
    "groups_regular",
    "jsonconvention",
    "misc1",
    "misc2",
    "nulls",
    "oldformat",
    "oldkeys",
    "perdimspecs",
    "power_901_constants",
    "purezarr_base",
    "rem",
    "scalar",
    "whole",
    "xarrayanon",
    "zarr_test_data_meta",
)

# ncdump 4.9.0 crashes on scalars that the ncgen of the same release wrote.
NCDUMP_CRASHES = {
    "nulls": 'int test;test:nul_sng=48b;test:empty_sng="";test:space_sng=" ";'
    'test:zero_sng="0";test:nul0=48b;',
    "scalar": "int v;v:_FillValue=-1;",
}


@pytest.mark.parametrize(
    "cdl",
    netcdf_c(*(f"nczarr_test/ref_{name}.cdl" for name in BY_NCGEN)),
    ids=lambda path: path.stem.removeprefix("ref_"),
)
def test_what_an_old_ncgen_writes_is_dumped_as_its_ncdump_dumps_it(
    cdl: Path, tmp_path: Path
) -> None:
    """Debian's ncgen 4.9.0 writes the layout with upper-case keys."""
    name = cdl.stem.removeprefix("ref_")
    url = f"file://{tmp_path}/d#mode=nczarr,file"
    subprocess.run(["ncgen", "-4", "-lb", "-o", url, str(cdl)], check=True, capture_output=True)
    found = header_lines(shown_cdl(str(tmp_path / "d")))
    if name in NCDUMP_CRASHES:
        assert "".join(found) == f"variables:{NCDUMP_CRASHES[name]}}}"
    else:
        dump = subprocess.run(["ncdump", "-h", url], check=True, capture_output=True, text=True)
        assert found == header_lines(dump.stdout)
    with nczfs.open(str(tmp_path / "d")) as dataset:
        assert dataset.tree().header.format == "nczarr-L2U"
        assert dataset.problems == ()


# -- what netcdf-c 4.10 makes of datasets that it gives to others ----------------------------------


@pytest.mark.parametrize(
    "dataset",
    netcdf_c(
        "nczarr_test/ref_oldformat.zip",
        "nczarr_test/ref_oldkeys.file.zip",
        "old-releases/v4.9.2-ref_oldformat.zip",
    ),
    ids=lambda path: path.name,
)
@pytest.mark.parametrize("mode", ["nczarr", "zarr"])
def test_an_unpacked_dataset_is_the_same_for_netcdf_c(
    dataset: Path, mode: str, tmp_path: Path
) -> None:
    """The netcdf-c of the Python package has no zip store."""
    with zipfile.ZipFile(dataset) as archive:
        archive.extractall(tmp_path)
    (top,) = (path for path in tmp_path.iterdir() if path.is_dir())
    url = f"file://{top}#mode={mode},file"
    with nczfs.open(url) as ours, netCDF4.Dataset(url) as theirs:
        theirs.set_auto_maskandscale(False)
        compare(ours, theirs)
    shutil.rmtree(top)


def compare(ours: nczfs.Group, theirs: netCDF4.Dataset) -> None:
    assert set(ours.variables) == set(theirs.variables)
    assert set(ours.groups) == set(theirs.groups)
    for name, variable in theirs.variables.items():
        found = ours.variables[name]
        assert found.shape == variable.shape
        np.testing.assert_array_equal(found[...], variable[...])
        assert dict(found.attrs) == {key: variable.getncattr(key) for key in variable.ncattrs()}
    for name, group in theirs.groups.items():
        compare(ours.groups[name], group)
