"""A command that no other code knows: one entry of the table of commands is all it takes."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

import nczfs
from nczfs.cli.command import STORE_SCOPES, Command, CommandLine
from nczfs.cli.main import COMMANDS, main


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", metavar="URL", help="a dataset")


def _run(request: CommandLine) -> int:
    with nczfs.open(request.arguments.url) as root:
        print(f"{len(root.groups)} groups")
    return 0


COUNT = Command(
    name="count",
    summary="Count the groups of a dataset.",
    add_arguments=_arguments,
    run=_run,
    examples=("nczfs count era5.zarr",),
    scopes=STORE_SCOPES,
    aliases=("members",),
)


@pytest.fixture(autouse=True)
def _in_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(COMMANDS, COUNT.name, COUNT)


@pytest.fixture
def dataset(tmp_path: Path) -> str:
    path = str(tmp_path / "d.zarr")
    with nczfs.open(path, "w") as root:
        root.create_group("g")
        root.create_group("h")
    return path


@pytest.mark.parametrize("word", ["count", "members"])
def test_it_runs_by_its_names(word: str, dataset: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([word, dataset]) == 0
    assert capsys.readouterr().out == "2 groups\n"


def test_its_errors_are_those_of_every_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["count", str(tmp_path / "absent.zarr")]) == 1
    assert "absent.zarr" in capsys.readouterr().err


def test_it_has_help_a_man_page_and_completion(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", "count"]) == 0
    assert "nczfs count era5.zarr" in capsys.readouterr().out
    assert main(["--help"]) == 0
    assert "count" in capsys.readouterr().out
    assert main(["completion", "bash"]) == 0
    assert "count" in capsys.readouterr().out


def test_a_mistyped_name_leads_to_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["coumt", "x"]) == 2
    assert "count" in capsys.readouterr().err
