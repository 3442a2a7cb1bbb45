"""Names of new groups, variables, dimensions and attributes."""

from __future__ import annotations

import unicodedata

from nczfs.errors import UsageError
from nczfs.formats.names import NAME_BYTES_MAX, netcdf_fault
from nczfs.formats.registry import FORMATS
from nczfs.messages import shown

_RESERVED = (".z", ".ncz")


def checked_name(name: str) -> str:
    """Return the name of a new group, variable, dimension or attribute in normal form C.

    Raises
    ------
    UsageError : it is not a netCDF name, or is the name of a format's document.

    Notes
    -----
    netCDF rules (``NC_check_name``): the first character is a letter, a digit, an underscore or
    outside ASCII; no slash, no control character, no blank at the end. Existing names are read by
    far weaker rules (`names.is_name`).
    """
    checked = unicodedata.normalize("NFC", name)
    reason = _fault(checked)
    if reason is not None:
        raise UsageError(f"{shown(name)} cannot be a name: {reason}")
    return checked


def _fault(name: str) -> str | None:
    if name.startswith(_RESERVED) or name in FORMATS.documents:
        return "such names are reserved by the format"
    return netcdf_fault(name, NAME_BYTES_MAX)
