"""``nczfs dump``: a dataset as CDL, as ncdump prints it."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from nczfs.cli import logs, terminal
from nczfs.cli.command import STORE_SCOPES, Command, CommandLine
from nczfs.cli.store import shown
from nczfs.errors import NczfsError, UsageError

if TYPE_CHECKING:
    from nczfs.cdl.data import DataStyle
    from nczfs.cdl.printer import Data, PrintedVariable
    from nczfs.cdl.values import Digits
    from nczfs.library.api import Group
    from nczfs.model import hierarchy as model

KIND = "netCDF-4"
"""What netcdf-c prints for every NCZarr and Zarr dataset: the data model, not the store."""

_DIGITS_MAX = 20
_LINE_LENGTH_MIN = 10
_PIECES_BYTES = 1 << 16


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", metavar="URL", help="a dataset, or a group in it")
    parser.add_argument(
        "-h", dest="header", action="store_true", help="print only the header, no data"
    )
    parser.add_argument(
        "-c",
        dest="coordinates",
        action="store_true",
        help="print data of coordinate variables only",
    )
    parser.add_argument(
        "-v",
        dest="variables",
        metavar="VAR[,...]",
        type=_names,
        help="print data of these variables only: NAME or /GROUP/NAME",
    )
    parser.add_argument(
        "-s",
        dest="specials",
        action="store_true",
        help="print how variables are stored, as special attributes",
    )
    parser.add_argument(
        "-k", dest="kind", action="store_true", help="print only the kind of dataset"
    )
    parser.add_argument("-n", dest="name", help="name of the dataset in the CDL")
    parser.add_argument(
        "-p",
        dest="digits",
        metavar="N[,M]",
        type=_digits,
        help="significant digits of floats and doubles (default 7,15; 9,17 is lossless)",
    )
    parser.add_argument(
        "-l",
        dest="line_length",
        metavar="LENGTH",
        type=_line_length,
        default=80,
        help="maximum length of data lines (default 80)",
    )
    comments = parser.add_mutually_exclusive_group()
    comments.add_argument(
        "-b",
        dest="brief",
        choices="cf",
        help="add comments with the index of each row, in C or Fortran order",
    )
    comments.add_argument(
        "-f", dest="full", choices="cf", help="add comments with the index of each value"
    )


def _names(text: str) -> list[str]:
    names = text.split(",")
    if "" in names:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of names: VAR,VAR,...")
    return names


def _digits(text: str) -> list[int]:
    words = text.split(",")
    if len(words) > 2 or not all(
        word.isdecimal() and 1 <= int(word) <= _DIGITS_MAX for word in words
    ):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not one or two numbers between 1 and {_DIGITS_MAX}"
        )
    return [int(word) for word in words]


def _line_length(text: str) -> int:
    if not text.isdecimal() or int(text) < _LINE_LENGTH_MIN:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of at least {_LINE_LENGTH_MIN}")
    return int(text)


def run(request: CommandLine) -> int:
    """Print a dataset."""
    arguments = request.arguments
    logs.configure_command(request.settings)
    from nczfs.cdl.printer import Style, text
    from nczfs.cli.nodes import opened  # imports NumPy and boto3
    from nczfs.formats.flattening import flattened
    from nczfs.library.variable import Variable
    from nczfs.vfs.datasets.nodefiles import stem
    from nczfs.zmap.url import parse_url

    where = shown(arguments.url, request.settings)
    with opened(arguments.url, request.settings) as node:
        if isinstance(node, Variable):
            raise UsageError(f"{where} is a variable; give the URL of its group, and -v its name")
        if arguments.kind:
            print(KIND)
            return 0
        tree = flattened(node.tree())
        style = Style(
            _digits_of(arguments),
            specials=arguments.specials,
            properties=_properties(node) if arguments.specials else None,
        )
        name = arguments.name or stem(parse_url(arguments.url).last_word)
        data = None if arguments.header else _data(node, _wanted(arguments, tree, where), arguments)
        for piece in _joined(text(tree, name=name, style=style, data=data)):
            terminal.write(piece, keep="\n\t")
    return 0


def _joined(pieces: Iterator[str]) -> Iterator[str]:
    """Join a text into larger pieces, because a write costs more than a value."""
    waiting: list[str] = []
    size = 0
    for piece in pieces:
        waiting.append(piece)
        size += len(piece)
        if size >= _PIECES_BYTES:
            yield "".join(waiting)
            waiting, size = [], 0
    yield "".join(waiting)


def _digits_of(arguments: argparse.Namespace) -> Digits:
    from nczfs.cdl.values import Digits

    return Digits(*arguments.digits) if arguments.digits else Digits()


def _data_style(arguments: argparse.Namespace) -> DataStyle:
    from nczfs.cdl.data import DataStyle

    return DataStyle(
        _digits_of(arguments),
        arguments.line_length,
        full=arguments.full is not None,
        brief=arguments.brief is not None,
        fortran="f" in (arguments.full, arguments.brief),
    )


def _wanted(
    arguments: argparse.Namespace, tree: model.Group, where: str
) -> Callable[[PrintedVariable], bool]:
    """Return whether the values of a variable are to be printed.

    A bare name means the variable in each group that has one, as for ncdump.
    """
    names: list[str] | None = arguments.variables
    top = f"{tree.header.path}/" if tree.header.path else ""

    def spellings(variable: model.Variable) -> set[str]:
        path = variable.path.removeprefix(top)
        return {variable.name, path, f"/{path}"}

    for name in names or ():
        if not any(name in spellings(variable) for variable in _all_variables(tree)):
            raise UsageError(f"-v {name}: {where} has no variable of that name")

    def wanted(printed: PrintedVariable) -> bool:
        if names is not None and not spellings(printed.variable).intersection(names):
            return False
        return printed.is_coordinate or not arguments.coordinates

    return wanted


def _all_variables(group: model.Group) -> Iterator[model.Variable]:
    yield from group.variables
    for child in group.groups:
        yield from _all_variables(child)


def _data(
    group: Group, wanted: Callable[[PrintedVariable], bool], arguments: argparse.Namespace
) -> Data:
    from nczfs.cdl.data import data_text
    from nczfs.cli.flat import flat_blocks
    from nczfs.library.variable import Variable

    style = _data_style(arguments)

    def values(printed: PrintedVariable) -> Iterator[str]:
        if wanted(printed):
            variable = group[f"/{printed.variable.path}"]
            assert isinstance(variable, Variable)
            yield from data_text(printed, flat_blocks(variable), style)

    return values


def _properties(group: Group) -> str | None:
    """Return what the dataset says about the library that wrote it, which is no attribute."""
    dataset = group.engine_dataset
    single, documents = dataset.format.single, dataset.documents()
    key = single.attributes_key(group.stored.path)
    try:
        data = documents.get(key)
        attributes = {} if data is None else single.stored_attributes(data, key)
    except NczfsError:
        return None
    properties = attributes.get("_NCProperties")
    return str(properties) if isinstance(properties, str) else None


COMMAND = Command(
    "dump",
    "print a dataset as CDL, as ncdump does",
    _arguments,
    run,
    (
        "nczfs dump -h s3://bucket/era5.zarr",
        "nczfs dump -v time,lat era5.zarr",
    ),
    scopes=STORE_SCOPES,
    short_help=False,
)
