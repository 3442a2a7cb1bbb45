"""``nczfs status``: how mounts are doing."""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from nczfs.cli.command import Command, CommandLine
from nczfs.cli.mountstatus import Status, StatusError, mounted_path, parsed, read_status
from nczfs.cli.sizes import table
from nczfs.cli.terminal import complain, say, write_bytes
from nczfs.errors import UsageError
from nczfs.fuse import mounting
from nczfs.fuse.mounting import MountError
from nczfs.messages import counted, size_text
from nczfs.vfs.unsaved import silence_text, unsaved_text

WAIT_S = 0.2
GLANCE_S = 3.0  # for each mount of a list
NEWS_S = 1.0  # at most one line in this time
QUIET_S = 10.0  # the longest silence on a terminal

_HEADER = ("MOUNTPOINT", "STORE", "SINCE", "UNSAVED", "IN SPOOL")


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "mountpoint",
        metavar="MOUNTPOINT",
        nargs="?",
        help="the mounted directory (default: list all mounts)",
    )
    parser.add_argument("--json", action="store_true", help="print status.json")
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="also print what the store can do"
    )
    parser.add_argument(
        "--wait",
        action="store_true",
        help="wait until all writes are stored; fail if some cannot be",
    )


def run(request: CommandLine) -> int:
    """Print the status of one mount, or a line for each mount."""
    arguments = request.arguments
    if arguments.mountpoint is not None:
        return _one(arguments)
    if arguments.wait:
        raise UsageError("--wait needs a MOUNTPOINT")
    mounts = [_looked_at(entry) for entry in _mounts()]
    if arguments.json:
        json.dump(mounts, sys.stdout, indent=2)
        print()
    elif not mounts:
        print("no nczfs mounts")
    else:
        for line in table([_HEADER, *map(_cells, mounts)]):
            say(line)
    return 0


def _one(arguments: argparse.Namespace) -> int:
    path = mounted_path(arguments.mountpoint)
    document = read_status(path)
    if arguments.json and not arguments.wait:
        write_bytes(document, keep="\n")  # also of another version of nczfs
        return 0
    status = parsed(path, document)
    if arguments.wait and _unsaved(status):
        # The answer does not matter: the daemon tries again in the background.
        threading.Thread(target=_flush, args=(path,), daemon=True).start()
        waiting = Waiting(path, is_terminal=sys.stderr.isatty())
        while _unsaved(status := parsed(path, document := read_status(path))):
            waiting.look(status, time.monotonic())
            time.sleep(WAIT_S)
    if arguments.json:
        write_bytes(document, keep="\n")
    else:
        for line in status_lines(path, status, verbose=arguments.verbose):
            say(line)
    if arguments.wait and status["spooled"]:
        raise MountError(
            f"{path}: {counted(status['spooled'], 'piece')} could not be stored; "
            f"`nczfs recover --list` shows what is in the spool"
        )
    return 0


def _flush(path: str) -> None:
    with suppress(OSError):
        Path(path, ".nczfs/flush").write_text("\n", "utf-8")


class Waiting:
    """What is printed on stderr while something is not stored.

    A line whenever that changes, and on a terminal at least every ten seconds.
    """

    def __init__(self, path: str, *, is_terminal: bool) -> None:
        self._path = path
        self._is_terminal = is_terminal
        self._shown: tuple[str, str | None] | None = None
        self._shown_at = 0.0

    def look(self, status: Status, now: float) -> None:
        """Print a line about a status if it is time for one."""
        news = unsaved_text(status), status["last_error"]
        age_s = now - self._shown_at
        is_news = news != self._shown and (self._shown is None or age_s >= NEWS_S)
        if is_news or (self._is_terminal and age_s >= QUIET_S):
            self._shown, self._shown_at = news, now
            complain("nczfs", f"{self._path}: waiting for {waiting_text(status)}")


def waiting_text(status: Status) -> str:
    """Return what is not stored yet, and what is being done about it."""
    text = unsaved_text(status)
    if (error := status["last_error"]) is None:
        return text
    pause_s = status["next_attempt_s"]
    when = "under way"
    if pause_s is None:
        when = "when a program closes or syncs the file"
    elif pause_s:
        when = f"in {pause_s:.0f} s"
    return f"{text}; next attempt {when}, the last one failed: {error}"


def status_lines(path: str, status: Status, *, verbose: bool) -> Iterator[str]:
    """Return what matters first: the place, what is not stored, and what the spool holds."""
    yield f"{path}: {status['url']}{' (read-only)' if status['read_only'] else ''}"
    if silence := silence_text(status):
        yield f"store: {silence}"
    yield f"unsaved: {unsaved_text(status) or 'nothing'}"
    if (error := status["last_error"]) is not None:
        yield f"last error: {error}"
    kept = "nothing"
    if status["spooled"]:
        kept = (
            f"{counted(status['spooled'], 'piece')} that could not be stored; "
            "`nczfs recover --list` shows them"
        )
    yield f"in the spool: {kept}"
    if used := status["spool_used_bytes"]:
        yield f"spool: {size_text(used)} in {status['spool']}"
    for each in status["imports"]:
        yield f"import: {each['file']}: {each['percent']:.0f} %"
    since = datetime.fromtimestamp(status["started"]).astimezone()
    yield f"mounted since: {since:%Y-%m-%d %H:%M:%S %Z} (process {status['pid']})"
    for lease in status["leases"]:
        until = datetime.fromtimestamp(lease["expiry"]).astimezone()
        yield f"lease of {lease['dataset']}: held until {until:%H:%M:%S}"
    memory, limit, disk = (
        size_text(status[name])
        for name in ("memory_used_bytes", "memory_limit_bytes", "disk_used_bytes")
    )
    yield f"cache: {memory} of {limit} in memory, {disk} on disk"
    yield f"open files: {status['open_files']}"
    if verbose:
        yield f"store: {status['store']}"
        yield f"inodes: {status['inodes']}"
        yield f"keys that cannot be file names: {status['hidden_keys']:g}"
        for name, value in status["features"].items():
            yield f"{name.replace('_', ' ')}: {'yes' if value else 'no'}"


def _mounts() -> list[mounting.MountEntry]:
    """Return the mounts of nczfs that no other mount hides."""
    topmost = {entry.mountpoint: entry for entry in mounting.mount_table()}
    return [e for e in topmost.values() if e.kind == mounting.FILE_SYSTEM_TYPE]


def _looked_at(entry: mounting.MountEntry) -> Status:
    """Return the status of a mount, or why it is unknown. Never waits for a daemon that hangs."""
    path = entry.mountpoint
    found: Status = {"url": entry.source, "mountpoint": path}
    try:
        return {**found, **parsed(path, read_status(path, GLANCE_S)), "state": "mounted"}
    except StatusError as error:
        return {**found, "state": error.state}


def _cells(status: Status) -> tuple[str, ...]:
    if status["state"] != "mounted":
        return status["mountpoint"], status["url"], status["state"], "?", "?"
    since = datetime.fromtimestamp(status["started"])
    silence = silence_text(status)
    return (
        status["mountpoint"],
        f"{status['url']} ({silence})" if silence else status["url"],
        f"{since:%Y-%m-%d %H:%M}",
        unsaved_text(status) or "-",
        str(status["spooled"] or "-"),
    )


def _unsaved(status: Status) -> int:
    return sum(int(status[f"unsaved_{what}"]) for what in ("chunks", "files", "metadata"))


COMMAND = Command(
    "status",
    "show how a mount is doing, or list all mounts",
    _arguments,
    run,
    ("nczfs status", "nczfs status /mnt/era5 --wait"),
)
