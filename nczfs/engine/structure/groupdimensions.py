"""The dimensions of groups that declare none, but may tell which ones are unlimited.

Such an unlimited dimension is as long as the longest variable that has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from nczfs.engine.dataset import Dataset
from nczfs.model.hierarchy import Dimension, GroupHeader


def unlisted(dataset: Dataset, dimensions: Iterable[Dimension]) -> Iterator[Dimension]:
    """Yield the unlimited dimensions that their groups do not list yet, but can."""
    if not dataset.format.lists_unlimited:
        return
    for dimension in dimensions:
        if dimension.unlimited and not dimension.anonymous:
            header = dataset.node(dimension.group)
            known = header.dimensions if isinstance(header, GroupHeader) else (dimension,)
            if all(each.name != dimension.name for each in known):
                yield dimension


def declared(dataset: Dataset, group: GroupHeader, name: str) -> Dimension | None:
    """Return a group's dimension by name; where no group declares any, that of a variable."""
    found = next((each for each in group.dimensions if each.name == name), None)
    if dataset.format.declares:
        return found
    if found is None:
        return dataset.used_dimensions.of(group.path).first.get(name)
    if not (found.unlimited and dataset.format.lists_unlimited):
        return found
    return dataset.used_dimensions.of(group.path).longest.get(name, found)


def is_in_use(dataset: Dataset, group: str, name: str) -> bool:
    """Return whether a variable has a dimension of a group that declares none."""
    if dataset.format.declares:
        return False
    return name in dataset.used_dimensions.of(group).first
