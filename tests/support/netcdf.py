"""What a netCDF file holds, as netCDF4-python and ncdump tell it, to be compared."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np

# What a file says of the library that wrote it, not of what it holds.
_OF_THE_FILE = re.compile(r"\t\t:(_NCProperties|_SuperblockVersion|_IsNetcdf4|_Format) = .*\n")


@contextmanager
def stored(place: str | Path) -> Iterator[Any]:
    """A file, its values as they are stored."""
    with netCDF4.Dataset(place, "r") as dataset:
        dataset.set_auto_maskandscale(False)
        dataset.set_auto_chartostring(False)
        yield dataset


def variables_of(group: Any) -> dict[str, Any]:
    """All variables, by path."""
    found = dict(group.variables)
    for name, child in group.groups.items():
        found |= {f"{name}/{path}": variable for path, variable in variables_of(child).items()}
    return found


def attributes_of(node: Any) -> list[tuple[str, str, Any]]:
    """Attributes in order: name, type as far as netCDF4-python tells it, value."""
    found = []
    for name in node.ncattrs():
        value = node.getncattr(name)
        dtype = "text" if isinstance(value, str) else str(np.asarray(value).dtype)
        found.append((name, dtype, repr(np.asarray(value).tolist())))
    return found


def values_of(variable: Any) -> tuple[str, tuple[int, ...], object]:
    """Type, shape and bits of the values, in this machine's byte order; strings as a list."""
    values = variable[...]
    if variable.dtype is str:
        array = np.asarray(values, object)
        return "string", array.shape, array.reshape(-1).tolist()
    array = np.asarray(values)
    native = array.astype(array.dtype.newbyteorder("="))
    return native.dtype.name, native.shape, native.tobytes()


def dimensions_of(group: Any) -> list[tuple[str, int, bool]]:
    """Name, length, and whether it is unlimited."""
    return [(name, len(d), d.isunlimited()) for name, d in group.dimensions.items()]


def form_of(variable: Any) -> tuple[Any, Any, str]:
    """Chunks, filters, byte order."""
    return variable.chunking(), variable.filters(), variable.endian()


def assert_same(one: Any, other: Any, *, without: tuple[str, ...] = ()) -> None:
    """Two open files hold the same, but for the attributes of some names."""
    assert dimensions_of(one) == dimensions_of(other)
    for a, b in ((one, other), *zip(one.variables.values(), other.variables.values(), strict=True)):
        kept = [
            [found for found in attributes_of(node) if found[0] not in without] for node in (a, b)
        ]
        assert kept[0] == kept[1], a
    assert list(one.variables) == list(other.variables)
    for name, variable in one.variables.items():
        assert variable.dimensions == other[name].dimensions, name
        assert values_of(variable) == values_of(other[name]), name
    assert list(one.groups) == list(other.groups)
    for name, group in one.groups.items():
        assert_same(group, other.groups[name], without=without)


def ncdump(file: str | Path, *options: str) -> str:
    """The CDL of a file without its name, and without what tells of the library."""
    done = subprocess.run(
        ["ncdump", *options, str(file)], capture_output=True, text=True, check=True
    )
    return _OF_THE_FILE.sub("", done.stdout.partition("\n")[2])
