"""``nczfs dump``: a dataset as CDL, as ncdump prints it."""

from __future__ import annotations

import argparse

from nczfs.cli import logs
from nczfs.cli.command import STORE_SCOPES, Command, Request
from nczfs.errors import UsageError
from nczfs.zmap.url import parse_url


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", metavar="URL")
    parser.add_argument("-h", dest="header", action="store_true", help="only the header, no data")


def run(request: Request) -> int:
    """Print the header of a dataset."""
    arguments = request.arguments
    logs.configure_command(request.settings)
    if not arguments.header:
        raise UsageError(
            "dump prints the header only; take `dump -h`, and `nczfs cat` for the values"
        )
    from nczfs.cli.nodes import opened  # NumPy and boto3 come with it
    from nczfs.engine.api import Variable
    from nczfs.formats.cdl import header
    from nczfs.vfs.datasets import stem

    with opened(arguments.url, request.settings) as node:
        if isinstance(node, Variable):
            raise UsageError(f"{arguments.url} is a variable; give the URL of its group")
        name = stem(parse_url(arguments.url).last_word)
        print(header(node.tree(), name=name), end="")
    return 0


COMMAND = Command(
    "dump", "a dataset as CDL", _arguments, run, scopes=STORE_SCOPES, short_help=False
)
