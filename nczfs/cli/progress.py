"""The progress bar of long commands on a terminal, which also checks for signals."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from nczfs.cli import interrupts

if TYPE_CHECKING:
    from tqdm import tqdm

TICK_S = 0.5


class Bar:
    """A bar. Calling it advances it, and raises `interrupts.Ended` when a signal has come."""

    def __init__(self, bar: tqdm) -> None:
        self._bar = bar

    def __call__(self, count: float) -> None:
        interrupts.check()
        self._bar.update(count)

    @property
    def is_shown(self) -> bool:
        """Whether anybody sees it."""
        return not self._bar.disable

    def expect(self, total: float) -> None:
        """Set the total, which was unknown."""
        self._bar.total = total
        self._bar.refresh()


@contextmanager
def progress_bar(total: float | None, unit: str) -> Iterator[Bar]:
    """Show a bar with speed and time left on stderr, if that is a terminal.

    It is redrawn every half second, even without progress, so that its clock shows that the command
    is alive.

    Parameters
    ----------
    total : None: unknown.
    unit : "B" for bytes, or a noun with a blank before it.
    """
    from tqdm import tqdm

    is_bytes = unit == "B"
    with (
        tqdm(
            total=total,
            unit="iB" if is_bytes else unit,
            unit_divisor=1024 if is_bytes else 1000,
            unit_scale=True,
            disable=None,
            leave=False,
        ) as bar,
        _ticking(bar),
    ):
        yield Bar(bar)


def tell(line: str) -> None:
    """Print a line for the user on stderr, beside the bar."""
    from tqdm import tqdm

    tqdm.write(f"nczfs: {line}", file=sys.stderr)


@contextmanager
def _ticking(bar: tqdm) -> Iterator[None]:
    if bar.disable:
        yield
        return
    over = threading.Event()

    def tick() -> None:
        while not over.wait(TICK_S):
            bar.refresh()

    thread = threading.Thread(target=tick, name="nczfs-bar", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
