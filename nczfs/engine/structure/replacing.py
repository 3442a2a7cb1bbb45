"""Replacing everything that is stored at and below a group in one step."""

from __future__ import annotations

from collections.abc import Callable

from nczfs.engine.dataset import Dataset
from nczfs.engine.structure.ownership import check_no_foreign
from nczfs.engine.structure.removal import planned
from nczfs.errors import NczfsError, NotWritable
from nczfs.model.hierarchy import Group, GroupHeader, Variable
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


def replace(dataset: Dataset, path: str, exchange: Callable[[], None]) -> None:
    """Have the content of a group replaced in one step.

    A program that has a file of the old content open gets StructureChanged from then on; whatever
    was read before is of the old content, and whatever is opened afterwards of the new one.

    Parameters
    ----------
    exchange : does it in the store. If it raises, the old content is still there.

    Raises
    ------
    CodecError, StoreError, MetadataError, DatasetError : something that was written to the old
        content could not be stored; nothing is replaced.
    """
    try:
        dataset.store()
    except NczfsError:
        if dataset.has_unsaved(path):
            raise
    with dataset.undescribed(path, "its group was replaced"):
        exchange()
    dataset.removed(path)
    if path:  # above it lies a consolidated copy, perhaps
        dataset.copy.distrust()
        dataset.store((path,))
