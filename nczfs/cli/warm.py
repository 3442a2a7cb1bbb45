"""``nczfs warm``: has a mount load chunks into its cache before programs need them."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator
from typing import Any

from nczfs.cli import logs
from nczfs.cli.command import STORE_SCOPES, Command, CommandLine
from nczfs.cli.mounted_node import mounted_node
from nczfs.cli.progress import progress_bar
from nczfs.cli.terminal import complain, say
from nczfs.errors import UsageError
from nczfs.library.boxes import BOX_HELP, selection
from nczfs.messages import size_text

READ_BYTES = 64 << 10


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "url",
        metavar="URL",
        help="of something that is mounted, or its path in the mount",
    )
    parser.add_argument("-b", "--box", metavar="BOX", help=BOX_HELP)


def run(request: CommandLine) -> int:
    """Have the mount load chunks. Returns 1 if it does not have them all afterwards."""
    arguments = request.arguments
    if arguments.box is not None:
        selection(arguments.box)
    logs.configure_command(request.settings)
    node = mounted_node(arguments.url, request.settings)
    wanted = {"path": node.path, "box": arguments.box}
    found: dict[str, Any] = {}
    with progress_bar(None, " chunks") as progress:
        before = 0
        for found in _answers(f"{node.mountpoint}/.nczfs/warm", wanted):
            if found["of"]:
                progress.expect(found["of"])
            progress(found["chunks"] - before)
            before = found["chunks"]
    return _printed(found)


def _answers(file: str, wanted: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield how far the mount is, until it has ended. It stops when the file is closed.

    Raises
    ------
    UsageError : the mount cannot do it. OSError.
    """
    try:
        descriptor = os.open(file, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        raise UsageError(f"{file}: the mount is one of an older version; mount anew") from None
    try:
        os.write(descriptor, json.dumps(wanted).encode() + b"\n")
        text = b""
        while data := os.read(descriptor, READ_BYTES):
            *lines, text = (text + data).split(b"\n")
            yield from map(json.loads, lines)
    finally:
        os.close(descriptor)


def _printed(found: dict[str, Any]) -> int:
    """Print what came of it. Returns the status."""
    if found.get("kept") is None:
        complain("nczfs", found.get("problem") or "the mount has ended")
        return 1
    count, failed = found["of"], found["failed"]
    places = {"on disk": found["disk_bytes"], "in memory": found["memory_bytes"]}
    held = [f"{size_text(nbytes)} {place}" for place, nbytes in places.items() if nbytes]
    say(f"{count} chunk{'' if count == 1 else 's'} loaded: {', '.join(held) or 'none has values'}")
    if found["problem"] is not None:
        complain("nczfs", f"{failed} cannot be read: {found['problem']}")
    if found["kept"] + failed < count:
        complain(
            "nczfs",
            f"the cache has room for {found['kept']} of {count} chunks: mount with a larger"
            " --max-cache-size or --memory-limit, or name a smaller --box",
        )
    return int(found["kept"] < count)


COMMAND = Command(
    "warm",
    "have a mount load chunks into its cache",
    _arguments,
    run,
    (
        "nczfs warm s3://bucket/era5.zarr/t2m --box '0:24, ...'",
        "nczfs warm /mnt/era5/datasets/era5.zarr/t2m",
    ),
    scopes=STORE_SCOPES,
)
