"""Declaring arrays that depend on another one, and taking them back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nczfs.engine.dataset import Dataset
from nczfs.engine.metadata.changes import AttributeChange
from nczfs.errors import BadValue, NameTaken, NoSuchNode, NotWritable
from nczfs.formats.names import below
from nczfs.formats.overlay import Overlay
from nczfs.formats.zarr3.dependents import redeclared
from nczfs.model.hierarchy import Attribute, Json, Variable
from nczfs.model.keysets import UNKNOWN, family
from nczfs.model.overlaps import Overlap, collisions, path_conflicts


@dataclass(frozen=True, slots=True)
class Redeclare(AttributeChange):
    """A change of what an array declares, made in what the document has then.

    Attributes
    ----------
    partial : the partial document of the array of that name; None: it is not declared any more.
    """

    name: str
    partial: Json | None

    @property
    def subject(self) -> tuple[str, ...]:
        return ("dependent array", self.name)

    def applied(self, attributes: Sequence[Attribute]) -> Iterable[Attribute]:
        return redeclared(attributes, self.name, self.partial)


def declare(
    dataset: Dataset, path: str, name: str, partial: Json, *, shares_keys: bool = False
) -> Variable:
    """Declare an array that depends on the one at a path, and store that.

    Parameters
    ----------
    partial : its document without what it inherits.
    shares_keys : whether its chunks may lie at keys of other arrays, which it then reads.

    Returns
    -------
    the new array.

    Raises
    ------
    NoSuchNode : there is no array at the path. NameTaken : something has the name.
    NotWritable : the array cannot declare any. BadValue : the declaration cannot be read, or its
        chunks would be in the way of others; nothing was changed. MetadataError, StoreError.
    """
    change = _checked(dataset, path, name, partial, shares_keys=shares_keys)
    _store(dataset, path, change)
    found = dataset.node(below(path, name))
    assert isinstance(found, Variable)
    return found


def check(dataset: Dataset, path: str, name: str, partial: Json) -> None:
    """Raise where `declare` would, as far as that can be told without storing anything."""
    _checked(dataset, path, name, partial, shares_keys=False)


def withdraw(dataset: Dataset, path: str, name: str) -> int:
    """Take back the declaration of an array, and remove its chunks that no other array has.

    Returns
    -------
    the number of removed objects.

    Raises
    ------
    NoSuchNode : there is no such declaration. NotWritable, MetadataError, StoreError.
    """
    primary = declaring_array(dataset, path)
    known = next((each for each in primary.dependents if each.name == name), None)
    changed = _rehearsed(dataset, primary, Redeclare(name=name, partial=None))
    if known is None and changed == primary:
        raise NoSuchNode(f"/{path}: declares no array {name!r}")
    _store(dataset, path, Redeclare(name=name, partial=None))
    gone = [] if known is None else list(family(known))
    staying = list(family(changed))
    prefix = dataset.prefix(primary.key)
    cut = len(prefix) + 1 if prefix else 0

    def has(arrays: Iterable[Variable], key: str) -> bool:
        return any(each.array.unit_index(key) is not None for each in arrays)

    keys = [stat.key for stat in dataset.zmap.list(prefix)] if gone else []
    keys = [key for key in keys if has(gone, key[cut:]) and not has(staying, key[cut:])]
    dataset.zmap.delete_many(keys)
    dataset.zmap.flush()
    dataset.forget(path)
    return len(keys)


def _checked(
    dataset: Dataset, path: str, name: str, partial: Json, *, shares_keys: bool
) -> Redeclare:
    primary = declaring_array(dataset, path)
    if any(each.name == name for each in primary.dependents):
        raise NameTaken(f"/{path}: declares an array {name!r} already")
    goal = below(path, name)
    if dataset.load(goal) is not None:
        raise NameTaken(f"/{goal}: exists already")
    change = Redeclare(name=name, partial=partial)
    changed = _rehearsed(dataset, primary, change)
    new = next((each for each in changed.dependents if each.name == name), None)
    if new is None:
        known = set(primary.problems)
        why = next((each for each in changed.problems if each not in known), "it cannot be read")
        raise BadValue(why)
    ours = {each.path for each in family(new)}
    arrays = list(family(changed))
    if not shares_keys:
        _check(ours, collisions(arrays), "has chunks of the same keys")
    _check(ours, path_conflicts(arrays), "has chunks that no directory can hold beside its own")
    return change


def declaring_array(dataset: Dataset, path: str) -> Variable:
    """Return the array at a path, on which others may depend. Raises NoSuchNode, NotWritable."""
    node = dataset.node(path)
    if not isinstance(node, Variable):
        raise NoSuchNode(f"/{path}: is a group; only arrays declare others")
    if node.format != "zarr3" or node.is_dependent:
        what = "is a dependent array itself" if node.is_dependent else f"is of {node.format}"
        raise NotWritable(f"/{path}: {what}; arrays of zarr3 with documents declare others")
    return node


def _rehearsed(dataset: Dataset, primary: Variable, change: Redeclare) -> Variable:
    """Return an array as it is read once a change is stored. Nothing is stored."""
    single, documents = dataset.format.single, dataset.documents()
    documents.fetch(single.keys_to_change(primary.path))
    written = single.write_node(change.apply(primary), documents)
    node = single.read_node(primary.path, Overlay(documents, dict(written)))
    assert isinstance(node, Variable)
    return node


def _check(ours: set[str], overlaps: Iterable[Overlap], why: str) -> None:
    for each in overlaps:
        if ours.isdisjoint((each.one, each.other)):
            continue
        other = each.other if each.one in ours else each.one
        found = f", such as {each.key}" if each.key != UNKNOWN else "; at least, that is possible"
        raise BadValue(f"/{other} {why}{found}; nothing was changed")


def _store(dataset: Dataset, path: str, change: Redeclare) -> None:
    dataset.edits.check(path, change)
    dataset.edits.add(path, change)
    dataset.store((path,))
    dataset.forget_documents(path)
