"""``nczfs tree``: draws the groups and variables of a dataset."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING, Any

from nczfs.cli import logs
from nczfs.cli.codecs import positive
from nczfs.cli.command import STORE_SCOPES, Command, CommandLine
from nczfs.cli.ls import Row, complain_of_names, dimensions_text, group_at, members, variable_row
from nczfs.cli.parser import typed
from nczfs.cli.store import shown
from nczfs.cli.terminal import say
from nczfs.errors import BadMetadata

GROUPS_MAX = 10_000  # that are drawn: links in a directory can make any number

if TYPE_CHECKING:
    from nczfs.library.api import Group


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", metavar="URL", help="a dataset, or a group in it")
    parser.add_argument(
        "-L",
        "--level",
        metavar="N",
        type=typed(positive),
        help="descend at most N levels of groups",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(request: CommandLine) -> int:
    """Print a tree of names, types and dimensions; only metadata are read."""
    arguments, settings = request.arguments, request.settings
    logs.configure_command(settings)
    from nczfs.cli.nodes import opened  # imports NumPy and boto3
    from nczfs.library.api import Group

    with opened(arguments.url, settings) as node:
        if not isinstance(node, Group):
            top = variable_row(node.description, node.name, node.path)
        else:
            top = {"kind": "group", "name": shown(arguments.url, settings), "path": node.path}
            top["members"] = _branches(node, arguments.level, count(1))
    if arguments.json:
        json.dump(top, sys.stdout, indent=2)
        print()
        return 0
    complain_of_names(_unfinished(top, ""))
    say(_label(top))
    for line in _lines(top, ""):
        say(line)
    return 0


def _branches(group: Group, levels: int | None, groups: Iterator[int]) -> list[Row] | None:
    """Return the members of a group with their members; None: they lie below the last level.

    Parameters
    ----------
    groups : counts all groups.
    """
    if levels == 0:
        return None
    if next(groups) > GROUPS_MAX:
        raise BadMetadata(
            f"{group.path}: over {GROUPS_MAX} groups are not drawn: -L shows the upper levels"
        )
    rows = []
    for row in members(group):
        if row["kind"] == "group":
            child = group_at(group, row["path"])
            row["members"] = _branches(child, None if levels is None else levels - 1, groups)
        rows.append(row)
    return rows


def _lines(row: dict[str, Any], indent: str) -> Iterator[str]:
    rows = row.get("members") or []
    for member in rows:
        last = member is rows[-1]
        yield f"{indent}{'└── ' if last else '├── '}{_label(member)}"
        yield from _lines(member, indent + ("    " if last else "│   "))


def _unfinished(row: Row, above: str) -> Iterator[str]:
    """Yield the paths of the unfinished members below a row."""
    for member in row.get("members") or ():
        path = f"{above}{member['name']}"
        if member["kind"] == "unfinished":
            yield path
        yield from _unfinished(member, f"{path}/")


def _label(row: Row) -> str:
    if row["kind"] == "variable":
        return f"{row['name']}  {row['dtype']} {dimensions_text(row['dimensions'], row['shape'])}"
    if row["kind"] == "broken":
        return f"{row['name']}  (cannot be read: {row['problem']})"
    if row["kind"] == "unfinished":
        return f"{row['name']}/  (unfinished)"
    below = "  …" if row.get("members", []) is None else ""
    return f"{row['name']}/{below}"


COMMAND = Command(
    "tree",
    "draw the groups and variables of a dataset",
    _arguments,
    run,
    ("nczfs tree s3://bucket/era5.zarr", "nczfs tree -L 1 era5.zarr"),
    scopes=STORE_SCOPES,
)
