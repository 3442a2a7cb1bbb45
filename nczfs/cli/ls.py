"""``nczfs ls``: what a store or a dataset holds."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from nczfs.cli import logs
from nczfs.cli.command import STORE_SCOPES, Command, Request
from nczfs.cli.sources import Settings
from nczfs.cli.store import place, shown, store_options
from nczfs.errors import NoContent, NotADataset

if TYPE_CHECKING:
    import nczfs


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", metavar="URL", help="of a store, or of a place in a dataset")
    parser.add_argument("-l", "--long", action="store_true", help="types, dimensions, sizes")
    parser.add_argument("-R", "--recursive", action="store_true", help="all groups below too")
    parser.add_argument("--json", action="store_true", help="a list of objects")


def run(request: Request) -> int:
    """Print the members of a group, or the names in a store where there is no dataset."""
    arguments, settings = request.arguments, request.settings
    logs.configure_command(settings)
    rows = list(_rows(arguments.url, settings, recursive=arguments.recursive))
    if arguments.json:
        json.dump(rows, sys.stdout, indent=2)
        print()
    elif arguments.long:
        _print_table(rows)
    else:
        for row in rows:
            print(row["name"] + ("" if row["kind"] in ("variable", "object") else "/"))
    return 0


def _rows(url: str, settings: Settings, *, recursive: bool) -> Iterator[dict[str, Any]]:
    from nczfs.cli.nodes import opened  # NumPy and boto3 come with it
    from nczfs.engine.api import Group

    try:
        with opened(url, settings) as node:
            if isinstance(node, Group):
                yield from _members(node, "", recursive=recursive)
            else:
                yield _variable(node, node.name)
    except (NotADataset, NoContent) as error:
        names = list(_names(url, settings))
        if not names:
            raise NoContent(f"{shown(url, settings)}: is empty, no key is there") from error
        yield from names


def _members(group: nczfs.Group, above: str, *, recursive: bool) -> Iterator[dict[str, Any]]:
    for name, variable in sorted(group.variables.items()):
        yield _variable(variable, above + name)
    for name, child in sorted(group.groups.items()):
        yield {"kind": "group", "name": above + name, "path": child.path}
        if recursive:
            yield from _members(child, f"{above}{name}/", recursive=True)


def _variable(variable: nczfs.Variable, name: str) -> dict[str, Any]:
    return {
        "kind": "variable",
        "name": name,
        "path": variable.path,
        "dtype": str(variable.dtype),
        "dimensions": list(variable.dimensions),
        "shape": list(variable.shape),
        "chunk_shape": list(variable.chunks),
        "decoded_bytes": variable.description.array.decoded_bytes,
    }


def _names(url: str, settings: Settings) -> Iterator[dict[str, Any]]:
    from nczfs.zmap.keys import ROOT
    from nczfs.zmap.registry import open_store

    zmap = open_store(place(url, settings), store_options(settings))
    try:
        for entry in sorted(zmap.search(ROOT), key=lambda entry: entry.name):
            if entry.is_prefix:
                yield {"kind": "prefix", "name": entry.name}
            if entry.stat is not None:
                yield {"kind": "object", "name": entry.name, "size": entry.stat.size}
    finally:
        zmap.close()


def _print_table(rows: list[dict[str, Any]]) -> None:
    table = [_cells(row) for row in rows]
    widths = [max((len(cells[i]) for cells in table), default=0) for i in range(3)]
    for cells in table:
        print(
            "  ".join(text.ljust(width) for text, width in zip(cells, widths, strict=True)).rstrip()
        )


def _cells(row: dict[str, Any]) -> tuple[str, str, str]:
    if row["kind"] == "variable":
        pairs = zip(row["dimensions"], row["shape"], strict=True)
        shape = ", ".join(f"{name}: {size}" for name, size in pairs)
        return row["dtype"], row["name"], f"({shape})"
    if row["kind"] == "object":
        return str(row["size"]), row["name"], ""
    return row["kind"], row["name"] + "/", ""


COMMAND = Command(
    "ls",
    "list a store or a dataset",
    _arguments,
    run,
    ("nczfs ls -l s3://bucket/era5.zarr",),
    scopes=STORE_SCOPES,
)
