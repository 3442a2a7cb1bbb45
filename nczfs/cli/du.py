"""``nczfs du``: how much space a dataset takes in its store."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

from nczfs.cli import logs
from nczfs.cli.command import STORE_SCOPES, Command, CommandLine
from nczfs.cli.ls import Row, complain_of_names, complain_of_unfinished
from nczfs.cli.progress import progress_bar
from nczfs.cli.sizes import ratio_of, ratio_text, size_cell, table
from nczfs.cli.sources import Settings
from nczfs.cli.store import nothing_at, place, store_options
from nczfs.cli.terminal import say
from nczfs.errors import NoContent, NotADataset

if TYPE_CHECKING:
    from nczfs.tools.usage import Usage


_HEADER = ("OBJECTS", "STORED", "DECODED", "RATIO", "NAME")
_NUMBERS = (0, 1, 2, 3)


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "url", metavar="URL", help="a store, a dataset, or a group or variable in it"
    )
    parser.add_argument("-s", "--summarize", action="store_true", help="print only the total")
    parser.add_argument("-b", "--bytes", action="store_true", help="print exact sizes")
    parser.add_argument("--json", action="store_true", help="print a JSON list")


def run(request: CommandLine) -> int:
    """Print the size of every variable and group; the given place itself comes last."""
    arguments, settings = request.arguments, request.settings
    logs.configure_command(settings)
    rows = _rows(arguments.url, settings)
    if arguments.summarize:
        rows = rows[-1:]
    if arguments.json:
        json.dump(rows, sys.stdout, indent=2)
        print()
        return 0
    lines = [_HEADER, *(_cells(row, exact=arguments.bytes) for row in rows)]
    for line in table(lines, right=_NUMBERS):
        say(line)
    return 0


def _rows(url: str, settings: Settings) -> list[Row]:
    from nczfs.cli.nodes import opened  # imports NumPy and boto3
    from nczfs.tools.usage import node_usages

    try:
        with opened(url, settings) as node, progress_bar(None, " keys") as progress:
            usages = node_usages(node, progress)
        complain_of_names(usages[-1].usage.unfinished)
        return [
            _row("variable" if found.variable else "group", f"/{found.path}", found.usage)
            | {
                "decoded_bytes": found.decoded_bytes,
                "ratio": ratio_of(found.decoded_bytes, found.usage.bytes),
            }
            for found in usages
        ]
    except (NotADataset, NoContent) as error:
        rows = _rows_of_store(url, settings)
        if not rows:
            raise nothing_at(url, settings) from error
        complain_of_unfinished((row["path"][1:] for row in rows), error)
        return rows


def _rows_of_store(url: str, settings: Settings) -> list[Row]:
    """Return a row for each name at a place that is no dataset, and one for their sum."""
    from nczfs.engine.stores import open_store
    from nczfs.tools.usage import Usage, prefix_usages
    from nczfs.zmap.keys import ROOT, Prefix

    zmap = open_store(place(url, settings), store_options(settings))
    try:
        entries = sorted(zmap.search(ROOT), key=lambda entry: entry.name)
        prefixes = [Prefix(entry.name) for entry in entries if entry.is_prefix]
        with progress_bar(None, " keys") as progress:
            usages = dict(zip(prefixes, prefix_usages(zmap, prefixes, progress), strict=True))
    finally:
        zmap.close()
    rows: list[Row] = []
    total = Usage()
    for entry in entries:
        if entry.stat is not None:
            rows.append(_row("object", f"/{entry.name}", Usage(1, entry.stat.size)))
            total += Usage(1, entry.stat.size)
        if entry.is_prefix:
            usage = usages[Prefix(entry.name)]
            kind = "unfinished" if Prefix(entry.name) in usage.unfinished else "prefix"
            rows.append(_row(kind, f"/{entry.name}", usage))
            total += usage
    complain_of_names(total.unfinished)
    return [*rows, _row("prefix", "/", total)] if rows else []


def _row(kind: str, path: str, usage: Usage) -> Row:
    return {"kind": kind, "path": path, "objects": usage.objects, "stored_bytes": usage.bytes}


def _cells(row: Row, *, exact: bool) -> tuple[str, ...]:
    stored, decoded = (
        size_cell(row.get(name), exact=exact) for name in ("stored_bytes", "decoded_bytes")
    )
    slash = "/" if row["kind"] in ("group", "prefix", "unfinished") and row["path"] != "/" else ""
    return str(row["objects"]), stored, decoded, ratio_text(row.get("ratio")), row["path"] + slash


COMMAND = Command(
    "du",
    "show how much space a dataset takes in its store",
    _arguments,
    run,
    ("nczfs du s3://bucket/era5.zarr", "nczfs du -s era5.zip"),
    scopes=STORE_SCOPES,
)
