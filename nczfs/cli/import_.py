"""``nczfs import``: a netCDF file, or CDL, as a new dataset."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from nczfs.cli import logs
from nczfs.cli.codecs import positive
from nczfs.cli.command import Command, Request
from nczfs.cli.parser import typed
from nczfs.cli.progress import tell
from nczfs.cli.transfers import (
    TRANSFER_SCOPES,
    add_layout_arguments,
    add_target_arguments,
    cdl_source_of,
    memory_limit,
    target,
    write,
)

if TYPE_CHECKING:
    from nczfs.engine.transfer.source import Source

_CDL = re.compile(r"(?:\s|//[^\n]*\n)*netcdf\s")
_CDL_HEAD_BYTES = 4096


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a netCDF-3, netCDF-4 or CDL file")
    add_target_arguments(parser)
    add_layout_arguments(
        parser,
        chunks_help="default: as in FILE",
        codecs_help="none, zlib:LEVEL, zstd:LEVEL, blosc:NAME:LEVEL, ..., also after "
        "'shuffle,'; or a JSON list (default: the filters of FILE, else shuffle and zlib)",
    )
    parser.add_argument(
        "--string-bytes",
        type=typed(positive),
        metavar="N",
        help="bytes per string (default: of the longest string)",
    )
    parser.add_argument("--fixed", action="store_true", help="make unlimited dimensions fixed")
    parser.add_argument(
        "--skip-unsupported", action="store_true", help="leave out what a dataset cannot hold"
    )


def run(request: Request) -> int:
    """Import a file."""
    arguments = request.arguments
    logs.configure_command(request.settings)
    from nczfs.engine.transfer.choices import Choices  # NumPy comes with it

    choices = Choices(arguments.chunks, arguments.codecs, arguments.fixed, arguments.string_bytes)
    limit = memory_limit(request.settings)
    with source_of(arguments.file, limit, skip_unsupported=arguments.skip_unsupported) as source:
        write(source, target(request), choices)
    return 0


@contextmanager
def source_of(file: str, memory_limit_bytes: int, *, skip_unsupported: bool) -> Iterator[Source]:
    """A netCDF file or a CDL text, by what it begins with."""
    path = Path(file).expanduser()
    if _is_cdl(path):
        yield cdl_source_of(path)
        return
    from nczfs.engine.transfer.netcdf_source import netcdf_source

    with netcdf_source(path, tell, memory_limit_bytes, skip_unsupported=skip_unsupported) as source:
        yield source


def _is_cdl(path: Path) -> bool:
    if path.suffix == ".cdl":
        return True
    try:
        with path.open("rb") as file:
            head = file.read(_CDL_HEAD_BYTES)
    except OSError:
        return False  # opening it says why
    return _CDL.match(head.decode("utf-8", "replace")) is not None


COMMAND = Command(
    "import",
    "make a dataset from a netCDF file or CDL",
    _arguments,
    run,
    ("nczfs import era5.nc s3://bucket/era5.zarr --chunks time=24",),
    scopes=TRANSFER_SCOPES,
)
