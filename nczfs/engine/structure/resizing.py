"""A new length of a dimension, in the variables that have it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from math import prod
from typing import TypeAlias

import numpy as np

from nczfs.codecs.fillelement import fill_element
from nczfs.codecs.pipelines import why_only_decoded
from nczfs.engine.dataset import Dataset
from nczfs.engine.metadata.changes import NodeChange, Resize, ResizeDimension
from nczfs.engine.structure.dependents import shorter_with
from nczfs.errors import NotWritable, UsageError
from nczfs.formats.limits import LENGTH_MAX
from nczfs.formats.rewriting import check_described_once, is_described_once
from nczfs.model.boxes import Box
from nczfs.model.hierarchy import Dimension, Variable

_Users: TypeAlias = "list[tuple[Variable, int]]"


def resize(dataset: Dataset, dimension: Dimension, size: int, *, grows: bool) -> None:
    """Change the length of a dimension; see `Editor.resize`. The caller has `Edits.names`."""
    users = _checked_users(dataset, dimension, size, grows=grows)
    # What grows is longer where another client has appended to it meanwhile.
    shrunk = [(v, a) for v, a in users if not grows and size < v.array.shape[a]]
    shrunk += [(d, a) for v, a in shrunk for d in shorter_with(dataset, v.path, a, size)]
    for variable, axis in shrunk:
        _check_codecs(variable, axis, size)
    for variable, _ in shrunk:
        _confirm(dataset, variable)
    with _shortened(dataset, shrunk, size):
        # Before the length: whatever fails or is killed, no object stays beyond a stored end.
        for variable, axis in shrunk:
            _delete_beyond(dataset, variable, axis, size)
        for variable, axis in shrunk:
            _blank(dataset, variable, axis, size)
        _add(dataset, dimension, size, users, grows=grows)
    if shrunk:
        dataset.store()


def grow(dataset: Dataset, variable: Variable, shape: Sequence[int]) -> None:
    """Extend dimensions of a variable; see `Editor.grow`. The caller has `Edits.names`."""
    node, edits, copy = dataset.node(variable.path), dataset.edits, dataset.copy
    assert isinstance(node, Variable)
    grown: list[tuple[Dimension, int, _Users]] = []
    for dimension, size in zip(node.dimensions, shape, strict=True):
        if size > dimension.size:
            if not dimension.unlimited:
                raise NotWritable(f"/{variable.path}: {dimension.name} is not unlimited")
            users = _checked_users(dataset, dimension, size, grows=True)
            grown.append((dimension, size, users))
    is_adding = True
    if dataset.engine.journal is not None and (grown or edits.pending()):
        # First, because its disk may be full.
        longer = replace(node.array, shape=tuple(map(max, node.array.shape, shape)))
        dataset.engine.journal.grown(
            dataset.prefix(variable.path),
            longer,
            lambda: is_adding or bool(edits.pending()) or copy.is_owed,
        )
    for dimension, size, users in grown:
        _add(dataset, dimension, size, users, grows=True)
    is_adding = False


def _checked_users(dataset: Dataset, dimension: Dimension, size: int, *, grows: bool) -> _Users:
    """Return the variables that have a dimension, and its position in each, if it can be so long.

    Raises
    ------
    UsageError, NotWritable, MetadataError, StoreError.
    """
    if not 0 <= size <= LENGTH_MAX:
        raise UsageError(f"dimension {dimension.name!r}: {size} is not a length")
    users = list(_users(dataset, dimension))
    for variable, axis in users:
        _check_reach(variable, axis, size)
    _check_documents(dataset, dimension, [variable for variable, _ in users], grows=grows)
    return users


def _add(dataset: Dataset, dimension: Dimension, size: int, users: _Users, *, grows: bool) -> None:
    """Give a dimension, and the variables that have it, a new length, which is not stored yet."""
    changes: list[tuple[str, NodeChange]] = [
        (v.path, Resize(axis, size, grows, dataset.written(v) if grows else None))
        for v, axis in users
    ]
    if dataset.format.declares:
        changes.append((dimension.group, ResizeDimension(dimension.name, size, grows)))
    dataset.edits.add_together(changes)
    if not dataset.format.declares:
        dataset.edits.declare(replace(dimension, size=size))


def unstored(dataset: Dataset, variable: Variable) -> Iterator[NodeChange]:
    """Yield the lengths that a new variable needs together with its dimensions.

    So it is stored with the new lengths of these, and not before them.
    """
    for axis, dimension in enumerate(variable.dimensions):
        for change in dataset.edits.changes_of(dimension.group):
            if isinstance(change, ResizeDimension) and change.name == dimension.name:
                yield Resize(axis, change.size, change.grows)


@contextmanager
def _shortened(
    dataset: Dataset, shrunk: Iterable[tuple[Variable, int]], size: int
) -> Iterator[None]:
    """Let nobody else write beyond the new end of some variables, which they get in the block."""
    shapes: dict[str, tuple[Variable, list[int]]] = {}
    for variable, axis in shrunk:  # the dimension may be several of a variable's
        _, shape = shapes.setdefault(variable.path, (variable, list(variable.array.shape)))
        shape[axis] = size
    with ExitStack() as ends:
        for variable, shape in shapes.values():
            ends.enter_context(dataset.array(variable).stored.ends.lowered(tuple(shape)))
        yield


def _check_reach(variable: Variable, axis: int, size: int) -> None:
    """Refuse a length beyond the chunks of a variable that lists theirs."""
    array = variable.array
    end = array.units.cuts[axis].stop
    if end is not None and size > max(end, array.shape[axis]):
        raise UsageError(
            f"/{variable.path}: dimension {variable.dimensions[axis].name!r} cannot have length "
            f"{size}: the lengths of the chunks are listed, and end at {end}"
        )


def _check_documents(
    dataset: Dataset, dimension: Dimension, users: Sequence[Variable], *, grows: bool
) -> None:
    """Refuse a length that the documents could not follow, before values are changed."""
    documents, layout = dataset.edits.documents(), dataset.format
    changed = [variable.path for variable in users]
    if layout.declares:
        changed.append(dimension.group)
    # To ask for each variable would make appending to one of many much slower: their group tells.
    if grows and is_described_once(layout, dimension.group, documents):
        return
    documents.fetch(key for path in changed for key in layout.keys_to_change(path))
    for path in changed:
        check_described_once(layout, path, documents, "its metadata cannot be changed")


def _users(dataset: Dataset, dimension: Dimension) -> Iterator[tuple[Variable, int]]:
    """Yield the variables that have a dimension, and its position in each."""
    groups = [dataset.group("")]
    while groups:
        group = groups.pop()
        groups += group.groups
        for variable in group.variables:
            for axis, known in enumerate(variable.dimensions):
                if (known.group, known.name) == (dimension.group, dimension.name):
                    yield variable, axis


def _check_codecs(variable: Variable, axis: int, size: int) -> None:
    """Refuse a length whose last chunk could not be stored, before values are changed."""
    if not prod(_beyond(variable, axis, size).shape):
        return
    if (why := why_only_decoded(variable.array)) is not None:
        raise NotWritable(f"/{variable.path}: {why}")


def _confirm(dataset: Dataset, variable: Variable) -> None:
    """Ask the store whether the objects of a variable are its own, which are to be deleted."""
    confirm = dataset.array(variable).permitted().writer().confirm
    confirm.doubt()
    confirm()


def _blank(dataset: Dataset, variable: Variable, axis: int, size: int) -> None:
    """Write fill to the elements beyond the new end in objects that stay."""
    array, box = dataset.array(variable).permitted(), _beyond(variable, axis, size)
    if prod(box.shape):
        array.write_box(box, np.broadcast_to(fill_element(variable.array), box.shape))


def _beyond(variable: Variable, axis: int, size: int) -> Box:
    """Return the elements beyond a new end in objects that stay."""
    shape = variable.array.shape
    edge = min(shape[axis], variable.array.units.cuts[axis].at(size - 1).stop) if size else 0
    return Box(
        tuple(size if d == axis else 0 for d in range(len(shape))),
        tuple(edge if d == axis else length for d, length in enumerate(shape)),
    )


def _delete_beyond(dataset: Dataset, variable: Variable, axis: int, size: int) -> None:
    """Delete the objects that go, and forget what was written to them.

    If that fails, some may be gone.
    """
    first = variable.array.units.cuts[axis].count(size)
    array = dataset.array(variable).permitted()
    unit = array.source.unit
    # What is on its way to the store arrives before the deletion.
    dataset.engine.writeback.drop(array.stored, lambda each: unit(each[1])[axis] < first)
    try:
        array.writer().delete(lambda unit: unit[axis] >= first)
    finally:
        dataset.engine.cache.discard(array.stored)
