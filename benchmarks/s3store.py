"""The S3 store alone, beside obstore: whole objects by 32 threads, and listing many keys.

    python -m benchmarks.s3store [--pairs N] [--only objects,listing] [--keys N]

Runs a real S3 server (tests/tools/s3-server-ceph) on this machine, directly and behind a relay
that delays every answer by 20 ms (tests/tools/s3-faults delay). Paired runs; a ratio above 1 means
that nczfs is faster.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

import boto3
from obstore.store import S3Store

from benchmarks.harness import MIB, TOOLS, delayed, paired
from benchmarks.harness import _settings as settings
from nczfs.engine.options import EngineOptions
from nczfs.zmap.base import ZMap
from nczfs.zmap.keys import Key, Prefix
from nczfs.zmap.registry import StoreOptions, open_store
from nczfs.zmap.s3 import S3ZMap
from nczfs.zmap.s3.access import S3Access
from nczfs.zmap.s3.listing import question
from nczfs.zmap.s3.messages import S3Request
from nczfs.zmap.s3.transport import S3Transport

BUCKET = "bench"
DELAY_MS = 20
THREADS = EngineOptions().fetch_threads
SIZES = {"large": (256, MIB), "small": (2000, 4096)}


def url(endpoint: str) -> str:
    return f"{endpoint}/{BUCKET}#mode=s3"


def client(endpoint: str) -> Any:
    return boto3.client("s3", endpoint_url=endpoint)


def obstore(endpoint: str, prefix: str | None = None) -> Any:
    return S3Store(
        BUCKET,
        prefix=prefix,
        endpoint=endpoint,
        access_key_id=os.environ["AWS_ACCESS_KEY_ID"],
        secret_access_key=os.environ["AWS_SECRET_ACCESS_KEY"],
        region="us-east-1",
        virtual_hosted_style_request=False,
        client_options={"allow_http": True},
    )


def fill(zmap: ZMap) -> None:
    """Put the objects that are read."""
    with ThreadPoolExecutor(8) as pool:
        for name, (count, size) in SIZES.items():
            keys = [Key(f"{name}/{number}") for number in range(count)]
            block = os.urandom(size)
            list(pool.map(zmap.write, keys, [block] * count))


def read_all(pool: ThreadPoolExecutor, read: Callable[[str], int], name: str) -> None:
    count, size = SIZES[name]
    keys = [f"{name}/{number}" for number in range(count)]
    assert sum(pool.map(read, keys)) == count * size


def get(store: Any, key: str) -> int:
    return len(store.get(key).bytes())


def read(zmap: ZMap, key: str) -> int:
    return len(zmap.read(Key(key)).data)


def objects(direct: str, slow: str, pairs: int) -> None:
    zmap = open_store(url(direct))
    fill(zmap)
    zmap.close()
    with ThreadPoolExecutor(THREADS) as pool:
        for delay, endpoint in ((0, direct), (DELAY_MS, slow)):
            store, ours = obstore(endpoint), open_store(url(endpoint))
            for name, (count, size) in SIZES.items():
                paired(
                    f"{count} objects of {size} bytes, +{delay} ms: obstore",
                    partial(read_all, pool, partial(get, store), name),
                    partial(read_all, pool, partial(read, ours), name),
                    before=_nothing,
                    pairs=pairs,
                )
            ours.close()


def listing(direct: str, slow: str, keys: int, pairs: int) -> None:
    """Beside the same questions, whose answers are fetched and not looked at."""
    with ThreadPoolExecutor(THREADS) as pool:
        zmap = open_store(url(direct))
        list(pool.map(lambda number: zmap.write(Key(f"many/{number:06}"), b""), range(keys)))
        zmap.close()
    for delay, endpoint in ((0, direct), (DELAY_MS, slow)):
        options = StoreOptions(endpoint_url=endpoint)
        transport = S3Transport(S3Access(BUCKET, options), BUCKET, options)
        ours = S3ZMap(BUCKET, options)
        paired(
            f"listing {keys} keys, +{delay} ms: the LIST calls alone",
            partial(ask_only, transport),
            partial(list_all, ours, keys),
            before=_nothing,
            pairs=pairs,
        )
        paired(
            f"listing {keys} keys, +{delay} ms: boto3",
            partial(list_by_boto3, endpoint, keys),
            partial(list_all, ours, keys),
            before=_nothing,
            pairs=pairs,
        )
        transport.close()
        ours.close()


def list_by_boto3(endpoint: str, keys: int) -> None:
    pages = (
        client(endpoint).get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix="many/")
    )
    assert sum(len(page["Contents"]) for page in pages) == keys


def ask_only(transport: S3Transport) -> None:
    token = ""
    while True:
        query = question("many/", token, one_level=False)
        body = transport.send(S3Request("GET", "", query=query)).body
        found = re.search(rb"<NextContinuationToken>(.*?)<", body)
        if found is None:
            return
        token = found[1].decode()


def list_all(zmap: ZMap, keys: int) -> None:
    assert sum(1 for _ in zmap.list(Prefix("many"))) == keys


def _nothing() -> None:
    """There is no cache to drop."""


@contextmanager
def ceph_server() -> Iterator[str]:
    """A real S3 server on this machine with a bucket; its keys are set in the environment."""
    tool = str(TOOLS / "s3-server-ceph")
    found = settings([tool, "start"], os.environ | {"S3_CEPH_PORT": "0"})
    os.environ.update(found)
    for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"):  # which obstore would prefer
        os.environ.pop(name, None)
    try:
        client(found["S3_ENDPOINT"]).create_bucket(Bucket=BUCKET)
        yield found["S3_ENDPOINT"]
    finally:
        subprocess.run([tool, "stop"], check=True, env=os.environ | found)


def main() -> None:
    """Run and print rows of the table in docs/benchmarks.md."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--only", default="objects,listing")
    parser.add_argument("--keys", type=int, default=20_000)
    options = parser.parse_args()
    with ceph_server() as direct, delayed(direct, DELAY_MS) as slow:
        if "objects" in options.only:
            objects(direct, slow, options.pairs)
        if "listing" in options.only:
            listing(direct, slow, options.keys, options.pairs)


if __name__ == "__main__":
    main()
