"""A view of values that is open for writing."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from nczfs.buffers import Buffer
from nczfs.engine.chunks.storedarray import StoredArray
from nczfs.engine.lease.lease import Lease
from nczfs.errors import BadArgument, BadValue, NczfsError, NotPermitted, StaleHandle
from nczfs.vfs import effects
from nczfs.vfs.datasets.growing import Growing
from nczfs.vfs.datasets.rewrite import Rewrite
from nczfs.vfs.datasets.viewfile import OpenView
from nczfs.vfs.nodes import OpenFile
from nczfs.views.layout import Layout
from nczfs.views.writer import elements_at, settled, write_at

log = logging.getLogger(__name__)

BLOCK_BYTES = 4 << 20


class WritingView(OpenFile):
    """An open file whose bytes become elements as they come.

    A program writes in pieces that end anywhere. An incomplete last line of text waits for the next
    piece, since only a whole line gives a number. Binary numbers need not wait.

    `_lock` serialises the writes of one open file; it is not held while chunks are stored, and
    reading does not take it.

    Parameters
    ----------
    place : of the file, for messages.
    new_reader : opens the file for reading, in its present state.
    layout : returns the present layout.
    store : has everything stored that was written to the variables.
    room : waits until memory has room for the writes.
    growing : the end of the variable; None: its length is fixed.
    arrays : those that are shown.
    lease : of the dataset, held while the file is open.
    rewrite : whether it was truncated, so that complete new contents replace everything.
    """

    begins_itself = True

    def __init__(
        self,
        place: str,
        new_reader: Callable[[], OpenView],
        layout: Callable[[], Layout],
        store: Callable[[], None],
        room: Callable[[], None],
        growing: Growing | None,
        arrays: Sequence[StoredArray],
        lease: Lease,
        *,
        rewrite: bool,
    ) -> None:
        self._place = place
        self._find_layout = layout
        self._store = store
        self._room = room
        self._growing = growing
        self._arrays = arrays
        self._lease = lease
        lease.begin()
        self._lock = threading.Lock()
        self._reader = new_reader()
        self._held: tuple[int, bytes] | None = None
        self._rewrite = Rewrite() if rewrite else None
        self._writes = self._answered = 0  # all writes, and those that a flush acknowledged
        if growing is not None:
            growing.opened()
        lease.opened()

    def expect_reads(self) -> None:
        """Hold the lease before anything is read: what is changed must be the newest."""
        try:
            self._lease.require()
        except BaseException:
            self.drop()
            raise

    def read(self, offset: int, size: int) -> Buffer:
        if self._rewrite is not None:
            with self._lock:  # it is closed when it is complete
                if self._rewrite is not None:
                    return self._rewrite.read(offset, size)
        self._reader.follow(self._current_layout)
        return self._reader.read(offset, size)

    def read_if_cached(self, offset: int, size: int) -> Buffer | None:
        if self._rewrite is not None:
            return None
        if self._reader.layout is not self._current_layout():
            return None
        return self._reader.read_if_cached(offset, size)

    def write(self, offset: int, data: Buffer) -> int:
        given = memoryview(data)
        with self._changing(offset + len(given)):
            if self._rewrite is None:
                self._write(offset, given)
            elif self._growing is None and offset + len(given) > self._current_layout().size:
                raise self._beyond_end()
            else:
                self._rewrite.write(offset, given)
        return len(given)

    def append(self, offset: int, data: Buffer) -> int:
        """Write at the present end of the file, which the kernel may not know yet."""
        growing = self._growing
        if growing is None or self._rewrite is not None:
            return self.write(offset, data)
        with self._changing():
            if growing.append(self, offset, data) != offset:
                growing.show()  # the kernel has put the pages at the end that it knew
        return len(data)

    def truncate(self, size: int) -> None:
        if self._rewrite is None and size == self._current_layout().size:
            return
        with self._changing():
            known = self._current_layout().size
            if self._rewrite is not None:
                self._rewrite.truncate(size)
            elif size == 0 < known:
                self._rewrite = Rewrite()
            elif size > known and self._growing is not None:
                self._growing.resize(size)
            elif size != known:
                raise NotPermitted(
                    f"has {known} bytes: nczfs.open(...).resize_dimension changes its shape"
                )

    def flush(self) -> None:
        with self._lock, _named(self._place):
            writes, has_written = self._writes, self._writes > self._answered
            for array in self._arrays:
                if has_written:
                    array.check()
                array.check_kept()
            # A shell closes its own descriptor of a file that it opened with O_TRUNC before a byte.
            if self._rewrite is not None and has_written:
                self._apply(self._rewrite)
            self._settle()
        growing = self._growing
        has_part = growing is not None and growing.incomplete(self)
        # The pages of a mapping may have come through another handle.
        self._store()
        if growing is not None and has_part and not growing.incomplete(self):
            self._store()  # another handle has completed the record meanwhile
        with self._lock, _named(self._place):
            self._answered = max(self._answered, writes)
            if growing is not None and has_written:
                growing.check_whole(self)

    def close(self) -> None:
        try:
            if self._rewrite is None:
                self.flush()
        except NczfsError as error:
            log.warning("%s: not stored at its last close: %s", self._place, error)
        finally:
            if self._rewrite is not None:
                for array in self._arrays:
                    array.note_changed()  # the kernel may have pages of what was dropped
            if self._growing is not None:
                self._growing.closed(self)
            self.drop()

    def drop(self) -> None:
        if self._rewrite is not None:
            self._rewrite.close()
        self._reader.close()
        self._lease.closed()

    @contextmanager
    def _changing(self, stop: int | None = None) -> Iterator[None]:
        """Make one change at a time, under the lease; changes in the block are not withdrawn.

        Parameters
        ----------
        stop : of bytes that are written. If they make nothing longer, they are taken while the
            lease is taken beside, and sent when it is held.
        """
        self._require(stop)
        with self._lock, _named(self._place):
            self._require(stop)
            self._room()
            effects.begin()
            self._writes += 1
            yield

    def _require(self, stop: int | None) -> None:
        is_inside = stop is not None and stop <= self._current_layout().size
        if not (is_inside and self._lease.is_being_taken):
            self._lease.require()

    def _write(self, offset: int, data: memoryview) -> None:
        if self._held is not None:
            offset, data = self._joined(self._held, offset, data)
        layout = self._current_layout()
        stop = offset + len(data)
        if stop > layout.size:
            if self._growing is None:
                raise self._beyond_end()
            self._growing.write(offset, data)
            return
        cut = settled(layout, offset, stop) - offset
        write_at(layout, offset, data[:cut])
        if cut < len(data):
            self._held = offset + cut, bytes(data[cut:])

    def _apply(self, rewrite: Rewrite) -> None:
        """Write the new contents, if they are complete and every byte is valid."""
        layout, growing = self._current_layout(), self._growing
        if not rewrite.size:
            raise NotPermitted(
                "was truncated, and nothing was written after that: the old values stay"
            )
        wanted = layout.size
        if growing is not None and rewrite.size > wanted:
            wanted = -(-rewrite.size // growing.record_bytes) * growing.record_bytes
        if rewrite.size != wanted:
            raise BadArgument(
                f"{rewrite.size} bytes were written after it was truncated, but it has {wanted}: "
                "the old values stay; write all of them, or do not truncate (conv=notrunc)"
            )
        for offset, data in _blocks(rewrite, layout):
            elements_at(layout, offset, data)
        for offset, data in _blocks(rewrite, layout):
            write_at(layout, offset, data)
        if growing is not None:
            for offset in range(layout.size, rewrite.size, BLOCK_BYTES):
                growing.write(offset, memoryview(rewrite.read(offset, BLOCK_BYTES)))
        self._rewrite = None
        rewrite.close()

    def _joined(
        self, held: tuple[int, bytes], offset: int, data: memoryview
    ) -> tuple[int, memoryview]:
        """Join waiting bytes with those that follow; write them alone if others follow."""
        start, waiting = held
        if offset == start + len(waiting):
            self._held = None
            return start, memoryview(waiting + bytes(data))
        self._settle()
        return offset, data

    def _settle(self) -> None:
        """Write the waiting part of a line over the existing line."""
        held, self._held = self._held, None
        if held is not None:
            write_at(self._current_layout(), held[0], held[1])

    def _current_layout(self) -> Layout:
        """Return the present layout. Raises StaleHandle: elements are at other places in it."""
        layout, shown = self._find_layout(), self._reader.layout
        if layout is not shown and not layout.continues(shown):
            raise StaleHandle(f"{self._place}: its variable has another shape since it was opened")
        return layout

    def _beyond_end(self) -> NotPermitted:
        return NotPermitted(
            f"ends at byte {self._current_layout().size}: only values.raw of a variable with an "
            "unlimited first dimension can be made longer"
        )


def _blocks(rewrite: Rewrite, layout: Layout) -> Iterator[tuple[int, bytes]]:
    """Yield the new contents of a layout in pieces that cut no line."""
    offset = 0
    while offset < layout.size:
        data = rewrite.read(offset, min(BLOCK_BYTES, layout.size - offset))
        stop = settled(layout, offset, offset + len(data))
        yield offset, data[: stop - offset]
        offset = stop


@contextmanager
def _named(place: str) -> Iterator[None]:
    """Add the name of the file to errors."""
    try:
        yield
    except (BadArgument, BadValue, NotPermitted) as error:
        raise type(error)(f"{place}: {error}") from error
