"""Declaring arrays that depend on another one, and taking them back."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from nczfs.engine.dataset import Dataset
from nczfs.engine.metadata.changes import (
    AttributeChange,
    NodeChange,
    Resize,
    SetAttribute,
    apply_all,
)
from nczfs.errors import (
    BadMetadata,
    BadValue,
    MetadataError,
    NameTaken,
    NoSuchNode,
    NotWritable,
    StructureChanged,
)
from nczfs.formats.base import FormatOptions, MetadataFormat
from nczfs.formats.jsonwrite import strict
from nczfs.formats.names import below
from nczfs.formats.overlay import NO_DOCUMENTS, Overlay
from nczfs.formats.registry import FORMATS
from nczfs.formats.zarr3.dependents import SPELLINGS, declared_by, redeclared
from nczfs.model.hierarchy import Attribute, Json, Variable
from nczfs.model.keysets import UNKNOWN, family
from nczfs.model.overlaps import Overlap, collisions, path_conflicts
from nczfs.plaindata import frozen

TRIES_MAX = 10  # each means that another client has changed what the array declares


@frozen
class Redeclare(AttributeChange):
    """A change of what an array declares, made in what the document has then.

    Attributes
    ----------
    partial : the partial document of the array of that name; None: it is not declared any more.
    others : what the array declared when the new one was compared with that; None: it was not.
    """

    name: str
    partial: Json | None
    others: tuple[Attribute, ...] | None = None

    @property
    def subject(self) -> tuple[str, ...]:
        return ("dependent array", self.name)

    @property
    def words(self) -> str:
        return f"the declaration of array {self.name!r}"

    def applied(self, attributes: Sequence[Attribute]) -> Iterable[Attribute]:
        changed = redeclared(attributes, self.name, self.partial)
        present = _declarations(attributes)
        if self.others not in (None, present) and _declarations(changed) != present:
            raise StructureChanged("another client has changed what the array declares meanwhile")
        return changed


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
    for is_last in (*[False] * TRIES_MAX, True):
        change = _checked(dataset, path, name, partial, shares_keys=shares_keys)
        try:
            _store(dataset, path, change)
        except StructureChanged:
            dataset.forget_documents(path)
            if is_last:
                raise
        else:
            break
    found = dataset.node(below(path, name))
    assert isinstance(found, Variable)
    return found


def check(dataset: Dataset, path: str, name: str, partial: Json) -> None:
    """Raise where `declare` would, as far as that can be told without storing anything."""
    _checked(dataset, path, name, partial, shares_keys=False)


def check_attributes(dataset: Dataset, path: str, attributes: Iterable[Attribute]) -> None:
    """Raise where `declare` would for an array that new values of attributes declare.

    What the array at the path declares already may stay, whatever it is. Other attributes, and
    those of nodes that cannot declare any, are not looked at.

    Raises
    ------
    NameTaken, BadValue : as `declare`. MetadataError, StoreError.
    """
    changes = [SetAttribute(each) for each in attributes if each.name in SPELLINGS]
    primary = dataset.node(path) if changes else None
    if not isinstance(primary, Variable) or not _may_declare(primary):
        return
    changed = _rehearsed(dataset, primary, *changes)
    declared = _declared(changed)
    try:
        known = declared_by(primary.attributes)
    except BadMetadata:
        known = {}
    new = [n for n, each in declared.items() if n not in known or strict(each) != strict(known[n])]
    for name in new:
        _check_free(dataset, below(path, name))
    _check_new(primary, changed, new, shares_keys=False)


def check_made(variable: Variable) -> None:
    """Raise where `declare` would for an array that a new one, as it is described, declares.

    Raises
    ------
    BadValue : as `declare`. MetadataError : the array cannot be made.
    """
    if _may_declare(variable) and _declarations(variable.attributes):
        single = FORMATS.named(variable.format, FormatOptions())
        others = tuple(each for each in variable.attributes if each.name not in SPELLINGS)
        alone = replace(variable, attributes=others)
        documents = [dict(single.write_node(each, NO_DOCUMENTS)) for each in (alone, variable)]
        check_documents(single, variable.path, *documents)


def check_documents(
    single: MetadataFormat,
    path: str,
    alone: Mapping[str, bytes],
    documents: Mapping[str, bytes],
    *,
    shares_keys: bool = False,
) -> None:
    """Raise BadValue where `declare` would for an array that a new one declares.

    A new one that cannot be read is not looked at.

    Parameters
    ----------
    alone, documents : those of the new array, without the declaration and with it, by their keys.
    """
    try:
        found = [single.read_node(path, Overlay(NO_DOCUMENTS, d)) for d in (alone, documents)]
    except MetadataError:
        return
    primary, changed = found
    assert isinstance(primary, Variable)
    assert isinstance(changed, Variable)
    if _may_declare(changed):
        _check_new(primary, changed, _declared(changed), shares_keys=shares_keys)


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
    if name not in declared_by(primary.attributes):
        raise NoSuchNode(f"/{path}: declares no array {name!r}")
    known = next((each for each in primary.dependents if each.name == name), None)
    changed = _rehearsed(dataset, primary, Redeclare(name=name, partial=None))
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


def shorter_with(dataset: Dataset, path: str, axis: int, size: int) -> list[Variable]:
    """Return the arrays that become shorter with their primary, because they inherit its shape.

    Those with chunks at keys of another array are not among them.

    Raises
    ------
    NoSuchNode, MetadataError, StoreError.
    """
    primary = dataset.node(path)
    if not isinstance(primary, Variable) or not primary.dependents:
        return []
    arrays = list(family(primary))
    met = {path for pair in collisions(arrays) for path in (pair.one, pair.other)}
    later = family(_rehearsed(dataset, primary, Resize(axis, size, grows=False)))
    shapes = {each.path: each.array.shape for each in later}

    def is_shorter(shape: tuple[int, ...], path: str) -> bool:
        return shapes.get(path, shape)[axis : axis + 1] < shape[axis : axis + 1]

    return [a for a in arrays[1:] if a.path not in met and is_shorter(a.array.shape, a.path)]


def _checked(
    dataset: Dataset, path: str, name: str, partial: Json, *, shares_keys: bool
) -> Redeclare:
    primary = declaring_array(dataset, path)
    if any(each.name == name for each in primary.dependents):
        raise NameTaken(f"/{path}: declares an array {name!r} already")
    _check_free(dataset, below(path, name))
    change = Redeclare(name=name, partial=partial, others=_declarations(primary.attributes))
    _check_new(primary, _rehearsed(dataset, primary, change), [name], shares_keys=shares_keys)
    return change


def _check_free(dataset: Dataset, path: str) -> None:
    """Raise NameTaken if a node with a document is at a path."""
    node = dataset.load(path)
    if node is not None and not (isinstance(node.node, Variable) and node.node.is_dependent):
        raise NameTaken(f"/{path}: exists already")


def _check_new(
    primary: Variable, changed: Variable, names: Collection[str], *, shares_keys: bool
) -> None:
    """Raise BadValue if new dependent arrays cannot be read, or are in the way of others.

    Those that are stored may have no fill value; a new one is a valid document by itself (Zarr v3.1
    core specification, "Fill value").

    Parameters
    ----------
    changed : the primary as it is read with them.
    """
    found = {each.name: each for each in changed.dependents}
    if not found.keys() >= set(names):
        known = set(primary.problems)
        why = next((each for each in changed.problems if each not in known), "it cannot be read")
        raise BadValue(why)
    for name in names:
        if found[name].array.fill_value is None and primary.array.fill_value is not None:
            raise BadValue(f"/{found[name].path}: fill_value is null, and an array has one")
    ours = {each.path for name in names for each in family(found[name])}
    arrays = list(family(changed))
    if not shares_keys:
        _check(ours, collisions(arrays), "has chunks of the same keys")
    _check(ours, path_conflicts(arrays), "has chunks that no directory can hold beside its own")


def declaring_array(dataset: Dataset, path: str) -> Variable:
    """Return the array at a path, on which others may depend. Raises NoSuchNode, NotWritable."""
    node = dataset.node(path)
    if not isinstance(node, Variable):
        raise NoSuchNode(f"/{path}: is a group; only arrays declare others")
    if not _may_declare(node):
        what = "is a dependent array itself" if node.is_dependent else f"is of {node.format}"
        raise NotWritable(f"/{path}: {what}; arrays of zarr3 with documents declare others")
    return node


def _may_declare(node: Variable) -> bool:
    return node.format == "zarr3" and not node.is_dependent


def _declared(primary: Variable) -> Mapping[str, Json]:
    """Return the partial documents that an array declares, by their names. Raises BadValue."""
    try:
        return declared_by(primary.attributes)
    except BadMetadata as error:
        raise BadValue(str(error)) from error


def _declarations(attributes: Iterable[Attribute]) -> tuple[Attribute, ...]:
    return tuple(each for each in attributes if each.name in SPELLINGS)


def _rehearsed(dataset: Dataset, primary: Variable, *changes: NodeChange) -> Variable:
    """Return an array as it is read once changes are stored. Nothing is stored."""
    single, documents = dataset.format.single, dataset.documents()
    documents.fetch(single.keys_to_change(primary.path))
    written = single.write_node(apply_all(primary, changes), documents)
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
