"""Chunks of a shard that are encoded as they come, and wait until the shard is stored."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeAlias

from nczfs.buffers import Values
from nczfs.engine.chunks.base import ChunkStore, Draft, UnitIndex
from nczfs.engine.chunks.shardlayout import Path
from nczfs.engine.chunks.shardwrite import Held
from nczfs.model.grid import ChunkIndex
from nczfs.zmap.base import Part, Version

Encode: TypeAlias = "Callable[[ChunkIndex, Values], tuple[Path, bytes | None]]"
"""Returns the path of a chunk in its shard, and its bytes; None: it is fill."""

ENCODE_THREADS: Final = min(4, max(2, os.cpu_count() or 2))
TOGETHER_BYTES: Final = 2 << 20  # less is encoded before threads have started
AT_A_TIME_BYTES_MAX: Final = 32 << 20  # of the chunks that are encoded at a time


class ShardDraft(Draft):
    """A draft of a shard. `_lock` guards what it holds; chunks are encoded without it.

    Parameters
    ----------
    encode : raises CodecError.
    store : stores a draft, as `Draft.store` does.
    held : takes the encoded chunks.
    """

    def __init__(
        self,
        writer: ChunkStore,
        unit: UnitIndex,
        encode: Encode,
        store: Callable[[ShardDraft, Version | None], Version | None],
        held: Held,
    ) -> None:
        super().__init__(writer, unit)
        self.unit = unit
        self._encode = encode
        self._store = store
        self.held = held
        self._lock = threading.Lock()
        self._is_dropped = False
        self._chunks: set[ChunkIndex] = set()
        self.changes: dict[Path, Part | None] = {}

    @property
    def chunks(self) -> Collection[ChunkIndex]:
        return self._chunks

    def put(self, chunk: ChunkIndex, values: Values) -> None:
        path, data = self._encode(chunk, values)
        with self._lock:
            if self._is_dropped:
                return
            self.changes[path] = None if data is None else self.held.keep(data)
            self._chunks.add(chunk)

    def put_all(self, values: Mapping[ChunkIndex, Values]) -> None:
        """Put several chunks as `put` does; several threads encode them if that takes long."""
        sizes = [each.nbytes for each in values.values()]
        is_much = len(sizes) > 1 and sum(sizes) >= TOGETHER_BYTES
        if not is_much or max(sizes) * ENCODE_THREADS > AT_A_TIME_BYTES_MAX:
            for chunk, each in values.items():
                self.put(chunk, each)
            return
        with ThreadPoolExecutor(ENCODE_THREADS, "nczfs-encode") as pool:
            for _ in pool.map(self.put, values.keys(), values.values()):
                pass  # the first error is raised here, and what has not begun is dropped

    def store(self, replaces: Version | None) -> Version | None:
        return self._store(self, replaces)

    def drop(self) -> None:
        with self._lock:
            self._is_dropped = True
            self._chunks, self.changes = set(), {}
            self.held.release()
