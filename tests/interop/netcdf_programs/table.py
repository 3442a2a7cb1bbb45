"""All programs, in the order of the table in docs/netcdf.md."""

from __future__ import annotations

from tests.interop.netcdf_programs.commands import COMMANDS
from tests.interop.netcdf_programs.installed import INSTALLED_PROGRAMS
from tests.interop.netcdf_programs.larger import LARGER
from tests.interop.netcdf_programs.libraries import LIBRARIES
from tests.interop.netcdf_programs.program import Program
from tests.interop.netcdf_programs.scripts import SCRIPTS

PROGRAMS: tuple[Program, ...] = (
    *COMMANDS,
    *LIBRARIES,
    *SCRIPTS,
    *LARGER,
    *INSTALLED_PROGRAMS,
)
