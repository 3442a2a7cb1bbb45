"""The chunks of an array that were never written: its grid minus what the store lists."""

from __future__ import annotations

from collections.abc import Iterator

from nczfs.model.grid import ChunkIndex
from nczfs.model.hierarchy import Variable
from nczfs.tools.chunkset import ChunkSet
from nczfs.tools.verify.subject import Subject


def holes(subject: Subject, variable: Variable) -> Iterator[ChunkIndex]:
    """Yield the missing chunks of a variable, in C order. For the memory see `ChunkSet`.

    Raises
    ------
    StoreError : the store could not be reached.
    """
    array = variable.array
    stored = ChunkSet(array.grid)
    cut = len(variable.key) + 1 if variable.key else 0
    for stat in subject.zmap.list(subject.dataset.prefix(variable.key)):
        index = array.chunk_index(stat.key[cut:])
        if index is not None and index in array.grid:
            stored.add(index)
    yield from stored.missing()
