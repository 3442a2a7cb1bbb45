"""``nczfs export``: writes a dataset, or a part of one, to a netCDF file or an ncstream."""

from __future__ import annotations

import argparse
import os
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from nczfs.cli import interrupts, logs, terminal
from nczfs.cli.command import Command, CommandLine
from nczfs.cli.parser import typed
from nczfs.cli.progress import progress_bar, tell
from nczfs.cli.store import engine_options, shown
from nczfs.cli.stream_files import STREAM, check_options, export_stream, is_stream
from nczfs.cli.transfers import (
    TRANSFER_SCOPES,
    add_layout_arguments,
    memory_limit,
)
from nczfs.errors import UsageError

if TYPE_CHECKING:
    from nczfs.tools.transfer.source import Source

# The names and numbers that nccopy has for them, without blanks and signs.
_KINDS = {
    "netcdf4": ("nc4", "hdf5", "enhanced", "3"),
    "netcdf4-classic": ("nc7", "netcdf4classicmodel", "4"),
    "64bit-data": ("nc5", "cdf5", "5"),
    "64bit-offset": ("nc6", "2"),
    "classic": ("nc3", "netcdf3", "1"),
    STREAM: (),
}


def kind_name(text: str) -> str:
    """Return the kind of file that a name stands for. Raises UsageError."""
    word = _bare(text)
    for name, others in _KINDS.items():
        if word == _bare(name) or word in others:
            return name
    raise UsageError(f"{text!r} is not a kind of file; known are {', '.join(_KINDS)}")


def level(text: str) -> int:
    """Return a level of compression. Raises UsageError."""
    if text not in map(str, range(1, 10)):
        raise UsageError(f"{text!r} is not a level of compression, from 1 to 9")
    return int(text)


def _bare(text: str) -> str:
    return re.sub(r"[\s_-]", "", text.lower())


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", metavar="URL", help="a dataset, or a group or variable in it")
    parser.add_argument(
        "file", metavar="FILE", help="the new file; an ncstream can be -, the standard output"
    )
    parser.add_argument(
        "-k",
        "--kind",
        type=typed(kind_name),
        metavar="KIND",
        help=f"{', '.join(_KINDS)}, or the names that nccopy has for them (default: ncstream if "
        "FILE ends in .ncs or is -, else netcdf4)",
    )
    add_layout_arguments(
        parser,
        chunks_help="default: as in the dataset",
        codecs_help="as for `nczfs import` (default: those of the dataset, zlib where netCDF has "
        "none)",
    )
    parser.add_argument(
        "--deflate",
        type=typed(level),
        metavar="LEVEL",
        help="compress the numbers of an ncstream, 1 to 9 (default: not)",
    )
    parser.add_argument(
        "--netcdf-java",
        action="store_true",
        help="write an ncstream as netcdf-java reads it from a file: whole variables, and strings "
        "as characters",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace FILE if it exists")
    parser.add_argument(
        "--skip-unsupported", action="store_true", help="leave out what FILE cannot hold"
    )


def run(request: CommandLine) -> int:
    """Export a group or a variable."""
    arguments, settings = request.arguments, request.settings
    logs.configure_command(settings)
    check_options(request)
    from nczfs.cli.memory import share_one_heap
    from nczfs.cli.nodes import opened_from_root  # imports NumPy and boto3
    from nczfs.tools.transfer.choices import Choices, chosen
    from nczfs.tools.transfer.dataset_source import dataset_source

    share_one_heap()
    limit = memory_limit(settings)
    options = replace(engine_options(settings), memory_limit_bytes=limit // 2, cache_bytes_max=0)
    with opened_from_root(arguments.url, settings, options) as node:
        if is_stream(arguments.file, arguments.kind):
            export_stream(node, request)
            return 0
        name = shown(arguments.url, settings)
        source = dataset_source(node, name, tell, skip_unsupported=arguments.skip_unsupported)
        choices = Choices(arguments.chunks, arguments.codecs)
        _write(chosen(source, choices), request, limit)
    return 0


def _write(source: Source, request: CommandLine, limit: int) -> None:
    from nczfs.tools.transfer.netcdf_kinds import KINDS
    from nczfs.tools.transfer.netcdf_target import NewFile, remove_temporary, write_netcdf

    arguments = request.arguments
    new = NewFile(
        os.path.expanduser(arguments.file),
        KINDS[arguments.kind or "netcdf4"],
        arguments.overwrite,
        limit,
        arguments.skip_unsupported,
    )
    with (
        terminal.libraries_muted(),  # HDF5's filters print what they fail at
        progress_bar(source.nbytes, "B") as progress,
        interrupts.deferred(lambda: remove_temporary(new)),
    ):
        write_netcdf(source, new, tell, progress)


COMMAND = Command(
    "export",
    "make a netCDF file or an ncstream from a dataset",
    _arguments,
    run,
    (
        "nczfs export s3://bucket/era5.zarr era5.nc --kind netcdf4-classic",
        "nczfs export s3://bucket/era5.zarr - --deflate 5 | ssh far nczfs import - era5.zarr",
    ),
    scopes=TRANSFER_SCOPES,
)
