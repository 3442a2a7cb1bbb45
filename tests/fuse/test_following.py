"""What one mount stores is seen by programs in another one: those that open it, and ``tail -f``."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from tests.support.mounts import Served
from tests.support.places import Place, requested_place
from tests.support.settled import settled
from tests.support.waiting import until

MINIMAL = ("--metadata-ttl", "minimal", "--negative-metadata-ttl", "minimal")
REPLACED = "ESTALE"


@pytest.fixture(params=["directory", "ceph"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return requested_place(request, tmp_path)


@pytest.fixture
def writer(place: Place, tmp_path: Path) -> Iterator[Served]:
    with settled(place.url, tmp_path / "spool", *MINIMAL) as mount:
        yield mount


@pytest.fixture
def reader(place: Place, tmp_path: Path) -> Iterator[Served]:
    with settled(place.url, tmp_path / "spool2", *MINIMAL, expect=REPLACED) as mount:
        yield mount


def test_what_is_opened_anew_shows_each_line_that_was_appended(
    writer: Served, reader: Served
) -> None:
    """SEMANTICS O2, O3."""
    log = writer.path / "objects/run.log"
    shown = reader.path / "objects/run.log"
    versions = [""]
    for number in range(5):
        versions.append(f"{versions[-1]}step {number}\n")
        with log.open("a") as file:
            file.write(f"step {number}\n")
        until(lambda: versions.index(_shown(shown)) == len(versions) - 1)


def _shown(path: Path) -> str:
    """What a program finds that opens a file now, "" where there is none."""
    try:
        return path.read_text()
    except FileNotFoundError:
        return ""


def _ends_with(path: Path, text: str) -> bool:
    return path.read_text().endswith(text)


def test_tail_follows_a_file_of_its_own_mount_and_says_when_another_one_replaces_it(
    writer: Served, reader: Served, tmp_path: Path
) -> None:
    """SEMANTICS O2, O7."""
    path = reader.path / "objects/run.log"
    path.write_text("begin\n")
    with tail(path, tmp_path / "seen") as seen:
        until(lambda: seen.read_text() == "begin\n")
        with path.open("a") as file:
            for line in ("0\n", "1\n", "2\n"):
                file.write(line)
                file.flush()
                until(partial(_ends_with, seen, line))
        assert seen.read_text() == "begin\n0\n1\n2\n"
        log = writer.path / "objects/run.log"
        until(lambda: _shown(log) == seen.read_text())
        with log.open("a") as file:
            file.write("elsewhere\n")
        until(lambda: "Stale file handle" in seen.read_text())
    assert "elsewhere" not in seen.read_text()
    until(lambda: _shown(path) == "begin\n0\n1\n2\nelsewhere\n")


@contextmanager
def tail(path: Path, seen: Path) -> Iterator[Path]:
    """``tail -f``: a file with what it says."""
    with (
        seen.open("wb") as said,
        subprocess.Popen(["tail", "-f", "-s", "0.02", path], stdout=said, stderr=said) as running,
    ):
        try:
            yield seen
        finally:
            running.kill()
