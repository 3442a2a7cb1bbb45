"""A store that stops calls, so that a test does something else meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from nczfs.errors import NoSuchObject
from nczfs.zmap.base import Entry, Stat, Version
from nczfs.zmap.keys import Key, Prefix
from nczfs.zmap.memory import MemoryZMap

WAIT_S = 120.0
T = TypeVar("T")


class GatedZMap(MemoryZMap):
    """A store that can stop calls before or after they take effect, or find nothing.

    Attributes
    ----------
    calls : the names of all calls that change something, and their keys.
    """

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[str, str]] = []
        self._gates: dict[tuple[str, str, str], Gate] = {}

    @contextmanager
    def stopping(self, call: str, key: str, when: str = "before") -> Iterator[Gate]:
        """Stop the next such call until the gate is opened, at the latest at the end."""
        gate = self._gates[call, key, when] = Gate()
        yield gate
        self._gates.pop((call, key, when), None)
        gate.open()

    def write(self, key: Key, data: object, **arguments: object) -> Version:
        return self._call("write", key, lambda: MemoryZMap.write(self, key, data, **arguments))  # type: ignore[arg-type]

    def stat(self, key: Key) -> Stat:
        return self._call("stat", key, lambda: MemoryZMap.stat(self, key))

    def delete(self, key: Key, *, version: Version | None = None) -> None:
        self._call("delete", key, lambda: MemoryZMap.delete(self, key, version=version))

    def search(self, prefix: Prefix) -> Iterator[Entry]:
        yield from self._call("search", prefix, lambda: [*MemoryZMap.search(self, prefix)])

    def _call(self, call: str, key: str, function: Callable[[], T]) -> T:
        self.calls.append((call, key))
        self._pass(call, key, "before")
        try:
            result = function()
        except NoSuchObject:
            self._pass(call, key, "absent")
            raise
        self._pass(call, key, "after")
        return result

    def _pass(self, call: str, key: str, when: str) -> None:
        gate = self._gates.pop((call, key, when), None)
        if gate is not None:
            gate.reached.set()
            assert gate.opened.wait(WAIT_S)
            if gate.error is not None:
                raise gate.error


class Gate:
    """Where a call stops."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.opened = threading.Event()
        self.error: Exception | None = None

    def open(self, error: Exception | None = None) -> None:
        """Let the call go on, or fail."""
        self.error = error
        self.opened.set()
