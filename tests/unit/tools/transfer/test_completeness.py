"""A netCDF-3 file that is cut short anywhere is recognised, in each version of the format."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest

from nczfs.errors import CorruptStore
from nczfs.tools.transfer.completeness import check_complete

PADDING_MAX = 3
VERSIONS = ("NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET", "NETCDF3_64BIT_DATA")


def empty(file: Any) -> None:
    file.title = "nothing else"


def fixed(file: Any) -> None:
    file.title = "odd"
    file.createDimension("x", 5)
    file.createVariable("v", "i2", ("x",))[:] = 1
    file.createVariable("scalar", "f8")[...] = 2
    last = file.createVariable("last", "S1", ("x",))
    last.units = "letters"
    last[:] = np.array([b"a"] * 5, "S1")


def one_record_variable(file: Any) -> None:
    file.createDimension("t", None)
    file.createDimension("x", 3)
    file.createVariable("v", "i1", ("t", "x"))[:] = np.ones((5, 3), "i1")


def record_variables(file: Any) -> None:
    one_record_variable(file)
    file.createVariable("time", "f8", ("t",))[:] = np.arange(5)
    file.createVariable("fixed", "i4", ("x",))[:] = 7


def no_records(file: Any) -> None:
    file.createDimension("t", None)
    file.createVariable("v", "f4", ("t",))


FILES = pytest.mark.parametrize(
    "fill", [empty, fixed, one_record_variable, record_variables, no_records]
)


def written(path: Path, version: Any, fill: Any) -> bytes:
    with netCDF4.Dataset(path, "w", format=version) as file:
        fill(file)
    return path.read_bytes()


@FILES
@pytest.mark.parametrize("version", VERSIONS)
def test_every_cut_but_in_the_last_padding_is_noticed(
    tmp_path: Path, version: str, fill: Any
) -> None:
    path = tmp_path / "file.nc"
    data = written(path, version, fill)
    check_complete(str(path), "file.nc")
    for size in range(len(data) - PADDING_MAX):
        path.write_bytes(data[:size])
        with pytest.raises(CorruptStore, match=r"^file\.nc: "):
            check_complete(str(path), "file.nc")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_single_record_variable_has_no_padding(tmp_path: Path, version: str) -> None:
    path = tmp_path / "file.nc"
    data = written(path, version, one_record_variable)
    with netCDF4.Dataset(path) as file:
        assert file["v"][:].tobytes() == bytes([1]) * 15
    needed = data.rstrip(b"\0")
    assert needed.endswith(bytes([1]) * 15)
    path.write_bytes(needed)
    check_complete(str(path), "file.nc")
    path.write_bytes(needed[:-1])
    with pytest.raises(CorruptStore, match="is cut short"):
        check_complete(str(path), "file.nc")


def test_the_number_of_records_of_a_streamed_file_follows_from_its_size(tmp_path: Path) -> None:
    path = tmp_path / "file.nc"
    data = written(path, VERSIONS[0], record_variables)
    path.write_bytes(data[:4] + b"\xff" * 4 + data[8:-20])
    check_complete(str(path), "file.nc")


@pytest.mark.parametrize(
    "header",
    [
        struct.pack(">4sIII", b"CDF\x01", 0, 10, 2**32 - 1),  # four thousand million dimensions
        struct.pack(">4sIII", b"CDF\x01", 0, 77, 1),  # an unknown list
        struct.pack(">4sIIII", b"CDF\x01", 0, 0, 0, 12) + struct.pack(">II", 1, 2**32 - 1),
        struct.pack(">4sQIQ", b"CDF\x05", 0, 10, 1) + struct.pack(">Q", 2**64 - 1),
    ],
    ids=["dimensions", "tag", "name", "long name"],
)
def test_a_damaged_header_is_an_error_at_once(tmp_path: Path, header: bytes) -> None:
    path = tmp_path / "file.nc"
    path.write_bytes(header)
    with pytest.raises(CorruptStore, match="damaged or cut short"):
        check_complete(str(path), "file.nc")


@pytest.mark.parametrize("data", [b"", b"CDF", b"CDF\x03" + bytes(50), b"netcdf x {\n}\n"])
def test_anything_else_is_no_netcdf_file(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "file.nc"
    path.write_bytes(data)
    with pytest.raises(CorruptStore, match="neither netCDF nor CDL"):
        check_complete(str(path), "file.nc")


def test_an_hdf5_file_whose_writer_was_killed_is_incomplete(tmp_path: Path) -> None:
    path = tmp_path / "file.nc"
    data = bytearray(written(path, "NETCDF4", fixed))
    check_complete(str(path), "file.nc")
    assert data[8] == 2  # the version of the superblock
    data[11] |= 1
    path.write_bytes(data)
    with pytest.raises(CorruptStore, match="its writer has not closed it"):
        check_complete(str(path), "file.nc")
