"""Other versions of libraries, and those of JavaScript, as ``scripts/setup --long`` installs them.

Each stands in a directory of its own, with what it shares with others in ``shared``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from tests.interop.netcdf_programs.field import EDITED
from tests.interop.netcdf_programs.program import (
    CLASSIC,
    INSTALLED,
    NETCDF4,
    Live,
    Program,
    numbers,
    printed,
)
from tests.support.sample import Values

PRINT = "print(*(float(value) for value in values.ravel()))"

NETCDF4_READ = "import netCDF4, sys; values = netCDF4.Dataset(sys.argv[1])['t2m'][:]; " + PRINT
NETCDF4_EDIT = (
    "import netCDF4, sys; file = netCDF4.Dataset(sys.argv[1], 'r+'); "
    f"file['t2m'][1, 2, 3] = {EDITED}; file.close()"
)
NETCDF4_LIBRARIES = (
    "import netCDF4; print('netcdf-c', netCDF4.__netcdf4libversion__.split()[0] + ', HDF5', "
    "netCDF4.__hdf5libversion__)"
)
H5PY_READ = "import h5py, sys; values = h5py.File(sys.argv[1])['t2m'][:]; " + PRINT
H5PY_EDIT = (
    "import h5py, sys; file = h5py.File(sys.argv[1], 'r+'); "
    f"file['t2m'][1, 2, 3] = {EDITED}; file.close()"
)
H5PY_LIBRARIES = "import h5py; print('HDF5', h5py.version.hdf5_version)"
TABLES_READ = (
    "import sys, tables; file = tables.open_file(sys.argv[1]); "
    f"values = file.root.t2m[:]; file.close(); {PRINT}"
)
TABLES_LIBRARIES = "import tables; print('HDF5', tables.get_hdf5_version())"
RASTERIO_READ = (
    "import rasterio, sys; values = rasterio.open(f'netcdf:{sys.argv[1]}:t2m').read(); " + PRINT
)
RASTERIO_LIBRARIES = (
    "import rasterio; print('GDAL', rasterio.__gdal_version__ + ', netcdf-c 4.6.2')"
)
SCIPY_READ = (
    "import scipy.io, sys; file = scipy.io.netcdf_file(sys.argv[1], mmap=False); "
    "values = file.variables['t2m'][:]; " + PRINT
)

JSFIVE = """
const {File} = require("jsfive"), data = require("fs").readFileSync(process.argv[1]);
const buffer = data.buffer.slice(data.byteOffset, data.byteOffset + data.length);
console.log(new File(buffer, "f").get("t2m").value.join(" "));
"""
NETCDFJS = """
const {NetCDFReader} = require("netcdfjs"), data = require("fs").readFileSync(process.argv[1]);
console.log(new NetCDFReader(data).getDataVariable("t2m").flat().join(" "));
"""
H5WASM = """
import("h5wasm/node").then(async ({default: h5}) => {
  await h5.ready;
  const file = new h5.File(process.argv[1], "r");
  console.log(file.get("t2m").value.join(" "));
  file.close();
});
"""


def _python(package: str, version: str, code: str, *words: str) -> str:
    path = f"{INSTALLED / f'{package}=={version}'}:{INSTALLED / 'shared'}"
    return printed(sys.executable, "-W", "ignore", "-c", code, *words, PYTHONPATH=path)


def _wheel(
    package: str,
    version: str,
    read: str,
    libraries: str = "",
    *,
    edit: str | None = None,
    formats: tuple[str, ...] = (NETCDF4,),
    remarks: str = "",
) -> Program:
    def of_version() -> str:
        found = _python(package, version, libraries).strip() if libraries else ""
        return f"{version} ({found})" if found else version

    def edited(live: Live) -> object:
        return _python(package, version, edit or "", str(live.file))

    return Program(
        f"{package} {version}",
        of_version,
        lambda live: numbers(_python(package, version, read, str(live.file))),
        formats=formats,
        edit=edited if edit else None,
        remarks=remarks,
        long=True,
    )


def _node(code: str) -> Callable[[Live], Values]:
    modules = str(INSTALLED / "node_modules")
    # What an import finds depends on where it stands; `require` looks at NODE_PATH.
    return lambda live: numbers(
        printed("node", "-e", code, live.file, cwd=INSTALLED, NODE_PATH=modules)
    )


def _of_node(package: str) -> Callable[[], str]:
    code = f'console.log(require("./node_modules/{package}/package.json").version)'
    return lambda: printed("node", "-e", code, cwd=INSTALLED).strip()


BOTH = (NETCDF4, CLASSIC)
OWN = "a reader of its own"
MEMORY = f"{OWN}; takes the whole file into memory"
WASM = "HDF5 2.0 as WebAssembly"
PARSED_ALONE = f"{MEMORY}; not CDF-5"

INSTALLED_PROGRAMS = (
    *(
        _wheel("netCDF4", version, NETCDF4_READ, NETCDF4_LIBRARIES, edit=NETCDF4_EDIT, formats=BOTH)
        for version in ("1.6.1", "1.6.5", "1.7.2")
    ),
    _wheel("h5py", "3.8.0", H5PY_READ, H5PY_LIBRARIES, edit=H5PY_EDIT),
    _wheel("tables", "3.8.0", TABLES_READ, TABLES_LIBRARIES, remarks="PyTables"),
    _wheel("rasterio", "1.3.4", RASTERIO_READ, RASTERIO_LIBRARIES, formats=BOTH),
    _wheel("scipy", "1.9.2", SCIPY_READ, formats=(CLASSIC,)),
    Program(
        "h5wasm", _of_node("h5wasm"), _node(H5WASM), formats=(NETCDF4,), remarks=WASM, long=True
    ),
    Program(
        "jsfive", _of_node("jsfive"), _node(JSFIVE), formats=(NETCDF4,), remarks=MEMORY, long=True
    ),
    Program(
        "netcdfjs",
        _of_node("netcdfjs"),
        _node(NETCDFJS),
        formats=(CLASSIC,),
        remarks=PARSED_ALONE,
        long=True,
    ),
)
