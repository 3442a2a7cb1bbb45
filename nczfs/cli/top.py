"""``nczfs top``: what a mount reads and writes now, and for which programs."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Mapping
from itertools import count
from typing import TYPE_CHECKING, Any

from nczfs.cli import values
from nczfs.cli.command import Command, CommandLine
from nczfs.cli.mountstatus import Gone, Status, mounted_path, parsed
from nczfs.cli.parser import typed
from nczfs.cli.sizes import table
from nczfs.cli.terminal import say
from nczfs.errors import UsageError
from nczfs.messages import size_text
from nczfs.vfs.unsaved import silence_text, unsaved_text

if TYPE_CHECKING:
    from nczfs.cli.activity import Activity

INTERVAL_S = 2.0
INTERVAL_MIN_S = 0.1
FILES_SHOWN = 20

_HEADER = ("PID", "PROGRAM", "FOR", "POSITION", "MOVES", "FILE")
_NUMBERS = (0, 3, 4)
_CLEAR = "\x1b[H\x1b[J"  # the cursor to the top, and nothing below it


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("mountpoint", metavar="MOUNTPOINT", help="the mounted directory")
    parser.add_argument("--once", action="store_true", help="print one interval, and end")
    parser.add_argument(
        "--interval",
        metavar="TIME",
        type=typed(_interval),
        default=INTERVAL_S,
        help="time between two looks (default: 2s)",
    )
    parser.add_argument("--json", action="store_true", help="print a JSON object for each interval")


def run(request: CommandLine) -> int:
    """Print what happens in each interval, until a signal or the end of the mount."""
    arguments = request.arguments
    path = mounted_path(arguments.mountpoint)
    is_live = sys.stdout.isatty() and not arguments.once and not arguments.json
    for found, status in _intervals(path, arguments.interval):
        if arguments.json:
            print(json.dumps(found.plain(status)))
        else:
            if is_live:
                sys.stdout.write(_CLEAR)
            for line in lines(path, found, status):
                say(line)
            if not is_live and not arguments.once:
                print()
        sys.stdout.flush()
        if arguments.once:
            break
    return 0


def _intervals(path: str, seconds: float) -> Iterator[tuple[Activity, Status]]:
    """Yield what happens in each interval, and the status after it, until the end of the mount.

    Raises
    ------
    StatusError : the mount cannot be looked at, or has ended before the end of the first interval.
    """
    from nczfs.cli.activity import activity, look  # imports the library of metrics

    before = look(path)
    for number in count():
        time.sleep(seconds)
        try:
            after = look(path)
        except Gone:
            if number == 0:
                raise
            return
        yield activity(before, after), parsed(path, after.status)
        before = after


def lines(path: str, found: Activity, status: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is shown of one interval."""
    yield f"{path}: {status['url']}, {status['open_files']} open"
    if silence := silence_text(dict(status)):
        yield f"store: {silence}"
    yield from table(
        [
            (
                "programs",
                f"read {_rate(found.read_bytes)} ({found.reads:.0f}/s)",
                f"write {_rate(found.written_bytes)} ({found.writes:.0f}/s)",
                f"errors {found.errors:.0f}/s",
            ),
            (
                "store",
                f"read {_rate(found.store_read_bytes)}",
                _requests(found.store_requests),
                f"retries {found.store_retries:.0f}/s",
            ),
            (
                "chunks",
                f"decoded {_rate(found.decoded_bytes)} ({found.chunks_decoded:.0f}/s)",
                f"stored {found.chunks_stored:.0f}/s",
                _hits(found),
            ),
        ]
    )
    used, limit, disk = (
        size_text(status[name])
        for name in ("memory_used_bytes", "memory_limit_bytes", "disk_used_bytes")
    )
    yield f"cache     {used} of {limit} in memory, {disk} on disk"
    yield f"unsaved   {unsaved_text(dict(status)) or 'nothing'}"
    if (error := status["last_error"]) is not None:
        yield f"last error: {error}"
    files = sorted(found.files, key=lambda each: -each.rate)
    if files:
        yield ""
        rows = [
            (
                str(each.file.pid),
                each.file.program,
                "writing" if each.file.writes else "reading",
                size_text(each.file.position),
                _rate(each.rate),
                each.file.path,
            )
            for each in files[:FILES_SHOWN]
        ]
        yield from table([_HEADER, *rows], right=_NUMBERS)
        if len(files) > FILES_SHOWN:
            yield f"and {len(files) - FILES_SHOWN} more"


def _rate(bytes_a_second: float) -> str:
    return f"{size_text(round(bytes_a_second))}/s"


def _requests(rates: Mapping[str, float]) -> str:
    parts = [f"{name} {rate:.0f}/s" for name, rate in rates.items() if rate]
    return f"requests: {', '.join(parts) or 'none'}"


def _hits(found: Activity) -> str:
    if found.hit_share is None:
        return "none asked for"
    return f"hits {100 * found.hit_share:.0f}% of {found.chunks_asked:.0f}/s"


def _interval(text: str) -> float:
    seconds = values.deadline(text)
    if seconds < INTERVAL_MIN_S:
        raise UsageError(f"{text!r}: at least {INTERVAL_MIN_S:g}s")
    return seconds


COMMAND = Command(
    "top",
    "show what a mount reads and writes now",
    _arguments,
    run,
    ("nczfs top /mnt/era5", "nczfs top /mnt/era5 --once --interval 10s"),
)
