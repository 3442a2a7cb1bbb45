"""``nczfs plot``: a picture of a variable, of a part of it, or of a group."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from nczfs.cli import logs, terminal
from nczfs.cli.command import STORE_SCOPES, Command, CommandLine
from nczfs.cli.sources import Settings
from nczfs.errors import ObjectExists, UsageError
from nczfs.library.boxes import BOX_HELP, selection

if TYPE_CHECKING:
    from nczfs.cli.nodes import OpenedNode

STANDARD_OUTPUT = "-"


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", metavar="URL", help="a variable of a dataset, or a group")
    parser.add_argument("-b", "--box", metavar="BOX", help=BOX_HELP)
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="the PNG to write, instead of NAME.png here; - is the standard output",
    )


def run(request: CommandLine) -> int:
    """Write the picture, and print the name of its file."""
    arguments = request.arguments
    box = None if arguments.box is None else selection(arguments.box)
    if arguments.output == STANDARD_OUTPUT and sys.stdout.isatty():
        raise UsageError("a PNG is not for a terminal; name a file (-o FILE), or use a pipe")
    logs.configure_command(request.settings)
    from nczfs.pictures.picture import require  # imports NumPy

    require()
    from nczfs.engine.arrays.selection import select
    from nczfs.library.api import Group
    from nczfs.pictures.limits import FULL
    from nczfs.pictures.picture import group_picture, variable_picture

    with _opened(arguments.url, request.settings) as node:
        target = arguments.output or _new_file(node)
        if isinstance(node, Group):
            if box is not None:
                raise UsageError(f"{arguments.url}: is a group; --box is a part of a variable")
            png = group_picture(node.engine_dataset, node.header.path, FULL)
        else:
            chosen = None if box is None else select(box, node.shape)
            png = variable_picture(node.engine_dataset, node.description, FULL, chosen)
    if target == STANDARD_OUTPUT:
        terminal.write_bytes(png)
        return 0
    Path(target).expanduser().write_bytes(png)
    terminal.say(target)
    return 0


@contextmanager
def _opened(url: str, settings: Settings) -> Iterator[OpenedNode]:
    """Open a node in the group above it, where its coordinates are, if there is one."""
    from nczfs.cli.nodes import opened_above, opened_from_root

    with ExitStack() as stack:
        above = stack.enter_context(opened_above(url, settings))
        if above is not None:
            dataset, _, path = above
            try:
                node: OpenedNode = dataset[path]
            except KeyError:
                node = stack.enter_context(opened_from_root(url, settings))
        else:
            node = stack.enter_context(opened_from_root(url, settings))
        yield node


def _new_file(node: OpenedNode) -> str:
    """Return the name of the file where none is given. Raises ObjectExists."""
    name = f"{node.name.strip('/').replace('/', '.') or 'plot'}.png"
    if os.path.lexists(name):
        raise ObjectExists(f"{name}: exists already; -o {name} replaces it")
    return name


COMMAND = Command(
    "plot",
    "draw a variable, a part of it, or a group",
    _arguments,
    run,
    (
        "nczfs plot s3://bucket/era5.zarr/t2m",
        "nczfs plot s3://bucket/era5.zarr/t2m --box '12, 200:400, 0:300' -o europe.png",
    ),
    scopes=STORE_SCOPES,
)
