"""Values that came as bytes of a file, and are written to their variable when it is known."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from nczfs.engine.dataset import Dataset
from nczfs.errors import BadArgument, BadValue
from nczfs.model.hierarchy import Variable
from nczfs.vfs.datasets.filling import BLOCK_BYTES
from nczfs.vfs.datasets.held import HeldFile
from nczfs.vfs.datasets.valuesfile import ValuesFile
from nczfs.vfs.datasets.viewfile import ViewContext
from nczfs.views import catalog
from nczfs.views.catalog import LINES, RAW
from nczfs.views.jsonvalues import elements_of_lines

LINES_AT_ONCE = 4096


def values_file(context: ViewContext, dataset: Dataset, variable: Variable) -> ValuesFile:
    """Return the `values.raw` of a variable."""
    view = catalog.variable_views(dataset, variable)[RAW]
    return ValuesFile(context, dataset, RAW, view, context.mtime_ns)


def check_held(variable: Variable, held: dict[str, HeldFile]) -> None:
    """Refuse a variable that does not fit the values that came before it. Raises BadArgument."""
    raw = held.get(RAW)
    size = variable.array.decoded_bytes
    if raw is not None and not raw.is_open and size is not None and raw.size != size:
        raise BadArgument(f"{RAW} has {raw.size} bytes already, and the variable {size}")


def land(context: ViewContext, dataset: Dataset, path: str, name: str, held: HeldFile) -> bool:
    """Write a file's bytes to a variable. Returns False without a variable, or without bytes.

    Raises
    ------
    BadArgument : the number of bytes is not that of the variable; nothing is written.
    BadValue : a value does not fit its type. CodecError, StoreError.
    """
    node = dataset.node(path)
    if not isinstance(node, Variable) or (node.array.size and not held.size):
        return False
    place = dataset.prefix(path)
    refusals = context.refusals.file(lambda: place, name)
    with refusals.noted():
        is_vlen = node.array.dtype.vlen is not None
        if name != (LINES if is_vlen else RAW) or not (
            is_vlen or RAW in catalog.variable_views(dataset, node)
        ):
            raise BadArgument(
                f"/{path}/{name}: values of type {node.array.dtype.typestr} cannot be copied "
                "through this file"
            )
        if is_vlen:
            _land_lines(context, dataset, node, held)
        else:
            _land_bytes(values_file(context, dataset, node), held)
    refusals.settle()
    return True


def _land_bytes(file: ValuesFile, held: HeldFile) -> None:
    size = file.layout().size
    if held.size < size or (held.size > size and not file.grows):
        raise BadArgument(
            f"{file.place}: {held.size} bytes were written, and it has {size}: the old values stay"
        )
    view = file.open(writing=True)
    try:
        for offset in range(0, held.size, BLOCK_BYTES):
            view.write(offset, held.read(offset, BLOCK_BYTES))
        view.flush()
    finally:
        view.close()


def _land_lines(context: ViewContext, dataset: Dataset, variable: Variable, held: HeldFile) -> None:
    editing = context.editing_of(dataset)
    assert editing is not None
    place, count = f"/{variable.path}/{LINES}", prod(variable.array.shape)
    dtype = variable.array.dtype
    try:
        # All values are checked before one is written.
        found = sum(len(elements_of_lines(lines, dtype)) for lines in _lines(held))
    except ValueError as error:
        raise BadValue(f"{place}: {error}") from None
    if found != count:
        raise BadArgument(f"{place}: has {found} lines, and the variable {count} elements")
    editing.editor(dataset)  # holds the lease
    array = dataset.array(variable)
    first = 0
    for lines in _lines(held):
        elements = elements_of_lines(lines, dtype)
        array.write_run(first, elements)
        first += len(elements)
    editing.store(dataset, (variable,), (array.stored,))


def _lines(held: HeldFile) -> Iterator[list[bytes]]:
    """Yield the lines of a text, so many at a time; its end also ends the last line."""
    lines: list[bytes] = []
    rest = b""
    for offset in range(0, held.size, BLOCK_BYTES):
        *whole, rest = (rest + held.read(offset, BLOCK_BYTES)).split(b"\n")
        lines += whole
        while len(lines) >= LINES_AT_ONCE:
            yield lines[:LINES_AT_ONCE]
            del lines[:LINES_AT_ONCE]
    if rest:
        lines.append(rest)
    if lines:
        yield lines
