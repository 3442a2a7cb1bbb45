"""Programs of the command line, as Debian has them."""

from __future__ import annotations

import subprocess

import numpy as np

from tests.interop.netcdf_programs.field import SHAPE, STEP, VARIABLE
from tests.interop.netcdf_programs.program import (
    CLASSIC,
    NETCDF4,
    SYSTEM_REFUSAL,
    Live,
    Program,
    alone,
    numbers,
    of_file,
    printed,
    run,
    shared,
)
from tests.support.sample import Values

OUT_OF_PLACE = "edits by a new file beside the old one, which is refused"


def _cdl_values(text: str) -> Values:
    data = text.partition(f" {VARIABLE} =")[2].partition(";")[0]
    return numbers(data)


def _ncdump(live: Live) -> Values:
    return _cdl_values(printed("ncdump", "-p", "9,17", "-v", VARIABLE, live.file))


def _ncgen(live: Live) -> Values:
    (live.scratch / "a.cdl").write_text(printed("ncdump", "-p", "9,17", live.file))
    printed("ncgen", "-b", "-k", "nc4", "-o", live.scratch / "a.nc", live.scratch / "a.cdl")
    return of_file(live.scratch / "a.nc")


def _nccopy(live: Live) -> Values:
    printed("nccopy", live.file, live.scratch / "a.nc")
    return of_file(live.scratch / "a.nc")


def _ncks(live: Live) -> Values:
    return numbers(printed("ncks", "-H", "-C", "-s", "%.9g\n", "-v", VARIABLE, live.file))


def _ncra(live: Live) -> Values:
    printed("ncra", "-O", live.file, live.later, live.scratch / "a.nc")
    return of_file(live.scratch / "a.nc")


def _ncrcat(live: Live) -> Values:
    printed("ncrcat", "-O", live.file, live.later, live.scratch / "a.nc")
    return of_file(live.scratch / "a.nc")


def _ncea(live: Live) -> Values:
    printed("ncea", "-O", live.file, live.later, live.scratch / "a.nc")
    return of_file(live.scratch / "a.nc")


def _ncdiff(live: Live) -> Values:
    printed("ncdiff", "-O", "-v", VARIABLE, live.later, live.file, live.scratch / "a.nc")
    return of_file(live.scratch / "a.nc")


def _ncap2(live: Live) -> Values:
    printed("ncap2", "-O", "-s", f"{VARIABLE}=2*{VARIABLE}", live.file, live.scratch / "a.nc")
    return of_file(live.scratch / "a.nc")


def _ncap2_in_place(live: Live) -> subprocess.CompletedProcess[str]:
    return run("ncap2", "-A", "-s", f"{VARIABLE}=2*{VARIABLE}", live.file, live.file)


def _cdo_in_place(live: Live) -> subprocess.CompletedProcess[str]:
    return run("cdo", "-O", f"chname,{VARIABLE},new", live.file, live.file)


def _ncatted(live: Live) -> subprocess.CompletedProcess[str]:
    """Change an attribute of the file itself; it may die of the refusal, after saying so."""
    return run("ncatted", "-h", "-a", "title,global,o,c,longer than before", live.file)


def _cdo(live: Live) -> Values:
    return numbers(printed("cdo", "-s", "outputf,%.9g,1", f"-selname,{VARIABLE}", live.file))


def _gdal_translate(live: Live) -> Values:
    out = live.scratch / "a.img"
    source = f'NETCDF:"{live.file}":{VARIABLE}'
    printed("gdal_translate", "-q", "-of", "ENVI", "-co", "INTERLEAVE=BSQ", source, out)
    return np.fromfile(out, "f4").reshape(SHAPE)


def _h5dump(live: Live) -> Values:
    out = live.scratch / "a.bin"
    printed("h5dump", "-d", f"/{VARIABLE}", "-b", "NATIVE", "-o", out, live.file)
    return np.fromfile(out, "f4").reshape(SHAPE)


def _h5ls(live: Live) -> Values:
    text = printed("h5ls", "-d", "-S", "-w", "9999", f"{live.file}/{VARIABLE}")
    return numbers(text.partition("Data:")[2])


def _ncmpidump(live: Live) -> Values:
    return _cdl_values(printed("ncmpidump", "-p", "9,17", "-v", VARIABLE, live.file))


def _mean_of_records(field: Values) -> Values:
    return np.asarray(_all_records(field).mean(axis=0, keepdims=True, dtype="f8"))


def _all_records(field: Values) -> Values:
    return np.concatenate([field, field + STEP])


_NETCDF = shared(r"library version (\S+)", "ncdump")
_NCO = shared(r"version (\S+?),? ", "ncks", "--version")
_HDF5 = alone(r"Version (\S+)", "h5dump", "--version")

COMMANDS = (
    Program("ncdump", _NETCDF, _ncdump),
    Program("ncgen", _NETCDF, _ncgen, remarks="makes a file of what ncdump printed"),
    Program("nccopy", _NETCDF, _nccopy),
    Program("NCO ncks", _NCO, _ncks, spoil=_ncatted, remarks=f"`ncks -A` {OUT_OF_PLACE}"),
    Program("NCO ncra", _NCO, _ncra, _mean_of_records),
    Program("NCO ncrcat", _NCO, _ncrcat, _all_records),
    Program("NCO ncea", _NCO, _ncea, lambda field: field + STEP / 2),
    Program("NCO ncdiff", _NCO, _ncdiff, lambda field: np.full_like(field, STEP)),
    Program(
        "NCO ncap2",
        _NCO,
        _ncap2,
        lambda field: 2 * field,
        spoil=_ncap2_in_place,
        refusals=(SYSTEM_REFUSAL, SYSTEM_REFUSAL),
        remarks=OUT_OF_PLACE,
    ),
    Program(
        "CDO",
        shared(r"version (\S+)", "cdo", "--version"),
        _cdo,
        spoil=_cdo_in_place,
        refusals=("cdf__create.*: Permission denied", f"cdf__create.*: {SYSTEM_REFUSAL}"),
    ),
    Program(
        "GDAL",
        shared(r"GDAL (\S+),", "gdalinfo", "--version"),
        _gdal_translate,
        remarks="also QGIS and GRASS; of the classic format not CDF-5",
    ),
    Program("h5dump", _HDF5, _h5dump, formats=(NETCDF4,)),
    Program("h5ls", _HDF5, _h5ls, formats=(NETCDF4,)),
    Program(
        "PnetCDF ncmpidump",
        alone(r"PnetCDF library version (\S+)", "ncmpidump"),
        _ncmpidump,
        formats=(CLASSIC,),
        remarks="a reader of its own",
    ),
)
