"""The C library's allocator, made to give back what a mount has freed."""

from __future__ import annotations

import ctypes
import os

_M_ARENA_MAX = -8  # malloc.h


def share_one_heap() -> None:
    """Have all threads allocate from one heap. Before the first thread, and where glibc is.

    By default each of dozens of threads gets a heap of its own, and chunks freed there are of no
    use to the others: a daemon then holds twice its budget. Python takes its small objects from
    elsewhere, so that sharing costs no speed that could be measured.

    Notes
    -----
    mallopt(3), M_ARENA_MAX; MALLOC_ARENA_MAX in the environment goes before.
    """
    if "MALLOC_ARENA_MAX" in os.environ:
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):  # another C library
        return
    mallopt(_M_ARENA_MAX, 1)
