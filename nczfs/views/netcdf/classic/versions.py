"""The versions of the classic format, and their limits.

The limits of sizes are those of netcdf-c, in `NC_check_vlens` and `nc_def_dim`.
"""

from __future__ import annotations

from nczfs.model.classic import SIZES
from nczfs.model.dtypes import NcType
from nczfs.plaindata import frozen

_TYPES_BEFORE_5 = frozenset(tuple(SIZES)[:6])


@frozen
class Version:
    """A version of the format, and its limits.

    Attributes
    ----------
    number : the fourth byte of the file.
    number_bytes, offset_bytes : of a number, and of an offset, in the header.
    types : of variables and attributes.
    begin_max : of a variable.
    length_max : of dimensions, and of attributes.
    variable_bytes_max : of a fixed variable, and of one record of a record variable. The last one
        of each may have more; a fixed one only if there is no record variable.
    """

    number: int
    number_bytes: int
    offset_bytes: int
    types: frozenset[NcType]
    begin_max: int
    length_max: int
    variable_bytes_max: int


CDF_1 = Version(1, 4, 4, _TYPES_BEFORE_5, 2**31 - 1, 2**31 - 4, 2**31 - 4)
CDF_2 = Version(2, 4, 8, _TYPES_BEFORE_5, 2**63 - 1, 2**31 - 4, 2**32 - 4)
CDF_5 = Version(5, 8, 8, frozenset(SIZES), 2**63 - 1, 2**63 - 4, 2**63 - 4)
VERSIONS = (CDF_1, CDF_2, CDF_5)
"""Oldest first."""
