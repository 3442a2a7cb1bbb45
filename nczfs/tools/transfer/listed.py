"""The stored units of many arrays, from one listing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from nczfs.engine.dataset import Dataset
from nczfs.model.grid import ChunkIndex
from nczfs.model.hierarchy import ArrayDescription, Variable
from nczfs.tools.chunkset import ChunkSet
from nczfs.tools.progress import Progress
from nczfs.zmap.base import Stat


def listed_units(
    dataset: Dataset, base: str, variables: Mapping[str, Variable]
) -> Iterator[tuple[str, ChunkIndex, Stat]]:
    """Yield the stored units of some arrays, with the arrays' names, in no particular order.

    A unit is a chunk, or a shard of chunks that are stored as one object.

    Parameters
    ----------
    base : path of the node that contains all of them.
    variables : by any names. Several may have their units at one place.

    Raises
    ------
    StoreError : the store could not be reached.
    """
    at: dict[str, list[tuple[str, ArrayDescription]]] = {}
    for name, variable in variables.items():
        at.setdefault(variable.key, []).append((name, variable.array))
    cut = len(dataset.root) + 1 if dataset.root else 0
    for stat in dataset.zmap.list(dataset.prefix(base)):
        key = stat.key[cut:]
        place = key
        while place:
            place = place.rpartition("/")[0]
            if place not in at:
                continue
            for name, array in at[place]:
                unit = array.unit_index(key[len(place) + 1 if place else 0 :])
                if unit is not None and unit in array.units:
                    yield name, unit, stat
            break


def stored_units(
    dataset: Dataset, base: str, variables: Mapping[str, Variable], progress: Progress
) -> Mapping[str, ChunkSet]:
    """Return the stored units of each array, by its name; empty if keys cannot be listed.

    Parameters
    ----------
    base : path of the node that contains all arrays.
    variables : by any names.
    progress : called with 0 for each key that is listed.

    Raises
    ------
    StoreError : the store could not be reached.
    """
    if not dataset.zmap.features.lists_all:
        return {}
    found = {name: ChunkSet(variable.array.units) for name, variable in variables.items()}
    for name, unit, _ in listed_units(dataset, base, variables):
        found[name].add(unit)
        progress(0)
    return found
