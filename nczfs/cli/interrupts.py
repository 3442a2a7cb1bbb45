"""SIGINT and SIGTERM: a command ends within two seconds of the first, with status 130 or 143.

Three facts, each in one place: which signal came (`_Watch.signum`, set by a thread that reads the
pipe into which the process's signal handler writes, whatever the main thread is busy with), whether
the main thread may be stopped anywhere or only where it asks (`_Watch.deferrals`), and what is
still to be printed or removed when the process has to be ended from outside (its elements).

By default the main thread gets an exception at once. Some code loses it: netCDF4-python swallows
exceptions that are raised while it reads, and Python prints those that are raised in a callback,
as when a module has been imported. So code that works block by block calls `check` after each
block. Where half-made work is removed, an exception at any point could hit the removal itself:
there `deferred` makes the signal wait for the next `check`. After `LIMIT_S`, or at the second
signal, the process is ended on the spot, as by kill -9, which everything that nczfs writes
survives.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

LIMIT_S = 1.5
"""Time from the first signal to the end of the process, cleaning up included."""

_LONG_S = 3600.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Ended(KeyboardInterrupt):
    """A signal has ended the command. `status` is what the process exits with."""

    def __init__(self, signum: int) -> None:
        super().__init__(signum)
        self.status = 128 + signum


@contextmanager
def handled() -> Iterator[None]:
    """Let the two signals end the command during the block. Does nothing outside the main thread.

    A signal that is ignored when the block begins (nohup, a shell's background job) stays ignored.

    Raises
    ------
    Ended : a signal came; whatever else was raised because of it is its cause.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with _watching() as watch:
        try:
            yield
        except BrokenPipeError:
            raise
        except Exception as error:
            if watch.signum is None:
                raise
            raise Ended(watch.signum) from error
        finally:
            if watch.signum is not None:
                # Flush here, not when the interpreter ends, where a full pipe would block for ever.
                with suppress(OSError, ValueError):
                    sys.stdout.flush()


def check() -> None:
    """Raise Ended if a signal has come."""
    if _watch is not None:
        _watch.check()


@contextmanager
def deferred(at_forced_end: Callable[[], object]) -> Iterator[None]:
    """Make signals wait for the next `check` while the block runs.

    Parameters
    ----------
    at_forced_end : called in another thread when the block did not end in time, before the process
        is ended. It has to be quick and must not use a store.
    """
    if _watch is None:
        yield
        return
    check()
    _watch.deferrals.append(at_forced_end)
    try:
        yield
    finally:
        _watch.deferrals.pop()


class _Watch:
    """The signal that came, and the thread that ends the process when nothing else does.

    Attributes
    ----------
    signum : of the first signal; None: none came.
    deferrals : those of the open `deferred` blocks, the inner ones last.
    """

    def __init__(self, pipe: int) -> None:
        self.signum: int | None = None
        self.deferrals: list[Callable[[], object]] = []
        self._is_raised = False
        self._is_over = threading.Event()
        self._pipe = pipe
        self._thread = threading.Thread(target=self._run, name="nczfs-signals", daemon=True)
        self._thread.start()

    def hear(self, signum: int, _frame: FrameType | None) -> None:
        """Handle a signal in the main thread, when that next runs Python code."""
        if self.signum is None:
            self.signum = signum
        if not self.deferrals and not self._is_raised:
            self._is_raised = True
            raise Ended(self.signum)

    def check(self) -> None:
        """Raise Ended if a signal has come; the handler does not raise it again."""
        if self.signum is not None:
            self._is_raised = True
            raise Ended(self.signum)

    def end(self, writer: int) -> None:
        """Stop the thread, so that it ends no process from now on.

        Parameters
        ----------
        writer : the other end of the pipe, which is closed.
        """
        self._is_over.set()
        os.close(writer)
        self._thread.join()

    def _run(self) -> None:
        first = None
        while first is None and not self._is_over.is_set():
            first = self._next_signal(_LONG_S)
        if first is not None:
            if self.signum is None:
                self.signum = first
            give_up = time.monotonic() + LIMIT_S
            self._wake_main_thread(first)
            for _ in range(2):  # the one that was just sent, and then another one from outside
                self._next_signal(give_up - time.monotonic())
            if not self._is_over.is_set():
                self._end_process(self.signum)
        os.close(self._pipe)

    def _wake_main_thread(self, signum: int) -> None:
        """Let the main thread call `hear`; the kernel may have interrupted any thread."""
        main = threading.main_thread().ident
        if main is not None and not self._is_over.is_set():
            signal.pthread_kill(main, signum)

    def _next_signal(self, limit_s: float) -> int | None:
        """Return the next signal; None: the time is over, or the block has ended."""
        give_up = time.monotonic() + limit_s
        while select.select([self._pipe], [], [], max(0.0, give_up - time.monotonic()))[0]:
            data = os.read(self._pipe, 1)
            if not data:
                return None
            if data[0] in _SIGNALS:
                return data[0]
        return None

    def _end_process(self, signum: int) -> None:
        for at_forced_end in reversed(self.deferrals):
            with suppress(Exception):
                at_forced_end()
        os._exit(128 + signum)


_watch: _Watch | None = None


@contextmanager
def _watching() -> Iterator[_Watch]:
    global _watch
    before = _watch
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    watch = _watch = _Watch(reader)
    fd_before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    print_before = sys.unraisablehook

    def print_lost(lost: sys.UnraisableHookArgs) -> None:
        if not isinstance(lost.exc_value, Ended):
            print_before(lost)

    sys.unraisablehook = print_lost
    handlers = {s: signal.getsignal(s) for s in _SIGNALS}
    for signum, handler in handlers.items():
        if handler is not signal.SIG_IGN:
            signal.signal(signum, watch.hear)
    try:
        yield watch
    finally:
        signal.set_wakeup_fd(fd_before)
        watch.end(writer)  # which sends no signal from then on
        for signum, handler in handlers.items():
            signal.signal(signum, handler)
        sys.unraisablehook = print_before
        _watch = before
