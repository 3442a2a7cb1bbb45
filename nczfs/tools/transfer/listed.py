"""The stored units of many arrays, from one listing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from nczfs.engine.dataset import Dataset
from nczfs.model.grid import ChunkIndex
from nczfs.model.hierarchy import ArrayDescription
from nczfs.tools.chunkset import ChunkSet
from nczfs.tools.progress import Progress
from nczfs.zmap.base import Stat


def listed_units(
    dataset: Dataset, base: str, arrays: Mapping[str, ArrayDescription]
) -> Iterator[tuple[str, ChunkIndex, Stat]]:
    """Yield the stored units of some arrays, with the arrays' keys, in no particular order.

    A unit is a chunk, or a shard of chunks that are stored as one object.

    Parameters
    ----------
    base : path of the node that contains all of them.
    arrays : by their keys in the dataset.

    Raises
    ------
    StoreError : the store could not be reached.
    """
    cut = len(dataset.root) + 1 if dataset.root else 0
    for stat in dataset.zmap.list(dataset.prefix(base)):
        key = stat.key[cut:]
        place = key
        while place:
            place = place.rpartition("/")[0]
            array = arrays.get(place)
            if array is None:
                continue
            unit = array.unit_index(key[len(place) + 1 if place else 0 :])
            if unit is not None and unit in array.units:
                yield place, unit, stat
            break


def stored_units(
    dataset: Dataset, base: str, arrays: Mapping[str, ArrayDescription], progress: Progress
) -> Mapping[str, ChunkSet]:
    """Return the stored units of each array, by its key; empty if keys cannot be listed.

    Parameters
    ----------
    base : path of the node that contains all arrays.
    progress : called with 0 for each key that is listed.

    Raises
    ------
    StoreError : the store could not be reached.
    """
    if not dataset.zmap.features.lists_all:
        return {}
    found = {key: ChunkSet(array.units) for key, array in arrays.items()}
    for key, unit, _ in listed_units(dataset, base, arrays):
        found[key].add(unit)
        progress(0)
    return found
