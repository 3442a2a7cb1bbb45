"""Our CDL beside that of ncdump, and ncgen as its reader."""

from __future__ import annotations

import re
import subprocess
import warnings
from pathlib import Path

import netCDF4
import numpy as np
import pytest

from nczfs.formats.cdl import header
from nczfs.testing.documents import DictDocuments, documents_in, read_group
from tests.unit.formats.test_cdl import NESTED_TEXT


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
