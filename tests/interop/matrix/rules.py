"""The form in which refusals and differences are listed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

Names: TypeAlias = "tuple[str, ...] | None"

NC = "netcdf-c 4.10.1"
NC_ZARR = "netcdf-c 4.10.1 zarr"
NC_OLD = "netcdf-c 4.9.0"
NCGEN = "ncgen 4.9.0"
NCCOPY = "nccopy 4.9.0"
ZARR = "zarr-python"
XARRAY = "xarray"
GDAL = "GDAL"
TENSORSTORE = "tensorstore"
NCZFS = "nczfs"

NEW_NETCDF = (NC, NC_ZARR)
OLD_NETCDF = (NCGEN, NCCOPY)
PYTHON = (ZARR, XARRAY)


@dataclass(frozen=True, slots=True)
class Rule:
    """Something known of some writers, some readers and some cases. None: of all of them.

    Attributes
    ----------
    words : a regular expression, found in the error, or in the line that tells of a difference.
    """

    writers: Names
    readers: Names
    cases: Names
    words: str

    def covers(self, writer: str, reader: str, case: str) -> bool:
        pairs = ((self.writers, writer), (self.readers, reader), (self.cases, case))
        return all(names is None or name in names for names, name in pairs)
