"""Serving a file system at a mount point, from mounting until it is unmounted."""

from __future__ import annotations

import errno
import faulthandler
import gc
import logging
import os
import signal
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import pyfuse3
import trio

from nczfs.errors import NczfsError
from nczfs.fuse import mounting
from nczfs.fuse.guard import Guard
from nczfs.fuse.invalidator import Invalidator
from nczfs.fuse.mounting import MountError
from nczfs.fuse.operations import Operations
from nczfs.fuse.servicemanager import notify_service_manager
from nczfs.fuse.workers import Workers
from nczfs.plaindata import frozen
from nczfs.vfs.base import FileSystem
from nczfs.vfs.ending import Ending

log = logging.getLogger(__name__)

# pyfuse3's default of 99 requests is a cliff: if all of them wait for data, stat waits, too.
_MAX_TASKS = 1000
_MIN_TASKS = 8
_SOON_S = 2.0  # an end that takes longer is explained
_ENDING = (signal.SIGTERM, signal.SIGINT)


@frozen
class MountOptions:
    """Options of mounting a file system.

    Attributes
    ----------
    source : shown in the table of mounts, without secrets.
    request_timeout_s : the time within which every request is answered.
    flush_timeout_s : how long the daemon waits for stores at its end.
    store_timeout_s : how long close, fsync and rename wait: as long as an upload takes. The store
        itself gives up requests without progress.
    negative_ttl_s : for how long the kernel may remember that a name is absent.
    extra : further words for the kernel: ``ro``, ``nosuid``, ``nodev``, ``noexec``, ``noatime``.
    """

    source: str
    allow_other: bool = False
    allow_root: bool = False
    auto_unmount: bool = False
    request_timeout_s: float = 15.0
    flush_timeout_s: float = 60.0
    store_timeout_s: float = 3600.0
    negative_ttl_s: float = 1.0
    extra: frozenset[str] = frozenset()


class Crashed(MountError):
    """The daemon failed, and left the mount dead on purpose.

    With an empty directory in its place, ``rsync --delete`` would consider all files gone.
    """


class _SlowEnd:
    """What is done when the end of a mount takes long.

    The process may be killed then, so unstored writes are saved; and the log says what is waited
    for.
    """

    def __init__(self, fs: FileSystem) -> None:
        self._fs = fs
        self._has_begun = False
        self._over = threading.Event()
        self._lock = threading.Lock()  # held while writes are saved

    def begin(self) -> None:
        """Start the clock, if that has not been done."""
        if not self._has_begun:
            self._has_begun = True
            threading.Thread(target=self._wait, name="nczfs-end", daemon=True).start()

    def end(self) -> None:
        """Stop the clock. The file system may be closed then."""
        self._over.set()
        with self._lock:
            pass

    def _wait(self) -> None:
        if self._over.wait(_SOON_S):
            return
        with self._lock:
            if not self._over.is_set():
                log.info("%s", self._fs.ending_text())
                self._fs.save()


def serve(
    fs: FileSystem,
    mountpoint: str,
    options: MountOptions,
    *,
    invalidator: Invalidator | None = None,
    on_ready: Callable[[], None] | None = None,
    on_end: Callable[[Ending], None] = lambda _: None,
) -> None:
    """Mount `fs` and answer the kernel until it is unmounted or a signal ends it.

    Must run in the main thread, only once at a time in a process: pyfuse3 has one session. SIGTERM
    and SIGINT unmount, SIGHUP refreshes, SIGUSR1 writes all stacks to stderr. Closes `fs`.

    Parameters
    ----------
    mountpoint : an existing directory, checked with `mounting.prepare`, or ``/dev/fd/N``.
    invalidator : whose methods `fs` was given; it is started and stopped here.
    on_ready : called once, on the event loop, when requests are answered.
    on_end : called at the end with what could not be stored.

    Raises
    ------
    MountError : the kernel or libfuse refused the mount.
    Crashed : the mount is dead, and stays visible as such.
    """
    invalidator = invalidator or Invalidator()
    ending = _SlowEnd(fs)
    handlers = {number: signal.getsignal(number) for number in _ENDING}
    try:
        _serve_open(fs, mountpoint, options, invalidator, on_ready or (lambda: None), ending)
    finally:
        ending.begin()
        on_end(_close(fs, options.flush_timeout_s, ending))
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _serve_open(
    fs: FileSystem,
    mountpoint: str,
    options: MountOptions,
    invalidator: Invalidator,
    on_ready: Callable[[], None],
    ending: _SlowEnd,
) -> None:
    logging.getLogger(pyfuse3.__name__).addFilter(_not_late)
    connected = trio.Event()
    workers = Workers(options.request_timeout_s, options.store_timeout_s)
    judges_access = fs.judges_access(shared=options.allow_other or options.allow_root)
    operations = Operations(
        fs, workers, options.negative_ttl_s, connected.set, judges_access=judges_access
    )
    try:
        pyfuse3.init(operations, mountpoint, _words(options, by_modes=not judges_access))
    except RuntimeError as error:
        # libfuse has written its reason to stderr, where pyfuse3 does not look.
        raise MountError(f"{mountpoint}: cannot be mounted ({error})") from error
    clean = False
    guard = Guard()
    try:
        trio.run(_run, fs, mountpoint, connected, invalidator, guard, on_ready, ending)
        clean = True
    except Exception as error:
        log.critical("the daemon ends and leaves a dead mount at %s", mountpoint, exc_info=error)
        raise Crashed(f"{mountpoint}: the daemon failed: {error}") from error
    finally:
        invalidator.stop()
        pyfuse3.close(unmount=clean)
        if clean:
            guard.stop()


async def _run(
    fs: FileSystem,
    mountpoint: str,
    connected: trio.Event,
    invalidator: Invalidator,
    guard: Guard,
    on_ready: Callable[[], None],
    ending: _SlowEnd,
) -> None:
    if not faulthandler.is_enabled():
        faulthandler.enable()
    if hasattr(faulthandler, "register"):
        faulthandler.register(signal.SIGUSR1, all_threads=True, chain=False)
    for number in _ENDING:
        # From the end of this block on signals are ignored: a second one, from an impatient user,
        # would keep writes from being stored. `flush_timeout_s` bounds the time that this takes.
        signal.signal(number, signal.SIG_IGN)
    with trio.open_signal_receiver(*_ENDING, signal.SIGHUP) as signals:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_obey, signals, fs, invalidator, ending)
            nursery.start_soon(_announce, mountpoint, connected, invalidator, guard, on_ready)
            await pyfuse3.main(min_tasks=_MIN_TASKS, max_tasks=_MAX_TASKS)
            nursery.cancel_scope.cancel()


async def _obey(
    signals: AsyncIterator[int], fs: FileSystem, invalidator: Invalidator, ending: _SlowEnd
) -> None:
    async for number in signals:
        log.info("received %s", signal.Signals(number).name, extra={"repeats": ""})
        if number == signal.SIGHUP:
            await trio.to_thread.run_sync(fs.refresh, "", abandon_on_cancel=True)
            continue
        notify_service_manager("STOPPING=1")
        fs.expect_end()
        ending.begin()
        # Before terminate, because invalidating in a closed session would crash.
        await trio.to_thread.run_sync(invalidator.stop)
        pyfuse3.terminate()


async def _announce(
    mountpoint: str,
    connected: trio.Event,
    invalidator: Invalidator,
    guard: Guard,
    on_ready: Callable[[], None],
) -> None:
    await connected.wait()
    invalidator.start()
    if not mounting.is_descriptor(mountpoint):
        guard.start(mountpoint)
        raised = mounting.raise_read_ahead(mountpoint, mounting.READ_AHEAD_KIB)
        log.debug(
            "read-ahead of %dKiB: %s", mounting.READ_AHEAD_KIB, "set" if raised else "not permitted"
        )
    # All objects so far live as long as the mount; the collector need not visit them again.
    gc.collect()
    gc.freeze()
    on_ready()
    notify_service_manager("READY=1")


def _not_late(record: logging.LogRecord) -> bool:
    """Return whether a log line of pyfuse3 matters; one about a withdrawn request does not.

    The last close after a lazy unmount ends the connection before its RELEASE can be answered.
    """
    message = record.getMessage()
    return not ("fuse_reply_" in message and message.endswith(os.strerror(errno.ENOENT)))


def _words(options: MountOptions, *, by_modes: bool) -> set[str]:
    words = set(options.extra) | {"subtype=nczfs"}
    if by_modes:
        words.add("default_permissions")
    # libfuse splits at commas, and pyfuse3 takes ASCII only.
    source = options.source.encode("ascii", "backslashreplace").decode("ascii")
    words.add("fsname=" + source.replace("\\", "\\\\").replace(",", "\\,"))
    for name in ("allow_other", "allow_root", "auto_unmount"):
        if getattr(options, name):
            words.add(name)
    return words


def _close(fs: FileSystem, timeout_s: float, ending: _SlowEnd) -> Ending:
    """Store what was written, and close. A hanging store never keeps the daemon alive."""
    ended = threading.Event()
    failures = []

    def store() -> None:
        try:
            fs.sync()
        except NczfsError as error:
            log.warning("not everything was stored: %s", error)
            failures.append(str(error))
        finally:
            ended.set()

    threading.Thread(target=store, name="nczfs-sync", daemon=True).start()
    if not ended.wait(timeout_s):
        log.error("not everything was stored within %g s", timeout_s)
        failures.append(f"the store did not take it within {timeout_s:g} s")
        fs.save()
    ending.end()
    thread = threading.Thread(target=fs.close, name="nczfs-close", daemon=True)
    thread.start()
    thread.join(timeout_s)
    if thread.is_alive():
        log.error("gave up closing after %g s", timeout_s)
        failures.append(f"the store could not be closed within {timeout_s:g} s")
    left = fs.ending()
    for lost in left.lost:
        log.critical("lost: %s", lost)
    return replace(left, failure="; ".join(failures))
