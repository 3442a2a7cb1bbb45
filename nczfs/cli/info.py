"""``nczfs info``: describes a group or variable, and tells what a read of it costs."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

from nczfs.cli import logs, terminal
from nczfs.cli.command import STORE_SCOPES, Command, CommandLine
from nczfs.library.boxes import selection
from nczfs.messages import size_text

if TYPE_CHECKING:
    from nczfs.tools.cost import ReadCost

AMPLIFICATION = 10.0  # reading that much more than is wanted is said


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", metavar="URL", help="a dataset, or a group or variable in it")
    parser.add_argument(
        "-b",
        "--box",
        metavar="BOX",
        help="tell what reading a part of it costs; BOX as for `nczfs cat`",
    )
    parser.add_argument(
        "--json", action="store_true", help="print JSON (the default without --box)"
    )


def run(request: CommandLine) -> int:
    """Print the info.json of a node, or the cost of reading a part of it."""
    arguments = request.arguments
    box = None if arguments.box is None else selection(arguments.box)
    logs.configure_command(request.settings)
    from nczfs.cli.nodes import group_refused, opened_from_root  # imports NumPy and boto3
    from nczfs.library.api import Group
    from nczfs.tools.cost import read_cost
    from nczfs.views.info import group_info, variable_info

    with opened_from_root(arguments.url, request.settings) as node:
        if box is not None:
            if isinstance(node, Group):
                raise group_refused(node, arguments.url, request.settings)
            cost = read_cost(node, box)
            if arguments.json:
                json.dump(asdict(cost), sys.stdout, indent=2)
                print()
            else:
                for line in cost_lines(cost):
                    terminal.say(line)
            return 0
        if isinstance(node, Group):
            document = group_info(node.tree())
        else:
            document = variable_info(node.description, node.problems)
    terminal.write(document.decode(), keep="\n")
    return 0


def cost_lines(cost: ReadCost) -> Iterator[str]:
    """Yield what a read costs, in words."""
    shape = " x ".join(map(str, cost.shape)) or "one"
    wanted = "" if cost.wanted_bytes is None else f", {size_text(cost.wanted_bytes)}"
    yield f"values: {shape}{wanted}"
    more = ""
    if cost.wanted_bytes and cost.decoded_bytes > AMPLIFICATION * cost.wanted_bytes:
        more = f", {cost.decoded_bytes / cost.wanted_bytes:.0f} times what is wanted"
    objects = "" if cost.objects == cost.chunks else f" in {cost.objects} objects"
    yield f"chunks: {cost.chunks}{objects}, {size_text(cost.decoded_bytes)} decoded{more}"
    about = "" if cost.sampled == cost.chunks else "about "
    yield f"requests: {about}{cost.requests}"
    yield f"stored bytes: {about}{size_text(cost.stored_bytes)}"
    yield f"time: {_time_text(cost.seconds)} at the rate of {_sample_text(cost)}"


def _sample_text(cost: ReadCost) -> str:
    missing = f", {cost.missing} of which were never written" if cost.missing else ""
    return f"{cost.sampled} chunk{'' if cost.sampled == 1 else 's'} that were read{missing}"


def _time_text(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.2g} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h"


COMMAND = Command(
    "info",
    "describe a group or variable, or tell what reading costs",
    _arguments,
    run,
    (
        "nczfs info s3://bucket/era5.zarr/t2m",
        "nczfs info s3://bucket/era5.zarr/t2m --box ':, 10, 20'",
    ),
    scopes=STORE_SCOPES,
)
