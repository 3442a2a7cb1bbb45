"""What a row of the table is: a program, how its values come out, and how it changes one."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import netCDF4
import numpy as np

from tests.interop.netcdf_programs.field import SHAPE, VARIABLE
from tests.support.sample import Values

TIMEOUT_S = 3000  # of long forms; a test has its own
NETCDF4: Final = "netCDF-4"
CLASSIC: Final = "classic"
FORMATS = (NETCDF4, CLASSIC)
HDF_REFUSAL, SYSTEM_REFUSAL = "NetCDF: HDF error", "Operation not permitted"
SUFFIX = {NETCDF4: ".nc", CLASSIC: ".classic.nc"}

REPOSITORY = Path(__file__).parents[3]
DATA = REPOSITORY / "tests/data"
INSTALLED = REPOSITORY / ".venv/programs"
"""What ``scripts/setup --long`` installs."""


@dataclass(frozen=True, slots=True)
class Live:
    """The netCDF files of two datasets on a mount.

    Attributes
    ----------
    later : the second one: each value is larger by `field.STEP`.
    scratch : an empty directory, not on the mount.
    """

    file: Path
    later: Path
    scratch: Path


def same(field: Values) -> Values:
    return field


@dataclass(frozen=True, slots=True)
class Program:
    """A program that knows netCDF.

    Attributes
    ----------
    version : returns what the table says of its version, and that of its libraries.
    read : returns what the program makes of the variable `VARIABLE`, by its own means.
    expected : what that is, from the values that the store has.
    formats : of the files that it reads.
    edit : changes the element `ELEMENT` of a file to `EDITED`, in place.
    spoil : tries to change more than values: the structure, or an attribute.
    refusals : a pattern of what it prints then, for each format.
    remarks : for users.
    long : whether only the long form has the program.
    """

    name: str
    version: Callable[[], str]
    read: Callable[[Live], Values]
    expected: Callable[[Values], Values] = same
    formats: tuple[str, ...] = FORMATS
    edit: Callable[[Live], object] | None = None
    spoil: Callable[[Live], subprocess.CompletedProcess[str]] | None = None
    refusals: tuple[str, str] = (HDF_REFUSAL, SYSTEM_REFUSAL)
    remarks: str = ""
    long: bool = False


def run(
    *command: str | Path, said: str = "", cwd: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, however it ends.

    Parameters
    ----------
    said : to the program, on its standard input.
    environment : what is added to that of the tests.
    """
    return subprocess.run(
        [str(word) for word in command],
        input=said,
        capture_output=True,
        text=True,
        check=False,
        errors="replace",
        timeout=TIMEOUT_S,
        cwd=cwd,
        env=os.environ | environment,
    )


def printed(*command: str | Path, said: str = "", cwd: Path | None = None, **more: str) -> str:
    """What a program prints. It must end well."""
    done = run(*command, said=said, cwd=cwd, **more)
    assert done.returncode == 0, (command, done.returncode, done.stdout[-2000:], done.stderr)
    return done.stdout


def numbers(text: str, shape: tuple[int, ...] = SHAPE) -> Values:
    """Numbers between blanks and commas, in the order of C."""
    return np.array(text.replace(",", " ").split(), "f8").reshape(shape)


def of_file(path: Path) -> Values:
    """The variable of a file that a program made, as netCDF4-python reads it."""
    with netCDF4.Dataset(path) as file:
        return np.asarray(file[VARIABLE][...])


@cache
def told(pattern: str, *command: str) -> str:
    """What a program says of its version: the first group of a pattern in its output."""
    done = run(*command)
    found = re.search(pattern, done.stdout + done.stderr)
    assert found is not None, (command, done.stdout, done.stderr)
    return found[1]


def libraries() -> str:
    """The libraries that the programs of a distribution share."""
    netcdf_c = told(r"netCDF (\S+)", "nc-config", "--version")
    hdf5 = told(r"Version (\S+)", "h5dump", "--version")
    return f"netcdf-c {netcdf_c}, HDF5 {hdf5}"


def shared(pattern: str, *command: str) -> Callable[[], str]:
    """The version of a program that uses these libraries."""
    return lambda: f"{told(pattern, *command)} ({libraries()})"


def alone(pattern: str, *command: str) -> Callable[[], str]:
    """The version of a program that has other libraries, or its own."""
    return lambda: told(pattern, *command)
