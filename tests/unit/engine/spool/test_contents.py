"""What the files of a log say, in the order in which they were written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nczfs.engine.spool.contents import LogContents, logs_in
from nczfs.engine.spool.log import BEFORE, FORMAT
from nczfs.engine.spool.records import packed

HEADING = {"is": "log", "format": FORMAT, "url": "memory://s"}


@pytest.fixture(autouse=True)
def directory(tmp_path: Path) -> Path:
    (tmp_path / "spool").mkdir()
    return tmp_path / "spool"


def said(directory: Path, number: int, *documents: dict[str, Any]) -> None:
    data = b"".join(b"".join(packed(document)) for document in documents)
    (directory / f"{BEFORE}{number}").write_bytes(data)


def test_files_come_in_the_order_of_their_numbers(directory: Path) -> None:
    for number in (2, 10, 9, 1):
        said(directory, number)
    (directory / f"{BEFORE}old").touch()
    assert [path.name for path in logs_in(directory)] == ["log.1", "log.2", "log.9", "log.10"]


def test_a_file_that_does_not_name_what_was_mounted_leaves_it_as_it_was(directory: Path) -> None:
    """Such as that of `nczfs recover`."""
    said(directory, 1, HEADING)
    said(directory, 2, {"is": "log", "format": FORMAT}, {"is": "placed", "key": "v"})
    contents = LogContents(logs_in(directory))
    assert (contents.url, contents.problem, contents.is_whole) == ("memory://s", "", True)
    assert contents.placed == {"v"}


@pytest.mark.parametrize("before", [[], [HEADING]], ids=["first", "second"])
def test_where_a_file_cannot_be_understood_is_said(
    directory: Path, before: list[dict[str, Any]]
) -> None:
    said(directory, 1, *before)
    start = (directory / f"{BEFORE}1").stat().st_size
    said(directory, 1, *before, {"is": "cake"})
    assert (
        f"log.1: cannot be understood from byte {start} on: "
        in LogContents(logs_in(directory)).problem
    )
