"""Our CDL beside that of ncdump, and ncgen as its reader."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import warnings
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest

import nczfs as library
from nczfs.cdl.parse import Cdl, parse_cdl
from nczfs.cdl.printer import header
from nczfs.library.api import Group
from nczfs.model.declaration import GroupDeclaration
from nczfs.testing.documents import DictDocuments, documents_in, read_group
from tests.support.cdl_samples import copied, write_all_types, write_unlimited
from tests.support.mounts import nczfs
from tests.support.reference import reference_root
from tests.unit.cdl.test_printer import NESTED_TEXT


def ncdump(file: Path) -> str:
    return subprocess.run(
        ["ncdump", "-h", str(file)], check=True, capture_output=True, text=True
    ).stdout


def ncgen(text: str, file: Path, kind: str = "-4") -> None:
    source = file.with_suffix(".cdl")
    source.write_text(text)
    subprocess.run(["ncgen", kind, "-o", str(file), str(source)], check=True)


def test_ncgen_reads_our_text_and_ncdump_prints_the_same(tmp_path: Path) -> None:
    ncgen(NESTED_TEXT, tmp_path / "n.nc")
    # ncdump's own slip: a dimension of a group that is not above loses its path.
    ours = NESTED_TEXT.replace("netcdf a\\ b", "netcdf n").replace("/g1/sub/z", "/z")
    ours = ours.replace(" ; // |b1", " ;").replace("(4 currently)", "(0 currently)")
    assert ncdump(tmp_path / "n.nc") == ours


@pytest.mark.parametrize("dtype", ["<c8", "|V3", "|b1", "<M8[ns]", "<f2"])
def test_ncgen_reads_what_stands_for_types_that_netcdf_lacks(tmp_path: Path, dtype: str) -> None:
    documents: dict[str, object] = {
        ".zgroup": {"zarr_format": 2},
        "bad/.zarray": b"{",
        "v/.zarray": {"zarr_format": 2, "shape": [3], "chunks": [3], "dtype": dtype},
        "v/.zattrs": {"units": "K", "nested": {"a": "\\\"'"}, "none": []},
    }
    ncgen(header(read_group(DictDocuments(documents)), name="t"), tmp_path / "t.nc")


def test_what_netcdf_c_writes_as_nczarr_and_as_hdf5_has_one_header(tmp_path: Path) -> None:
    for url in (tmp_path / "same.nc", f"file://{tmp_path}/same#mode=nczarr,file"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # netCDF4 says that it will not mask
            write_sample(str(url))
    ours = header(read_group(documents_in(tmp_path / "same")), name="same")
    assert ours == ncdump(tmp_path / "same.nc")


def write_sample(url: str) -> None:
    with netCDF4.Dataset(url, "w") as dataset:
        dataset.createDimension("time", None)
        dataset.createDimension("lat", 3)
        v = dataset.createVariable("v", "i2", ("time", "lat"), zlib=True, chunksizes=(2, 2))
        v[0:4] = np.arange(12).reshape(4, 3)
        v.shorts = np.array([1, 2, 3], "i2")
        v.fl = np.float32(1.5)
        v.dd = np.array([1, 0.1, 1e300])
        v.special = np.array([np.nan, np.inf, -np.inf])
        v.u64 = np.uint64(2**64 - 1)
        v.setncattr_string("str1", "solo")
        v.setncattr_string("strs", ["abc", "de"])
        # Text that netcdf-c stores as JSON, some of it as what is no JSON.
        for i, text in enumerate(
            ['{"a": [1,2]}', "12", "[1,2]", "true", "007", "+5", "1.", "0x10", "True", "nan",
             "-inf", "1.50", "1e3", 'a\r\n\tb\\c"d\'']
        ):  # fmt: skip
            v.setncattr(f"text{i}", text)
        dataset.createVariable("f", "f4", ("lat",))
        dataset.createVariable("scalar", "f8", ())[...] = 3.25
        dataset.createVariable("c", "S1", ("lat",))
        dataset.createVariable("s", str, ("lat",))
        for code in ("i1", "u1", "u2", "u4", "i8", "u8"):
            dataset.createVariable(f"v_{code}", code, ("lat",))
        dataset.title = "probe"
        g1 = dataset.createGroup("g1")
        g1.createDimension("gd", 2)
        g1.createDimension("lat", 4)
        g1.createVariable("x", "i4", ("gd", "time"))
        g1.createVariable("y", "i4", ("lat",))
        g1.createGroup("sub").createVariable("q", "f4", ("gd",))


def test_ncgen_4_9_0_writes_upper_case_keys_that_are_read_back(tmp_path: Path) -> None:
    text = re.sub(r"(?m)^.*// \|b1\n|^.*string s ;\n", "", NESTED_TEXT)
    text = text.replace("t = UNLIMITED ; // (4 currently)", "t = 4 ;").replace("a\\ b", "u")
    text = text.replace("// group g\\ 2", "// group g2").replace("g\\ 2 {", "g2 {")
    text = re.sub(r"(?m)^\s*variables:\n(?=\s*\})", "", text)
    source = tmp_path / "u.cdl"
    source.write_text(text)
    url = f"file://{tmp_path}/u#mode=nczarr,file"
    subprocess.run(["ncgen", "-4", "-o", url, str(source)], check=True)
    group = read_group(documents_in(tmp_path / "u"))
    assert group.header.format == "nczarr-L2U"
    assert header(group, name="u") == text


OPTIONS = (
    (),
    ("-h",),
    ("-c",),
    ("-f", "c"),
    ("-b", "c"),
    ("-b", "f"),
    ("-p", "4"),
    ("-p", "9,17"),
    ("-l", "40"),
    ("-n", "other name"),
)


def both_dumps(place: Path, *options: str) -> tuple[str, str]:
    """What nczfs and ncdump print of `place`.zarr and `place`.nc."""
    ours = nczfs("dump", *options, place.with_suffix(".zarr"))
    assert ours.returncode == 0, ours.stderr
    theirs = subprocess.run(
        ["ncdump", *options, str(place.with_suffix(".nc"))], check=True, capture_output=True
    )
    return ours.stdout, theirs.stdout.decode()


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with both samples as NCZarr and as netCDF-4."""
    place = tmp_path_factory.mktemp("samples")
    for write, name in ((write_all_types, "all"), (write_unlimited, "unlimited")):
        write(str(place / f"{name}.nc"))
        write(f"file://{place}/{name}.zarr#mode=nczarr,file")
    return place


@pytest.mark.parametrize("options", OPTIONS, ids=" ".join)
@pytest.mark.parametrize("name", ["all", "unlimited"])
def test_every_type_is_dumped_as_ncdump_dumps_it(
    samples: Path, name: str, options: tuple[str, ...]
) -> None:
    ours, theirs = both_dumps(samples / name, *options)
    assert ours == theirs


@pytest.mark.parametrize("names", ["temp,wide", "/g1/x", "time", "z,e_i2"])
def test_variables_are_chosen_as_ncdump_chooses_them(samples: Path, names: str) -> None:
    ours, theirs = both_dumps(samples / "all", "-v", names)
    assert ours == theirs


def test_fortran_indices_are_those_of_ncdump(samples: Path) -> None:
    ours, theirs = both_dumps(samples / "all", "-f", "f")
    # A scalar has no index; what ncdump 4.9.0 prints for it is whatever lies in memory.
    scalars = re.compile(r"^( (?:s_\w+|letter|text) = .*// \w+\()\d+\)$", re.MULTILINE)
    assert scalars.sub(r"\1)", ours) == scalars.sub(r"\1)", theirs)


def real_files() -> list[Path]:
    root = reference_root()
    return sorted((root / "real").glob("*.nc")) if root else []


@pytest.mark.parametrize("file", real_files(), ids=lambda file: file.stem)
def test_real_files_are_dumped_as_ncdump_dumps_them(file: Path, tmp_path: Path) -> None:
    url = f"file://{tmp_path}/{file.stem}.zarr#mode=nczarr,file"
    copied(str(file), url)
    # netcdf-c stores attributes with six digits in NCZarr.
    copied(url, str(tmp_path / file.name))
    for options in ((), ("-f", "c")):
        ours, theirs = both_dumps(tmp_path / file.stem, *options)
        assert ours == theirs


@pytest.mark.parametrize("name", ["all", "unlimited"])
def test_ncgen_makes_the_same_values_of_our_text(samples: Path, name: str, tmp_path: Path) -> None:
    for options in (("-p", "9,17"), ("-p", "9,17", "-s"), ("-p", "9,17", "-f", "f")):
        text = nczfs("dump", *options, samples / f"{name}.zarr").stdout
        ncgen(text, tmp_path / "again.nc")
        with (
            netCDF4.Dataset(samples / f"{name}.nc") as expected,
            netCDF4.Dataset(tmp_path / "again.nc") as found,
        ):
            assert_equal_groups(found, expected)


def assert_equal_groups(found: netCDF4.Dataset, expected: netCDF4.Dataset) -> None:
    assert list(found.dimensions) == list(expected.dimensions)
    assert list(found.variables) == list(expected.variables)
    for name, variable in expected.variables.items():
        for one in (variable, found[name]):
            one.set_auto_maskandscale(False)
            one.set_auto_chartostring(False)
        assert found[name].dtype == variable.dtype
        np.testing.assert_array_equal(found[name][...], variable[...])
        assert {k: repr(found[name].getncattr(k)) for k in found[name].ncattrs()} == {
            k: repr(variable.getncattr(k)) for k in variable.ncattrs()
        }
    assert list(found.groups) == list(expected.groups)
    for name, group in expected.groups.items():
        assert_equal_groups(found.groups[name], group)


@pytest.mark.parametrize("name", ["all", "unlimited"])
def test_our_reader_finds_in_our_text_what_the_dataset_holds(samples: Path, name: str) -> None:
    text = nczfs("dump", "-s", "-p", "9,17", samples / f"{name}.zarr").stdout
    cdl = parse_cdl(text, name)
    with library.open(str(samples / f"{name}.zarr")) as dataset:
        assert_same_as_stored(cdl, cdl.root, dataset)


def assert_same_as_stored(cdl: Cdl, declared: GroupDeclaration, group: Group) -> None:
    tree = group.tree()
    assert declared.attributes == tree.header.attributes
    assert list(declared.dimensions) == [
        dataclasses.replace(d, anonymous=False) for d in tree.dimensions
    ]
    assert [v.name for v in declared.variables] == list(group.variables)
    for variable in declared.variables:
        stored = group.variables[variable.name]
        array = stored.description.array
        assert variable.type is array.dtype.nc_type
        # NaN is no equal of itself.
        assert repr(variable.attributes) == repr(stored.description.attributes)
        assert variable.chunk_shape == (stored.chunks or ())
        assert variable.codecs == array.codecs.codecs
        assert variable.byte_order in (None, array.dtype.stored.str[:1].replace("|", "<"))
        path = stored.path.removeprefix("/")
        if stored.size:
            np.testing.assert_array_equal(cdl.data[path].array, stored[...])
        else:
            assert path not in cdl.data
    assert [child.name for child in declared.groups] == list(group.groups)
    for child in declared.groups:
        assert_same_as_stored(cdl, child, group.groups[child.name])


def test_the_kind_is_what_ncdump_says_of_the_same_dataset(samples: Path) -> None:
    assert both_dumps(samples / "all", "-k") == ("netCDF-4\n", "netCDF-4\n")


def test_special_attributes_say_how_netcdf_c_stored_a_variable(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/s.zarr#mode=nczarr,file"
    with netCDF4.Dataset(url, "w") as dataset:
        dataset.createDimension("x", 6)
        options: dict[str, Any] = {"zlib": True, "complevel": 3, "chunksizes": (4,)}
        dataset.createVariable("z", "f4", ("x",), fletcher32=True, **options)
        dataset.createVariable("b", ">i2", ("x",), endian="big")
        dataset.createVariable("n", "i1", ("x",), fill_value=False)
    lines = nczfs("dump", "-sh", tmp_path / "s.zarr").stdout.split("\n")
    assert lines[3:] == [
        "variables:",
        "\tfloat z(x) ;",
        '\t\tz:_Storage = "chunked" ;',
        "\t\tz:_ChunkSizes = 4 ;",
        '\t\tz:_Fletcher32 = "true" ;',
        '\t\tz:_Shuffle = "true" ;',
        "\t\tz:_DeflateLevel = 3 ;",
        '\t\tz:_Codecs = "[{\\"id\\": \\"shuffle\\", \\"elementsize\\": 4},'
        '{\\"id\\": \\"zlib\\", \\"level\\": 3},{\\"id\\": \\"fletcher32\\"}]" ;',
        '\t\tz:_Endianness = "little" ;',
        "\tshort b(x) ;",
        '\t\tb:_Storage = "chunked" ;',
        "\t\tb:_ChunkSizes = 6 ;",
        '\t\tb:_Endianness = "big" ;',
        "\tbyte n(x) ;",
        '\t\tn:_Storage = "chunked" ;',
        "\t\tn:_ChunkSizes = 6 ;",
        '\t\tn:_NoFill = "true" ;',
        "",
        "// global attributes:",
        f'\t\t:_NCProperties = "version=2,netcdf={netCDF4.__netcdf4libversion__},nczarr=2.0.0" ;',
        '\t\t:_Format = "netCDF-4" ;',
        "}",
        "",
    ]
