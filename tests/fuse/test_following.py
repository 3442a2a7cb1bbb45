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
    """SEMANTICS O21, O3."""
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


def _is_shown(path: Path, text: str) -> bool:
    return _shown(path) == text


def _ends_with(path: Path, text: str) -> bool:
    return path.read_text().endswith(text)


@pytest.mark.parametrize("size", [0, 4096])
def test_tail_follows_a_file_that_ends_with_a_page(
    writer: Served, reader: Served, tmp_path: Path, size: int
) -> None:
    """SEMANTICS O20: nothing of what it asks for is in the version that it opened."""
    path, log = reader.path / "objects/run.log", writer.path / "objects/run.log"
    path.write_text("." * size)
    with tail(path, tmp_path / "seen", "-f") as seen:
        until(partial(_is_shown, seen, "." * size))
        until(partial(_is_shown, log, "." * size))
        with log.open("a") as file:
            file.write("more\n")
        until(partial(_is_shown, seen, "." * size + "more\n"))


@pytest.mark.parametrize("option", ["-f", "-F"])
def test_tail_follows_what_any_mount_appends(
    writer: Served, reader: Served, tmp_path: Path, option: str
) -> None:
    """SEMANTICS O20, O7: by a descriptor, and by the name."""
    path, log = reader.path / "objects/run.log", writer.path / "objects/run.log"
    path.write_text("".join(f"begin {number}\n" for number in range(1000)))
    path.read_text()  # the kernel has its pages when tail begins
    with tail(path, tmp_path / "seen", option) as seen:
        until(partial(_ends_with, seen, "begin 999\n"))
        wanted = seen.read_text()
        for turn in range(6):
            line = f"{turn}\n"
            if turn % 3:
                until(partial(_ends_with, log, wanted))
            with (log if turn % 3 else path).open("a") as file:
                file.write(line)
            wanted += line
            until(partial(_ends_with, seen, line))
        assert seen.read_text() == wanted


def test_tail_says_when_what_it_has_read_was_replaced(
    writer: Served, reader: Served, tmp_path: Path
) -> None:
    """SEMANTICS O2: two versions are never mixed."""
    path, log = reader.path / "objects/run.log", writer.path / "objects/run.log"
    path.write_text("begin\n")
    with tail(path, tmp_path / "seen", "-f") as seen:
        until(lambda: seen.read_text() == "begin\n")
        until(lambda: _shown(log) == "begin\n")
        log.write_text("another run, and longer\n")
        until(lambda: "Stale file handle" in seen.read_text())
    assert "another" not in seen.read_text()
    until(lambda: _shown(path) == "another run, and longer\n")


@contextmanager
def tail(path: Path, seen: Path, option: str) -> Iterator[Path]:
    """A file with what ``tail`` says."""
    with (
        seen.open("wb") as said,
        subprocess.Popen(["tail", option, "-s", "0.02", path], stdout=said, stderr=said) as running,
    ):
        try:
            yield seen
        finally:
            running.kill()
