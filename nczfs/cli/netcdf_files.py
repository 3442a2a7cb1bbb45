"""netCDF files among the places that commands take."""

from __future__ import annotations

from pathlib import Path

_MAGIC = (b"CDF\x01", b"CDF\x02", b"CDF\x05", b"\x89HDF\r\n\x1a\n")


def is_netcdf_file(place: str) -> bool:
    """Whether a place is the path of a local file that begins as netCDF-3 and -4 files do."""
    try:
        with Path(place).expanduser().open("rb") as file:
            return file.read(8).startswith(_MAGIC)
    except OSError:
        return False
