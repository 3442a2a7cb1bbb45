"""``nczfs info``: describes a group or variable."""

from __future__ import annotations

import argparse

from nczfs.cli import logs, terminal
from nczfs.cli.command import STORE_SCOPES, Command, CommandLine


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", metavar="URL", help="a dataset, or a group or variable in it")
    parser.add_argument("--json", action="store_true", help="print JSON (the default)")


def run(request: CommandLine) -> int:
    """Print the info.json of a node."""
    logs.configure_command(request.settings)
    from nczfs.cli.nodes import opened_from_root  # imports NumPy and boto3
    from nczfs.library.api import Group
    from nczfs.views.info import group_info, variable_info

    with opened_from_root(request.arguments.url, request.settings) as node:
        if isinstance(node, Group):
            document = group_info(node.tree())
        else:
            document = variable_info(node.description, node.problems)
    terminal.write(document.decode(), keep="\n")
    return 0


COMMAND = Command(
    "info",
    "describe a group or variable, in JSON",
    _arguments,
    run,
    ("nczfs info s3://bucket/era5.zarr/t2m",),
    scopes=STORE_SCOPES,
)
