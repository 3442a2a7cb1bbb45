"""The end of a process that runs a command line."""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn


def run(main: Callable[[], int]) -> NoReturn:
    """Call `main`, and end the process with the exit status that it returns.

    A thread that comes back from foreign code to an interpreter that ends is unwound by
    ``pthread_exit``, which code in Rust or C++ does not survive: the process aborts, whatever its
    work came to (https://github.com/python/cpython/issues/87135). Daemon threads can be anywhere,
    in a decoder or in an import. So the interpreter does not end under them: when some are left,
    the process ends after the functions of `atexit` that were registered since this call.
    """
    status: int | None = None

    def leave() -> None:
        if status is None or not any(thread.daemon for thread in threading.enumerate()):
            return
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError, AttributeError):
                stream.flush()
        logging.shutdown()
        os._exit(status)

    atexit.register(leave)
    status = main()
    sys.exit(status)
