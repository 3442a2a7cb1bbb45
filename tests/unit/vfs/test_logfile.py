"""``.nczfs/log``: the lines of this mount, in a file that has those of others, too."""

from __future__ import annotations

from pathlib import Path

from nczfs.vfs.control import LOG_BYTES_SHOWN, LogFile


def test_lines_of_earlier_mounts_are_not_shown(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"earlier\n")
    log = LogFile.from_here(path)
    assert log.tail() == b""
    with path.open("ab") as file:
        file.write(b"now\n")
    assert log.tail() == b"now\n"


def test_a_file_that_takes_the_place_of_a_rotated_one_is_shown_from_its_begin(
    tmp_path: Path,
) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"earlier\n")
    log = LogFile.from_here(path)
    path.rename(tmp_path / "log.1")
    path.write_bytes(b"after the rotation\n")
    assert log.tail() == b"after the rotation\n"
    path.write_bytes(b"cut\n")
    assert log.tail() == b"cut\n"


def test_a_log_that_is_not_there_yet_is_shown_when_it_is(tmp_path: Path) -> None:
    log = LogFile.from_here(tmp_path / "log")
    assert log.tail().endswith(b"No such file or directory\n")
    (tmp_path / "log").write_bytes(b"now\n")
    assert log.tail() == b"now\n"


def test_of_a_long_log_whole_lines_of_the_end_are_shown(tmp_path: Path) -> None:
    path = tmp_path / "log"
    line = b"x" * 99 + b"\n"
    path.write_bytes(b"earlier\n")
    log = LogFile.from_here(path)
    with path.open("ab") as file:
        file.write(line * (LOG_BYTES_SHOWN // 100 + 10))
    tail = log.tail()
    assert tail == line * (LOG_BYTES_SHOWN // 100)
