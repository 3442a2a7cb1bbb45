"""Serving small reads of a far object from larger blocks."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import Future
from typing import TypeAlias

from nczfs.plaindata import frozen
from nczfs.zmap.base import Blob, Version, ZMap
from nczfs.zmap.keys import Key
from nczfs.zmap.wrappers import ReadOnly

BLOCK_BYTES = 256 << 10
READ_BYTES_MAX = 1 << 20  # a larger read is a separate request, of which nothing is kept
KEPT_BLOCKS = 64

_BlockId: TypeAlias = tuple[Key, Version, int]


@frozen
class _Block:
    """The bytes of a block, fewer at the end of the object, and the rest of the answer."""

    data: memoryview
    object_size: int
    mtime_ns: int | None


class InBlocks(ReadOnly):
    """A wrapper of a far store for an object that is read in many small pieces: an archive.

    Reads that name a version are cut from blocks of 256 KiB; the last 64 blocks are kept.
    Adjacent blocks are one request, and threads that need the same block share its request.
    Everything else goes to the far store. `_lock` guards the blocks and is not held during
    requests.

    Parameters
    ----------
    owns_source : whether to close the far store with this one.
    """

    def __init__(self, source: ZMap, *, owns_source: bool = False) -> None:
        super().__init__(source)
        self._owns_source = owns_source
        self._lock = threading.Lock()
        self._blocks: OrderedDict[_BlockId, Future[_Block]] = OrderedDict()

    def read(
        self, key: Key, start: int = 0, stop: int | None = None, *, version: Version | None = None
    ) -> Blob:
        is_small = stop is not None and 0 < stop - start <= READ_BYTES_MAX
        if not is_small or version is None or not self._zmap.features.ranges:
            return self._zmap.read(key, start, stop, version=version)
        assert stop is not None
        first, last = start // BLOCK_BYTES, (stop - 1) // BLOCK_BYTES
        blocks = self._fetched(key, version, first, last)
        pieces = [
            block.data[max(start - at, 0) : stop - at]
            for at, block in zip(range(first * BLOCK_BYTES, stop, BLOCK_BYTES), blocks, strict=True)
        ]
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        return Blob(data, version, blocks[0].object_size, blocks[0].mtime_ns)

    def close(self) -> None:
        """Forget the blocks, and close the far store if it belongs to this one."""
        with self._lock:
            self._blocks.clear()
        if self._owns_source:
            self._zmap.close()

    def _fetched(self, key: Key, version: Version, first: int, last: int) -> Sequence[_Block]:
        """Return the blocks `first` to `last`, fetching those that no other thread fetches."""
        found: list[Future[_Block]] = []
        mine: list[int] = []
        with self._lock:
            for number in range(first, last + 1):
                block = self._blocks.get((key, version, number))
                if block is None:
                    block = self._blocks[(key, version, number)] = Future()
                    mine.append(number)
                self._blocks.move_to_end((key, version, number))
                found.append(block)
            while len(self._blocks) > KEPT_BLOCKS:
                self._blocks.popitem(last=False)
        for run in _runs(mine):
            self._fetch(key, version, run, found[run.start - first : run.stop - first])
        return [block.result() for block in found]

    def _fetch(
        self, key: Key, version: Version, run: range, blocks: Sequence[Future[_Block]]
    ) -> None:
        """Fetch adjacent blocks; all waiting threads get a failure, which is not kept."""
        try:
            blob = self._zmap.read(
                key, run.start * BLOCK_BYTES, run.stop * BLOCK_BYTES, version=version
            )
        except BaseException as error:
            with self._lock:
                for number in run:
                    self._blocks.pop((key, version, number), None)
            for block in blocks:
                block.set_exception(error)
            if not isinstance(error, Exception):
                raise
            return
        data = memoryview(blob.data)
        for at, block in enumerate(blocks):
            part = data[at * BLOCK_BYTES : (at + 1) * BLOCK_BYTES]
            block.set_result(_Block(part, blob.object_size, blob.mtime_ns))


def _runs(numbers: list[int]) -> list[range]:
    """Split ascending numbers into ranges without gaps."""
    runs: list[range] = []
    for number in numbers:
        if runs and runs[-1].stop == number:
            runs[-1] = range(runs[-1].start, number + 1)
        else:
            runs.append(range(number, number + 1))
    return runs
