"""``nczfs status``: how a mount is."""

from __future__ import annotations

import argparse
import errno
import json
import sys
import time
from contextlib import suppress
from pathlib import Path

from nczfs.cli.command import Command, Request
from nczfs.errors import UsageError
from nczfs.fuse import mounting
from nczfs.fuse.mounting import MountError

WAIT_S = 0.2


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("mountpoint", metavar="MOUNTPOINT")
    parser.add_argument("--json", action="store_true", help="as the mount's status.json has it")
    parser.add_argument(
        "--wait",
        action="store_true",
        help="until everything that was written is stored; an error where some of it never will be",
    )


def run(request: Request) -> int:
    """Print the status."""
    path = mounting.resolve(request.arguments.mountpoint)
    entry = mounting.find_mount(path)
    if entry is None or entry.kind != mounting.FILE_SYSTEM_TYPE:
        raise UsageError(
            f"{path}: nczfs is not mounted there (`findmnt -t fuse.nczfs` shows where)"
        )
    document = _read(path)
    if request.arguments.wait and _unsaved(document):
        # Whatever it says: what could not be stored is tried again in the background.
        with suppress(OSError):
            Path(path, ".nczfs/flush").write_text("\n", "utf-8")
        while _unsaved(document := _read(path)):
            time.sleep(WAIT_S)
    status = json.loads(document)
    if request.arguments.json:
        sys.stdout.write(document)
    else:
        for name, value in status.items():
            print(f"{name.replace('_', ' ')}: {_shown(value)}")
    if request.arguments.wait and status["spooled"]:
        raise MountError(
            f"{path}: {status['spooled']} pieces of what was written could not be stored, and are "
            f"in the spool: `nczfs recover --list` shows them"
        )
    return 0


def _read(path: str) -> str:
    try:
        return Path(path, ".nczfs/status.json").read_text("utf-8")
    except OSError as error:
        if error.errno in (errno.ENOTCONN, errno.ECONNABORTED):
            raise MountError(
                f"{path}: the daemon of this mount is dead; `nczfs umount {path}` clears it,"
                " and mounting again does too"
            ) from error
        if error.errno == errno.EACCES:
            raise MountError(
                f"{path}: only the user who mounted it may look; with `-o allow_root` root may too,"
                " with `-o allow_other` everybody"
            ) from error
        raise


def _unsaved(document: str) -> int:
    status = json.loads(document)
    return int(status["unsaved_chunks"]) + int(status["unsaved_files"])


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_shown(item)}" for key, item in value.items())
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "-" if value is None else str(value)


COMMAND = Command(
    "status",
    "show how a mount is doing",
    _arguments,
    run,
    ("nczfs status /mnt/era5 --wait",),
)
