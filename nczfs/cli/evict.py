"""``nczfs evict``: lets a mount forget what it has cached of a group or variable."""

from __future__ import annotations

import argparse

from nczfs.cli.command import STORE_SCOPES, Command, CommandLine
from nczfs.cli.mounted_node import mounted_node


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "url", metavar="URL", help="of something that is mounted, or its path in the mount"
    )


def run(request: CommandLine) -> int:
    """Write the path of the node to the file of the mount that forgets."""
    node = mounted_node(request.arguments.url, request.settings)
    with open(f"{node.mountpoint}/.nczfs/refresh", "w", encoding="utf-8") as lever:
        lever.write(f"{node.path}\n")
    return 0


COMMAND = Command(
    "evict",
    "let a mount forget what it has cached of a group or variable",
    _arguments,
    run,
    ("nczfs evict s3://bucket/era5.zarr/t2m", "nczfs evict /mnt/era5/datasets/era5.zarr"),
    scopes=STORE_SCOPES,
)
