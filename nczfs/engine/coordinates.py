"""Coordinate variables, fetched in one burst before a reader waits for their chunks one by one."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from nczfs.engine.dataset import Dataset
from nczfs.engine.options import Tally
from nczfs.errors import NczfsError
from nczfs.model.hierarchy import Variable

log = logging.getLogger(__name__)

CHUNKS_MAX = 4096
BUDGET_SHARE = 8  # at most an eighth of the memory limit


def fetch_coordinates(dataset: Dataset, variable: Variable) -> int:
    """Load all chunks of the 1-D coordinate variables of a variable ahead, a shard at a time.

    A coordinate variable is one-dimensional and has the name of its dimension. The number of chunks
    and bytes is bounded; coordinates that do not fit are read on demand.

    Returns
    -------
    the number of requested chunks.
    """
    room = dataset.engine.cache.limit_bytes // BUDGET_SHARE
    chunks = 0
    for coordinate in _coordinates(dataset, variable):
        description = coordinate.array
        count = description.grid.chunk_count
        room -= count * description.chunk_bytes
        if room < 0 or chunks + count > CHUNKS_MAX:
            break
        dataset.array(coordinate).request_run(0, description.size, Tally(), 0.0)
        chunks += count
    return chunks


def _coordinates(dataset: Dataset, variable: Variable) -> Iterator[Variable]:
    group = variable.path.rpartition("/")[0]
    for dimension in variable.dimensions:
        if dimension.anonymous:
            continue
        for place in dict.fromkeys((group, dimension.group)):
            path = f"{place}/{dimension.name}" if place else dimension.name
            try:
                is_there = path != variable.path and not dataset.is_known_absent(path)
                loaded = dataset.load(path) if is_there else None
            except NczfsError as error:
                log.debug("coordinate variable %s is not read ahead: %s", path, error)
                continue
            if loaded is None or not isinstance(loaded.node, Variable):
                continue
            if len(loaded.node.array.shape) == 1 and loaded.node.array.dtype.vlen is None:
                yield loaded.node
                break
