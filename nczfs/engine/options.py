"""The options of the engine, and the cost of a read."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from enum import Enum

from nczfs.engine.lease.contention import LeaseTerms
from nczfs.formats.base import FormatOptions
from nczfs.formats.registry import options_of

MIB = 1 << 20
GIB = 1 << 30


class MissingChunks(Enum):
    """The meaning of a missing chunk."""

    FILL = "fill"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """Settings shared by all datasets of one engine.

    Attributes
    ----------
    memory_limit_bytes : budget of the chunk cache and of everything read ahead, together.
    cache_dir : for decoded chunks that memory has no room for; None: ``$TMPDIR`` or /var/tmp.
    cache_bytes_max : limit of that directory; None: 10 GiB, and no more than a tenth of the free
        space; 0: none.
    metadata_ttl_s : for how long answers of a store stay valid; math.inf: until refreshed.
    chunk_bytes_max : a chunk that decodes to more is refused by name.
    document_bytes_max : a larger metadata document is refused by name.
    create_format : the format of new datasets where none is asked for; None: what the mode of the
        URL means.
    flush_age_s : time after which writes are stored in the background; None: only on request, or
        when there is no room.
    is_single_writer : nothing else writes: no lease is taken on stores without conditional writes.
    writes_dependents : whether values of dependent arrays, whose documents are those of others, may
        be written.
    lease : the times of leases.
    ask_threads : metadata documents and listings requested from a far store at a time.
    fetch_threads : objects read from a far store at a time.
    store_threads : objects written at a time; each holds its encoded bytes.
    decode_threads : chunks decoded at a time.
    """

    memory_limit_bytes: int = 512 * MIB
    cache_dir: str | None = None
    cache_bytes_max: int | None = None
    metadata_ttl_s: float = 60.0
    missing_chunks: MissingChunks = MissingChunks.FILL
    chunk_bytes_max: int = 2 * GIB
    document_bytes_max: int = 16 * MIB
    create_format: str | None = None
    flush_age_s: float | None = None
    is_single_writer: bool = False
    writes_dependents: bool = False
    lease: LeaseTerms = field(default_factory=LeaseTerms)
    ask_threads: int = 256
    fetch_threads: int = 32
    store_threads: int = 16
    decode_threads: int = field(default_factory=lambda: max(2, os.cpu_count() or 2))


def format_options(modes: frozenset[str], options: EngineOptions) -> FormatOptions:
    """Return how metadata are read and written, from the mode of a URL and the limits."""
    return replace(
        options_of(modes),
        chunk_bytes_max=options.chunk_bytes_max,
        document_bytes_max=options.document_bytes_max,
        create_format=options.create_format,
    )


@dataclass(slots=True)
class Tally:
    """The work that reads of one file caused. Counted without a lock: a lost count is harmless."""

    chunks_loaded: int = 0
    bytes_decoded: int = 0
