"""``nczfs import``: makes a new dataset from a netCDF file, an ncstream or CDL."""

from __future__ import annotations

import argparse

from nczfs.cli import logs
from nczfs.cli.codecs import positive
from nczfs.cli.command import Command, CommandLine
from nczfs.cli.netcdf_files import source_of
from nczfs.cli.parser import typed
from nczfs.cli.stream_files import import_stream, is_stream_file
from nczfs.cli.transfers import (
    TRANSFER_SCOPES,
    add_layout_arguments,
    add_shards_argument,
    add_target_arguments,
    memory_limit,
    target,
    write,
)


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file",
        metavar="FILE",
        help="a netCDF-3, netCDF-4 or CDL file; or an ncstream, also its URL, or - for the "
        "standard input",
    )
    add_target_arguments(parser)
    add_layout_arguments(
        parser,
        chunks_help="default: as in FILE",
        codecs_help="none, zlib:LEVEL, zstd:LEVEL, blosc:NAME:LEVEL, ..., also after "
        "'shuffle,'; or a JSON list (default: the filters of FILE, else shuffle and zlib)",
    )
    add_shards_argument(parser, default="as in FILE, which only CDL says")
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


def run(request: CommandLine) -> int:
    """Import a file."""
    arguments = request.arguments
    logs.configure_command(request.settings)
    from nczfs.tools.transfer.choices import Choices  # imports NumPy

    choices = Choices(
        arguments.chunks,
        arguments.codecs,
        arguments.fixed,
        arguments.string_bytes,
        arguments.shards,
    )
    if is_stream_file(arguments.file):
        import_stream(request, choices, target(request))
        return 0
    limit = memory_limit(request.settings)
    with source_of(arguments.file, limit, skip_unsupported=arguments.skip_unsupported) as source:
        write(source, target(request), choices)
    return 0


COMMAND = Command(
    "import",
    "make a dataset from a netCDF file, an ncstream or CDL",
    _arguments,
    run,
    (
        "nczfs import era5.nc s3://bucket/era5.zarr --chunks time=24",
        "nczfs import http://host:8080/era5.zarr/era5.ncs era5.zarr",
    ),
    scopes=TRANSFER_SCOPES,
)
