"""Time series through map-shaped chunks, beside zarr-python: what the disk tier is for.

    python -m benchmarks.timeseries [--points N] [--peer-points N] [--codecs zlib,lz4]

1,000 maps of 1 MiB, a chunk each, and a budget of 256 MiB: one element of every map, at
neighbouring points one after the other. zarr-python keeps no chunks, so that each of its points
takes as long as the one before; a few of them are timed. Then what the tier costs those who do not
need it.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from numcodecs import Blosc, Shuffle, Zlib

import nczfs
from benchmarks.harness import (
    MIB,
    drop_page_cache,
    field,
    mounted,
    paired,
    read_whole,
    refresh,
    status,
    timed,
)
from benchmarks.resident import peak_mib

MAPS, ROWS, COLUMNS = 1000, 256, 1024  # a row is a page
BUDGET = 256 * MIB
CHAINS: dict[str, tuple[Any, Any]] = {
    "zlib": ([Shuffle(4)], Zlib(1)),
    "lz4": (None, Blosc("lz4", 5, Blosc.SHUFFLE)),
}


def write_maps(path: Path, codec: str) -> None:
    """1,000 maps, each a chunk."""
    filters, compressor = CHAINS[codec]
    array = zarr.open_group(path, mode="a", zarr_format=2).create_array(
        codec,
        shape=(MAPS, ROWS, COLUMNS),
        chunks=(1, ROWS, COLUMNS),
        dtype="f4",
        filters=filters,
        compressors=compressor,
    )
    maps = field((50, ROWS, COLUMNS))
    for first in range(0, MAPS, len(maps)):
        array[first : first + len(maps)] = maps + np.float32(first)


@contextmanager
def served(data: Path, root: Path, name: str, *options: str) -> Iterator[Path]:
    """A mount with the budget of the benchmark; prints how much memory it took at most."""
    words = ("--memory-limit", str(BUDGET), "--cache-dir", str(root), *options)
    with mounted(str(data), root / "mnt", *words) as mount:
        yield mount
        peak = peak_mib(str(status(mount)["pid"]))
        metrics = (mount / ".nczfs/metrics").read_text().splitlines()
        counts = dict(line.split() for line in metrics if not line.startswith("#"))
        print(
            f"\n{name}: {peak} MiB resident at most,"
            f" {float(counts['nczfs_chunks_decoded_total']):.0f} chunks decoded,"
            f" {float(counts['nczfs_spilled_chunks_total']):.0f} written to the disk\n",
            flush=True,
        )


def through_mount(path: Path, points: int) -> tuple[list[float], list[bytes]]:
    """Read one element of every map, by one call each, at points that share no page."""
    found: list[bytes] = []
    fd = os.open(path, os.O_RDONLY)

    def read(point: int) -> None:
        offset = (100 + point) * COLUMNS * 4
        found.append(b"".join(os.pread(fd, 4, number * MIB + offset) for number in range(MAPS)))

    try:
        return [timed(partial(read, point)) for point in range(points)], found
    finally:
        os.close(fd)


def series(codec: str, data: Path, root: Path, points: int, peer_points: int) -> None:
    """The rows of one codec."""
    array: Any = zarr.open_group(data, mode="r")[codec]
    expected: list[bytes] = []

    def peer(point: int) -> None:
        expected.append(array[:, 100 + point, 0].tobytes())

    drop_page_cache()
    each = [timed(partial(peer, point)) for point in range(peer_points)]
    theirs = statistics.median(each) * points
    for what, count, options in (
        ("values.raw of the mount", points, ()),
        ("the same without the disk tier", peer_points, ("--max-cache-size", "0")),
    ):
        drop_page_cache()
        with served(data, root, f"{codec}, {what}", *options) as mount:
            path = mount / "datasets" / data.name / codec / "values.raw"
            times, found = through_mount(path, count)
        assert found[:peer_points] == expected[:count]
        row(f"{codec}, {what}", theirs, sum(times) * points / count)
        print(f"first points: {', '.join(f'{seconds:.2f}' for seconds in times[:4])} s")
    drop_page_cache()
    engine = nczfs.EngineOptions(memory_limit_bytes=BUDGET, cache_dir=str(root))
    with nczfs.open(str(data), options=engine) as dataset:
        variable = dataset.variables[codec]
        ours = timed(lambda: [variable[:, 100 + p, 0] for p in range(points)])
    row(f"{codec}, Python library", theirs, ours)


def row(name: str, theirs: float, ours: float) -> None:
    """A row of the table in docs/benchmarks.md."""
    print(f"| {name} | {theirs:.1f} | {ours:.1f} | {theirs / ours:.1f} |", flush=True)


def in_order(codec: str, data: Path, root: Path, pairs: int) -> None:
    """Reading `values.raw` from end to end, without the tier and with it."""
    size = MAPS * MIB
    (root / "without").mkdir(parents=True)
    with (
        served(data, root, f"{codec}, read in order") as mount,
        served(
            data, root / "without", "the same without a disk tier", "--max-cache-size", "0"
        ) as other,
    ):
        paths = [m / "datasets" / data.name / codec / "values.raw" for m in (other, mount)]

        def cold() -> None:
            refresh(mount)
            refresh(other)
            drop_page_cache()

        paired(
            f"{codec}, 1,000 MiB in order: no disk tier",
            lambda: read_whole(paths[0], size),
            lambda: read_whole(paths[1], size),
            before=cold,
            pairs=pairs,
        )


def main() -> None:
    """Run and print the rows of a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=100)
    parser.add_argument("--peer-points", type=int, default=5)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--codecs", default="zlib,lz4")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="nczfs-bench-") as scratch:
        root = Path(scratch)
        data = root / "maps.zarr"
        codecs = arguments.codecs.split(",")
        for codec in codecs:
            write_maps(data, codec)
        points = arguments.points
        print(f"| time series of {points} points | zarr-python s | nczfs s | ratio |")
        print("| --- | --- | --- | --- |")
        for codec in codecs:
            series(codec, data, root, points, arguments.peer_points)
        print("\n| case | peer s | nczfs s | ratio |\n| --- | --- | --- | --- |")
        for codec in codecs:
            in_order(codec, data, root / codec, arguments.pairs)


if __name__ == "__main__":
    main()
