"""``nczfs warm``: has a mount load chunks into its cache before programs need them."""

from __future__ import annotations

import argparse
import json
import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

from nczfs.cli import logs
from nczfs.cli.boxes import BOX_HELP, selection
from nczfs.cli.command import STORE_SCOPES, Command, CommandLine
from nczfs.cli.mounted_node import mounted_node
from nczfs.cli.progress import progress_bar
from nczfs.cli.status import read_status
from nczfs.cli.terminal import complain, say
from nczfs.errors import UsageError
from nczfs.messages import size_text

THREADS = 16


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "url",
        metavar="URL",
        help="of a group or variable that is mounted, or its path in the mount",
    )
    parser.add_argument("-b", "--box", metavar="BOX", help=BOX_HELP)


def run(request: CommandLine) -> int:
    """Load chunks, several at a time. Returns 1 if the cache cannot hold them all."""
    arguments = request.arguments
    box = None if arguments.box is None else selection(arguments.box)
    logs.configure_command(request.settings)
    node = mounted_node(arguments.url, request.settings)
    if node.is_flat:
        raise UsageError(
            f"{node.mountpoint}: has --layout flat, which shows no chunks; read the file itself"
        )
    found = [*_variables(node.directory, box)]
    count = sum(each.count for each in found)
    with progress_bar(count, " chunks") as progress, ThreadPoolExecutor(THREADS) as pool:
        waiting: deque[Future[None]] = deque()
        paths = (path for each in found for path in each.paths())
        try:
            for path in paths:
                waiting.append(pool.submit(_load, path))
                if len(waiting) > 2 * THREADS:
                    waiting.popleft().result()
                    progress(1)
            while waiting:
                waiting.popleft().result()
                progress(1)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
    decoded = sum(each.decoded_bytes for each in found)
    status = json.loads(read_status(node.mountpoint))
    memory, disk = status["memory_used_bytes"], status["disk_used_bytes"]
    say(
        f"{count} chunk{'' if count == 1 else 's'} ({size_text(decoded)}) loaded; the cache has"
        f" {size_text(memory)} in memory and {size_text(disk)} on disk"
    )
    if decoded > memory + disk:
        complain(
            "nczfs",
            "not all of them are still there: mount with a larger --memory-limit or"
            " --max-cache-size, or name a smaller --box",
        )
        return 1
    return 0


@dataclass(frozen=True, slots=True)
class _Chunks:
    """The chunks of one variable that are to be loaded.

    Attributes
    ----------
    numbers : along each dimension; None: all that there are.
    """

    directory: Path
    numbers: tuple[Any, ...] | None
    count: int
    decoded_bytes: int

    def paths(self) -> Iterator[Path]:
        """Yield the files of the chunks."""
        if self.numbers is None:
            with os.scandir(self.directory) as entries:
                yield from (Path(entry.path) for entry in entries)
        else:
            for index in product(*self.numbers):
                yield self.directory / (".".join(map(str, index)) or "0")


def _variables(directory: Path, box: tuple[Any, ...] | None) -> Iterator[_Chunks]:
    """Yield the chunks of a variable, or of all variables of a group and below."""
    info = json.loads((directory / "info.json").read_bytes())
    if "shape" in info:
        yield _chunks(directory, info, box)
        return
    if "variables" not in info:
        raise UsageError(f"{directory}: {'; '.join(info.get('problems', ['cannot be read']))}")
    if box is not None:
        names = ", ".join(info["variables"]) or "none"
        raise UsageError(f"{directory} is a group; name one of its variables ({names}) for a --box")
    for name in (*info["variables"], *info["groups"]):
        yield from _variables(directory / name, None)


def _chunks(directory: Path, info: dict[str, Any], box: tuple[Any, ...] | None) -> _Chunks:
    from nczfs.engine.arrays.selection import select  # imports NumPy
    from nczfs.model.grid import RegularGrid
    from nczfs.tools.cost import touched

    chunks = directory / "chunks"
    if not chunks.is_dir():
        raise UsageError(f"{directory}: the mount does not show its chunks (--views, problems)")
    shape, lengths = tuple(info["shape"]), tuple(info["chunk_shape"])
    grid = RegularGrid(shape, lengths)
    values = prod(shape)
    chunk_bytes = 0 if not values else (info["decoded_bytes"] or 0) // values * prod(lengths)
    if grid.chunk_count != info["chunk_count"]:
        if box is not None:
            raise UsageError(f"{directory}: its chunks differ in length, so leave --box out")
        return _Chunks(chunks, None, info["chunk_count"], info["decoded_bytes"] or 0)
    selected = select((...,) if box is None else box, shape)
    numbers = tuple(touched(a, c) for a, c in zip(selected.axes, grid.cuts, strict=True))
    count = prod(map(len, numbers))
    return _Chunks(chunks, numbers, count, count * chunk_bytes)


def _load(path: Path) -> None:
    """Have the mount load a chunk.

    One byte, past the kernel's cache: a chunk that was read whole would leave the cache for good
    when memory is full, not for the disk.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC)
    try:
        os.pread(descriptor, 1, 0)
    except OSError as error:
        error.filename = str(path)
        raise
    finally:
        os.close(descriptor)


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
