"""``nczfs man``: pages that man(1) shows and mandoc has nothing against."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from nczfs.cli.main import COMMANDS, main
from nczfs.cli.man import Page, pages

PAGES = list(pages(COMMANDS))


def shown(*words: str | Path, **environment: str) -> str:
    assert shutil.which("man"), "man is missing: run scripts/setup"
    done = subprocess.run(
        ["man", *map(str, words)],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"MANPAGER": "cat", "MANWIDTH": "100", "LC_ALL": "C.UTF-8"} | environment,
    )
    assert done.stderr == ""
    return done.stdout


def test_there_is_a_page_for_every_command_and_for_what_mount_8_calls() -> None:
    names = {page.path for page in PAGES}
    assert names == {
        "man1/nczfs.1",
        "man8/mount.nczfs.8",
        "man8/umount.nczfs.8",
        *(f"man1/nczfs-{name}.1" for name in COMMANDS),
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.name))
def test_a_page_is_sound(page: Page, tmp_path: Path) -> None:
    path = tmp_path / Path(page.path).name
    path.write_text(page.text)
    linted = subprocess.run(
        ["mandoc", "-T", "lint", "-W", "warning", path], capture_output=True, text=True, check=False
    )
    assert (linted.returncode, linted.stdout, linted.stderr) == (0, "", "")
    text = shown("--warnings", "-l", path)
    assert f"{page.name} - " in text.replace("\u2010", "-").replace("\u2212", "-")


def test_a_page_has_the_options_of_its_command_and_an_example(tmp_path: Path) -> None:
    (page,) = [page for page in PAGES if page.name == "nczfs-ls"]
    (tmp_path / "ls.1").write_text(page.text)
    text = shown("-l", tmp_path / "ls.1")
    assert "-l, --long" in text
    assert "--endpoint-url URL" in text
    assert "nczfs ls -l s3://bucket/era5.zarr" in text
    assert "EXIT STATUS" in text


def test_man_finds_the_pages_that_were_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["man", str(tmp_path / "share/man")]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(f"{tmp_path}/share/man: `man -M {tmp_path}/share/man nczfs` begins")
    assert "COMMANDS" in shown("-M", tmp_path / "share/man", "nczfs")
    monkeypatch.setenv("MANPATH", f"{tmp_path}/share/man:")
    assert main(["man", str(tmp_path / "share/man")]) == 0
    assert capsys.readouterr().out == f"{tmp_path}/share/man: `man nczfs` begins here\n"
    assert "COMMANDS" in shown("nczfs", MANPATH=str(tmp_path / "share/man"))
    assert "called by mount(8)" in shown("mount.nczfs", MANPATH=str(tmp_path / "share/man"))


def test_the_date_is_that_of_a_build_that_shall_be_repeatable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    assert all("January 02, 1970" in page.text for page in pages(COMMANDS))


def test_a_place_that_cannot_be_written_is_an_error_of_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert main(["man", str(tmp_path / "file")]) == 1
    assert capsys.readouterr().err == f"nczfs: {tmp_path}/file/man1: Not a directory\n"
