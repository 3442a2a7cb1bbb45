"""``nczfs ls``: lists a store or a dataset."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from nczfs.cli import logs
from nczfs.cli.command import STORE_SCOPES, Command, CommandLine
from nczfs.cli.progress import progress_bar
from nczfs.cli.sizes import UNKNOWN, ratio_of, ratio_text, size_cell, table
from nczfs.cli.sources import Settings
from nczfs.cli.store import nothing_at, place, store_options
from nczfs.cli.terminal import complain, say
from nczfs.errors import NoContent, NotADataset, StoreError

if TYPE_CHECKING:
    from nczfs.cli.nodes import OpenedNode
    from nczfs.library.api import Group
    from nczfs.model.dtypes import DataType
    from nczfs.model.hierarchy import Variable
    from nczfs.tools.usage import Usage

Row = dict[str, Any]

_HEADER = ("TYPE", "DECODED", "STORED", "RATIO", "NAME")
_NUMBERS = (1, 2, 3)
_COMPLAINTS_MAX = 10


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "url", metavar="URL", help="a store, a dataset, or a group or variable in it"
    )
    parser.add_argument(
        "-l",
        "--long",
        action="store_true",
        help="print types, dimensions, and decoded and stored sizes (this lists the chunks)",
    )
    parser.add_argument("-R", "--recursive", action="store_true", help="include all groups below")
    parser.add_argument("-b", "--bytes", action="store_true", help="print exact sizes")
    parser.add_argument("--json", action="store_true", help="print a JSON list")


def run(request: CommandLine) -> int:
    """Print the members of a group, or the names in a store where there is no dataset."""
    arguments, settings = request.arguments, request.settings
    logs.configure_command(settings)
    rows = _rows(arguments, settings)
    if arguments.json:
        json.dump(rows, sys.stdout, indent=2)
        print()
    elif arguments.long:
        lines = [_HEADER, *(_cells(row, exact=arguments.bytes) for row in rows)]
        for line in table(lines, right=_NUMBERS):
            say(line)
    else:
        for row in rows:
            say(row["name"] + _slash(row))
    return 0


def _rows(arguments: argparse.Namespace, settings: Settings) -> list[Row]:
    from nczfs.cli.nodes import opened  # imports NumPy and boto3
    from nczfs.library.api import Group

    variables: dict[str, Variable] = {}
    try:
        with opened(arguments.url, settings) as node:
            if isinstance(node, Group):
                rows = list(members(node, variables, recursive=arguments.recursive))
            else:
                rows = list(_variable_rows(node.description, node.name, node.path, variables))
            if arguments.long:
                _add_stored(node, rows, variables)
    except (NotADataset, NoContent) as error:
        is_long = arguments.long or arguments.json
        rows = list(_names(arguments.url, settings, is_long=is_long))
        if not rows:
            raise nothing_at(arguments.url, settings) from error
        complain_of_unfinished((row["name"] for row in rows), error)
    complain_of_names(row["name"] for row in rows if row["kind"] == "unfinished")
    return rows


def complain_of_unfinished(names: Iterable[str], error: Exception) -> None:
    """Say on stderr why a place is no dataset, if an unfinished one is why."""
    from nczfs.engine.structure.ownership import UNFINISHED

    if UNFINISHED in names:
        complain("nczfs", error)


def complain_of_names(names: Iterable[str]) -> None:
    """Say on stderr which places are unfinished, of the first ones."""
    from nczfs.engine.structure.ownership import unfinished_text

    for name in islice(names, _COMPLAINTS_MAX):
        complain("nczfs", unfinished_text(name))


def members(
    group: Group,
    variables: dict[str, Variable] | None = None,
    above: str = "",
    *,
    recursive: bool = False,
) -> Iterator[Row]:
    """Return the variables of a group, then its groups, with the broken and unfinished ones.

    Parameters
    ----------
    variables : receives the variables, by their paths.
    above : the path to put in front of the names.
    """
    from nczfs.model.hierarchy import Variable

    nodes, broken = group.members()
    rows = [{"kind": "broken", "name": above + name, "problem": why} for name, why in broken]
    for node in nodes:
        if isinstance(node, Variable):
            rows += _variable_rows(node, above + node.name, f"/{node.path}", variables)
    rows += [{"kind": "unfinished", "name": above + name} for name in group.unfinished()]
    yield from sorted(rows, key=lambda row: str(row["name"]))
    for node in sorted(nodes, key=lambda node: node.name):
        if not isinstance(node, Variable):
            yield {"kind": "group", "name": above + node.name, "path": f"/{node.path}"}
            if recursive:
                child = group_at(group, f"/{node.path}")
                yield from members(child, variables, f"{above}{node.name}/", recursive=True)


def _variable_rows(
    variable: Variable, name: str, path: str, variables: dict[str, Variable] | None
) -> Iterator[Row]:
    """Yield the rows of a variable and of the arrays that depend on it."""
    yield variable_row(variable, name, path)
    if variables is not None:
        variables[path] = variable
    for each in variable.dependents:
        yield from _variable_rows(each, f"{name}/{each.name}", f"{path}/{each.name}", variables)


def group_at(group: Group, path: str) -> Group:
    """Return the group at a path from the root."""
    from nczfs.library.api import Group

    child = group[path]
    assert isinstance(child, Group)
    return child


def variable_row(variable: Variable, name: str, path: str) -> Row:
    """Describe a variable at a path as far as possible without listing its chunks."""
    array = variable.array
    return {
        "kind": "variable",
        "name": name,
        "path": path,
        "dtype": _type_text(array.dtype),
        "dimensions": [dimension.name for dimension in variable.dimensions],
        "shape": list(array.shape),
        "chunk_shape": list(array.chunk_shape),
        "shard_shape": list(array.unit_shape) if array.shards else None,
        "decoded_bytes": array.decoded_bytes,
    }


def _type_text(dtype: DataType) -> str:
    """Return a type as people know it, whatever a format stores strings as."""
    from nczfs.model.dtypes import NcType

    is_text = dtype.vlen is not None or dtype.nc_type is NcType.STRING
    return "string" if is_text else str(dtype.native)


def dimensions_text(names: list[str], shape: list[int]) -> str:
    """Return the dimensions of a variable with their lengths, as ``(time: 12, x: 4)``."""
    pairs = (f"{name}: {size}" for name, size in zip(names, shape, strict=True))
    return f"({', '.join(pairs)})"


def _add_stored(node: OpenedNode, rows: list[Row], variables: dict[str, Variable]) -> None:
    """Add the stored bytes of the chunks, if a listing shows them."""
    from nczfs.tools.usage import chunk_usages, lists_sizes

    usages: dict[str, Usage] = {}
    if variables and not lists_sizes(node):
        complain(
            "nczfs", "no stored sizes: the server must be asked for each chunk (nczfs du does)"
        )
        variables = {}
    try:
        with progress_bar(None, " keys") as progress:
            found = chunk_usages(node, list(variables.values()), progress)
            usages = dict(zip(variables, found, strict=True))
    except StoreError as error:
        complain("nczfs", f"no stored sizes: {error}")
    for row in rows:
        if row["kind"] == "variable":
            usage = usages.get(row["path"])
            row["stored_bytes"] = usage.bytes if usage else None
            row["stored_objects"] = usage.objects if usage else None
            row["ratio"] = ratio_of(row["decoded_bytes"], row["stored_bytes"])


def _names(url: str, settings: Settings, *, is_long: bool) -> Iterator[Row]:
    from nczfs.engine.stores import open_store
    from nczfs.engine.structure.ownership import unfinished_among
    from nczfs.zmap.keys import ROOT

    zmap = open_store(place(url, settings), store_options(settings))
    try:
        entries = sorted(zmap.search(ROOT), key=lambda entry: entry.name)
        prefixes = [entry.name for entry in entries if entry.is_prefix]
        asks = is_long or zmap.features.near  # a far store is not asked for the names alone
        unfinished = set(unfinished_among(zmap, ROOT, prefixes) if asks else ())
        for entry in entries:
            if entry.is_prefix:
                kind = "unfinished" if entry.name in unfinished else "prefix"
                yield {"kind": kind, "name": entry.name}
            if entry.stat is not None:
                yield {"kind": "object", "name": entry.name, "size": entry.stat.size}
    finally:
        zmap.close()


def _cells(row: Row, *, exact: bool) -> tuple[str, ...]:
    name = row["name"] + _slash(row)
    if row["kind"] == "variable":
        decoded, stored = (
            size_cell(row[size], exact=exact) for size in ("decoded_bytes", "stored_bytes")
        )
        dimensions = dimensions_text(row["dimensions"], row["shape"])
        return row["dtype"], decoded, stored, ratio_text(row["ratio"]), f"{name} {dimensions}"
    if row["kind"] == "object":
        return "object", UNKNOWN, size_cell(row["size"], exact=exact), UNKNOWN, name
    problem = f" (cannot be read: {row['problem']})" if row["kind"] == "broken" else ""
    return row["kind"], UNKNOWN, UNKNOWN, UNKNOWN, name + problem


def _slash(row: Row) -> str:
    return "/" if row["kind"] in ("group", "prefix", "unfinished") else ""


COMMAND = Command(
    "ls",
    "list a store or a dataset",
    _arguments,
    run,
    ("nczfs ls -l s3://bucket/era5.zarr",),
    scopes=STORE_SCOPES,
)
