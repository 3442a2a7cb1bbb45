"""Stores of a hundred thousand keys are listed in the memory of a few."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nczfs.testing.archives import zipped_many
from tests.support.runs import memory

COUNT = 100_000
GROWTH_KIB = 4096  # the names alone are 6 MiB, and what is told of each ten times as much

LIST = """
import sys
from nczfs.zmap.keys import Prefix
from nczfs.zmap.registry import open_store
def peak():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
zmap = open_store(sys.argv[1])
ask = {"search": zmap.search, "list": zmap.list}[sys.argv[2]]
names = ask(Prefix(sys.argv[3]))
next(names)
before = peak()
print(1 + sum(1 for _ in names), peak() - before)
"""


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory in memory, where there is one: so many files take a disk a while."""
    with tempfile.TemporaryDirectory(dir=memory()) as path:
        yield Path(path)


def _files(place: Path) -> Path:
    (place / "many").mkdir()
    for number in range(COUNT):
        os.mknod(place / f"many/{number}.0")
    return place


def _archive(place: Path) -> Path:
    path = place / "data.zip"
    path.write_bytes(zipped_many(COUNT, lambda number: f"data/many/{number}.0"))
    return path


@pytest.mark.parametrize("make", [_files, _archive])
def test_a_hundred_thousand_keys_are_found_in_little_memory(
    make: Callable[[Path], Path], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(place / "cache"))
    store = make(place)
    for operation, prefix in (("search", "many"), ("list", "many"), ("list", "")):
        done = subprocess.run(
            [sys.executable, "-c", LIST, str(store), operation, prefix],
            check=True,
            capture_output=True,
            text=True,
        )
        count, growth_kib = map(int, done.stdout.split())
        assert count == COUNT
        assert growth_kib < GROWTH_KIB
