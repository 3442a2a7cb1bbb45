"""Zip archives beside zarr-python's ZipStore: 10,000 small members, writing them, ranges of one.

    python -m benchmarks.zipstore [--pairs N] [--members N]

Keys and bytes alone, without codecs; the page cache is warm for both, and every archive is opened
anew for each run. The last lines have no peer: an archive of a million members, and random ranges
of a deflated member of 1 GiB.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import struct
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from zarr.core.buffer import default_buffer_prototype
from zarr.storage import ZipStore

from benchmarks.harness import MIB, paired, timed
from nczfs.testing.archives import zipped_many
from nczfs.zmap.keys import ROOT, Key
from nczfs.zmap.zip.creating import create_archive
from nczfs.zmap.zip.local import LocalZipZMap

MEMBER_BYTES = 4096
MILLION = 1_000_000
RANGE_BYTES = 64 << 10
OPEN = """
import sys
from benchmarks.harness import timed
from nczfs.zmap.zip.indexcache import IndexCache
from nczfs.zmap.zip.local import LocalZipOptions, LocalZipZMap
def mib(field):
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) // 1024
options = LocalZipOptions(index_cache=IndexCache(sys.argv[2]))
before = mib("VmRSS")
opened = []
seconds = timed(lambda: opened.append(LocalZipZMap(sys.argv[1], options)))
held, peak = mib("VmRSS") - before, mib("VmHWM") - before
print(f"{seconds:.2f} s, {held} MiB held, {peak} MiB at most")
"""


def main() -> None:
    """Run and print the rows of a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--members", type=int, default=10_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="nczfs-bench-") as scratch:
        root = Path(scratch)
        print("| zip archive | peer s | nczfs s | ratio |\n| --- | --- | --- | --- |")
        _members(root, arguments.members, arguments.pairs)
        _million(root)
        _ranges(root)


def _members(root: Path, count: int, pairs: int) -> None:
    source = random.Random(1)
    names = [".zgroup", *(f"v/{n // 100}.{n % 100}" for n in range(1, count))]
    words = [source.randbytes(8) for _ in range(1000)]
    objects = {name: b"".join(source.choices(words, k=MEMBER_BYTES // 8)) for name in names}
    theirs, mine = root / "theirs.zip", root / "mine.zip"
    prototype = default_buffer_prototype()

    async def put() -> None:
        with await ZipStore.open(theirs, mode="w") as store:
            for key, data in objects.items():
                await store.set(key, prototype.buffer.from_bytes(data))

    def write() -> None:
        create_archive(str(mine), "root")
        zmap = LocalZipZMap(mine)
        for key, data in objects.items():
            zmap.write(Key(key), data)
        zmap.close()

    def clear() -> None:
        theirs.unlink(missing_ok=True)
        mine.unlink(missing_ok=True)

    paired(
        f"write {count} members of 4 KiB",
        lambda: asyncio.run(put()),
        write,
        before=clear,
        pairs=pairs,
    )
    asyncio.run(put())
    for name, method in (("stored", zipfile.ZIP_STORED), ("deflated", zipfile.ZIP_DEFLATED)):
        path = root / f"{name}.zip"
        with zipfile.ZipFile(path, "w", method) as archive:
            for key, data in objects.items():
                archive.writestr(key, data)
        keys = [*objects]
        source.shuffle(keys)
        _reading(path, name, keys, pairs)


def _reading(path: Path, name: str, keys: list[str], pairs: int) -> None:
    prototype = default_buffer_prototype()

    async def get() -> None:
        with await ZipStore.open(path, mode="r") as store:
            for key in keys:
                found = await store.get(key, prototype)
                assert found is not None

    def read() -> None:
        zmap = LocalZipZMap(path, read_only=True)
        for key in keys:
            zmap.read(Key(key))
        zmap.close()

    def nothing() -> None:
        pass

    paired(
        f"open, read {len(keys)} {name} members in random order",
        lambda: asyncio.run(get()),
        read,
        before=nothing,
        pairs=pairs,
    )

    async def list_all() -> None:
        with await ZipStore.open(path, mode="r") as store:
            assert len([key async for key in store.list()]) == len(keys)

    def list_ours() -> None:
        zmap = LocalZipZMap(path, read_only=True)
        assert sum(1 for _ in zmap.list(ROOT)) == len(keys)
        zmap.close()

    paired(
        f"open, list {len(keys)} {name} members",
        lambda: asyncio.run(list_all()),
        list_ours,
        before=nothing,
        pairs=pairs,
    )


def _million(root: Path) -> None:
    path = root / "million.zip"
    path.write_bytes(
        zipped_many(MILLION, lambda n: f"data/group/temperature/{n // 1000}.{n % 1000}")
    )
    for when in ("first", "again"):
        done = subprocess.run(
            [sys.executable, "-c", OPEN, str(path), str(root / "index")],
            check=True,
            capture_output=True,
            text=True,
        )
        print(f"\nopen {MILLION} members, {when}: {done.stdout.strip()}", flush=True)


def _ranges(root: Path) -> None:
    """Random ranges of a deflated member of 1 GiB, after the one read that finds the points."""
    path = root / "large.zip"
    block = b"".join(struct.pack("<f", 280 + (n * 7919 % 1000) / 64) for n in range(MIB // 4))
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("v", "w") as member,
    ):
        for number in range(1024):
            member.write(number.to_bytes(4, "little") + block[4:])
    zmap = LocalZipZMap(path, read_only=True)
    key, size = Key("v"), 1024 * MIB
    first = timed(lambda: zmap.read(key, size - RANGE_BYTES))
    places = random.Random(1)
    starts = [places.randrange(size - RANGE_BYTES) for _ in range(100)]
    then = timed(lambda: [zmap.read(key, start, start + RANGE_BYTES) for start in starts])
    zmap.close()
    print(
        f"\n64 KiB at the end of 1 GiB deflated: {first:.2f} s; then at random: {then * 10:.1f} ms"
    )


if __name__ == "__main__":
    main()
