"""Programs that take much room: ``scripts/setup --long`` installs them."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from tests.interop.netcdf_programs.field import EDITED, SHAPE, VARIABLE
from tests.interop.netcdf_programs.program import (
    Live,
    Program,
    alone,
    numbers,
    printed,
    shared,
)
from tests.support.sample import Values

FERRET = Path("/usr/share/ferret-vis")
PLACES = {
    "FER_DIR": str(FERRET),
    "FER_FONTS": str(FERRET / "ppl/fonts"),
    **dict.fromkeys(("FER_GO", "FER_DATA", "FER_DESCR", "FER_GRIDS", "FER_PALETTE"), "."),
}

VTK = """
import sys, vtk
from vtk.util.numpy_support import vtk_to_numpy
reader = vtk.vtkNetCDFCFReader()
reader.SetFileName(sys.argv[1])
reader.SphericalCoordinatesOff()
reader.UpdateInformation()
pipeline = vtk.vtkStreamingDemandDrivenPipeline
for time in reader.GetOutputInformation(0).Get(pipeline.TIME_STEPS()):
    reader.UpdateTimeStep(time)
    print(*vtk_to_numpy(reader.GetOutput().GetPointData().GetArray("t2m")))
"""
VTK_VERSION = "import vtk; print(vtk.vtkVersion.GetVTKVersion())"
PYTHON = "/usr/bin/python3"
"""That of the distribution, for which it has VTK."""

NCL_READ = """
live = addfile("{file}", "r")
values = live->t2m
write_table("{out}", "w", [/ndtooned(values)/], "%.9g")
"""
NCL_EDIT = """
live = addfile("{file}", "w")
live->t2m(1,2,3) = (/{value}/)
"""
GDL_READ = """
id = ncdf_open('{file}')
ncdf_varget, id, 't2m', values
openw, out, '{out}', /get_lun
printf, out, values, format='(g14.9)'
exit
"""
GDL_EDIT = """
id = ncdf_open('{file}', /write)
ncdf_varput, id, 't2m', [{value}], offset=[3,2,1], count=[1,1,1]
ncdf_close, id
exit
"""
OCTAVE = "pkg load netcdf; "


def _octave(code: str) -> str:
    return printed("octave-cli", "-q", "--eval", OCTAVE + code)


def _octave_read(live: Live) -> Values:
    return numbers(_octave(f"printf('%.9g\\n', ncread('{live.file}', '{VARIABLE}'));"))


def _octave_edit(live: Live) -> object:
    return _octave(f"ncwrite('{live.file}', '{VARIABLE}', single({EDITED}), [4 3 2]);")


def _ncl(script: str, live: Live) -> Path:
    out = live.scratch / "values"
    program = live.scratch / "a.ncl"
    program.write_text(script.format(file=live.file, out=out, value=EDITED))
    printed("ncl", "-Q", program, cwd=live.scratch)
    return out


def _gdl(script: str, live: Live) -> Path:
    out = live.scratch / "values"
    # It takes the empty DISPLAY for none, and goes on.
    printed("gdl", "-quiet", said=script.format(file=live.file, out=out, value=EDITED), DISPLAY="")
    return out


def _gmt(live: Live) -> Values:
    steps = [
        printed("gmt", "grd2xyz", "-Z", f"{live.file}?{VARIABLE}[{step}]", cwd=live.scratch)
        for step in range(SHAPE[0])
    ]
    return numbers(" ".join(steps))


def _grads(live: Live) -> Values:
    steps = "".join(f"set t {step + 1}\nd {VARIABLE}\n" for step in range(SHAPE[0]))
    said = f"sdfopen {live.file}\nset gxout print\nset prnopts %.9g 1 1\nset lon 0 70\n"
    text = printed("grads", "-blc", "", said=f"{said}set lat 0 50\n{steps}quit\n")
    lines = re.findall(r"^-?\d+(?:\.\d+)? *$", text, re.MULTILINE)
    return numbers(" ".join(lines))[:, ::-1]  # from the south


def _ferret(live: Live) -> Values:
    out = live.scratch / "values"
    said = f'use "{live.file}"\nlist/nohead/format=(f14.6)/file="{out}"/clobber {VARIABLE}\nquit\n'
    printed("ferret_c", "-nojnl", "-gif", said=said, cwd=live.scratch, **PLACES)
    return numbers(out.read_text())[:, ::-1]


def _ferret_version() -> str:
    said = printed("ferret_c", "-nojnl", "-gif", said="quit\n", cwd=FERRET, **PLACES)
    found = re.search(r"FERRET v(\S+)", said)
    assert found is not None, said
    return found[1]


def _vtk(live: Live) -> Values:
    return numbers(printed(PYTHON, "-c", VTK, live.file))


LARGER = (
    Program(
        "Octave netcdf",
        shared(r"version (\S+)", "octave-cli", "--version"),
        _octave_read,
        edit=_octave_edit,
        long=True,
    ),
    Program(
        "NCL",
        shared(r"(\S+)", "ncl", "-V"),
        lambda live: np.loadtxt(_ncl(NCL_READ, live)).reshape(SHAPE),
        edit=lambda live: _ncl(NCL_EDIT, live),
        long=True,
    ),
    Program("GrADS", shared(r"Version (\S+)", "grads", "-blc", "quit"), _grads, long=True),
    Program("Ferret", _ferret_version, _ferret, long=True),
    Program("GMT", shared(r"(\S+)", "gmt", "--version"), _gmt, long=True),
    Program(
        "GDL",
        shared(r"Version (\S+)", "gdl", "--version"),
        lambda live: np.loadtxt(_gdl(GDL_READ, live)).reshape(SHAPE),
        edit=lambda live: _gdl(GDL_EDIT, live),
        remarks="as IDL",
        long=True,
    ),
    Program(
        "VTK",
        alone(r"(\d\S+)", PYTHON, "-c", VTK_VERSION),
        _vtk,
        remarks="the reader of ParaView",
        long=True,
    ),
)
