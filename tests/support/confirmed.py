"""Writers that note what a mount has confirmed, and say afterwards whether it is there.

Each is used by one thread. What fsync or close said 0 to is *confirmed*; what was begun since may
be there or not, but never in part: an object is one version or the other, an element one value or
the other.
"""

from __future__ import annotations

import errno
import math
import os
import random
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

from tests.support.sample import Values

TRY_AGAIN = {errno.EAGAIN, errno.ETIMEDOUT}


class Writer(ABC):
    """Writes until it is told to stop, or cannot."""

    def __init__(self) -> None:
        self.turns = 0
        self.error: OSError | None = None
        self.confirmed_something = threading.Event()

    def run(self, stop: threading.Event, turns: float = math.inf) -> None:
        """Take one turn after the other; the error that ends it is kept."""
        try:
            with self.opened():
                while not stop.is_set() and self.turns < turns:
                    self.turn()
                    self.turns += 1
        except OSError as error:
            self.error = error

    @contextmanager
    def opened(self) -> Iterator[None]:
        """What is open during all turns; closed like any other file that was written."""
        yield

    @abstractmethod
    def turn(self) -> None:
        """Write something, and perhaps have it confirmed."""


class ObjectWriter(Writer):
    """Writes one version of an object after the other.

    It replaces it at once, or in two halves of one open file with an fsync between, or as editors
    do, under another name that is renamed.

    Attributes
    ----------
    confirmed : the number of the last version that was; 0: none.
    begun : that of the last one of which something was written.
    """

    def __init__(self, path: Path, seed: int, size_max: int = 60_000) -> None:
        super().__init__()
        self.path = path
        self.confirmed = self.begun = 0
        self._size_max = size_max
        self._seed = seed
        self._random = random.Random(seed)

    def turn(self) -> None:
        self._random.choice((self._replace, self._sync_twice, self._rename))()

    def content(self, version: int) -> bytes:
        """What the object holds in a version."""
        source = random.Random(f"{self._seed} {version}")
        return b"%d\n" % version + source.randbytes(source.randrange(self._size_max))

    def check(self, stored: bytes | None) -> int:
        """The version that is stored; fails when it is torn, or older than the confirmed one."""
        if stored is None:
            assert self.confirmed == 0, f"{self.path.name}: version {self.confirmed} is lost"
            return 0
        version = int(stored.partition(b"\n")[0])
        assert self.confirmed <= version <= self.begun, self.path.name
        assert stored == self.content(version), f"{self.path.name}: version {version} is torn"
        return version

    def went_on_from(self, version: int) -> None:
        """Take a version that was found for confirmed: what follows is newer."""
        self.confirmed = self.begun = version

    def _replace(self) -> None:
        with _fd(self.path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as fd:
            self._write(fd)
        self._confirm()

    def _sync_twice(self) -> None:
        with _fd(self.path, os.O_RDWR | os.O_CREAT) as fd:
            for _ in range(2):
                os.ftruncate(fd, self._write(fd))
                os.fsync(fd)
                self._confirm()

    def _rename(self) -> None:
        new = self.path.with_name(f".{self.path.name}.new")
        with _fd(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as fd:
            self._write(fd)
        os.rename(new, self.path)
        self._confirm()

    def _write(self, fd: int) -> int:
        self.begun += 1
        data = self.content(self.begun)
        for start in range(0, len(data), 20_000):
            os.pwrite(fd, data[start : start + 20_000], start)
        return len(data)

    def _confirm(self) -> None:
        self.confirmed = self.begun
        self.confirmed_something.set()


class ElementWriter(Writer):
    """Writes runs of elements of a ``values.raw`` of doubles, each turn another number.

    Its own are each `count`-th block of `block` elements, from the one with the number `number` on;
    it never touches any other element.

    Parameters
    ----------
    patience_s : while others write the dataset (EAGAIN), or the time of the request was over
        just after they had written (ETIMEDOUT), it tries so long to open the file.

    Attributes
    ----------
    confirmed : all elements, as they were when the mount confirmed them last.
    refused : how often it met EAGAIN.
    """

    def __init__(
        self,
        path: Path,
        values: Values,
        seed: int,
        *,
        number: int = 0,
        count: int = 1,
        block: int,
        patience_s: float = 0,
    ) -> None:
        super().__init__()
        self.path = path
        self.confirmed = np.array(values).reshape(-1)
        self.number = self.refused = 0
        blocks = np.arange(self.confirmed.size) // block % count
        self.own = blocks == number
        self._starts = range(number * block, self.confirmed.size, count * block)
        self._block = block
        self._latest = self.confirmed.copy()
        self._since: list[tuple[slice, float]] = []
        self._random = random.Random(seed)
        self._patience_s = patience_s
        self._fd = -1

    @contextmanager
    def opened(self) -> Iterator[None]:
        self._fd = self._open()
        try:
            yield
        except BaseException:
            with suppress(OSError):
                self._close()
            raise
        self._close()
        self._confirm()

    def turn(self) -> None:
        for _ in range(self._random.randrange(1, 8)):
            self._write()
        match self._random.randrange(4):
            case 0:
                os.fsync(self._fd)
                self._confirm()
            case 1:
                self._close()
                self._confirm()
                self._fd = self._open()

    def check(self, stored: Values) -> None:
        """Fail when any of its own elements is neither confirmed nor written since."""
        found = stored.reshape(-1)
        good = found == self.confirmed
        for where, value in self._since:
            good[where] |= found[where] == value
        lost = np.flatnonzero(self.own & ~good)
        assert not lost.size, (
            f"{self.path.parent.name}: elements {lost[:9]} of {lost.size} are {found[lost[:9]]}, "
            f"and {self.confirmed[lost[:9]]} was confirmed"
        )

    def went_on_from(self, stored: Values) -> None:
        """Take elements that were found for confirmed."""
        self.confirmed = np.array(stored).reshape(-1)
        self._latest, self._since = self.confirmed.copy(), []

    def _write(self) -> None:
        block = self._random.choice(self._starts)
        end = min(block + self._block, self._latest.size)
        start = self._random.randrange(block, end)
        stop = self._random.randrange(start, end) + 1
        self.number += 1
        value = float(self.number)
        self._since.append((slice(start, stop), value))
        self._latest[start:stop] = value
        os.pwrite(self._fd, self._latest[start:stop].tobytes(), start * self._latest.itemsize)

    def _open(self) -> int:
        give_up = time.monotonic() + self._patience_s
        while True:
            try:
                return os.open(self.path, os.O_RDWR)
            except OSError as error:
                if error.errno not in TRY_AGAIN or time.monotonic() >= give_up:
                    raise
                self.refused += error.errno == errno.EAGAIN

    def _close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def _confirm(self) -> None:
        self.confirmed = self._latest.copy()
        self._since = []
        self.confirmed_something.set()


class AttributeWriter(Writer):
    """Writes one attribute over and over, each time another number."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.confirmed = self.begun = 0

    def turn(self) -> None:
        self.begun += 1
        with _fd(self.path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as fd:
            os.write(fd, b"%d\n" % self.begun)
        self.confirmed = self.begun
        self.confirmed_something.set()

    def check(self, stored: int) -> None:
        """Fail when it is neither what was confirmed nor what was written since."""
        assert self.confirmed <= stored <= self.begun, (self.path.name, self.confirmed, self.begun)

    def went_on_from(self, stored: int) -> None:
        """Take a number that was found for confirmed."""
        self.confirmed = self.begun = stored


@contextmanager
def working_until_they_fail(writers: Sequence[Writer]) -> Iterator[None]:
    """Writers, each in a thread; at the end every one has met an error, or is told to stop."""
    stop = threading.Event()
    threads = [threading.Thread(target=writer.run, args=(stop,)) for writer in writers]
    for thread in threads:
        thread.start()
    try:
        yield
    except BaseException:
        stop.set()
        raise
    finally:
        for thread in threads:
            thread.join()


def take_turns(writers: Sequence[Writer], turns: int) -> None:
    """So many turns of each writer, all at the same time; none may fail."""
    with ThreadPoolExecutor(len(writers)) as threads:
        list(threads.map(lambda writer: writer.run(threading.Event(), turns), writers))
    for writer in writers:
        if writer.error is not None:
            raise writer.error
        assert writer.turns == turns


@contextmanager
def _fd(path: Path, flags: int) -> Iterator[int]:
    """An open file; its close is like any other call that confirms."""
    fd = os.open(path, flags, 0o644)
    try:
        yield fd
    except BaseException:
        with suppress(OSError):
            os.close(fd)
        raise
    os.close(fd)
