"""Libraries of Python, in the process of the tests."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Any, Literal

import h5netcdf
import h5py
import netCDF4
import numpy as np
import pyfive
import scipy
import scipy.io
import xarray

from tests.interop.netcdf_programs.field import DIMENSIONS, EDITED, ELEMENT, VARIABLE
from tests.interop.netcdf_programs.program import (
    CLASSIC,
    NETCDF4,
    SYSTEM_REFUSAL,
    Live,
    Program,
    run,
)
from tests.support.sample import Values

SPOIL_NETCDF4 = (
    "import netCDF4, sys; f = netCDF4.Dataset(sys.argv[1], 'r+'); "
    "f.createVariable('new', 'f4', ('lat',))[:] = 1; f.close()"
)
SPOIL_H5PY = "import h5py, sys; f = h5py.File(sys.argv[1], 'r+'); f['new'] = [1, 2]; f.close()"


def _netcdf4(live: Live) -> Values:
    with netCDF4.Dataset(live.file) as file:
        return np.asarray(file[VARIABLE][...])


def _netcdf4_edit(live: Live) -> None:
    with netCDF4.Dataset(live.file, "r+") as file:
        file[VARIABLE][ELEMENT] = EDITED


def _spoil(code: str) -> Any:
    return lambda live: run(sys.executable, "-c", code, live.file)


def _xarray(engine: Literal["netcdf4", "h5netcdf", "scipy"]) -> Any:
    def read(live: Live) -> Values:
        with xarray.open_dataset(live.file, engine=engine) as dataset:
            assert dataset[VARIABLE].dims == DIMENSIONS
            assert str(dataset["time"].values[1])[:13] == "2020-01-01T06"
            assert dataset.encoding["unlimited_dims"] == {"time"}
            return dataset[VARIABLE].values

    return read


def _h5netcdf(live: Live) -> Values:
    with h5netcdf.File(live.file, "r") as file:
        assert file[VARIABLE].dimensions == DIMENSIONS
        return np.asarray(file[VARIABLE][...])


def _h5netcdf_edit(live: Live) -> None:
    with h5netcdf.File(live.file, "r+") as file:
        file[VARIABLE][ELEMENT] = EDITED


def _h5py(live: Live) -> Values:
    with h5py.File(live.file) as file:
        return np.asarray(file[VARIABLE][...])


def _h5py_edit(live: Live) -> None:
    with h5py.File(live.file, "r+") as file:
        file[VARIABLE][ELEMENT] = EDITED


def _scipy(live: Live) -> Values:
    with scipy.io.netcdf_file(live.file, mmap=False) as file:
        return np.array(file.variables[VARIABLE][:])


def _scipy_mapped(live: Live) -> Values:
    file = scipy.io.netcdf_file(live.file, mmap=True)
    values = np.array(file.variables[VARIABLE][:])
    with suppress(RuntimeWarning):  # its own, of maps that arrays still refer to
        file.close()
    return values


def _pyfive(live: Live) -> Values:
    with pyfive.File(live.file) as file:
        return np.asarray(file[VARIABLE][...])


def _on_netcdf_c(name: str, version: str) -> str:
    library, _, hdf5 = netCDF4.__netcdf4libversion__, "", netCDF4.__hdf5libversion__
    return f"{version} ({name}netcdf-c {library.split()[0]}, HDF5 {hdf5})"


def _on_hdf5(version: str) -> str:
    return f"{version} (h5py {h5py.__version__}, HDF5 {h5py.version.hdf5_version})"


LIBRARIES = (
    Program(
        "netCDF4-python",
        lambda: _on_netcdf_c("", netCDF4.__version__),
        _netcdf4,
        edit=_netcdf4_edit,
        spoil=_spoil(SPOIL_NETCDF4),
    ),
    Program(
        "xarray, netcdf4",
        lambda: _on_netcdf_c("", xarray.__version__),
        _xarray("netcdf4"),
    ),
    Program(
        "xarray, h5netcdf",
        lambda: _on_hdf5(xarray.__version__),
        _xarray("h5netcdf"),
        formats=(NETCDF4,),
    ),
    Program(
        "xarray, scipy",
        lambda: f"{xarray.__version__} (scipy {scipy.__version__})",
        _xarray("scipy"),
        formats=(CLASSIC,),
    ),
    Program(
        "h5netcdf",
        lambda: _on_hdf5(h5netcdf.__version__),
        _h5netcdf,
        formats=(NETCDF4,),
        edit=_h5netcdf_edit,
    ),
    Program(
        "h5py",
        lambda: f"{h5py.__version__} (HDF5 {h5py.version.hdf5_version})",
        _h5py,
        formats=(NETCDF4,),
        edit=_h5py_edit,
        spoil=_spoil(SPOIL_H5PY),
        refusals=(SYSTEM_REFUSAL, SYSTEM_REFUSAL),
    ),
    Program(
        "scipy.io.netcdf_file",
        lambda: scipy.__version__,
        _scipy,
        formats=(CLASSIC,),
        remarks="a reader of its own; not CDF-5",
    ),
    Program(
        "pyfive",
        lambda: pyfive.__version__,
        _pyfive,
        formats=(NETCDF4,),
        remarks="a reader of its own",
    ),
)
