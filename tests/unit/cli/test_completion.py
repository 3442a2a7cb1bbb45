"""``nczfs completion``: real shells complete command lines."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from nczfs.cli.completion import SHELLS
from nczfs.cli.main import main
from tests.support.shells import shell

TYPED = (
    ("nczfs zip-c", "zip-compact"),
    ("nczfs unm", "unmount"),
    ("nczfs ls --recu", "--recursive"),
    ("nczfs mount --endp", "--endpoint-url"),
    ("nczfs verify --check-etag au", "auto"),
    ("nczfs mount --missing-chunks er", "error"),
    ("nczfs completion zs", "zsh"),
    ("nczfs help exp", "export"),
    ("nczfs info some-da", "some-dataset.zarr"),
    ("nczfs umount some-da", "some-dataset.zarr"),
)


@pytest.fixture
def directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """A home with the script of each shell, and something to complete."""
    for name in SHELLS:
        assert main(["completion", name]) == 0
        (tmp_path / f"script.{name}").write_text(capsys.readouterr().out)
    (tmp_path / "some-dataset.zarr").mkdir()
    return tmp_path


def program(name: str) -> str:
    found = shutil.which(name)
    assert found, f"{name} is missing: run scripts/setup"
    return found


def test_bash_completes(directory: Path) -> None:
    with shell([program("bash"), "--norc", "--noprofile", "-i"], directory) as bash:
        bash.type("bind 'set enable-bracketed-paste off'; PS1='at''-prompt '\n")
        bash.type("source script.bash; echo script''-read\n")
        bash.wait_for("script-read")
        for typed, word in TYPED:
            bash.type(f"{typed}\t")
            bash.wait_for(f"{typed.rpartition(' ')[0]} {word}")
            bash.type("\x15")  # Ctrl-U


def test_zsh_completes(directory: Path) -> None:
    (directory / "functions").mkdir()
    (directory / "script.zsh").rename(directory / "functions/_nczfs")
    with shell([program("zsh"), "-f", "-i"], directory) as zsh:
        zsh.type("fpath=(~/functions $fpath); autoload -Uz compinit; compinit -D -u\n")
        zsh.type("echo script''-read\n")
        zsh.wait_for("script-read")
        for typed, word in TYPED:
            zsh.type(f"{typed}\t")
            zsh.wait_for(word)
            zsh.type("\x15")


def test_fish_completes(directory: Path) -> None:
    for typed, word in TYPED:
        done = subprocess.run(
            [program("fish"), "--no-config", "-c", f"source script.fish; complete -C '{typed}'"],
            cwd=directory,
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stderr == ""
        found = [line.split("\t")[0].rstrip("/") for line in done.stdout.splitlines()]
        assert found == [word], typed


def test_another_shell_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "tcsh"]) == 2
    assert "bash" in capsys.readouterr().err
