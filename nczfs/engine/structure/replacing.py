"""Replacing everything that is stored at and below a group: in one step, or by steps."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from nczfs.engine.dataset import Dataset
from nczfs.engine.structure.ownership import check_no_foreign
from nczfs.engine.structure.removal import planned
from nczfs.engine.structure.stepwise import Stepwise
from nczfs.errors import NczfsError, NotWritable
from nczfs.model.hierarchy import Group, GroupHeader, Variable
from nczfs.zmap.aside import Aside
from nczfs.zmap.keys import is_within


def check_replaceable(dataset: Dataset, path: str) -> None:
    """Check that nothing else is lost with the content of a group.

    Raises
    ------
    ForeignObjects : objects below it belong to no dataset. NotWritable : variables elsewhere have
        dimensions of it. MetadataError, StoreError.
    """
    check_no_foreign(dataset.url(path), dataset.prefix(path), planned(dataset, path).foreign)
    check_dimensions_inside(dataset, path)


def check_dimensions_inside(dataset: Dataset, path: str) -> None:
    """Raise NotWritable if a variable elsewhere has a dimension of a group or one below it.

    Full names of dimensions begin with groups.
    """
    if not dataset.format.declares or not isinstance(dataset.node(path), GroupHeader):
        return
    for variable in variables_of(dataset.group("")):
        if not is_within(variable.path, path) and has_dimension_within(variable, path):
            raise NotWritable(
                f"/{path}: /{variable.path} lies outside of it, and uses one of its dimensions"
            )


def has_dimension_within(variable: Variable, path: str) -> bool:
    """Return whether a variable has a dimension of a group, or of one below it."""
    return any(is_within(dimension.group, path) for dimension in variable.dimensions)


def variables_of(group: Group) -> list[Variable]:
    """Return the variables of a group and all groups below it."""
    below_it = [variable for each in group.groups for variable in variables_of(each)]
    return [*group.variables, *below_it]


def can_replace(dataset: Dataset) -> bool:
    """Return whether the store can replace a group, in one step or by steps."""
    features = dataset.zmap.features
    return features.writable and not features.write_once


def place_aside(dataset: Dataset, path: str) -> AbstractContextManager[Aside]:
    """Return a place for new content of a group, which `replace` puts in place.

    The path below the place is that of the group. Raises as `ZMap.aside` and `Stepwise.aside`.
    """
    prefix = dataset.prefix(path)
    if dataset.zmap.features.exchanges.covers(prefix):
        return dataset.zmap.aside(prefix, path)
    return _stepwise(dataset, path).aside(path)


def complete_left(dataset: Dataset, path: str) -> bool:
    """Complete the replacement of a group, not of the root, that another process has left.

    Returns whether there was one. Raises as `Stepwise.complete`.
    """
    steps = _stepwise(dataset, path)
    try:
        return steps.complete()
    finally:
        dataset.removed(path)
        dataset.copy.distrust()
        dataset.store((path,))


def _stepwise(dataset: Dataset, path: str) -> Stepwise:
    def leave_copy() -> None:
        if path:  # the copy above it describes the old content
            dataset.copy.distrust()
            with dataset.copy.leaving(path):
                dataset.copy.update()

    return Stepwise(dataset.zmap, dataset.prefix(path), dataset.engine.leases, leave_copy)


def replace(dataset: Dataset, path: str, exchange: Callable[[], None]) -> None:
    """Have the content of a group replaced.

    A program that has a file of the old content open gets StructureChanged from then on; whatever
    was read before is of the old content, and whatever is opened afterwards of the new one.

    Parameters
    ----------
    exchange : does it in the store (`Aside.exchange`).

    Raises
    ------
    CodecError, StoreError, MetadataError, DatasetError : something that was written to the old
        content could not be stored; nothing is replaced. Unavailable : the store has the new
        content, but not all of it is in place; see `Stepwise`.
    """
    try:
        dataset.store()
    except NczfsError:
        if dataset.has_unsaved(path):
            raise
    try:
        with dataset.undescribed(path, "its group was replaced"):
            exchange()
    finally:
        dataset.removed(path)
    if path:  # above it lies a consolidated copy, perhaps
        dataset.copy.distrust()
        dataset.store((path,))
