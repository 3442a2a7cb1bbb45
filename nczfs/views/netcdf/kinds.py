"""The two formats of netCDF files that a group is shown in, and what they can hold."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FileKind:
    """A format, as far as the content of a file depends on it.

    Attributes
    ----------
    suffix : of the names of its files.
    has_groups : whether it has groups, several unlimited dimensions in any position, fixed ones of
        length 0, and types that the file names.
    has_strings : whether it has strings of variable length.
    """

    suffix: str
    has_groups: bool
    has_strings: bool


NETCDF4 = FileKind(".nc", has_groups=True, has_strings=True)
CLASSIC = FileKind(".classic.nc", has_groups=False, has_strings=False)
