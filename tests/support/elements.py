"""Elements in memory, for layouts that need no dataset."""

from __future__ import annotations

from typing import Any

import numpy as np

from nczfs.buffers import Values
from nczfs.engine.chunks.storedarray import StoredArray
from nczfs.engine.options import Tally
from nczfs.engine.readahead.prefetch import NOT_AHEAD, AheadOptions
from nczfs.views.elements import ElementSource


class Numbers(ElementSource):
    """The elements of an array of numpy, and which of them were asked for and written.

    Attributes
    ----------
    requested, written : ranges (first, stop), in order.
    confirmed_at : the time when all chunks were last confirmed.
    """

    def __init__(
        self,
        values: Values,
        name: str = "v",
        *,
        chunk_bytes: int = 1 << 30,
        confirmed_at: float = 0,
    ) -> None:
        self.confirmed_at = confirmed_at
        self._chunk_bytes = chunk_bytes
        self.values = values
        self._name = name
        self.requested: list[tuple[int, int]] = []
        self.written: list[tuple[int, int]] = []

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.values.dtype

    @property
    def stored(self) -> StoredArray:
        raise AssertionError

    @property
    def lengths(self) -> tuple[int, ...]:
        return tuple(self.values.shape[1:])

    def read(self, first: int, out: Values, tally: Tally, fresh_since: float) -> None:
        out[...] = self.values[first : first + len(out)]

    def write(self, first: int, values: Values) -> None:
        self.values[first : first + len(values)] = values
        self.written.append((first, first + len(values)))

    def peek(self, first: int, out: Values, fresh_since: float) -> bool:
        self.read(first, out, Tally(), fresh_since)
        return fresh_since <= self.confirmed_at

    def peek_bytes(self, start: int, stop: int, fresh_since: float) -> list[memoryview] | None:
        if fresh_since > self.confirmed_at:
            return None
        step, data = self._chunk_bytes, self.values.view(np.uint8).data
        numbers = range(start // step, -(-stop // step))
        return [data[max(start, n * step) : min(stop, (n + 1) * step)] for n in numbers]

    def request(self, first: int, stop: int, tally: Tally, fresh_since: float) -> None:
        self.requested.append((first, stop))

    def ahead(self, width: int, room: int, *, uncopied: bool) -> AheadOptions:
        return NOT_AHEAD

    @property
    def name(self) -> str:
        return self._name

    def box(self, first: int, stop: int) -> str:
        return f"[{first}:{stop}]"

    def axis(self, step: int) -> str | None:
        return None
