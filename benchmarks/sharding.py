"""Zarr v3 and shards, beside the best of zarr-python, zarr-python with zarrs, and tensorstore.

    python -m benchmarks.sharding [--pairs N] [--rows full,chunks,random,codecs,write]

256 MiB of float32 in shards of 64 MiB of chunks of 1 MiB. Ours is measured in-process, and through
values.raw of a mount. Sixteen reads at a time, by threads; eight where it says so. Each run opens
everything anew. What is read from a directory is in the page cache. From S3 there are no more than
two runs of each that count, since zarr-python reads an index before every chunk.

The last columns are the highest RSS: of a process that has nczfs alone and does the same once, with
its results (16 MiB of each of sixteen reads, 1 MiB of each chunk) but not what it is given to
write; and of the mount's daemon in all runs. The budget of both is 512 MiB.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import tensorstore
import zarr
import zarrs
from zarr.codecs import BloscCodec, GzipCodec, ZstdCodec
from zarr.codecs.numcodecs import Zlib as ZlibCodec

import nczfs
from benchmarks.harness import (
    MIB,
    SHAPE,
    delayed,
    field,
    mounted,
    refresh,
    s3_server,
    timed,
)
from benchmarks.resident import (
    BUDGET,
    Work,
    engine_options,
    peak_in_process,
    peak_of_daemon,
    work_of,
)
from benchmarks.s3 import BUCKET, DELAY_MS, check_delay, peer, upload, url
from benchmarks.writing import write_whole

ROWS = ("full", "chunks", "random", "codecs", "write")
SHARD, CHUNK = (16, 1024, 1024), (1, 256, 1024)
SHARDED, PLAIN = "sharded_zstd", "zstd"
CODECS = {
    "gzip": GzipCodec(level=5),
    "zlib": ZlibCodec(level=5),
    "zstd": ZstdCodec(level=1),
    "blosc": BloscCodec(cname="lz4", clevel=5, shuffle="shuffle"),
}
PIPELINES = {
    "zarr": "zarr.core.codec_pipeline.BatchedCodecPipeline",
    "zarrs": f"zarrs.{zarrs.ZarrsCodecPipeline.__name__}",
}
HEAD = (
    *("case", "zarr", "zarrs", "tensorstore", "nczfs", "mount", "nczfs ratio", "mount ratio"),
    *("nczfs MiB", "mount MiB"),
)
RANDOM = 1000
FAR_PAIRS_MAX = 2

Selection: TypeAlias = "tuple[slice, ...]"
Read: TypeAlias = "Callable[[Selection], Any]"
Opener: TypeAlias = "Callable[[], Any]"


def main() -> None:
    """Run and print the rows of a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--rows", default=",".join(ROWS))
    arguments = parser.parse_args()
    rows, pairs = arguments.rows.split(","), arguments.pairs
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="nczfs-bench-") as scratch:
        root = Path(scratch)
        print(f"| {' | '.join(HEAD)} |\n|{' --- |' * len(HEAD)}")
        data = root / "bench.zarr"
        values = field()
        if {"full", "chunks", "random"} & set(rows):
            put(data, values, SHARDED, CODECS["zstd"], SHARD)
        if "codecs" in rows:
            for name, codec in CODECS.items():
                put(data, values, name, codec, None)
        if "write" in rows:
            writing(root, values, pairs)
        del values
        if {"full", "chunks", "codecs"} & set(rows):
            with mounted(str(data), root / "mnt", "--memory-limit", BUDGET) as mount:
                near(data, mount, rows, pairs)
        if "random" in rows:
            far(data, root, pairs)


def near(data: Path, mount: Path, rows: list[str], pairs: int) -> None:
    """Rows of a directory store."""
    if "full" in rows:
        work = work_of(str(data), SHARDED, slabs(4), 16)
        row("full read, 16 at a time", readers(data, SHARDED, mount), work, mount, pairs)
    if "chunks" in rows:
        name = "chunk by chunk, 8 at a time"
        work = work_of(str(data), SHARDED, chunks(), 8)
        row(name, readers(data, SHARDED, mount), work, mount, pairs)
    if "codecs" in rows:
        for codec in CODECS:
            name = f"full read without shards, {codec}"
            ways = readers(data, codec, mount)
            if codec == "zlib":  # tensorstore has only the codecs of the specification
                del ways["tensorstore"]
            row(name, ways, work_of(str(data), codec, slabs(4), 16), mount, pairs)


def far(data: Path, root: Path, pairs: int) -> None:
    """Single chunks at random, from S3."""
    with s3_server(BUCKET) as direct, delayed(direct, DELAY_MS) as slow:
        check_delay(slow)
        upload(direct, data, "bench.zarr")
        rng = np.random.default_rng(3)
        wanted = list(chunks())
        places = [wanted[i] for i in rng.integers(0, len(wanted), RANDOM)]
        single = [tuple(slice(s.start, s.start + 1) for s in place) for place in places]
        with mounted(url(slow, "bench.zarr"), root / "far", "--memory-limit", BUDGET) as mount:
            ways = readers_of_s3(slow, mount)
            row(
                f"{RANDOM} random chunks, S3 +{DELAY_MS} ms",
                ways,
                work_of(url(slow, "bench.zarr"), SHARDED, single, 16),
                mount,
                min(pairs, FAR_PAIRS_MAX),
            )


def readers(data: Path, name: str, mount: Path) -> dict[str, Opener]:
    """How each program opens an array of a directory store."""
    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{data}/{name}/"}}
    return {
        "zarr": lambda: with_zarr("zarr", lambda: zarr.open_group(data, mode="r")[name]),
        "zarrs": lambda: with_zarr("zarrs", lambda: zarr.open_group(data, mode="r")[name]),
        "tensorstore": lambda: with_tensorstore(spec),
        "nczfs": lambda: with_nczfs(str(data), name),
        "mount": lambda: with_mount(mount / "datasets" / "bench.zarr" / name / "values.raw"),
    }


def readers_of_s3(endpoint: str, mount: Path) -> dict[str, Opener]:
    """How each program opens the sharded array in S3."""

    def opened() -> Any:
        return zarr.open_group(peer(endpoint, "bench.zarr"), mode="r")[SHARDED]

    spec = {
        "driver": "zarr3",
        "kvstore": {
            "driver": "s3",
            "bucket": BUCKET,
            "endpoint": endpoint,
            "aws_region": "us-east-1",
            "path": f"bench.zarr/{SHARDED}/",
        },
    }
    return {
        "zarr": lambda: with_zarr("zarr", opened),
        "tensorstore": lambda: with_tensorstore(spec),
        "nczfs": lambda: with_nczfs(url(endpoint, "bench.zarr"), SHARDED),
        "mount": lambda: with_mount(mount / "datasets" / "bench.zarr" / SHARDED / "values.raw"),
    }


@contextmanager
def with_zarr(pipeline: str, opened: Callable[[], Any]) -> Iterator[Read]:
    """zarr-python with one of its pipelines."""
    with zarr.config.set({"codec_pipeline.path": PIPELINES[pipeline]}):
        array = opened()
        yield lambda selection: array[selection]


@contextmanager
def with_tensorstore(spec: Mapping[str, Any]) -> Iterator[Read]:
    """tensorstore, with a cache of its own for each run."""
    context = tensorstore.Context({"cache_pool": {"total_bytes_limit": 512 * MIB}})
    array = tensorstore.open(spec, read=True, context=context).result()
    yield lambda selection: array[selection].read().result()


@contextmanager
def with_nczfs(place: str, name: str) -> Iterator[Read]:
    """The library."""
    with nczfs.open(place, options=engine_options()) as dataset:
        variable = dataset.variables[name]
        yield lambda selection: variable[selection]


@contextmanager
def with_mount(path: Path) -> Iterator[Read]:
    """values.raw of a mount: one pread for each run of elements that follow each other."""
    fd = os.open(path, os.O_RDONLY)
    try:
        yield lambda selection: read_run(fd, selection)
    finally:
        os.close(fd)


def read_run(fd: int, selection: Selection) -> None:
    """Read a selection that is one run of elements, in blocks of 1 MiB."""
    first = [s.start for s in selection]
    last = [s.stop - 1 for s in selection]
    start = 4 * int(np.ravel_multi_index(first, SHAPE))
    stop = 4 * int(np.ravel_multi_index(last, SHAPE)) + 4
    out = np.empty(stop - start, np.uint8)
    for at in range(0, stop - start, MIB):
        block = memoryview(out)[at : at + MIB]  # type: ignore[arg-type]
        if os.preadv(fd, [block], start + at) != len(block):
            raise EOFError(f"values.raw ends within {selection}")


def slabs(steps: int) -> list[Selection]:
    """The array in slabs of so many steps of its first dimension."""
    return [
        (slice(at, at + steps), slice(0, SHAPE[1]), slice(0, SHAPE[2]))
        for at in range(0, SHAPE[0], steps)
    ]


def chunks() -> list[Selection]:
    """Every chunk of the array."""
    return [
        (slice(step, step + 1), slice(y, y + CHUNK[1]), slice(0, SHAPE[2]))
        for step in range(SHAPE[0])
        for y in range(0, SHAPE[1], CHUNK[1])
    ]


def row(
    name: str,
    ways: Mapping[str, Opener],
    work: Work,
    mount: Path,
    pairs: int,
) -> None:
    """Time all ways in turn, after one run of each that does not count, and print a row."""
    times: dict[str, list[float]] = {way: [] for way in ways}
    wanted = [tuple(slice(*ends) for ends in part) for part in work.wanted]
    with peak_of_daemon(mount) as peak:
        for number in range(pairs + 1):
            for way, opener in ways.items():
                refresh(mount)
                with ThreadPoolExecutor(work.width) as pool:

                    def run(opener: Opener = opener, pool: ThreadPoolExecutor = pool) -> None:
                        with opener() as read:
                            for _ in pool.map(read, wanted):
                                pass

                    seconds = timed(run)
                if number:
                    times[way].append(seconds)
    shown(name, times, [peak_in_process(work), *peak])


def shown(name: str, times: Mapping[str, list[float]], peaks: list[int]) -> None:
    """Print a row: medians, the ratio of the best peer to ours, and the memory in MiB."""
    medians = {way: statistics.median(found) for way, found in times.items()}
    best = min(medians[way] for way in ("zarr", "zarrs", "tensorstore") if way in medians)
    cells = [
        f"{medians[way]:.3f}" if way in medians else ""
        for way in ("zarr", "zarrs", "tensorstore", "nczfs", "mount")
    ]
    ratios = [f"{best / medians[way]:.2f}" if way in medians else "" for way in ("nczfs", "mount")]
    print(f"| {name} | {' | '.join([*cells, *ratios, *map(str, peaks)])} |", flush=True)


def put(path: Path, values: Any, name: str, codec: Any, shards: tuple[int, ...] | None) -> None:
    """Write an array with zarr-python."""
    group = zarr.open_group(path, mode="a", zarr_format=3)
    array = group.create_array(
        name,
        shape=values.shape,
        chunks=CHUNK,
        shards=shards,
        dtype="f4",
        compressors=codec,
        dimension_names=["time", "y", "x"],
    )
    array[...] = values


def writing(root: Path, values: Any, pairs: int) -> None:
    """Write the sharded array, whole, into a new dataset."""
    made, served, given = root / "written.zarr", root / "store/mounted.zarr", root / "given.npy"
    data = memoryview(values.reshape(-1).view(np.uint8).data)
    np.save(given, values)
    times: dict[str, list[float]] = {}
    spec = {
        "driver": "zarr3",
        "kvstore": {"driver": "file", "path": f"{made}/v/"},
        "metadata": {
            "shape": list(SHAPE),
            "data_type": "float32",
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(SHARD)}},
            "codecs": [
                {
                    "name": "sharding_indexed",
                    "configuration": {
                        "chunk_shape": list(CHUNK),
                        "codecs": [
                            {"name": "bytes", "configuration": {"endian": "little"}},
                            {"name": "zstd", "configuration": {"level": 1}},
                        ],
                    },
                }
            ],
        },
    }

    def by_zarr(pipeline: str) -> None:
        with zarr.config.set({"codec_pipeline.path": PIPELINES[pipeline]}):
            put(made, values, "v", CODECS["zstd"], SHARD)

    def by_tensorstore() -> None:
        array = tensorstore.open(spec, create=True, open=False).result()
        array.write(values).result()

    def by_nczfs() -> None:
        with nczfs.open(str(made), "w", format="zarr3", options=engine_options()) as dataset:
            sharded_variable(dataset)[...] = values

    def declared(place: Path) -> None:
        shutil.rmtree(place, ignore_errors=True)
        with nczfs.open(str(place), "w", format="zarr3") as dataset:
            sharded_variable(dataset)

    served.parent.mkdir()
    with mounted(str(served.parent), root / "mnt-w", "--memory-limit", BUDGET) as mount:
        raw = mount / "datasets/mounted.zarr/v/values.raw"
        ways: dict[str, Callable[[], None]] = {
            "zarr": lambda: by_zarr("zarr"),
            "zarrs": lambda: by_zarr("zarrs"),
            "tensorstore": by_tensorstore,
            "nczfs": by_nczfs,
            "mount": lambda: write_whole(raw, data),
        }
        with peak_of_daemon(mount) as peak:
            for number in range(pairs + 1):
                for way, write in ways.items():
                    shutil.rmtree(made, ignore_errors=True)
                    if way == "mount":
                        declared(served)
                        refresh(mount)
                    seconds = timed(write)
                    if number:
                        times.setdefault(way, []).append(seconds)
    declared(made)
    own = peak_in_process(Work(str(made), "v", values=str(given)))
    shown("write 256 MiB in shards", times, [own, *peak])


def sharded_variable(dataset: nczfs.OpenDataset) -> nczfs.Variable:
    """Make the variable that is written, without values."""
    for name, size in zip(("time", "y", "x"), SHAPE, strict=True):
        dataset.create_dimension(name, size)
    return dataset.create_variable(
        "v",
        ("time", "y", "x"),
        "f4",
        chunks=CHUNK,
        shards=SHARD,
        codecs=[{"id": "zstd", "level": 1}],
    )


if __name__ == "__main__":
    main()
