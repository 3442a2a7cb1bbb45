"""Chunks of a shard that are put together are encoded by several threads."""

from __future__ import annotations

import threading
from typing import cast

import numpy as np
import pytest

from nczfs.buffers import Values
from nczfs.engine.chunks.base import ChunkStore
from nczfs.engine.chunks.sharddraft import TOGETHER_BYTES, Encode, ShardDraft
from nczfs.engine.chunks.shardwrite import Held
from nczfs.errors import CodecError
from nczfs.model.grid import ChunkIndex

CHUNK: Values = np.zeros(TOGETHER_BYTES // 4, np.uint8)
TOGETHER_S = 60.0


class Writer:
    """As much of a `ChunkStore` as a draft asks for."""


def draft_with(encode: Encode) -> ShardDraft:
    writer = cast(ChunkStore, Writer())
    return ShardDraft(writer, (0,), encode, lambda draft, replaces: None, Held(lambda _: None))


def test_several_chunks_are_encoded_at_a_time() -> None:
    two = threading.Barrier(2)

    def encode(chunk: ChunkIndex, values: Values) -> tuple[tuple[int, ...], bytes]:
        two.wait(TOGETHER_S)
        return chunk, bytes(chunk)

    draft = draft_with(encode)
    draft.put_all({(number,): CHUNK for number in range(4)})
    assert draft.changes == {(number,): bytes((number,)) for number in range(4)}
    assert set(draft.chunks) == {(number,) for number in range(4)}


def test_an_error_of_one_chunk_is_raised_and_ends_the_others() -> None:
    def encode(chunk: ChunkIndex, values: Values) -> tuple[tuple[int, ...], bytes]:
        raise CodecError(f"chunk {chunk}")

    with pytest.raises(CodecError, match=r"chunk \(0,\)"):
        draft_with(encode).put_all({(number,): CHUNK for number in range(4)})


def test_few_bytes_are_encoded_by_the_caller() -> None:
    threads: set[threading.Thread] = set()

    def encode(chunk: ChunkIndex, values: Values) -> tuple[tuple[int, ...], None]:
        threads.add(threading.current_thread())
        return chunk, None

    draft_with(encode).put_all({(number,): CHUNK[:1] for number in range(4)})
    assert threads == {threading.current_thread()}
