"""The chunks that a store has of many arrays, by one listing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from nczfs.engine.chunkset import ChunkSet
from nczfs.engine.dataset import Dataset
from nczfs.engine.transfer.source import Progress
from nczfs.model.grid import ChunkIndex
from nczfs.model.hierarchy import ArrayDescription
from nczfs.zmap.base import Stat


def listed_chunks(
    dataset: Dataset, base: str, arrays: Mapping[str, ArrayDescription]
) -> Iterator[tuple[str, ChunkIndex, Stat]]:
    """The stored chunks of some arrays, with the keys of their arrays, in no particular order.

    Parameters
    ----------
    base : path of the node that all of them are at or below.
    arrays : by their keys in the dataset.

    Raises
    ------
    StoreError : the store could not be asked.
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
    """The stored chunks of each array, by its key; empty if the store does not list all its keys.

    Parameters
    ----------
    base : path of the node that all arrays are at or below.
    progress : called with 0 for each key that is listed.

    Raises
    ------
    StoreError : the store could not be asked.
    """
    if not dataset.zmap.features.lists_all:
        return {}
    found = {key: ChunkSet(array.grid) for key, array in arrays.items()}
    for key, chunk, _ in listed_chunks(dataset, base, arrays):
        found[key].add(chunk)
        progress(0)
    return found
