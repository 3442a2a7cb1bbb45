"""What xarray reads of every dataset that it opens, requested beforehand and all at once."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from nczfs.engine.dataset import Dataset
from nczfs.engine.options import Tally
from nczfs.model.boxes import Box
from nczfs.model.hierarchy import Variable

BYTES_MAX = 1 << 20
CHUNKS_MAX = 16


def request_coordinates(
    dataset: Dataset, variables: Iterable[Variable], dropped: Collection[str]
) -> None:
    """Let other threads load the coordinates of dimensions, which become indexes, if it is far.

    One after the other, each would take a round trip. Large ones are left alone: they are read in
    several requests at once in any case.
    """
    if not dataset.is_far:
        return
    for variable in variables:
        names = [dimension.name for dimension in variable.dimensions]
        if names == [variable.name] and variable.name not in dropped and _is_small(variable):
            whole = Box((0,), variable.array.shape)
            array = dataset.array(variable)
            for part in variable.array.grid.parts(whole):
                array.request(part.chunk, Tally())


def _is_small(variable: Variable) -> bool:
    array = variable.array
    nbytes = array.grid.chunk_count * array.chunk_bytes
    return array.grid.chunk_count <= CHUNKS_MAX and nbytes <= BYTES_MAX
