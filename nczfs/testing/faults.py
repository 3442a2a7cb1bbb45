"""A store that fails on purpose, at a chosen call."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Final, TypeVar

from nczfs.errors import StoreError, Unavailable
from nczfs.plaindata import frozen
from nczfs.zmap.base import Blob, Entry, Glance, Stat, Version, ZMap
from nczfs.zmap.keys import Key, Prefix
from nczfs.zmap.run import ListedRange
from nczfs.zmap.wrappers import Change, Wrapper

OPERATIONS: Final = frozenset(
    {"read", "write", "copy", "write_parts", "delete", "stat", "search", "list", "flush"}
)

_T = TypeVar("_T")


@frozen
class Fault:
    """One failure.

    Attributes
    ----------
    call : which call fails, counted from 0 over the calls of `operations`.
    error : what it raises.
    after : whether the call takes effect first, and only its answer is lost.
    operations : which operations count.
    repeats : how many calls in a row fail.
    """

    call: int
    error: type[StoreError] = Unavailable
    after: bool = False
    operations: frozenset[str] = OPERATIONS
    repeats: int = 1


class Faulty(Wrapper):
    """A store whose n-th call fails, before or after it took effect.

    For tests that fail call 0, 1, 2 ... until a whole operation succeeds: then `fired` is 0. Each
    page of a search or a listing is a call. Closing it closes the other. One lock guards the
    counters.

    Parameters
    ----------
    before_call : called with operation and key before each call, outside the lock: to wait on an
        event or a barrier, or to sleep.
    page_entries : how many names or objects a page has.
    """

    def __init__(
        self,
        zmap: ZMap,
        *faults: Fault,
        before_call: Callable[[str, str], None] | None = None,
        page_entries: int = 1000,
    ) -> None:
        super().__init__(zmap)
        self._faults = faults
        self._before_call = before_call
        self._page_entries = page_entries
        self._lock = threading.Lock()
        self._counts = [0] * len(faults)
        self._calls = 0
        self._fired = 0

    @property
    def calls(self) -> int:
        """The number of calls, including failed ones."""
        with self._lock:
            return self._calls

    @property
    def fired(self) -> int:
        """The number of calls that failed on purpose."""
        with self._lock:
            return self._fired

    def arm(self, *faults: Fault) -> None:
        """Set faults: calls are counted from now on, and earlier faults are forgotten."""
        with self._lock:
            self._faults = faults
            self._counts = [0] * len(faults)
            self._fired = 0

    def read(
        self, key: Key, start: int = 0, stop: int | None = None, *, version: Version | None = None
    ) -> Blob:
        return self._call("read", key, lambda: self._zmap.read(key, start, stop, version=version))

    def delete_many(self, keys: Iterable[Key]) -> None:
        ZMap.delete_many(self, keys)  # each deletion is a call

    def stat(self, key: Key) -> Stat:
        return self._call("stat", key, lambda: self._zmap.stat(key))

    def search(self, prefix: Prefix) -> Iterator[Entry]:
        return self._pages("search", prefix, self._zmap.search(prefix))

    def glance(self, prefix: Prefix) -> Glance:
        found, rest = self._call("search", prefix, lambda: self._zmap.glance(prefix))
        return found, None if rest is None else lambda: self._pages("search", prefix, rest())

    def prefixes(self, prefix: Prefix) -> Iterator[str]:
        return self._pages("search", prefix, self._zmap.prefixes(prefix))

    def list(self, prefix: Prefix) -> Iterator[Stat]:
        return self._pages("list", prefix, self._zmap.list(prefix))

    def run_from(self, prefix: Prefix, first: Key | None) -> ListedRange | None:
        return self._call("list", prefix, lambda: self._zmap.run_from(prefix, first))

    def exists(self, prefix: Prefix, *, marked: bool = True) -> bool:
        return self._call("search", prefix, lambda: self._zmap.exists(prefix, marked=marked))

    def markers(self, prefix: Prefix) -> Iterator[Prefix]:
        return self._pages("list", prefix, self._zmap.markers(prefix))

    def flush(self) -> None:
        self._call("flush", "", self._zmap.flush)

    def _pages(self, operation: str, prefix: Prefix, items: Iterator[_T]) -> Iterator[_T]:
        while True:
            page = self._call(
                operation, prefix, lambda: [*itertools.islice(items, self._page_entries)]
            )
            yield from page
            if len(page) < self._page_entries:
                return

    def _call(self, operation: str, key: str, call: Callable[[], _T]) -> _T:
        with self._failing(operation, key):
            return call()

    @contextmanager
    def _failing(self, operation: str, key: str) -> Iterator[None]:
        if self._before_call is not None:
            self._before_call(operation, key)
        fault = self._next_fault(operation)
        if fault is None or fault.after:
            yield
        if fault is not None:
            raise fault.error(f"{self.name}/{key}: {operation} failed on purpose")

    def _changing(self, change: Change, key: str) -> AbstractContextManager[None]:
        return self._failing(change, key)

    def _next_fault(self, operation: str) -> Fault | None:
        found = None
        with self._lock:
            self._calls += 1
            for position, fault in enumerate(self._faults):
                if operation in fault.operations:
                    count = self._counts[position]
                    self._counts[position] += 1
                    if found is None and fault.call <= count < fault.call + fault.repeats:
                        found = fault
            self._fired += found is not None
        return found
