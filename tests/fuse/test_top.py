"""``nczfs top`` on a real mount."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from nczfs.cli import top
from nczfs.cli.activity import Activity, activity, look
from nczfs.cli.demo import SAMPLE
from nczfs.cli.main import main
from nczfs.cli.top import lines
from nczfs.fuse import mounting
from nczfs.fuse.programs import opened_files
from tests.support.mounts import NCZFS, mounted, nczfs
from tests.support.waiting import until

VARIABLE = f"datasets/{SAMPLE.name}/surface_temperature"


@pytest.fixture(scope="module")
def mount(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    store = tmp_path_factory.mktemp("store")
    shutil.copytree(SAMPLE, store / SAMPLE.name)
    with mounted(store, "--flush-age", "indefinite") as path:
        yield path


def shown(mount: Path, found: Activity) -> str:
    status = json.loads((mount / ".nczfs/status.json").read_text())
    return "\n".join(lines(str(mount), found, status))


def test_reads_are_counted_with_the_program_and_the_place_it_has_reached(mount: Path) -> None:
    with (mount / VARIABLE / "values.raw").open("rb", buffering=0) as file:
        before = look(str(mount))
        size = len(file.read(100_000))
        after = look(str(mount))
        found = activity(before, after)
        (mine,) = [each for each in found.files if each.file.pid == os.getpid()]
        text = shown(mount, found)
    assert size == 100_000
    assert found.read_bytes * found.seconds >= size
    assert found.chunks_decoded * found.seconds >= 1
    assert found.store_requests["read"] > 0
    assert (mine.file.path, mine.file.position) == (f"{VARIABLE}/values.raw", size)
    assert not mine.file.writes
    assert mine.rate == pytest.approx(size / found.seconds)
    assert "reading   97.7KiB" in text
    assert "unsaved   nothing" in text
    assert opened_files(str(mount)) == []


def test_its_own_reads_are_not_counted(mount: Path) -> None:
    """Those of others are: `nczfs status`, in another test, reads a file of each mount."""

    def is_quiet() -> bool:
        before = look(str(mount))
        found = activity(before, look(str(mount)))
        if (found.reads, found.read_bytes) != (0, 0):
            return False
        assert "read 0B/s (0/s)" in shown(mount, found)
        return True

    until(is_quiet)


def test_writes_are_counted_and_what_is_not_stored_is_shown(mount: Path) -> None:
    with (mount / VARIABLE / "values.raw").open("r+b", buffering=0) as file:
        before = look(str(mount))
        file.write(b"\x01\x00")
        after = look(str(mount))
        found = activity(before, after)
        text = shown(mount, found)
        (mine,) = [each for each in found.files if each.file.pid == os.getpid()]
    assert found.written_bytes * found.seconds == pytest.approx(2)
    assert found.writes * found.seconds == pytest.approx(1)
    assert mine.file.writes
    assert "unsaved   1 chunk" in text


def test_the_command_prints_one_interval_or_json(mount: Path) -> None:
    done = nczfs("top", mount, "--once", "--interval", "100ms")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"{mount}: ")
    assert "\x1b" not in done.stdout
    done = nczfs("top", mount, "--once", "--json", "--interval", "100ms")
    found = json.loads(done.stdout)
    assert found["written_bytes"] == 0
    assert found["status"]["unsaved_chunks"] == 0
    assert found["seconds"] >= 0.1


def test_what_is_no_mount_and_no_interval_is_refused(tmp_path: Path) -> None:
    done = nczfs("top", tmp_path)
    assert (done.returncode, "nczfs is not mounted there" in done.stderr) == (2, True)
    assert nczfs("top", tmp_path, "--interval", "1ms").returncode == 2


def test_it_ends_with_the_mount() -> None:
    with mounted(SAMPLE, "--read-only") as path:
        command = [*NCZFS, "top", str(path), "--interval", "100ms"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert process.stdout is not None
        assert process.stdout.readline()
        mounting.unmount(str(path), lazy=True)
        _, told = process.communicate(timeout=60)
    assert (process.returncode, told) == (0, b"")


def test_a_mount_that_ends_before_anything_was_shown_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with mounted(SAMPLE, "--read-only") as path:
        unmount = SimpleNamespace(sleep=lambda _: mounting.unmount(str(path), lazy=True))
        monkeypatch.setattr(top, "time", unmount)
        assert main(["top", "--once", str(path)]) == 1
    assert capsys.readouterr().err == f"nczfs: {path}: is not mounted any more\n"
