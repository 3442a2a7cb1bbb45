"""Chunks that are objects of their own; here an absent object becomes fill."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping
from functools import partial

from nczfs import metrics
from nczfs.buffers import Values
from nczfs.engine.chunks.base import Confirmed, Fetched, Missing, Sending, UnitIndex
from nczfs.engine.chunks.fill import fill_chunk, is_fill
from nczfs.engine.chunks.loaded import LoadedChunk
from nczfs.engine.chunks.unitio import UnitIO
from nczfs.engine.retrying import LOOKED_S
from nczfs.errors import Conflict, NczfsError, NoSuchObject, ObjectExists, StructureChanged
from nczfs.model.grid import ChunkIndex
from nczfs.zmap.base import ABSENT, Version
from nczfs.zmap.keys import Key


class ChunkIO(UnitIO):
    """Chunks of which each one is an object. It holds no state but its parameters."""

    def fetch(self, chunk: ChunkIndex, known: LoadedChunk | None) -> Fetched:
        decode = self._found(chunk, known)
        if decode is not None:
            return decode
        return Missing(partial(self._missing, partial(self._shown, chunk), chunk, None))

    def _shown(self, chunk: ChunkIndex) -> str:
        """Return the place of a chunk, for messages."""
        return f"{self._zmap.name}/{self.key(chunk)}"

    def _found(self, chunk: ChunkIndex, known: LoadedChunk | None) -> Fetched | None:
        """Fetch as `fetch` does; None if the store has no such object."""
        key = self.key(chunk)
        found = self._found_at(key, chunk, known)
        while found is None and self.key(chunk) != key:  # the array was renamed meanwhile
            key = self.key(chunk)
            found = self._found_at(key, chunk, known)
        return found

    def _found_at(self, key: Key, chunk: ChunkIndex, known: LoadedChunk | None) -> Fetched | None:
        self.require()
        try:
            if (
                known is not None
                and known.version is not None
                and self._zmap.stat(key).version == known.version
            ):
                return Confirmed(known)
            usual, limit = self._usual_bytes, self._bytes_max
            blob = self._zmap.read(key, 0, usual)
            if usual < blob.object_size <= limit:
                blob = self._zmap.read(key, 0, limit + 1)
        except NoSuchObject:
            return None
        place = f"{self._zmap.name}/{key}"
        if blob.object_size > limit:
            raise self._too_large(place, blob.object_size)
        return lambda: self._decode(lambda: place, chunk, blob.data, blob.version)

    def newest(
        self, unit: UnitIndex, chunks: Collection[ChunkIndex]
    ) -> tuple[Mapping[ChunkIndex, Values], Version]:
        decode = self._found(unit, None)
        if decode is None:
            return {chunk: fill_chunk(self.array, chunk) for chunk in chunks}, ABSENT
        loaded = decode()
        assert loaded.version is not None
        return dict.fromkeys(chunks, loaded.values), loaded.version

    def store(
        self,
        unit: UnitIndex,
        values: Mapping[ChunkIndex, Values],
        replaces: Version | None,
        sending: Sending | None = None,
        *,
        explicitly: bool = False,
    ) -> Version | None:
        with self._at.gate.inside(lambda: self._at.prefix):
            self.confirm()
            self.confirm.look(LOOKED_S)
            key, chunk = self.key(unit), values[unit]
            if not explicitly and is_fill(self.array, chunk) and self._is_absent(unit, replaces):
                return None
            data = self._encode(f"{self._zmap.name}/{key}", unit, chunk)
            if sending is not None:
                sending([data], replaces)
            metrics.CHUNKS_STORED.inc()
            try:
                version = self._zmap.write(key, data, replaces=replaces)
            except (Conflict, ObjectExists):
                self.confirm.doubt()  # perhaps the chunk is of another array
                raise
            try:
                self.confirm.look()
            except StructureChanged:
                if replaces == ABSENT:  # it would be a chunk of what is there now
                    with contextlib.suppress(NczfsError):
                        self._zmap.delete(key, version=version)
                raise
            return version
