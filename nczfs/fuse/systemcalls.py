"""System calls of mounting that Python does not have (os.unshare comes with Python 3.12)."""

from __future__ import annotations

import ctypes
import os
import struct

NEW_MOUNTS, NEW_USERS = 0x20000, 0x10000000  # CLONE_NEWNS, CLONE_NEWUSER
_CAPABILITY_VERSION_3 = 0x20080522
_MS_REC, _MS_SLAVE, _MNT_DETACH = 0x4000, 0x80000, 2

_libc = ctypes.CDLL(None, use_errno=True)


def unshare(flags: int) -> None:
    """Move this process, which has one thread, into new namespaces. Raises OSError."""
    _done(_libc.unshare(flags))


def receive_mounts() -> None:
    """Let mounts of the outer mount namespace show in this one, and not the other way round."""
    _done(_libc.mount(b"none", b"/", None, ctypes.c_ulong(_MS_REC | _MS_SLAVE), None))


def keep_capability(number: int) -> None:
    """Give up all capabilities but one, such as that of reading whatever the user owns."""
    header = struct.pack("Ii", _CAPABILITY_VERSION_3, 0)
    # capset(2): effective, permitted and inheritable ones, 32 at a time.
    kept = 1 << number
    _done(_libc.capset(header, struct.pack("6I", kept, kept, 0, 0, 0, 0)))


def unmount(path: str, *, lazy: bool = False) -> None:
    """Unmount, which needs CAP_SYS_ADMIN. Raises OSError."""
    _done(_libc.umount2(os.fsencode(path), _MNT_DETACH if lazy else 0))


def _done(result: int) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
