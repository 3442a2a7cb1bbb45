"""The thread that tells the kernel what to forget, and puts pages into its cache.

If the event loop sends an invalidation while a buffered read of the same inode is in flight, the
call waits for a page that only the loop can deliver, in a sleep that not even SIGKILL ends. So only
this thread calls the kernel, and no other thread waits for it longer than `PATIENCE_S`, or
`WRITE_BACK_S` where changed pages would be lost otherwise.

Old bytes must not get into the cache behind an invalidation. So a ticket is taken before bytes are
read, an invalidation voids it when it is noted, and both are sent by this one thread: pages are put
before the invalidation, which drops them, or not at all.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple, TypeAlias, cast
from weakref import WeakValueDictionary

import pyfuse3

from nczfs import metrics
from nczfs.buffers import Buffer
from nczfs.vfs.base import Entry, InodeNo, PageTicket

log = logging.getLogger(__name__)

PATIENCE_S = 0.1
WRITE_BACK_S = 2.0
"""How long a write waits until the kernel has written back the changed pages of other files."""

PAGES_WAITING_BYTES_MAX = 8 << 20

_Note: TypeAlias = "InodeNo | Entry"


class _Pages(NamedTuple):
    """Whole pages of a file, which were read after the ticket was given."""

    ticket: PageTicket
    offset: int
    data: Buffer


class Invalidator:
    """A bounded queue of invalidations, which may be sent twice.

    The methods may be called from any thread; those that take notes also under any lock, and they
    never block. Notes before `start` wait for it; after `stop` they are ignored.
    """

    def __init__(self, capacity: int = 200_000) -> None:
        self._capacity = capacity
        self._changed = threading.Condition()  # guards all below; never held in the kernel
        self._notes: dict[_Note, None] = {}
        self._locked: Counter[InodeNo] = Counter()
        self._written: Counter[InodeNo] = Counter()
        self._tickets: WeakValueDictionary[InodeNo, PageTicket] = WeakValueDictionary()
        self._pages: deque[_Pages] = deque()
        self._telling: _Note | _Pages | None = None
        self._telling_from = 0.0
        self._stopped = False
        self._overflowed = False
        self._thread: threading.Thread | None = None

    def invalidate_inode(self, ino: InodeNo) -> None:
        """Make the kernel forget the attributes and the pages of a file."""
        self._note(ino)

    def invalidate_entry(self, parent: InodeNo, name: bytes) -> None:
        """Make the kernel forget the entry `name` of a directory, or its absence."""
        self._note((parent, name))

    def page_ticket(self, ino: InodeNo) -> PageTicket:
        """See `Notifier.page_ticket`."""
        with self._changed:
            ticket = self._tickets.get(ino)
            if ticket is None:
                ticket = self._tickets[ino] = PageTicket(ino)
            return ticket

    def put_pages(self, ticket: PageTicket, offset: int, data: Buffer) -> bool:
        """See `Notifier.put_pages`."""
        with self._changed:
            waiting = sum(len(pages.data) for pages in self._pages)
            has_room = waiting + len(data) <= PAGES_WAITING_BYTES_MAX
            if self._stopped or not ticket.is_valid or not has_room:
                return False
            self._pages.append(_Pages(ticket, offset, data))
            self._changed.notify_all()
        return True

    def void_pages(self, ino: InodeNo) -> None:
        """See `Notifier.void_pages`."""
        with self._changed:
            self._void(ino)
            is_done = self._changed.wait_for(lambda: not self._is_putting(ino), PATIENCE_S)
        if not is_done:
            self._note(ino)

    @contextmanager
    def changing(
        self, entries: Collection[Entry] = (), locked: Collection[InodeNo] = ()
    ) -> Iterator[None]:
        """See `Notifier.changing`."""
        locks = {*locked, *(parent for parent, _ in entries)}
        with self._changed:
            self._locked.update(locks)
            self._changed.notify_all()
        try:
            yield
            with self._changed:
                for entry in entries:  # the kernel changes these by itself
                    self._notes.pop(entry, None)
        finally:
            with self._changed:
                self._settle(PATIENCE_S)
                self._locked -= Counter(locks)
                self._changed.notify_all()

    @contextmanager
    def writing(self, ino: InodeNo) -> Iterator[Callable[[], None]]:
        """See `Notifier.writing`."""
        with self._changed:
            self._written[ino] += 1
            self._changed.notify_all()
        try:
            yield partial(self._settle, WRITE_BACK_S)
        finally:
            self._settle(PATIENCE_S)
            with self._changed:
                self._written -= Counter([ino])
                self._changed.notify_all()

    def start(self) -> None:
        """Begin to send invalidations; the file system must be mounted."""
        self._thread = threading.Thread(target=self._run, name="nczfs-invalidator", daemon=True)
        self._thread.start()

    def stop(self, timeout_s: float = 2.0) -> None:
        """Take no more notes, drop those that wait, and wait for the call in flight."""
        with self._changed:
            self._stopped = True
            self._notes.clear()
            self._pages.clear()
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(timeout_s)

    def _note(self, note: _Note) -> None:
        with self._changed:
            if self._stopped:
                return
            if not isinstance(note, tuple):
                self._void(note)
            self._notes[note] = None
            overflow = len(self._notes) > self._capacity
            if overflow:
                del self._notes[next(iter(self._notes))]
            first_overflow = overflow and not self._overflowed
            self._overflowed = overflow or (self._overflowed and bool(self._notes))
            self._changed.notify_all()
        if first_overflow:
            log.warning("too many invalidations wait; the oldest are left to the TTLs")

    def _void(self, ino: InodeNo) -> None:
        ticket = self._tickets.pop(ino, None)
        if ticket is not None:
            ticket.is_valid = False
            self._pages = deque(pages for pages in self._pages if pages.ticket.is_valid)

    def _is_putting(self, ino: InodeNo) -> bool:
        return isinstance(self._telling, _Pages) and self._telling.ticket.ino == ino

    def _settle(self, patience_s: float) -> None:
        with self._changed:
            self._changed.wait_for(partial(self._is_settled, patience_s), patience_s)

    def _is_settled(self, patience_s: float) -> bool:
        """Return whether everything was sent that can be; the kernel itself may be waiting."""
        if self._thread is None or self._stopped:
            return True
        if self._telling is None:
            return self._next() is None
        if time.monotonic() - self._telling_from > patience_s:
            return True  # it is stuck
        if isinstance(self._telling, _Pages):
            return self._next() is None
        return self._waits(self._telling)

    def _next(self) -> _Note | None:
        return next((note for note in self._notes if not self._waits(note)), None)

    def _waits(self, note: _Note) -> bool:
        """Return whether the kernel would wait for the end of its own request."""
        return note[0] in self._locked if isinstance(note, tuple) else note in self._written

    def _run(self) -> None:
        while True:
            with self._changed:
                self._telling = None
                self._changed.notify_all()
                while (taken := self._take()) is None and not self._stopped:
                    self._changed.wait()
                if taken is None or self._stopped:
                    return
                self._telling, self._telling_from = taken, time.monotonic()
            if isinstance(taken, _Pages):
                _put(taken)
            else:
                _tell_kernel(taken)
            del taken  # it may hold a chunk in memory

    def _take(self) -> _Note | _Pages | None:
        """Take what to do next: first what the kernel is to forget."""
        note = self._next()
        if note is not None:
            del self._notes[note]
            return note
        self._overflowed = False
        return self._pages.popleft() if self._pages else None


def _put(pages: _Pages) -> None:
    try:
        # It takes any contiguous buffer; the annotation of pyfuse3 says bytes.
        pyfuse3.notify_store(
            cast("pyfuse3.InodeT", pages.ticket.ino),
            pages.offset,
            pages.data,  # type: ignore[arg-type]
        )
        metrics.PAGES_PUT_BYTES.inc(len(pages.data))
    except (
        OSError
    ) as error:  # no memory, or the kernel has forgotten the file: it reads them itself
        log.debug("the kernel took no pages of %s: %s", pages.ticket.ino, error)


def _tell_kernel(note: _Note) -> None:
    try:
        if isinstance(note, tuple):
            pyfuse3.invalidate_entry(cast("pyfuse3.InodeT", note[0]), note[1])
        else:
            pyfuse3.invalidate_inode(cast("pyfuse3.InodeT", note))
    except FileNotFoundError:
        pass  # the kernel does not know it: nothing to forget
    except OSError as error:
        log.warning("the kernel refused an invalidation of %s: %s", note, error)
