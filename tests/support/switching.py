"""Two threads that take turns after every few instructions."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable

SWITCH_S = 1e-6


def run_beside(function: Callable[[], object], other: Callable[[], object], times: int) -> None:
    """Call a function some times, while another thread keeps calling the other one."""
    ended = threading.Event()

    def repeat() -> None:
        while not ended.is_set():
            other()

    thread = threading.Thread(target=repeat)
    usual_s = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_S)
    try:
        thread.start()
        for _ in range(times):
            function()
    finally:
        sys.setswitchinterval(usual_s)
        ended.set()
        thread.join()
