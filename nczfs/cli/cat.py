"""``nczfs cat``: the values of a variable, or of a box in it."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any, BinaryIO

from nczfs.cli import logs, terminal
from nczfs.cli.command import STORE_SCOPES, Command, CommandLine
from nczfs.errors import BadSelection, UsageError
from nczfs.library.boxes import BOX_HELP, selection

if TYPE_CHECKING:
    import nczfs


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", metavar="URL/VARIABLE", help="a variable of a dataset")
    parser.add_argument("-b", "--box", metavar="BOX", help=BOX_HELP)
    form = parser.add_mutually_exclusive_group()
    form.add_argument(
        "--text", action="store_true", help="print one value a line, like values.txt (the default)"
    )
    form.add_argument("--raw", action="store_true", help="print the bytes, like values.raw")
    form.add_argument("--json", action="store_true", help="print nested lists")


def run(request: CommandLine) -> int:
    """Print values piece by piece, so that memory does not grow with their number."""
    arguments = request.arguments
    logs.configure_command(request.settings)
    from nczfs.cli.nodes import group_refused, opened  # imports NumPy and boto3
    from nczfs.library.api import Group

    with opened(arguments.url, request.settings) as node:
        if isinstance(node, Group):
            raise group_refused(node, arguments.url, request.settings)
        box = selection(arguments.box) if arguments.box is not None else (...,)
        out = sys.stdout.buffer
        if arguments.json:
            _write_json(node, box, out)
        elif arguments.raw:
            _write_raw(node, box, out)
        else:
            _write_text(node, box, out)
        out.flush()
    return 0


def _write_raw(variable: nczfs.Variable, box: tuple[Any, ...], out: BinaryIO) -> None:
    if variable.dtype.hasobject:
        raise UsageError(
            f"{variable.path}: values of variable length have no raw form; use --text or --json"
        )
    import numpy as np

    from nczfs.cli.value_blocks import value_blocks

    for block in value_blocks(variable, box):
        out.write(np.ascontiguousarray(block.values).reshape(-1).view(np.uint8).data)


def _write_text(variable: nczfs.Variable, box: tuple[Any, ...], out: BinaryIO) -> None:
    import numpy as np

    from nczfs.cli.value_blocks import value_blocks
    from nczfs.library.variable import storable
    from nczfs.views.jsonvalues import json_pieces
    from nczfs.views.text import text_form

    form = text_form(variable.description.array.dtype)
    if form is None and not variable.dtype.hasobject:
        raise BadSelection(
            f"{variable.path}: structured values have no text form; use --json or --raw"
        )
    for block in value_blocks(variable, box):
        if form is not None:
            # Strings of NCZarr are objects here, and are stored as cells of bytes.
            cells = storable(block.values, variable.description, variable.path)
            terminal.write_bytes(form.render(np.ascontiguousarray(cells).reshape(-1)), keep="\n")
        else:
            for value in block.values.reshape(-1):
                for piece in json_pieces(value):
                    terminal.write_bytes(piece.encode("utf-8", "surrogatepass"))
                terminal.write_bytes(b"\n", keep="\n")


def _write_json(variable: nczfs.Variable, box: tuple[Any, ...], out: BinaryIO) -> None:
    from nczfs.cli.value_blocks import value_blocks

    is_empty = True
    for block in value_blocks(variable, box):
        text = json.dumps(_listed(block.values), default=_json_value)
        rows = text if block.is_item else text[1:-1]  # the block holds a part of the list
        comma = "" if is_empty else ", "
        out.write(f"{comma}{'[' * block.begins}{rows}{']' * block.ends}".encode())
        is_empty = False
    if is_empty:
        out.write(json.dumps(_listed(variable[box])).encode())
    out.write(b"\n")


def _listed(values: Any) -> Any:
    """Return values as lists; dates and durations are their numbers, as in all texts."""
    import numpy as np

    array = np.asarray(values)
    return (array.astype("i8") if array.dtype.kind in "mM" else array).tolist()


def _json_value(value: object) -> object:
    if isinstance(value, bytes):
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            return value.decode("latin-1")
    if isinstance(value, complex):
        return [value.real, value.imag]
    return str(value)


COMMAND = Command(
    "cat",
    "print the values of a variable",
    _arguments,
    run,
    ("nczfs cat s3://bucket/era5.zarr/t2m --box '0, 10:20, ::2'",),
    scopes=STORE_SCOPES,
)
