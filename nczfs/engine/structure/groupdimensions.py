"""Unlimited dimensions where groups declare none, but tell which ones are unlimited.

Such a dimension is as long as the longest variable that has it.
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


def with_length(dataset: Dataset, listed: Dimension, used: Iterable[Dimension]) -> Dimension:
    """Return a dimension that a group tells of, with its length.

    Parameters
    ----------
    used : the dimensions of the variables of the group.
    """
    if not (listed.unlimited and dataset.format.lists_unlimited):
        return listed
    same = (each for each in used if each.name == listed.name)
    return max(same, key=lambda each: each.size, default=listed)
