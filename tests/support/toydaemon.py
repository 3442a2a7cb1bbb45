"""Mounts a toy file system: ``python -m tests.support.toydaemon SCENARIO MOUNTPOINT``."""

from __future__ import annotations

import errno
import logging
import os
import sys
import threading
import time
from collections.abc import Callable

import pyfuse3

from nczfs.errors import CorruptChunk, NoSpace, StaleHandle
from nczfs.fuse.daemon import MountOptions, serve
from nczfs.fuse.invalidator import Invalidator
from nczfs.fuse.mounting import prepare
from nczfs.testing.filesystem import ToyFileSystem
from nczfs.vfs.base import ROOT_INODE, InodeNo

invalidator = Invalidator()

BIG = bytes(range(256)) * (16 << 12)  # 16 MiB


def plain() -> ToyFileSystem:
    fs = ToyFileSystem()
    fs.add("directory/hello", b"hello\n")
    fs.add("empty")
    fs.add("big", BIG)
    return fs


def uncached() -> ToyFileSystem:
    fs = ToyFileSystem(cached=False)
    fs.add("directory/hello", b"hello\n")
    fs.add("big", BIG)
    return fs


def failing() -> ToyFileSystem:
    """The name of a file says what happens when it is opened or read."""
    errors: dict[bytes, Exception] = {
        b"bug": ZeroDivisionError("a bug"),
        b"corrupt": CorruptChunk("t2m/0.0.0: checksum"),
        b"stale": StaleHandle("t2m"),
        b"nospace": NoSpace("store"),
        b"oserror": OSError(errno.EDOM, "from a library"),
        b"fuse": pyfuse3.FUSEError(errno.EDOM),
        b"memory": MemoryError(),
    }
    names: dict[object, bytes] = {}

    def before(operation: str, what: object) -> None:
        if operation == "open" and names.get(what) in errors:
            raise errors[names[what]]
        if operation == "lookup" and what == b"broken":
            raise ZeroDivisionError("in lookup")
        if operation == "forget" and "bug" in os.environ.get("TOY_FORGET", ""):
            raise ZeroDivisionError("in forget")

    fs = ToyFileSystem(before, cached=False)
    for name in errors:
        names[fs.add(os.fsdecode(name), b"x")] = name
    fs.add("sound", b"sound\n")
    return fs


def gated() -> ToyFileSystem:
    """A read is answered after a refresh."""
    opened = threading.Event()

    def before(operation: str, what: object) -> None:
        if operation == "refresh":
            opened.set()
        if operation == "read":
            print("READING", flush=True)
            opened.wait()

    fs = ToyFileSystem(before, cached=False)
    fs.add("content", b"content")
    return fs


def slow() -> ToyFileSystem:
    """Everything about the file ``slow`` takes longer than a request may."""
    inodes: set[object] = set()

    def before(operation: str, what: object) -> None:
        if operation == "read" or (operation == "open" and what in inodes):
            time.sleep(2.5)
        if operation == "lookup" and what == b"slow-name":
            time.sleep(2.5)

    fs = ToyFileSystem(before, cached=False)
    fs.add("content", b"content")
    fs.add("directory/slow-name", b"x")
    inodes.add(fs.add("slow", b"slow"))
    return fs


def listing() -> ToyFileSystem:
    """A refresh makes the kernel forget all names."""

    def before(operation: str, what: object) -> None:
        if operation == "refresh":
            invalidator.invalidate_entry(ROOT_INODE, b"many")

    fs = ToyFileSystem(before)
    for number in range(100_000):
        fs.add(f"many/file-{number:06}", b"x" * (number % 7))
    return fs


def broken_listing() -> ToyFileSystem:
    """A listing that fails in its middle."""

    def before(operation: str, what: object) -> None:
        if operation == "readdir_entry" and what == b"file-1500":
            raise CorruptChunk("page 2 of the listing")

    fs = ToyFileSystem(before)
    for number in range(3000):
        fs.add(f"many/file-{number:04}")
    return fs


def stuck() -> ToyFileSystem:
    """A read that is not answered, of pages that the kernel shall forget."""
    inodes: list[InodeNo] = []

    def before(operation: str, what: object) -> None:
        if operation == "read":
            invalidator.invalidate_inode(inodes[0])
            time.sleep(60)

    fs = ToyFileSystem(before, cached=False)
    inodes.append(fs.add("file", b"x"))
    return fs


def crash() -> ToyFileSystem:
    """Looking up ``crash`` ends the event loop by what no handler may catch."""

    def before(operation: str, what: object) -> None:
        if operation == "lookup_if_cached" and what == b"crash":
            raise SystemExit(7)

    fs = ToyFileSystem(before)
    fs.add("hello", b"hello\n")
    return fs


SCENARIOS: dict[str, Callable[[], ToyFileSystem]] = {
    function.__name__: function
    for function in (plain, uncached, failing, gated, slow, listing, broken_listing, stuck, crash)
}


def report(fs: ToyFileSystem) -> None:
    """Print what tests want to know of the inside, whenever it changes."""
    last = ""
    while True:
        lookups = sum(fs.lookups.values())
        now = f"STATE handles={fs.open_handles} lookups={lookups} refreshed={fs.refreshed}"
        if now != last:
            print(now, flush=True)
            last = now
        time.sleep(0.02)


def main(scenario: str, mountpoint: str) -> None:
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)
    fs = SCENARIOS[scenario]()
    threading.Thread(target=report, args=(fs,), daemon=True).start()
    close = fs.close

    def close_and_say() -> None:
        close()
        print("CLOSED", flush=True)

    fs.close = close_and_say  # type: ignore[method-assign]  # later, a signal may end Python
    options = MountOptions(
        source="toy, with a comma",
        request_timeout_s={"slow": 1.0, "gated": 600.0}.get(scenario, 15.0),
        negative_ttl_s=60.0,
        extra=frozenset(os.environ.get("TOY_WORDS", "").split()),
    )
    path = prepare(mountpoint, allow_other=False)
    serve(
        fs,
        path,
        options,
        invalidator=invalidator,
        on_ready=lambda: print("READY", flush=True),
    )


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
