"""The one place that decides where the chunks of an array come from."""

from __future__ import annotations

from collections.abc import Sequence

from nczfs.engine.chunks.base import ChunkSource
from nczfs.engine.chunks.chunkio import ChunkIO
from nczfs.engine.chunks.place import ArrayPlace
from nczfs.engine.chunks.shardindexes import ShardMemory
from nczfs.engine.chunks.shardio import ShardIO
from nczfs.engine.options import EngineOptions
from nczfs.engine.retrying import Confirmation
from nczfs.model.hierarchy import ArrayDescription
from nczfs.zmap.base import ZMap


def source_of(
    zmap: ZMap,
    place: ArrayPlace,
    array: ArrayDescription,
    options: EngineOptions,
    confirm: Confirmation,
    shards: ShardMemory,
    grows: Sequence[bool],
) -> ChunkSource:
    """Return where the chunks of an array at a place of a store come from.

    Parameters
    ----------
    confirm : raises StructureChanged if the store now describes other chunks.
    shards : the memory of those of all arrays.
    grows : for each dimension, whether others may make the array longer at any time.
    """
    if array.shards:
        return ShardIO(
            zmap,
            place,
            array,
            options.missing_chunks,
            shards,
            grows,
            confirm,
            options.memory_limit_bytes,
        )
    return ChunkIO(
        zmap,
        place,
        array,
        options.missing_chunks,
        confirm=confirm,
        memory_bytes=options.memory_limit_bytes,
    )
