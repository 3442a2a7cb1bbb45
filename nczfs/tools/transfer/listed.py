"""The stored chunks of many arrays, from one listing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from nczfs.engine.dataset import Dataset
from nczfs.model.grid import ChunkIndex
from nczfs.model.hierarchy import ArrayDescription
from nczfs.tools.chunkset import ChunkSet
from nczfs.tools.progress import Progress
from nczfs.zmap.base import Stat


def listed_chunks(
    dataset: Dataset, base: str, arrays: Mapping[str, ArrayDescription]
) -> Iterator[tuple[str, ChunkIndex, Stat]]:
    """Yield the stored chunks of some arrays, with the arrays' keys, in no particular order.

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
            chunk = array.chunk_index(key[len(place) + 1 if place else 0 :])
            if chunk is not None and chunk in array.grid:
                yield place, chunk, stat
            break


def stored_chunks(
    dataset: Dataset, base: str, arrays: Mapping[str, ArrayDescription], progress: Progress
) -> Mapping[str, ChunkSet]:
    """Return the stored chunks of each array, by its key; empty if keys cannot be listed.

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
    found = {key: ChunkSet(array.grid) for key, array in arrays.items()}
    for key, chunk, _ in listed_chunks(dataset, base, arrays):
        found[key].add(chunk)
        progress(0)
    return found
