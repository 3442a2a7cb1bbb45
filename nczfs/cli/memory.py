"""The C library's allocator, configured to return what a mount has freed."""

from __future__ import annotations

import ctypes
import os

_M_ARENA_MAX = -8  # malloc.h


def share_one_heap() -> None:
    """Make all threads allocate from one heap, on glibc. Call it before the first thread starts.

    By default each of dozens of threads has its own heap, and the others cannot use memory that was
    freed there: a daemon then holds twice its budget. Python takes small objects from elsewhere, so
    sharing costs no measurable time.

    Notes
    -----
    See mallopt(3), M_ARENA_MAX. MALLOC_ARENA_MAX in the environment takes precedence.
    """
    if "MALLOC_ARENA_MAX" in os.environ:
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):  # another C library
        return
    mallopt(_M_ARENA_MAX, 1)
