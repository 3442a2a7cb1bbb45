"""The progress bar of long commands on a terminal, which also checks for signals."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from nczfs.cli import interrupts

if TYPE_CHECKING:
    from tqdm import tqdm

TICK_S = 0.5


@contextmanager
def progress_bar(total: float | None, unit: str) -> Iterator[Callable[[float], None]]:
    """Show a bar with speed and time left on stderr, if that is a terminal.

    It is redrawn every half second, even without progress, so that its clock shows that the command
    is alive.

    Parameters
    ----------
    total : None: unknown.
    unit : "B" for bytes, or a noun with a blank before it.

    Yields
    ------
    a function that takes the progress since its last call. It raises `interrupts.Ended` when a
    signal has come.
    """
    from tqdm import tqdm

    is_bytes = unit == "B"
    with tqdm(
        total=total,
        unit="iB" if is_bytes else unit,
        unit_divisor=1024 if is_bytes else 1000,
        unit_scale=True,
        disable=None,
        leave=False,
    ) as bar:

        def advance(count: float) -> None:
            interrupts.check()
            bar.update(count)

        with _ticking(bar):
            yield advance


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
