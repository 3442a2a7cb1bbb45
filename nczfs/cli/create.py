"""``nczfs create``: makes a new dataset, empty or as CDL declares it."""

from __future__ import annotations

import argparse
from pathlib import Path

from nczfs.cli import logs
from nczfs.cli.command import Command, CommandLine
from nczfs.cli.transfers import (
    TRANSFER_SCOPES,
    add_target_arguments,
    cdl_source_of,
    target,
    write,
)


def _arguments(parser: argparse.ArgumentParser) -> None:
    add_target_arguments(parser)
    parser.add_argument(
        "--cdl",
        metavar="FILE",
        help="take groups, dimensions, variables and data from a CDL file",
    )


def run(request: CommandLine) -> int:
    """Make a dataset."""
    logs.configure_command(request.settings)
    from nczfs.model.declaration import GroupDeclaration
    from nczfs.tools.transfer.choices import Choices
    from nczfs.tools.transfer.source import Source

    new = target(request)
    cdl = request.arguments.cdl
    empty = Source(new.url, GroupDeclaration(""), {})
    source = empty if cdl is None else cdl_source_of(Path(cdl).expanduser())
    write(source, new, Choices())
    return 0


COMMAND = Command(
    "create",
    "make a dataset, empty or as CDL declares it",
    _arguments,
    run,
    ("nczfs create new.zarr --cdl new.cdl",),
    scopes=TRANSFER_SCOPES,
)
