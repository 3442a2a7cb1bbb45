"""``nczfs evict``: lets a mount forget what it has cached of a group or variable."""

from __future__ import annotations

import argparse
import json
import os

from nczfs.cli.command import STORE_SCOPES, Command, CommandLine
from nczfs.cli.mounted_node import mounted_node
from nczfs.cli.terminal import say
from nczfs.messages import size_text

ANSWER_BYTES_MAX = 64 << 10


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "url", metavar="URL", help="of something that is mounted, or its path in the mount"
    )


def run(request: CommandLine) -> int:
    """Write the path of the node to the file of the mount that forgets, and say what it had."""
    node = mounted_node(request.arguments.url, request.settings)
    descriptor = os.open(f"{node.mountpoint}/.nczfs/refresh", os.O_RDWR | os.O_CLOEXEC)
    try:
        os.write(descriptor, f"{node.path}\n".encode(errors="surrogateescape"))
        freed = json.loads(os.read(descriptor, ANSWER_BYTES_MAX))
    finally:
        os.close(descriptor)
    count, memory, disk = freed["chunks"], freed["memory_bytes"], freed["disk_bytes"]
    say(
        f"{count} chunk{'' if count == 1 else 's'} forgotten: {size_text(memory)} in memory and"
        f" {size_text(disk)} on disk are free"
    )
    return 0


COMMAND = Command(
    "evict",
    "let a mount forget what it has cached of a group or variable",
    _arguments,
    run,
    ("nczfs evict s3://bucket/era5.zarr/t2m", "nczfs evict /mnt/era5/datasets/era5.zarr"),
    scopes=STORE_SCOPES,
)
