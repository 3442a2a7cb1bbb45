"""The one place that decides where the chunks of an array come from."""

from __future__ import annotations

from nczfs.engine.chunks.base import ChunkSource
from nczfs.engine.chunks.chunkio import ChunkIO
from nczfs.engine.chunks.place import ArrayPlace
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
) -> ChunkSource:
    """Return where the chunks of an array at a place of a store come from.

    Parameters
    ----------
    confirm : raises StructureChanged if the store now describes other chunks.
    """
    return ChunkIO(
        zmap,
        place,
        array,
        options.missing_chunks,
        confirm=confirm,
        memory_bytes=options.memory_limit_bytes,
    )
