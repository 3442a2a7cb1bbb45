"""S3 with 20 ms latency: decoded arrays, whole objects, listings and first values, beside peers.

    python -m benchmarks.s3 [--pairs N] [--only arrays,objects,listing,open]

Runs a real S3 server (tests/tools/s3-server) on this machine; what is said to have 20 ms goes
through a relay that delays every answer (tests/tools/s3-faults delay).
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
import numpy as np
import zarr
from botocore.config import Config
from obstore.store import S3Store
from zarr.storage import ObjectStore

from benchmarks.harness import (
    MIB,
    SHAPE,
    Pair,
    delayed,
    drop_page_cache,
    field,
    mounted,
    paired,
    read_whole,
    refresh,
    s3_server,
    timed,
    write,
)

BUCKET = "bench"
SIZE = SHAPE[0] * SHAPE[1] * SHAPE[2] * 4
DELAY_MS = 20
OPEN_VARIABLES = 1000
LISTED_OBJECTS = 10_000


def client(endpoint: str) -> Any:
    return boto3.client(
        "s3",
        endpoint_url=endpoint,
        config=Config(s3={"addressing_style": "path"}, max_pool_connections=32),
    )


def upload(endpoint: str, directory: Path, prefix: str) -> None:
    """Put every file below a directory."""
    s3 = client(endpoint)
    files = [path for path in directory.rglob("*") if path.is_file()]

    def put(path: Path) -> None:
        key = f"{prefix}/{path.relative_to(directory).as_posix()}"
        s3.put_object(Bucket=BUCKET, Key=key, Body=path.read_bytes())

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(put, files))


def peer(endpoint: str, prefix: str) -> Any:
    return ObjectStore(
        S3Store(
            BUCKET,
            prefix=prefix,
            endpoint=endpoint,
            access_key_id=os.environ["AWS_ACCESS_KEY_ID"],
            secret_access_key=os.environ["AWS_SECRET_ACCESS_KEY"],
            region="us-east-1",
            virtual_hosted_style_request=False,
            client_options={"allow_http": True},
        ),
        read_only=True,
    )


def url(endpoint: str, prefix: str) -> str:
    return f"{endpoint}/{BUCKET}/{prefix}#mode=s3" if prefix else f"{endpoint}/{BUCKET}#mode=s3"


def check_delay(endpoint: str) -> None:
    """One small GET through the relay takes the delay, or the figures below mean nothing."""
    s3 = client(endpoint)
    s3.put_object(Bucket=BUCKET, Key="delay-check", Body=b"x")
    start = time.perf_counter()
    s3.get_object(Bucket=BUCKET, Key="delay-check")["Body"].read()
    assert time.perf_counter() - start >= DELAY_MS / 1000, "the relay does not delay"
    start = time.perf_counter()
    peer(endpoint, "").store.get("delay-check").bytes()
    assert time.perf_counter() - start >= DELAY_MS / 1000, "the peer goes round the relay"


def arrays(direct: str, slow: str, root: Path, pairs: int) -> None:
    data = root / "arrays.zarr"
    values = field()
    cases = [
        ("zlib", "rows4"),
        ("zlib", "tiles4"),
        ("lz4", "rows1"),
        ("lz4", "rows4"),
        ("lz4", "tiles4"),
    ]
    for codec, layout in cases:
        write(data, values, layout, codec)
    del values
    upload(direct, data, "arrays.zarr")
    shutil.rmtree(data)
    group: Any = zarr.open_group(peer(slow, "arrays.zarr"), mode="r", use_consolidated=False)
    with mounted(url(slow, "arrays.zarr"), root / "mnt", "--memory-limit", "1GiB") as mount:

        def cold() -> None:
            refresh(mount)
            drop_page_cache()

        for codec, layout in cases:
            name = f"{codec}_{layout}"
            path = mount / "datasets" / "arrays.zarr" / name / "values.raw"
            paired(
                f"S3 +{DELAY_MS} ms, cold, {name}: zarr-python + obstore `z[:]`",
                lambda name=name: group[name][:],  # type: ignore[misc]
                lambda path=path: read_whole(path, SIZE),  # type: ignore[misc]
                before=cold,
                pairs=pairs,
            )


def objects(direct: str, root: Path, pairs: int) -> None:
    block = np.random.default_rng(2).integers(0, 255, 256 * MIB, np.uint8).tobytes()
    client(direct).put_object(Bucket=BUCKET, Key="big/object.bin", Body=block)
    for name in ("rclone", "s3fs"):
        with (
            foreign_mount(name, direct, root / name) as other,
            mounted(url(direct, "big"), root / "mnt-big") as mount,
        ):
            ours, theirs = mount / "objects" / "object.bin", other / "big" / "object.bin"
            paired(
                f"object of 256 MiB from S3, cold: {name}",
                lambda theirs=theirs: read_whole(theirs, 256 * MIB),  # type: ignore[misc]
                lambda ours=ours: read_whole(ours, 256 * MIB),  # type: ignore[misc]
                pairs=pairs,
            )
            paired(
                f"the same again, from the page cache: {name}",
                lambda theirs=theirs: read_whole(theirs, 256 * MIB),  # type: ignore[misc]
                lambda ours=ours: read_whole(ours, 256 * MIB),  # type: ignore[misc]
                before=lambda: None,
                pairs=pairs,
            )


def listing(direct: str, root: Path) -> None:
    s3 = client(direct)
    with ThreadPoolExecutor(8) as pool:
        list(
            pool.map(
                lambda n: s3.put_object(Bucket=BUCKET, Key=f"many/{n:05}", Body=b"x"),
                range(LISTED_OBJECTS),
            )
        )
    start = time.perf_counter()
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix="many/")
    assert sum(len(page["Contents"]) for page in pages) == LISTED_OBJECTS
    print(f"the LIST itself, by boto3: {time.perf_counter() - start:.2f} s")
    for name in ("rclone", "s3fs"):
        with foreign_mount(name, direct, root / f"l-{name}") as other:
            print(f"first ls -l of {LISTED_OBJECTS} objects, {name}: {ls(other / 'many'):.2f} s")
    with mounted(url(direct, ""), root / "l-ours") as mount:
        seconds = ls(mount / "objects" / "many")
        print(f"first ls -l of {LISTED_OBJECTS} objects, nczfs: {seconds:.2f} s")


def ls(directory: Path) -> float:
    start = time.perf_counter()
    found = subprocess.run(["ls", "-l", str(directory)], check=True, capture_output=True)
    assert found.stdout.count(b"\n") == LISTED_OBJECTS + 1
    return time.perf_counter() - start


def opening(direct: str, slow: str, root: Path, pairs: int) -> None:
    data = root / "wide.zarr"
    group = zarr.open_group(data, mode="w", zarr_format=2)
    for number in range(OPEN_VARIABLES):
        array = group.create_array(f"v{number:04}", shape=(10,), chunks=(10,), dtype="f4")
        array[...] = number
    upload(direct, data, "wide.zarr")
    store = peer(slow, "wide.zarr")

    def peer_first() -> None:
        assert zarr.open_array(store, path="v0500", mode="r", zarr_format=2)[0] == 500

    def peer_all() -> None:
        opened = zarr.open_group(store, mode="r", zarr_format=2, use_consolidated=False)
        assert len(dict(opened.arrays())) == OPEN_VARIABLES

    times: tuple[list[float], list[float]] = ([], [])
    for number in range(pairs + 1):
        theirs = timed(peer_first)
        with mounted(url(slow, "wide.zarr"), root / "mnt-wide") as mount:
            raw = mount / "datasets" / "wide.zarr" / "v0500" / "values.raw"
            ours = timed(lambda raw=raw: check_first(raw))  # type: ignore[misc]
        if number:
            times[0].append(theirs)
            times[1].append(ours)
    name = f"S3 +{DELAY_MS} ms, first value of one of {OPEN_VARIABLES} variables: zarr-python"
    print(Pair(name, *times).row(), flush=True)

    with mounted(url(slow, "wide.zarr"), root / "mnt-wide") as mount:
        top = mount / "datasets" / "wide.zarr"

        def names() -> None:
            found = subprocess.run(["ls", str(top)], check=True, capture_output=True)
            assert found.stdout.count(b"\n") >= OPEN_VARIABLES

        paired(
            f"S3 +{DELAY_MS} ms, ls of {OPEN_VARIABLES} variables: zarr-python opening all",
            peer_all,
            names,
            before=lambda: refresh(mount),
            pairs=min(pairs, 3),
        )


def check_first(path: Path) -> None:
    assert np.frombuffer(path.read_bytes(), "f4")[0] == 500


@contextmanager
def foreign_mount(name: str, endpoint: str, directory: Path) -> Iterator[Path]:
    """The bucket mounted by rclone or s3fs."""
    directory.mkdir()
    key, secret = os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"]
    if name == "rclone":
        settings = {
            "RCLONE_S3_PROVIDER": "Other",
            "RCLONE_S3_ENDPOINT": endpoint,
            "RCLONE_S3_ACCESS_KEY_ID": key,
            "RCLONE_S3_SECRET_ACCESS_KEY": secret,
        }
        command = ["rclone", "mount", "--daemon", "--read-only", f":s3:{BUCKET}", str(directory)]
        # rclone does not start while AWS_CA_BUNDLE is set.
        environment = {k: v for k, v in os.environ.items() if k != "AWS_CA_BUNDLE"} | settings
        subprocess.run(command, check=True, env=environment)
    else:
        options = f"url={endpoint},use_path_request_style,ro"
        keys = {"AWSACCESSKEYID": key, "AWSSECRETACCESSKEY": secret}
        command = ["s3fs", BUCKET, str(directory), "-o", options]
        subprocess.run(command, check=True, env=os.environ | keys)
    try:
        deadline = time.monotonic() + 20
        while not os.path.ismount(directory) and time.monotonic() < deadline:
            time.sleep(0.05)
        yield directory
    finally:
        subprocess.run(["fusermount3", "-uz", str(directory)], check=True)


def main() -> None:
    """Run and print the rows of tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--only", default="arrays,objects,listing,open")
    arguments = parser.parse_args()
    wanted = arguments.only.split(",")
    with (
        tempfile.TemporaryDirectory(dir="/var/tmp", prefix="nczfs-bench-") as scratch,
        s3_server(BUCKET) as direct,
        delayed(direct, DELAY_MS) as slow,
    ):
        root = Path(scratch)
        check_delay(slow)
        print("| case | peer s | nczfs s | ratio |\n| --- | --- | --- | --- |")
        if "arrays" in wanted:
            arrays(direct, slow, root, arguments.pairs)
        if "objects" in wanted:
            objects(direct, root, arguments.pairs)
        if "listing" in wanted:
            listing(direct, root)
        if "open" in wanted:
            opening(direct, slow, root, arguments.pairs)


if __name__ == "__main__":
    main()
