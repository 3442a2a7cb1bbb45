"""Writing through a mount, beside zarr-python in-process and rclone.

    python -m benchmarks.writing [--pairs N] [--only values,first,object,files,random]

`values`: 256 MiB in order into values.raw, with fsync, into a directory and into S3 with 20 ms.
`first`: the same into S3 by a mount of its own each time.
`object`: `cp` of 256 MiB into S3. `files`: 1,000 files of 4 KiB by 16 writers into S3 with 20 ms,
until all are listed. `random`: 4 KiB writes at random places of values.raw and one fsync; tells how
often each chunk was encoded. The highest RSS of the daemon is told with each.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from obstore.store import S3Store
from zarr.storage import ObjectStore

from benchmarks import s3
from benchmarks.harness import (
    LAYOUTS,
    MIB,
    SHAPE,
    Pair,
    delayed,
    field,
    mounted,
    paired,
    s3_server,
    timed,
    write,
)
from benchmarks.resident import BUDGET, peak_of_daemon

SIZE = SHAPE[0] * SHAPE[1] * SHAPE[2] * 4
FILES, WRITERS, FILE_BYTES = 1000, 16, 4096
RANDOM_WRITES = 5000


def write_whole(path: Path, data: memoryview) -> None:
    """Write a file in order by calls of 1 MiB, as a program writes an array, and fsync it."""
    fd = os.open(path, os.O_WRONLY)
    try:
        position = 0
        while position < len(data):
            position += os.pwrite(fd, data[position : position + MIB], position)
        os.fsync(fd)
    finally:
        os.close(fd)


@contextmanager
def rss_watched(mount: Path) -> Iterator[None]:
    """Print the highest RSS that the daemon of a mount had meanwhile."""
    with peak_of_daemon(mount) as peak:
        yield
    print(f"highest RSS of the daemon: {peak[0]} MiB, budget {BUDGET}", flush=True)


def values_into(
    name: str, group: Any, mount: Path, dataset: str, values: np.ndarray[Any, Any], pairs: int
) -> None:
    """One pair for each layout and codec."""
    data = memoryview(values.reshape(-1).view(np.uint8).data)
    with rss_watched(mount):
        for codec in ("zlib", "lz4"):
            for layout in ("rows4", "tiles4"):
                array = f"{codec}_{layout}"
                path = mount / "datasets" / dataset / array / "values.raw"

                def peer(array: str = array) -> None:
                    group[array][...] = values

                paired(
                    f"{name}, {array}: zarr-python `z[:] = v`",
                    peer,
                    lambda path=path: write_whole(path, data),  # type: ignore[misc]
                    before=os.sync,
                    pairs=pairs,
                )


def into_directory(root: Path, pairs: int) -> None:
    data = root / "w.zarr"
    values = field()
    for codec in ("zlib", "lz4"):
        for layout in ("rows4", "tiles4"):
            write(data, values, layout, codec)
    group: Any = zarr.open_group(data, mode="r+")
    with mounted(str(data), root / "mnt-w", "--memory-limit", BUDGET) as mount:
        values_into("directory", group, mount, "w.zarr", values, pairs)


def into_s3(direct: str, slow: str, root: Path, pairs: int) -> None:
    data = root / "w3.zarr"
    values = field()
    for codec in ("zlib", "lz4"):
        for layout in ("rows4", "tiles4"):
            write(data, values, layout, codec)
    s3.upload(direct, data, "w3.zarr")
    shutil.rmtree(data)
    group: Any = zarr.open_group(s3_store(slow, "w3.zarr"), mode="r+", use_consolidated=False)
    with mounted(s3.url(slow, "w3.zarr"), root / "mnt-w3", "--memory-limit", BUDGET) as mount:
        values_into(f"S3 +{s3.DELAY_MS} ms", group, mount, "w3.zarr", values, pairs)


def first_into_s3(direct: str, slow: str, root: Path, pairs: int) -> None:
    """The first write of a mount: the trial of conditional writes and the lease are part of it."""
    values = field()
    write(root / "f3.zarr", values, "rows4", "zlib")
    s3.upload(direct, root / "f3.zarr", "f3.zarr")
    shutil.rmtree(root / "f3.zarr")
    data = memoryview(values.reshape(-1).view(np.uint8).data)
    times: tuple[list[float], list[float]] = ([], [])
    for number in range(pairs + 1):
        group: Any = zarr.open_group(s3_store(slow, "f3.zarr"), mode="r+", use_consolidated=False)
        theirs = timed(lambda group=group: group["zlib_rows4"].__setitem__(..., values))  # type: ignore[misc]
        with mounted(s3.url(slow, "f3.zarr"), root / "mnt-f3", "--memory-limit", BUDGET) as mount:
            path = mount / "datasets" / "f3.zarr" / "zlib_rows4" / "values.raw"
            ours = timed(lambda path=path: write_whole(path, data))  # type: ignore[misc]
        if number:
            times[0].append(theirs)
            times[1].append(ours)
    name = f"S3 +{s3.DELAY_MS} ms, zlib_rows4, the first write of a mount: zarr-python"
    print(Pair(name, *times).row(), flush=True)


def s3_store(endpoint: str, prefix: str) -> Any:
    """A part of the bucket, for zarr-python."""
    return ObjectStore(
        S3Store(
            s3.BUCKET,
            prefix=prefix,
            endpoint=endpoint,
            access_key_id=os.environ["AWS_ACCESS_KEY_ID"],
            secret_access_key=os.environ["AWS_SECRET_ACCESS_KEY"],
            region="us-east-1",
            virtual_hosted_style_request=False,
            client_options={"allow_http": True},
        )
    )


@contextmanager
def rclone_mount(endpoint: str, directory: Path, cache: Path) -> Iterator[Path]:
    """The bucket mounted by rclone, with its cache for writing."""
    directory.mkdir()
    settings = {
        "RCLONE_S3_PROVIDER": "Other",
        "RCLONE_S3_ENDPOINT": endpoint,
        "RCLONE_S3_ACCESS_KEY_ID": os.environ["AWS_ACCESS_KEY_ID"],
        "RCLONE_S3_SECRET_ACCESS_KEY": os.environ["AWS_SECRET_ACCESS_KEY"],
        "RCLONE_CACHE_DIR": str(cache),
    }
    options = ["--daemon", "--vfs-cache-mode", "writes", "--vfs-write-back", "0s"]
    # rclone does not start while AWS_CA_BUNDLE is set.
    environment = {k: v for k, v in os.environ.items() if k != "AWS_CA_BUNDLE"} | settings
    command = ["rclone", "mount", *options, f":s3:{s3.BUCKET}", str(directory)]
    subprocess.run(command, check=True, env=environment)
    try:
        deadline = time.monotonic() + 20
        while not os.path.ismount(directory) and time.monotonic() < deadline:
            time.sleep(0.05)
        yield directory
    finally:
        subprocess.run(["fusermount3", "-uz", str(directory)], check=True)


def until_stored(endpoint: str, prefix: str, count: int, size: int) -> None:
    """Wait until the store itself lists so many objects of a size."""
    client = s3.client(endpoint)
    while True:
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=s3.BUCKET, Prefix=prefix)
        found = [item["Size"] for page in pages for item in page.get("Contents", ())]
        if sum(length == size for length in found) == count:
            return
        time.sleep(0.01)


def one_object(direct: str, root: Path, pairs: int) -> None:
    source = root / "object.bin"
    source.write_bytes(np.random.default_rng(2).integers(0, 255, SIZE, np.uint8).tobytes())
    numbers = iter(range(1_000_000))

    def copied(directory: Path) -> Callable[[], None]:
        def copy() -> None:
            name = f"copied/{next(numbers)}.bin"
            (directory / "copied").mkdir(exist_ok=True)
            subprocess.run(["cp", str(source), str(directory / name)], check=True)
            until_stored(direct, name, 1, SIZE)

        return copy

    with (
        rclone_mount(direct, root / "rclone", root / "rclone-cache") as other,
        mounted(s3.url(direct, ""), root / "mnt-o", "--memory-limit", BUDGET) as mount,
        rss_watched(mount),
    ):
        paired(
            "cp of 256 MiB into S3: rclone --vfs-cache-mode writes",
            copied(other),
            copied(mount / "objects"),
            before=os.sync,
            pairs=pairs,
        )


def many_files(direct: str, slow: str, root: Path, pairs: int) -> None:
    numbers = iter(range(1_000_000))
    block = os.urandom(FILE_BYTES)

    def made(directory: Path) -> Callable[[], None]:
        def make() -> None:
            name = f"files{next(numbers)}"
            place = directory / name
            place.mkdir()

            def one(number: int) -> None:
                (place / f"{number:04}").write_bytes(block)

            with ThreadPoolExecutor(WRITERS) as pool:
                list(pool.map(one, range(FILES)))
            until_stored(direct, f"{name}/", FILES, FILE_BYTES)

        return make

    with (
        rclone_mount(slow, root / "rclone-f", root / "rclone-cache-f") as other,
        mounted(s3.url(slow, ""), root / "mnt-f", "--memory-limit", BUDGET) as mount,
    ):
        paired(
            f"{FILES} files of 4 KiB by {WRITERS} writers, S3 +{s3.DELAY_MS} ms: rclone",
            made(other),
            made(mount / "objects"),
            before=os.sync,
            pairs=pairs,
        )


def at_random(root: Path) -> None:
    data = root / "r.zarr"
    write(data, field(), "rows4", "zlib")
    chunks = SIZE // (4 * np.prod(LAYOUTS["rows4"]))
    generator = random.Random(5)
    places = [generator.randrange(SIZE // 4096) * 4096 for _ in range(RANDOM_WRITES)]
    block = os.urandom(4096)
    with mounted(str(data), root / "mnt-r", "--memory-limit", "2GiB") as mount, rss_watched(mount):
        before = counted(mount)
        start = time.perf_counter()
        fd = os.open(mount / "datasets" / "r.zarr" / "zlib_rows4" / "values.raw", os.O_RDWR)
        for place in places:
            os.pwrite(fd, block, place)
        os.fsync(fd)
        os.close(fd)
        seconds = time.perf_counter() - start
        touched = len({place // (SIZE // chunks) for place in places})
        print(
            f"{RANDOM_WRITES} random writes of 4 KiB and one fsync: {seconds:.2f} s, "
            f"{counted(mount) - before:.0f} chunks stored for {touched} touched"
        )


def counted(mount: Path) -> float:
    """How many chunks the daemon has stored."""
    text = (mount / ".nczfs" / "metrics").read_text()
    return float(re.findall(r"^nczfs_chunks_stored_total (\S+)$", text, re.MULTILINE)[0])


def main() -> None:
    """Run and print the rows of tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--only", default="values,first,object,files,random")
    arguments = parser.parse_args()
    wanted = arguments.only.split(",")
    with (
        tempfile.TemporaryDirectory(dir="/var/tmp", prefix="nczfs-bench-") as scratch,
        s3_server(s3.BUCKET) as direct,
        delayed(direct, s3.DELAY_MS) as slow,
    ):
        root = Path(scratch)
        s3.check_delay(slow)
        print("| case | peer s | nczfs s | ratio |\n| --- | --- | --- | --- |")
        if "values" in wanted:
            into_directory(root, arguments.pairs)
            into_s3(direct, slow, root, arguments.pairs)
        if "first" in wanted:
            first_into_s3(direct, slow, root, arguments.pairs)
        if "object" in wanted:
            one_object(direct, root, arguments.pairs)
        if "files" in wanted:
            many_files(direct, slow, root, arguments.pairs)
        if "random" in wanted:
            at_random(root)


if __name__ == "__main__":
    main()
