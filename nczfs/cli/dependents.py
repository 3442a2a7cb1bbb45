"""``nczfs dependents``: arrays of Zarr v3 that another array declares."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from nczfs.cli import logs
from nczfs.cli.command import STORE_SCOPES, Command, CommandLine
from nczfs.cli.sizes import table
from nczfs.cli.store import engine_options, place, store_options
from nczfs.cli.terminal import complain, say
from nczfs.errors import UsageError

if TYPE_CHECKING:
    from nczfs.engine.dataset import Dataset
    from nczfs.model.hierarchy import Json
    from nczfs.model.hierarchy import Variable as Description

_HEADER = ("TYPE", "SHAPE", "KEYS", "NAME")
_STANDARD_INPUT = "-"


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=sorted(_ACTIONS), help="what to do")
    parser.add_argument("url", metavar="URL", help="the array that declares the others")
    parser.add_argument("name", metavar="NAME", nargs="?", help="of the array to add or remove")
    parser.add_argument(
        "document",
        metavar="DOCUMENT",
        nargs="?",
        help="what differs from the declaring array: JSON, a file of JSON, or - for standard input",
    )
    parser.add_argument(
        "--share-keys",
        action="store_true",
        help="add it even if its chunks are those of another array, which it then reads",
    )


def run(request: CommandLine) -> int:
    """Run the action."""
    arguments = request.arguments
    logs.configure_command(request.settings)
    wanted = {"add": 2, "remove": 1}.get(arguments.action, 0)
    given = sum(each is not None for each in (arguments.name, arguments.document))
    if given > wanted or (wanted and not given):
        raise UsageError(f"dependents {arguments.action} takes {_WORDS[wanted]}")
    return _ACTIONS[arguments.action](request)


@contextmanager
def _opened(request: CommandLine, mode: str = "r") -> Iterator[tuple[Dataset, Description]]:
    """Open the outermost dataset with the array, because that may have consolidated metadata."""
    from nczfs.cli.rm import root_of
    from nczfs.library.opening import open_url  # imports NumPy and boto3
    from nczfs.model.hierarchy import Variable

    settings = request.settings
    root, path = root_of(place(request.arguments.url, settings), settings)
    stores, engine = store_options(settings), engine_options(settings)
    with open_url(root, mode, store_options=stores, options=engine) as opened:
        node = opened.engine_dataset.node(path)
        if not isinstance(node, Variable) or node.is_dependent:
            what = "a dependent array itself" if isinstance(node, Variable) else "a group"
            raise UsageError(f"{request.arguments.url}: is {what}; give the URL of an array")
        yield opened.engine_dataset, node


def _list(request: CommandLine) -> int:
    from nczfs.model.keysets import family

    with _opened(request) as (_, primary):
        arrays = [*family(primary)][1:]
        for line in table([_HEADER, *(_cells(each) for each in arrays)], right=()):
            say(line)
        for problem in _problems(primary):
            complain("nczfs", problem)
    return 0


def _check(request: CommandLine) -> int:
    from nczfs.tools.verify.dependents import dependent_faults

    with _opened(request) as (dataset, primary):
        documents, layout = dataset.documents(), dataset.format.single

        def is_node(path: str) -> bool:
            return any(documents.get(key) is not None for key in layout.keys(path))

        problems = _problems(primary)
        faults = list(dependent_faults(primary, lambda path: f"/{path}", is_node))
        for problem in problems:
            say(problem)
        for fault in faults:
            say(fault.line)
        return 1 if problems or faults else 0


def _add(request: CommandLine) -> int:
    from nczfs.engine.structure.dependents import declare

    arguments = request.arguments
    partial = _partial(arguments.document)
    with _opened(request, "r+") as (dataset, primary):
        path, shares = primary.path, arguments.share_keys
        new = declare(dataset, path, arguments.name, partial, shares_keys=shares)
        say(f"{new.name}: keys {_keys(new)}")
    return 0


def _remove(request: CommandLine) -> int:
    from nczfs.engine.structure.dependents import withdraw

    with _opened(request, "r+") as (dataset, primary):
        count = withdraw(dataset, primary.path, request.arguments.name)
    say(f"{request.arguments.name}: {count} {'object' if count == 1 else 'objects'} removed")
    return 0


def _problems(primary: Description) -> list[str]:
    """Return what is wrong with the documents of an array and of all that depend on it."""
    from nczfs.model.keysets import family

    return [problem for each in family(primary) for problem in each.problems]


def _partial(text: str | None) -> Json:
    from nczfs.formats.jsontext import parse

    if text is None:
        raise UsageError("dependents add takes a NAME and a DOCUMENT, which may be {}")
    if text == _STANDARD_INPUT:
        return parse(sys.stdin.buffer.read(), "standard input").value
    if text.lstrip().startswith(("{", "[", '"')):
        return parse(text.encode(), "DOCUMENT").value
    try:
        return parse(Path(text).read_bytes(), text).value
    except OSError as error:
        raise UsageError(f"{text}: {error.strerror}") from error


def _cells(variable: Description) -> tuple[str, ...]:
    array = variable.array
    return (
        str(array.dtype.native),
        "x".join(map(str, array.shape)) or "scalar",
        _keys(variable),
        variable.name_at_key,
    )


def _keys(variable: Description) -> str:
    """Return the key of the first chunk, below the declaring array."""
    array = variable.array
    return array.chunk_keys.name((0,) * len(array.shape))


_ACTIONS: Mapping[str, Callable[[CommandLine], int]] = {
    "add": _add,
    "check": _check,
    "list": _list,
    "remove": _remove,
}
_WORDS = ("a URL alone", "a NAME", "a NAME and a DOCUMENT")

COMMAND = Command(
    "dependents",
    "declare, list, check and remove dependent arrays",
    _arguments,
    run,
    ("nczfs dependents list x.zarr/t",),
    scopes=STORE_SCOPES,
)
