"""``nczfs zom``: hierarchies as plain data: shown, made, compared, validated, converted."""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from nczfs.cli import logs
from nczfs.cli.command import STORE_SCOPES, Command, CommandLine, settings_for
from nczfs.cli.parser import typed
from nczfs.cli.store import engine_options, place, store_options
from nczfs.cli.terminal import complain, words_of
from nczfs.errors import NczfsError, UsageError
from nczfs.messages import shown
from nczfs.model.printing import printable
from nczfs.plaindata import frozen

if TYPE_CHECKING:
    from nczfs.model.hierarchy import Json
    from nczfs.zom import Change, Convention, Difference, Node

DONE, DIFFERENT, FAILED, TROUBLE = 0, 1, 1, 2

_COLOURS = {"changed": "33", "removed": "31", "added": "32"}
_SIGNS = {"changed": "~", "removed": "-", "added": "+"}
_STANDARD_INPUT = "-"
_PLACE = "a URL of a dataset, group or array, a file of JSON, or - for standard input"


@frozen
class _Action:
    """What the command does with its places.

    Attributes
    ----------
    places : how many it takes.
    options : those that it takes.
    """

    run: Callable[[_Call], int]
    places: tuple[str, ...]
    options: frozenset[str]
    trouble_status: int = FAILED


@frozen
class _Call:
    """A request, and how many hierarchies could be read only in part."""

    request: CommandLine
    troubles: list[str]

    @property
    def arguments(self) -> argparse.Namespace:
        return self.request.arguments

    def hear(self, line: str) -> None:
        complain("nczfs", line)

    def node(self, text: str) -> Node:
        """Return the hierarchy at a place. Raises NczfsError, OSError."""
        from nczfs.cli.nodes import opened
        from nczfs.model.hierarchy import Variable
        from nczfs.zom.stored import read_stored

        if _is_text(text):
            return self._of_text(text)
        settings = settings_for(self.request, text)
        options = replace(engine_options(settings), metadata_ttl_s=math.inf)
        with opened(text, settings, options) as found:
            depth = self.arguments.depth
            node = found.stored
            path = node.key if isinstance(node, Variable) else node.path  # of a root array: ""
            stored = read_stored(found.engine_dataset, path, depth=depth)
        for problem in stored.problems:
            self.troubles.append(problem.path)
            self.hear(f"{problem.path or '/'}: {problem.text}")
        return stored.node

    def _of_text(self, text: str) -> Node:
        from nczfs.errors import BadMetadata
        from nczfs.zom import TextLimits, is_flat, parse, read, read_flat

        limits = TextLimits()
        data, name = _read(text, limits.bytes_max)
        try:
            value = parse(data, limits)
            reader = read_flat if is_flat(value) else read
            strict, notice = self.arguments.strict, self.hear
            return reader(value, strict=strict, notice=notice, nodes_max=limits.nodes_max)
        except BadMetadata as error:
            raise BadMetadata(f"{name}: {error}", error.pointer) from error

    def fields(self) -> dict[str, frozenset[str]]:
        """Return which members of nodes are compared."""
        return {
            name: frozenset(names)
            for name in ("include", "exclude")
            if (names := getattr(self.arguments, name)) is not None
        }


def _show(call: _Call) -> int:
    from nczfs.zom import dumps

    _print(dumps(call.node(call.arguments.url)))
    return FAILED if call.troubles else DONE


def _create(call: _Call) -> int:
    from nczfs.zom import create

    arguments = call.arguments
    settings = call.request.settings
    if _is_text(arguments.url):
        raise UsageError(f"{arguments.url}: the first place of `create` is a URL")
    node = call.node(arguments.other)
    url = place(arguments.url, settings)
    _check_above(url, node.zarr_format, call.request)
    count = create(
        url,
        node,
        overwrite=arguments.overwrite,
        shares_keys=arguments.share_keys,
        store_options=store_options(settings),
        options=replace(engine_options(settings), metadata_ttl_s=math.inf),
    )
    if not count:
        call.hear(f"{printable(arguments.url)}: is there already; nothing was written")
    return FAILED if call.troubles else DONE


def _check_above(url: str, zarr_format: int, request: CommandLine) -> None:
    """Raise UsageError if a dataset above would not know of a new node."""
    from nczfs.cli.nodes import opened_above, root_variable
    from nczfs.formats.zom.documents import zarr_format_of
    from nczfs.model.hierarchy import Variable

    with opened_above(url, request.settings) as above:
        if above is None:
            return
        dataset, _, path = above
        engine = dataset.engine_dataset
        form = engine.format.copy
        data = None if form is None else engine.documents().get(form.key)
        has_copy = form is not None and data is not None and form.has_copy(data)
        root = printable(engine.url(""))
        if engine.format.declares or has_copy:
            why = "consolidated metadata" if has_copy else "lists of members"
            raise UsageError(
                f"{printable(url)}: {root} has {why}; make the node with `nczfs create`, or the "
                "whole hierarchy at the root"
            )
        version = zarr_format_of(engine.format.single.names)
        if zarr_format != version:
            raise UsageError(
                f"{printable(url)}: is Zarr v{zarr_format}, and {root} Zarr v{version}"
            )
        group = engine.load(path.rpartition("/")[0])
        if root_variable(dataset) or group is None or isinstance(group.node, Variable):
            why = "is an array" if root_variable(dataset) else "has no such group above it"
            raise UsageError(f"{printable(url)}: {root} {why}; only groups have members")


def _diff(call: _Call) -> int:
    from nczfs.zom import diff, spelled

    a, b = _two(call)
    found = diff(a, b, **call.fields())
    if call.arguments.json:
        document: dict[str, Json] = {"same": not found}
        document |= {kind: [*pointers] for kind, pointers in found.pointers().items()}
        document["patch"] = [*found.patch()]
        _print(spelled(document))
    else:
        _print_difference(found)
    if call.troubles:
        return TROUBLE
    return DIFFERENT if found else DONE


def _like(call: _Call) -> int:
    from nczfs.zom import like

    a, b = _two(call)
    is_like = like(a, b, **call.fields())
    if call.troubles:
        return TROUBLE
    return DONE if is_like else DIFFERENT


def _two(call: _Call) -> tuple[Node, Node]:
    arguments = call.arguments
    if arguments.url == arguments.other == _STANDARD_INPUT:
        raise UsageError("standard input has one hierarchy only")
    return call.node(arguments.url), call.node(arguments.other)


def _validate(call: _Call) -> int:
    from nczfs.zom import spelled, validate

    node = call.node(call.arguments.url)
    faults = [
        fault
        for name in call.arguments.convention or ()
        for fault in validate(node, _convention(name))
    ]
    if call.arguments.json:
        found: list[Json] = [{"pointer": each.pointer, "text": each.text} for each in faults]
        _print(spelled(found))
    else:
        for each in faults:
            print(printable(f"{each.pointer or 'the root'}: {each.text}"))
    return FAILED if faults or call.troubles else DONE


def _convention(name: str) -> Convention | str:
    """Return a convention by its name, or from a file with a pattern."""
    from nczfs.errors import BadMetadata
    from nczfs.zom import TextLimits, parse, read_convention

    if not name.endswith(".json"):
        return name
    try:
        return read_convention(parse(_read(name, TextLimits().bytes_max)[0]), name)
    except BadMetadata as error:
        raise BadMetadata(f"{name}: {error}", error.pointer) from error


def _convert(call: _Call) -> int:
    from nczfs.zom import consolidated, dumps, flat_json, spelled, to_flat, to_v3

    node = call.node(call.arguments.url)
    match call.arguments.to:
        case "zarr3":
            _print(dumps(to_v3(node)))
        case "tree":
            _print(dumps(node))
        case "flat":
            flat = flat_json(to_flat(node), is_explicit=True)
            _print(spelled(flat))
        case "consolidated":
            _print(spelled(consolidated(node)))
        case _:
            raise UsageError("`convert` needs --to zarr3, flat, tree or consolidated")
    return FAILED if call.troubles else DONE


def _schema(_: _Call) -> int:
    from nczfs.zom import schema, spelled

    _print(spelled(schema()))
    return DONE


_SELECTION = frozenset({"include", "exclude"})
_READING = frozenset({"depth", "strict"})

_ACTIONS: Mapping[str, _Action] = {
    "show": _Action(_show, ("A",), _READING),
    "create": _Action(_create, ("URL", "A"), _READING | {"overwrite", "share_keys"}),
    "diff": _Action(_diff, ("A", "B"), _READING | _SELECTION | {"json"}, TROUBLE),
    "like": _Action(_like, ("A", "B"), _READING | _SELECTION, TROUBLE),
    "validate": _Action(_validate, ("A",), _READING | {"convention", "json"}),
    "convert": _Action(_convert, ("A",), _READING | {"to"}),
    "schema": _Action(_schema, (), frozenset()),
}
_OPTIONS = (
    "depth",
    "strict",
    "overwrite",
    "share_keys",
    "include",
    "exclude",
    "convention",
    "to",
    "json",
)


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "action",
        metavar="ACTION",
        choices=tuple(_ACTIONS),
        help="show A, create URL A, diff A B, like A B, validate A, convert A, or schema",
    )
    parser.add_argument("url", metavar="A", nargs="?", help=_PLACE)
    parser.add_argument("other", metavar="B", nargs="?", help="another one")
    parser.add_argument(
        "--depth",
        metavar="N",
        type=typed(_depth),
        help="read N levels of members below the group (all)",
    )
    parser.add_argument(
        "--include", metavar="NAMES", type=_names, help="compare these members of nodes only"
    )
    parser.add_argument(
        "--exclude", metavar="NAMES", type=_names, help="do not compare these, such as attributes"
    )
    parser.add_argument(
        "--convention",
        metavar="NAME",
        action="append",
        help="xarray, cf, one of another package, or a file .json with a pattern; repeatable",
    )
    parser.add_argument(
        "--to",
        choices=("zarr3", "flat", "tree", "consolidated"),
        help="what `convert` makes: Zarr v3, the flat form, the tree, consolidated metadata",
    )
    parser.add_argument(
        "--overwrite", action="store_true", help="let `create` delete another hierarchy there"
    )
    parser.add_argument(
        "--share-keys",
        action="store_true",
        help="let `create` declare dependent arrays with chunks at keys of other arrays",
    )
    parser.add_argument(
        "--strict", action="store_true", help="refuse JSON with slips, instead of correcting them"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(request: CommandLine) -> int:
    """Carry out an action.

    Returns 0: done, the same, or valid; 1: failed, different, or faults; 2: `diff` and `like` could
    not compare.
    """
    logs.configure_command(request.settings)
    arguments = request.arguments
    name = arguments.action
    action = _ACTIONS[name]
    given = [text for text in (arguments.url, arguments.other) if text is not None]
    if len(given) != len(action.places):
        wanted = " ".join(("nczfs zom", name, *action.places))
        raise UsageError(f"`{name}` takes {len(action.places)} places: `{wanted}`")
    for option in _OPTIONS:
        if getattr(arguments, option) not in (None, False) and option not in action.options:
            raise UsageError(f"`{name}` takes no --{option.replace('_', '-')}")
    call = _Call(request, [])
    if action.trouble_status == FAILED:
        return action.run(call)
    try:
        return action.run(call)
    except UsageError:
        raise
    except NczfsError as error:
        complain("nczfs", error)
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        complain("nczfs", words_of(error))
    return action.trouble_status


def _depth(text: str) -> int | None:
    """Parse a number of levels; -1 is all. Raises UsageError."""
    try:
        depth = int(text)
    except ValueError:
        depth = -2
    if depth < -1:
        raise UsageError(f"{text!r} is not a number of levels")
    return None if depth == -1 else depth


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for name in text.split(",") if name)


def _is_text(text: str) -> bool:
    """Return whether a place is JSON: standard input, a file, or a pipe of the shell."""
    if text == _STANDARD_INPUT:
        return True
    path = Path(text)
    return path.is_fifo() or (text.endswith(".json") and path.is_file())


def _read(text: str, bytes_max: int) -> tuple[bytes, str]:
    """Return the content of a place, as far as it is read, and its name."""
    if text == _STANDARD_INPUT:
        return sys.stdin.buffer.read(bytes_max + 1), "standard input"
    with Path(text).open("rb") as file:
        return file.read(bytes_max + 1), text


def _print(text: str) -> None:
    """Print JSON, which is UTF-8 whatever the terminal takes."""
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode() + b"\n")
    sys.stdout.buffer.flush()


def _print_difference(found: Difference) -> None:
    has_colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    kinds = (("changed", found.changed), ("removed", found.removed), ("added", found.added))
    for kind, changes in kinds:
        for change in changes:
            line = printable(
                f"{_SIGNS[kind]} {change.pointer or 'the root'}{_values(kind, change)}"
            )
            print(f"\x1b[{_COLOURS[kind]}m{line}\x1b[0m" if has_colour else line)


def _values(kind: str, change: Change) -> str:
    match kind:
        case "changed":
            return f": {shown(change.old)} -> {shown(change.new)}"
        case "removed":
            return f": {shown(change.old)}"
        case _:
            return f": {shown(change.new)}"


COMMAND = Command(
    "zom",
    "show, make, compare and validate hierarchies as plain data",
    _arguments,
    run,
    (
        "nczfs zom show s3://bucket/era5.zarr --depth 2",
        "nczfs zom create b.zarr a.json",
        "nczfs zom diff a.zarr b.zarr --exclude attributes",
        "nczfs zom validate a.zarr --convention xarray",
    ),
    scopes=STORE_SCOPES,
)
