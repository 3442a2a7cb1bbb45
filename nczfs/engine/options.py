"""What a user can set of the engine, and what one read cost."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from enum import Enum

MIB = 1 << 20


class MissingChunks(Enum):
    """What a chunk that no store holds reads as."""

    FILL = "fill"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """Settings shared by all datasets of one engine.

    Attributes
    ----------
    memory_limit_bytes : budget of the chunk cache and of everything read ahead, together.
    metadata_ttl_s : for how long what a store said is believed without asking again; math.inf
        until refreshed.
    fetch_threads : requests to a far store at a time.
    decode_threads : chunks decoded at a time.
    """

    memory_limit_bytes: int = 512 * MIB
    metadata_ttl_s: float = 60.0
    missing_chunks: MissingChunks = MissingChunks.FILL
    fetch_threads: int = 16
    decode_threads: int = field(default_factory=lambda: max(2, os.cpu_count() or 2))


@dataclass(slots=True)
class Tally:
    """What the reads of one file caused. Counted without a lock: a lost count does no harm."""

    chunks_loaded: int = 0
    bytes_decoded: int = 0
