"""Names and texts of others cannot control a terminal, and come out of a pipe as they are."""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.refusing import small_disk
from tests.support.terminals import on_a_terminal

ESC = "\x1b]0;owned\x07\x1b[31mred"
C1 = "\x9b31m"
LINES = "two\nlines"
LATIN = b"caf\xe9".decode("utf-8", "surrogateescape")
NAMES = (ESC, C1, LINES, LATIN)
SHOWN = (r"\x1b]0;owned\x07\x1b[31mred", r"\x9b31m", r"two\nlines", r"caf\xe9")

ARRAY = {
    "zarr_format": 2,
    "shape": [2],
    "chunks": [2],
    "dtype": "|S4",
    "compressor": None,
    "filters": None,
    "fill_value": None,
    "order": "C",
}


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    """Variables and groups of odd names, with odd attributes and values."""
    root = tmp_path / "d.zarr"
    root.mkdir()
    (root / ".zgroup").write_text(json.dumps({"zarr_format": 2}))
    attributes = {ESC: ESC, "c1": C1, "lines": LINES, "half": "\ud800"}
    (root / ".zattrs").write_text(json.dumps(attributes))
    for name in NAMES:
        (root / name).mkdir()
        (root / name / ".zarray").write_text(json.dumps(ARRAY))
        (root / name / "0").write_bytes(b"\x1b[2J\xc2\x9bx\n")
        (root / f"g{name}").mkdir()
        (root / f"g{name}" / ".zgroup").write_text(json.dumps({"zarr_format": 2}))
    return root


def is_harmless(text: str) -> bool:
    return all(c.isprintable() or c in "\n\t" for c in text)


@pytest.mark.parametrize("command", ["ls", "ls -l", "ls -R", "tree", "du"])
def test_names_are_escaped_on_a_terminal_line_by_line(command: str, dataset: Path) -> None:
    text, status = on_a_terminal(*command.split(), dataset)
    assert status == 0, text
    assert is_harmless(text)
    for name in SHOWN:
        assert sum(name in line for line in text.splitlines()) == 2, name


@pytest.mark.parametrize("command", ["dump", "dump -h", "info"])
def test_documents_are_escaped_on_a_terminal(command: str, dataset: Path) -> None:
    text, status = on_a_terminal(*command.split(), dataset)
    assert status == 0, text
    assert is_harmless(text)
    assert "owned" in text


@pytest.mark.parametrize("form", ["--text", "--json"])
def test_values_are_escaped_on_a_terminal(form: str, dataset: Path) -> None:
    text, status = on_a_terminal("cat", form, dataset / C1)
    assert status == 0, text
    assert is_harmless(text)
    assert text.count("\n") == (2 if form == "--text" else 1)


@pytest.mark.parametrize("command", ["cat", "ls", "info", "dump", "verify", "rm", "du", "tree"])
def test_errors_are_escaped_and_one_line(command: str, dataset: Path) -> None:
    text, status = on_a_terminal(command, dataset / ESC / "no\nsuch")
    assert status in (1, 2)
    assert is_harmless(text)
    assert text.count("\n") == 1
    assert r"\x1b]0;owned\x07\x1b[31mred/no\nsuch" in text


def piped(*arguments: str | Path) -> bytes:
    return subprocess.run(
        [sys.executable, "-m", "nczfs.cli.main", *map(str, arguments)],
        stdout=subprocess.PIPE,
        check=True,
    ).stdout


def test_a_pipe_gets_names_as_they_are(dataset: Path) -> None:
    names = sorted([*NAMES, *(f"g{name}/" for name in NAMES)])
    text = os.fsdecode(piped("ls", dataset))
    assert sorted(text.replace(LINES, "LINES").splitlines()) == sorted(
        name.replace(LINES, "LINES") for name in names
    )


def test_a_dump_into_a_pipe_is_cdl(dataset: Path) -> None:
    """CDL has no escape for what is no ASCII: ncgen reads the bytes themselves."""
    data = piped("dump", dataset)
    assert b"\xc2\x9b31m(" in data
    assert b"caf\xe9(" in data


def test_info_is_json_whatever_the_names_are(dataset: Path) -> None:
    document = json.loads(piped("info", dataset).decode())
    assert sorted(document["variables"]) == sorted(NAMES)
    assert document["attributes"]["half"] == "\ufffd"
    assert document["attributes"][ESC] == ESC
    for name in NAMES:
        assert json.loads(piped("info", dataset / name))["name"] == name


PRINTING = (
    "ls {}",
    "ls -l {}",
    "ls --json {}",
    "tree {}",
    "du {}",
    "info {}",
    "dump {}",
    "cat {}/v",
    "cat --raw {}/v",
    "cat --json {}/v",
    "verify --digest {}",
    "verify --json {}",
    "version",
    "status",
    "completion bash",
    "--help",
    "ls --help",
)


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    root = tmp_path / "plain.zarr"
    (root / "v").mkdir(parents=True)
    (root / ".zgroup").write_text(json.dumps({"zarr_format": 2}))
    (root / "v/.zarray").write_text(json.dumps(ARRAY | {"shape": [20000]}))
    return root


def ended(line: str, redirection: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        f"{sys.executable} -m nczfs.cli.main {line} {redirection}",
        shell=True,
        executable="/bin/bash",
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("line", PRINTING)
def test_a_full_disk_under_the_output_is_said_in_one_line(line: str, plain: Path) -> None:
    done = ended(line.format(plain), ">/dev/full")
    assert done.stderr == "nczfs: standard output: No space left on device\n"
    assert done.returncode == 1


@pytest.mark.parametrize("line", ["ls {}", "cat {}/v", "--help"])
def test_a_closed_output_is_said_in_one_line(line: str, plain: Path) -> None:
    done = ended(line.format(plain), ">&-")
    assert done.stderr == "nczfs: standard output: Bad file descriptor\n"
    assert done.returncode == 1


def test_errors_do_not_go_into_the_output_when_there_is_nowhere_to_say_them(plain: Path) -> None:
    done = ended(f"ls {plain}/none", "2>&-")
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 1)


@pytest.mark.parametrize("line", ["cat {}/v", "dump {}", "man {}/man"])
def test_a_reader_that_has_gone_ends_a_command_in_silence(line: str, plain: Path) -> None:
    done = ended(line.format(plain), "| true; exit ${PIPESTATUS[0]}")
    assert done.stderr == ""
    assert done.returncode in (0, 141)  # 0: all of it went into the pipe before


def test_manual_pages_on_a_full_disk_name_the_page(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 1):
        (tmp_path / "disk/other").write_bytes(bytes((1 << 20) - 8192))
        done = ended(f"man {tmp_path}/disk", "")
    assert re.fullmatch(
        rf"nczfs: {tmp_path}/disk/man1/nczfs[a-z-]*\.1: No space left on device\n", done.stderr
    )
    assert done.returncode == 1


@pytest.mark.parametrize(("locale", "shown"), [("C.UTF-8", "é"), ("C", r"\xe9")])
def test_strings_print_as_text_where_the_locale_can(
    locale: str, shown: str, plain: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    array = ARRAY | {"shape": [3], "chunks": [3], "dtype": "|O", "fill_value": ""}
    (plain / "v/.zarray").write_text(json.dumps(array | {"filters": [{"id": "vlen-utf8"}]}))
    texts = [text.encode() for text in ("é", "\x1b[31m", C1)]
    cells = b"".join(struct.pack("<I", len(text)) + text for text in texts)
    (plain / "v/0").write_bytes(struct.pack("<I", len(texts)) + cells)
    monkeypatch.setenv("LC_ALL", locale)
    monkeypatch.setenv("PYTHONCOERCECLOCALE", "0")
    monkeypatch.setenv("PYTHONUTF8", "0")
    text, status = on_a_terminal("cat", f"{plain}/v")
    assert status == 0
    assert text.splitlines() == [f'"{shown}"', r'"\u001b[31m"', r'"\x9b31m"']
