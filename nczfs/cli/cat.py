"""``nczfs cat``: the values of a variable, or of a box of them."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, BinaryIO

from nczfs.cli import logs
from nczfs.cli.command import STORE_SCOPES, Command, Request
from nczfs.cli.store import shown
from nczfs.errors import BadSelection, UsageError

if TYPE_CHECKING:
    import nczfs

_BLOCK_BYTES = 64 << 20


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", metavar="URL/VARIABLE")
    parser.add_argument(
        "-b", "--box", metavar="BOX", help="part of it, as NumPy selects: '0, 10:20, ::2, ...'"
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--raw", action="store_true", help="bytes as values.raw has them (default)")
    form.add_argument(
        "--text", action="store_true", help="lines as values.txt has them (default on a terminal)"
    )
    form.add_argument("--json", action="store_true", help="nested lists")


def run(request: Request) -> int:
    """Print values: bytes into a pipe or file, text on a terminal."""
    arguments = request.arguments
    logs.configure_command(request.settings)
    from nczfs.cli.nodes import opened  # NumPy and boto3 come with it
    from nczfs.engine.api import Group

    with opened(arguments.url, request.settings) as node:
        if isinstance(node, Group):
            names = ", ".join(node.variables) or "none"
            where = shown(arguments.url, request.settings)
            raise UsageError(f"{where} is a group; name a variable of it ({names})")
        box = selection(arguments.box) if arguments.box is not None else (...,)
        out = sys.stdout.buffer
        if arguments.json:
            _write_json(node, box, out)
        elif arguments.text or (out.isatty() and not arguments.raw):
            _write_text(node, box, out)
        else:
            _write_raw(node, box, out)
        out.flush()
    return 0


def selection(text: str) -> tuple[Any, ...]:
    """What stands between the brackets in NumPy: integers, slices and an ellipsis.

    Raises
    ------
    UsageError : it is something else.
    """
    try:
        return tuple(_selector(part.strip()) for part in text.split(","))
    except ValueError:
        raise UsageError(
            f"--box {text!r}: write integers and slices, as in '0, 10:20, ::2, ...'"
        ) from None


def _selector(part: str) -> Any:
    if part == "...":
        return ...
    if ":" not in part:
        return int(part)
    bounds = [int(word) if word.strip() else None for word in part.split(":")]
    if len(bounds) > 3:
        raise ValueError(part)
    return slice(*bounds)


def _blocks(variable: nczfs.Variable, box: tuple[Any, ...]) -> Iterator[Any]:
    """The values in C order, in pieces that fit into memory: rows of the first dimension."""
    import numpy as np

    shape = variable.shape
    row_bytes = max(1, math.prod(shape[1:]) * variable.dtype.itemsize)
    rows = max(1, _BLOCK_BYTES // row_bytes)
    if box != (...,) or not shape or shape[0] <= rows:
        yield np.asarray(variable[box])
        return
    # A multiple of the chunk, so that none is decoded twice.
    step = max(variable.chunks[0], rows - rows % variable.chunks[0])
    for start in range(0, shape[0], step):
        yield np.asarray(variable[start : start + step])


def _write_raw(variable: nczfs.Variable, box: tuple[Any, ...], out: BinaryIO) -> None:
    if variable.dtype.hasobject:
        raise UsageError(
            f"{variable.path}: values of variable length have no raw form; take --text or --json"
        )
    import numpy as np

    for values in _blocks(variable, box):
        out.write(np.ascontiguousarray(values).tobytes())


def _write_text(variable: nczfs.Variable, box: tuple[Any, ...], out: BinaryIO) -> None:
    import numpy as np

    from nczfs.views.text import json_element, text_form

    form = text_form(variable.description.array.dtype)
    if form is None and not variable.dtype.hasobject:
        raise BadSelection(f"{variable.path}: structured values have no text form; take --json")
    for values in _blocks(variable, box):
        flat = np.ascontiguousarray(values).reshape(-1)
        if form is not None:
            out.write(form.render(flat))
        else:
            for value in flat:
                out.write(json.dumps(json_element(value)).encode() + b"\n")


def _write_json(variable: nczfs.Variable, box: tuple[Any, ...], out: BinaryIO) -> None:
    import numpy as np

    values = np.asarray(variable[box])
    out.write(json.dumps(values.tolist(), default=_json_value).encode() + b"\n")


def _json_value(value: object) -> object:
    if isinstance(value, bytes):
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
