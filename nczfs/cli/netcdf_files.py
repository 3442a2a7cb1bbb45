"""netCDF and CDL files as arguments of commands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from nczfs.cli.progress import tell
from nczfs.cli.transfers import cdl_source_of
from nczfs.errors import UsageError
from nczfs.zmap.url import NETCDF_MAGIC

if TYPE_CHECKING:
    from nczfs.tools.transfer.source import Source

_CDL = re.compile(r"(?:\s|//[^\n]*\n)*netcdf\s")
_CDL_HEAD_BYTES = 4096


def is_netcdf_file(place: str) -> bool:
    """Return whether a place is a local file that begins as netCDF-3 or -4 files do."""
    return _head(Path(place).expanduser(), 8).startswith(NETCDF_MAGIC)


def is_cdl(place: str) -> bool:
    """Return whether a place is a local file that has the suffix of CDL, or begins as CDL does."""
    path = Path(place).expanduser()
    if path.suffix == ".cdl":
        return True
    return _CDL.match(_head(path, _CDL_HEAD_BYTES).decode("utf-8", "replace")) is not None


@contextmanager
def source_of(file: str, memory_limit_bytes: int, *, skip_unsupported: bool) -> Iterator[Source]:
    """Open a netCDF file or a CDL text, whichever its first bytes show."""
    from zipfile import is_zipfile

    path = Path(file).expanduser()
    if is_cdl(file):
        yield cdl_source_of(path)
        return
    if path.is_dir() or is_zipfile(path):
        raise UsageError(
            f"{file}: is not a netCDF or CDL file on this machine; `nczfs cp` copies datasets"
        )
    from nczfs.tools.transfer.reading_process import read_apart  # imports NumPy

    name, limit = str(path), memory_limit_bytes
    with read_apart(name, name, tell, limit, skip_unsupported=skip_unsupported) as source:
        yield source


def _head(path: Path, size: int) -> bytes:
    """Return the first bytes of a file; none if it cannot be read: opening it gives the reason."""
    try:
        with path.open("rb") as file:
            return file.read(size)
    except (OSError, ValueError):
        return b""
