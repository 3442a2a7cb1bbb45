"""Mounts, and lets another program serve the mount: ``python -m tests.support.mounter DIR CMD...``.

As container engines and ``apptainer --fusemount`` do: the program gets an open /dev/fuse, whose
name /dev/fd/N is added to its words. The mount ends with the program.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys

from nczfs.fuse import systemcalls


def main(directory: str, *command: str) -> int:
    """Mount on a directory, run a program, and return its exit status."""
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()}"
    libc = ctypes.CDLL(None, use_errno=True)
    mounted = libc.mount(b"nczfs", os.fsencode(directory), b"fuse.nczfs", 0, options.encode())
    if mounted != 0:
        raise OSError(ctypes.get_errno(), "mount", directory)
    try:
        words = [*command, f"/dev/fd/{device}"]
        return subprocess.run(words, pass_fds=[device], check=False).returncode
    finally:
        systemcalls.unmount(directory, lazy=True)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
