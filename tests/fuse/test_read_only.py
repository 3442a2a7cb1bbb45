"""Mounts that cannot be written: what programs of ordinary users are told."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import nczfs
from tests.support.mounts import mounted

REFUSED = "Read-only file system"
OTHER = 65534  # nobody: not the owner
ATTEMPTS = (
    "echo x > {}/objects/a/.zattrs",
    "echo x > {}/objects/new",
    "cp /etc/hostname {}/objects/a/.zattrs",
    "touch {}/objects/a/.zattrs",
    "rm -f {}/objects/a/.zattrs",
    "mkdir {}/objects/d",
    "rmdir {}/objects/a",
    "mv {}/objects/a {}/objects/b",
    "ln {}/objects/a/.zattrs {}/objects/b",
    "chmod 777 {}/objects/a",
    "truncate -s 0 {}/datasets/a/attributes/title",
)


class Shell:
    """Commands of an ordinary user at a mount: of its owner, or of another user."""

    def __init__(self, mount: Path, *, is_owner: bool) -> None:
        self._mount = mount
        self._is_owner = is_owner

    def __call__(self, line: str) -> subprocess.CompletedProcess[str]:
        words = ["sh", "-c", line.replace("{}", str(self._mount))]
        if os.geteuid() == 0:  # as any user: without the capabilities that pass over modes
            words = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", *words]
        if not self._is_owner:
            words[1:1] = [f"--reuid={OTHER}", f"--regid={OTHER}", "--clear-groups"]
        return subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    top = tmp_path_factory.mktemp("read-only") / "store"
    with nczfs.open(str(top / "a"), "w", format="zarr2") as root:
        root.attrs["title"] = "t"
    return top


@pytest.fixture(scope="module", params=[(), ("--allow-other",)], ids=["owner", "other user"])
def shell(store: Path, request: pytest.FixtureRequest) -> Iterator[Shell]:
    with shell_at(store, "--read-only", *request.param) as shell:
        yield shell


@contextmanager
def shell_at(store: Path, *options: str) -> Iterator[Shell]:
    with mounted(store, *options) as mount:
        mount.parent.chmod(0o755)
        yield Shell(mount, is_owner="--allow-other" not in options)


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_an_ordinary_user_is_told_that_the_file_system_is_read_only(
    shell: Shell, attempt: str
) -> None:
    """SEMANTICS L1."""
    done = shell(attempt)
    assert done.returncode != 0
    assert REFUSED in done.stderr
    assert "ermission denied" not in done.stderr


def test_programs_that_ask_first_are_told_that_nothing_can_be_written(shell: Shell) -> None:
    """SEMANTICS L1."""
    assert shell("test -w {}/objects/a/.zattrs").returncode == 1
    assert shell("test -w {}/objects").returncode == 1
    assert shell("test -r {}/objects/a/.zattrs && test -x {}/objects").returncode == 0
    assert shell("test -x {}/objects/a/.zattrs").returncode == 1
    assert shell("cd {}/datasets/a && cat attributes/title").stdout == "t\n"
    assert shell("stat -c %a {}/objects/a/.zattrs {}/objects").stdout == "444\n555\n"


def test_only_the_owner_pulls_the_levers_of_a_read_only_mount(store: Path) -> None:
    """SEMANTICS L1."""
    with shell_at(store, "--read-only") as shell:
        assert shell("echo > {}/.nczfs/refresh").returncode == 0
    with shell_at(store, "--read-only", "--allow-other") as shell:
        assert "ermission denied" in shell("echo > {}/.nczfs/refresh").stderr


def test_modes_that_keep_others_from_reading_hold_on_a_read_only_mount(store: Path) -> None:
    """SEMANTICS L1."""
    options = "--read-only", "--allow-other", "--umask", "0077"
    with shell_at(store, *options) as shell:
        done = shell("cat {}/objects/a/.zattrs")
        assert "ermission denied" in done.stderr
        assert not done.stdout


def test_a_store_that_cannot_be_written_is_a_read_only_file_system(
    store: Path, tmp_path: Path
) -> None:
    """SEMANTICS L1."""
    references = tmp_path / "references.json"
    references.write_text('{"version": 1, "refs": {".zgroup": "{\\"zarr_format\\": 2}"}}')
    with shell_at(references) as shell:
        assert REFUSED in shell("echo x > {}/objects/.zgroup").stderr
        assert shell("test -w {}/objects/.zgroup").returncode == 1
