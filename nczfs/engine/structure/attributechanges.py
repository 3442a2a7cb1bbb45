"""Changes of the attributes of a node, made of what they are wanted to be, or of what they are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial

from nczfs.engine.dataset import Dataset
from nczfs.engine.metadata.changes import AttributeChange, SetAttribute
from nczfs.engine.metadata.hierarchy import LoadedNode
from nczfs.engine.opennode import OpenNode
from nczfs.engine.structure import dependents
from nczfs.engine.values.fillvalues import FILL_VALUE, as_fill_value
from nczfs.errors import UsageError
from nczfs.formats.attributes import is_hidden
from nczfs.formats.naming import checked_name
from nczfs.model.hierarchy import ArrayDescription, Attribute, Variable


def settings(
    dataset: Dataset, path: str, attributes: Iterable[Attribute], array: ArrayDescription | None
) -> list[SetAttribute]:
    """Return the changes that give attributes values, as `Editor.set_attributes` does."""
    changes: list[SetAttribute] = []
    for attribute in attributes:
        if is_hidden(attribute.name):
            raise UsageError(f"/{path}: attribute {attribute.name!r} is reserved by the format")
        named = replace(attribute, name=checked_name(attribute.name))
        if named.name == FILL_VALUE:
            node = dataset.node(path)
            if isinstance(node, Variable) and (nc_type := node.array.dtype.nc_type) is not None:
                named = as_fill_value(named, nc_type)
        changes.append(SetAttribute(named, array=array))
    dependents.check_attributes(dataset, path, [each.attribute for each in changes])
    return changes


def takings(
    dataset: Dataset, path: str, attributes: Iterable[Attribute], array: ArrayDescription | None
) -> list[SetAttribute]:
    """Return the changes that take attributes over, as `Editor.take_attributes` does."""
    known = {attribute.name: attribute for attribute in dataset.node(path).attributes}
    # As text, because NaN equals nothing.
    new = [each for each in attributes if repr(known.get(each.name)) != repr(each)]
    dependents.check_attributes(dataset, path, new)
    return [SetAttribute(attribute, array=array) for attribute in new]


def change_as_seen(
    dataset: Dataset,
    node: OpenNode,
    make: Callable[[str, LoadedNode | None], Sequence[AttributeChange]],
) -> None:
    """Add changes that follow from what a node is, wherever it is.

    Parameters
    ----------
    make : returns the changes, given the path and the node. It may ask the store, and is called
        again if others have changed one of these attributes before the changes could be added.

    Raises
    ------
    what `make` raises, and as `Edits.check`.
    """
    edits = dataset.edits
    is_added = False

    def change(path: str) -> None:
        nonlocal is_added
        while path == node.path and not is_added:
            seen = dataset.load(path)
            changes = make(path, seen)
            if not changes:
                return
            names = [each.subject[-1] for each in changes]
            with edits.names.finding(path, partial(edits.check, path, *changes)):
                if path == node.path and _texts(dataset.load(path), names) == _texts(seen, names):
                    edits.add_together((path, each) for each in changes)
                    is_added = True

    node.follow(change)


def _texts(loaded: LoadedNode | None, names: Iterable[str]) -> list[str]:
    """Return attributes of a node as text, because NaN equals nothing."""
    return [repr(None if loaded is None else loaded.attributes.get(name)) for name in names]
