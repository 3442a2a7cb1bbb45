"""Hierarchies in S3 with 20 ms: reading and making one, beside the same requests alone.

    python -m benchmarks.hierarchies [--pairs N] [--groups N] [--arrays N]

Runs a real S3 server (tests/tools/s3-server-ceph) on this machine, behind a relay that delays every
answer (tests/tools/s3-faults delay). The peer makes the requests that nczfs made, all at once, by
the same store and as many threads as the engine has for metadata, and ignores the answers. A ratio
above 0.67 means that nczfs takes less than 1.5 times as long.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial

from benchmarks.harness import delayed, paired
from benchmarks.s3store import BUCKET, DELAY_MS, ceph_server
from nczfs.engine.options import EngineOptions
from nczfs.errors import NoSuchObject
from nczfs.library.opening import open_zmap
from nczfs.model.hierarchy import Json
from nczfs.testing.faults import Faulty
from nczfs.zmap.base import ABSENT
from nczfs.zmap.keys import Key, Prefix
from nczfs.zmap.registry import open_store
from nczfs.zom import ArrayV2, GroupV2, Node, create, from_store, to_v3
from nczfs.zom.creation import create_in
from nczfs.zom.stored import read_stored

THREADS = EngineOptions().ask_threads

Call = tuple[str, str]


def tree(groups: int, arrays: int) -> Node:
    """Return a hierarchy of groups with arrays, as a dataset of a model may have."""
    attributes: dict[str, Json] = {
        "_ARRAY_DIMENSIONS": ["y", "x"],
        "units": "K",
        "long_name": "a temperature",
    }
    zlib: dict[str, Json] = {"id": "zlib", "level": 1}
    array = ArrayV2((720, 1440), (90, 180), "<f4", 0, compressor=zlib, attributes=attributes)
    group = GroupV2({f"v{number:03}": array for number in range(arrays)}, {"title": "a group"})
    return GroupV2({f"g{number:03}": group for number in range(groups)})


def url(endpoint: str, name: str) -> str:
    return f"{endpoint}/{BUCKET}/{name}#mode=s3"


def asked(endpoint: str, name: str, action: Callable[[Faulty], object]) -> list[Call]:
    """Return the requests that something makes of a store."""
    calls: list[Call] = []
    zmap = Faulty(
        open_store(url(endpoint, name)),
        before_call=lambda operation, key: calls.append((operation, key)),
    )
    try:
        action(zmap)
    finally:
        zmap.close()
    return calls


def replay(endpoint: str, name: str, calls: list[Call]) -> None:
    """Make requests all at once."""
    zmap = open_store(url(endpoint, name))

    def ask(call: Call) -> None:
        operation, key = call
        if operation == "read":
            with suppress(NoSuchObject):
                zmap.read(Key(key))
        elif operation == "search":
            list(zmap.search(Prefix(key)))
        elif operation == "write":
            zmap.write(Key(key), _DOCUMENT, replaces=ABSENT)

    try:
        zmap.prepare_writing()
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(ask, calls))
    finally:
        zmap.close()


_DOCUMENT = b" " * 600


def read(zmap: Faulty) -> None:
    with open_zmap(zmap) as dataset:
        read_stored(dataset.engine_dataset)


def reading(direct: str, slow: str, node: Node, name: str, pairs: int) -> None:
    create(url(direct, name), node)
    calls = [call for call in asked(direct, name, read) if call[0] in ("read", "search")]
    paired(
        f"from_store of {name}, +{DELAY_MS} ms: its {len(calls)} requests",
        partial(replay, slow, name, calls),
        partial(from_store, url(slow, name)),
        before=_nothing,
        pairs=pairs,
    )


def making(direct: str, slow: str, node: Node, name: str, pairs: int) -> None:
    found = asked(direct, f"{name}.first", lambda zmap: create_in(zmap, node))
    calls = [call for call in found if call[0] == "write"]
    names = (f"{name}.{number}" for number in itertools.count())
    paired(
        f"create of {name}, +{DELAY_MS} ms: its {len(calls)} writes",
        lambda: replay(slow, next(names), calls),
        lambda: create(url(slow, next(names)), node),
        before=_nothing,
        pairs=pairs,
    )


def _nothing() -> None:
    """Let what was read before stay in memory, for both."""


def main() -> None:
    """Run and print rows of the table in docs/benchmarks.md."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--groups", type=int, default=100)
    parser.add_argument("--arrays", type=int, default=99, help="in each group")
    options = parser.parse_args()
    node = tree(options.groups, options.arrays)
    with ceph_server() as direct, delayed(direct, DELAY_MS) as slow:
        for each in (to_v3(node), node):
            name = f"v{each.zarr_format}"
            reading(direct, slow, each, name, options.pairs)
            making(direct, slow, each, name, options.pairs)


if __name__ == "__main__":
    main()
