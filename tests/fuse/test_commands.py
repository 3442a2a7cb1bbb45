"""The command line on real mounts of the sample dataset."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from nczfs.cli import mountstatus
from nczfs.cli.demo import SAMPLE
from nczfs.cli.main import main
from nczfs.fuse import mounting
from tests.support.decoding import DECODE
from tests.support.mounts import mounted, nczfs, served

CLI = [sys.executable, "-X", "faulthandler", "-m", "nczfs.cli.main"]


@pytest.fixture
def mountpoint(tmp_path: Path) -> Iterator[Path]:
    """A directory that is unmounted at the end, whatever happened."""
    path = tmp_path / "mnt"
    path.mkdir()
    yield path
    while mounting.find_mount(str(path)) is not None:
        mounting.unmount(str(path), lazy=True)


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def test_a_mount_is_usable_when_the_command_returns_and_umount_waits_for_its_end(
    mountpoint: Path,
) -> None:
    done = nczfs("mount", SAMPLE, mountpoint)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    values = np.load(mountpoint / "datasets/ostia.zarr/time/values.npy")
    assert values.tolist()[:2] == [348804, 349536]
    status = json.loads(nczfs("status", mountpoint, "--json").stdout)
    pid = status["pid"]
    assert nczfs("umount", mountpoint).returncode == 0
    assert mounting.find_mount(str(mountpoint)) is None
    assert not Path(f"/proc/{pid}/cmdline").exists() or is_zombie(pid)


def is_zombie(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def test_a_foreground_mount_serves_until_it_is_told_to_end() -> None:
    with mounted(SAMPLE) as path:
        assert (path / "datasets/ostia.zarr/time/attributes/axis").read_text() == "T\n"
        assert (path / "objects/time/.zarray").read_bytes() == (
            SAMPLE / "time/.zarray"
        ).read_bytes()


def test_an_error_in_the_daemon_is_the_commands_own(mountpoint: Path) -> None:
    done = nczfs("mount", "/no/such/store", mountpoint)
    assert done.returncode == 1
    assert done.stderr.startswith("nczfs: ")
    assert "/no/such/store" in done.stderr
    assert done.stderr.count("\n") == 1
    assert mounting.find_mount(str(mountpoint)) is None


def test_a_url_of_no_store_is_wrong_usage(mountpoint: Path) -> None:
    done = nczfs("mount", "gopher://x/y", mountpoint)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1


def test_a_mount_that_takes_too_long_is_given_up(mountpoint: Path) -> None:
    done = nczfs("mount", SAMPLE, mountpoint, "--mount-timeout", "1ms")
    assert done.returncode == 1
    assert "within 0.001 s (--mount-timeout)" in done.stderr
    assert mounting.find_mount(str(mountpoint)) is None


def test_status_says_first_what_is_not_stored_and_features_only_when_asked(
    tmp_path: Path, mountpoint: Path
) -> None:
    (tmp_path / "store").mkdir()
    assert nczfs("mount", tmp_path / "store", mountpoint).returncode == 0
    lines = nczfs("status", mountpoint).stdout.splitlines()
    assert lines[0] == f"{mountpoint}: {tmp_path / 'store'}"
    assert lines[1:3] == ["unsaved: nothing", "in the spool: nothing"]
    assert re.fullmatch(rf"mounted since: {date.today().year}-\d\d-\d\d \d\d:.*", lines[3])
    assert "conditional writes" not in "\n".join(lines)
    assert "conditional writes: yes" in nczfs("status", "-v", mountpoint).stdout.splitlines()
    assert nczfs("umount", mountpoint).returncode == 0


def test_status_without_a_mount_point_lists_all_mounts(tmp_path: Path, mountpoint: Path) -> None:
    other = tmp_path / "other mount"
    other.mkdir()
    with (
        served([*CLI, "mount", "-f", str(SAMPLE)], mountpoint=mountpoint, exit_codes=None) as dead,
        served([*CLI, "mount", "-f", str(SAMPLE)], mountpoint=other),
    ):
        dead.process.kill()
        dead.process.wait()
        lines = nczfs("status").stdout.splitlines()
        assert lines[0].split()[:3] == ["MOUNTPOINT", "STORE", "SINCE"]
        (line,) = [line for line in lines if line.startswith(f"{other}  ")]
        assert re.search(rf"{SAMPLE} +\d\d\d\d-\d\d-\d\d \d\d:\d\d +- +-$", line)
        (line,) = [line for line in lines if line.startswith(f"{mountpoint}  ")]
        assert "  dead  " in line
        mounts = {row["mountpoint"]: row for row in json.loads(nczfs("status", "--json").stdout)}
        assert mounts[str(other)]["unsaved_chunks"] == 0
        assert mounts[str(mountpoint)]["state"] == "dead"
    assert nczfs("status", "--wait").returncode == 2


REPORTING = """
import time
from nczfs.cli import main
from nczfs.vfs import tree
status = tree._Mounted._status
tree._Mounted._status = lambda self: {change}
command = main.main
main.main = lambda: (command(), time.sleep(1.0))[0]
main.run()
"""


def reporting(change: str) -> list[str]:
    """The command of a mount that reports a change of `status(self)`, and is slow to end."""
    return [sys.executable, "-c", REPORTING.format(change=change), "mount", "-f", str(SAMPLE)]


def test_a_mount_of_another_version_is_listed_beside_others_and_ended(
    tmp_path: Path, mountpoint: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    older = reporting("{k: v for k, v in status(self).items() if k != 'unsaved_metadata'}")
    with (
        served([*CLI, "mount", "-f", str(SAMPLE)], mountpoint=other),
        served(older, mountpoint=mountpoint) as mount,
    ):
        done = nczfs("status")
        assert done.returncode == 0, done.stderr
        (line,) = [line for line in done.stdout.splitlines() if line.startswith(f"{mountpoint}  ")]
        assert re.search(r" other version +\? +\?$", line)
        assert any(line.startswith(f"{other}  ") for line in done.stdout.splitlines())
        mounts = {row["mountpoint"]: row for row in json.loads(nczfs("status", "--json").stdout)}
        assert mounts[str(mountpoint)]["state"] == "other version"
        assert mounts[str(other)]["unsaved_chunks"] == 0
        for words in (["status"], ["status", "--wait"], ["top", "--once", "--interval", "100ms"]):
            done = nczfs(*words, mountpoint)
            assert done.returncode == 1
            assert f"{mountpoint}: another version of nczfs has mounted it" in done.stderr
            assert "'unsaved_metadata'" in done.stderr
        assert "unsaved_chunks" in json.loads(nczfs("status", "--json", mountpoint).stdout)
        done = nczfs("umount", mountpoint)
        assert (done.returncode, done.stderr) == (0, "")
        assert mount.process.wait(timeout=30) == 0


def test_a_mount_that_hangs_does_not_hang_the_list_of_mounts(mountpoint: Path) -> None:
    with served([*CLI, "mount", "-f", str(SAMPLE)], mountpoint=mountpoint) as mount:
        mount.process.send_signal(signal.SIGSTOP)
        try:
            lines = nczfs("status").stdout.splitlines()
        finally:
            mount.process.send_signal(signal.SIGCONT)
        (line,) = [line for line in lines if line.startswith(f"{mountpoint}  ")]
        assert "does not answer" in line


def test_a_command_about_a_mount_that_hangs_ends_and_names_the_remedy(
    mountpoint: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place = str(mountpoint)
    threads_before = set(threading.enumerate())
    with served([*CLI, "mount", "-f", str(SAMPLE)], mountpoint=mountpoint) as mount:
        mount.process.send_signal(signal.SIGSTOP)
        try:
            assert main(["umount", "--timeout", "500ms", place]) == 1
            assert "has not answered for 0.5 s; `nczfs umount --lazy" in capsys.readouterr().err
            monkeypatch.setattr(mountstatus, "HANGS_AFTER_S", 0.5)
            for words in (
                ["umount"],
                ["status"],
                ["status", "--json"],
                ["status", "--wait"],
                ["top", "--once"],
            ):
                assert main([*words, place]) == 1
                assert "has not answered for 0.5 s; `nczfs umount --lazy" in capsys.readouterr().err
            assert mounting.find_mount(place) is not None
        finally:
            mount.process.send_signal(signal.SIGCONT)
        # The commands ran in this process, so what they left behind still has the status open.
        for left_behind in set(threading.enumerate()) - threads_before:
            left_behind.join(timeout=30)
        assert nczfs("umount", mountpoint).returncode == 0


def test_umount_waits_for_a_daemon_that_does_not_report_its_spool(mountpoint: Path) -> None:
    command = reporting("{k: v for k, v in status(self).items() if k != 'spool'}")
    with served(command, mountpoint=mountpoint) as mount:
        done = nczfs("umount", mountpoint)
        assert (done.returncode, done.stderr) == (0, "")
        assert is_zombie(mount.process.pid)


def test_the_end_of_a_mount_of_another_container_is_not_known(mountpoint: Path) -> None:
    """Its daemon was called dead, and the mount detached without a word, even one in use."""

    def umount() -> subprocess.CompletedProcess[str]:
        command = ["unshare", "--pid", "--fork", *CLI, "umount", str(mountpoint)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    with served([*CLI, "mount", "-f", str(SAMPLE)], mountpoint=mountpoint) as mount:
        with (mountpoint / ".nczfs/status.json").open("rb"):
            done = umount()
            assert done.returncode == 1
            assert "in use" in done.stderr
        done = umount()
        assert done.returncode == 1
        assert (
            "is unmounted, but it is not known here whether everything could be stored (its daemon,"
            f" process {mount.process.pid}: No such process)"
        ) in done.stderr
        assert mount.process.wait(timeout=30) == 0


@pytest.mark.parametrize("change", ["[]", "status(self) | {'pid': float('inf')}"])
def test_the_end_of_a_mount_that_reports_nonsense_is_not_known(
    change: str, mountpoint: Path
) -> None:
    with served(reporting(change), mountpoint=mountpoint) as mount:
        done = nczfs("umount", mountpoint)
        assert done.returncode == 1
        assert "is unmounted, but it is not known here whether everything" in done.stderr
        assert mounting.find_mount(str(mountpoint)) is None
        assert mount.process.wait(timeout=30) == 0


ENDING = """
from nczfs.cli.main import run
from nczfs.vfs import laterparts

laterparts.AFTER_S, laterparts.load = 0.0, decode
run()
"""


def test_a_mount_ends_well_whatever_its_threads_do(mountpoint: Path) -> None:
    """It aborted when it ended while a thread of it decoded, or loaded a decoder."""
    command = [sys.executable, "-c", DECODE + ENDING, "mount", "-f", str(SAMPLE)]
    with served(command, mountpoint=mountpoint) as mount:
        assert nczfs("umount", mountpoint).returncode == 0
        assert mount.process.wait(timeout=30) == 0


def test_who_waits_hears_that_the_mount_has_ended(mountpoint: Path) -> None:
    command = reporting("status(self) | {'unsaved_chunks': 1}")
    with served(command, mountpoint=mountpoint) as mount:
        waiting = subprocess.Popen(
            [*CLI, "status", "--wait", str(mountpoint)], stderr=subprocess.PIPE, text=True
        )
        assert waiting.stderr is not None
        assert "waiting for 1 chunk" in waiting.stderr.readline()
        assert nczfs("umount", "--lazy", mountpoint).returncode == 0
        _, told = waiting.communicate(timeout=60)
        assert (waiting.returncode, told) == (1, f"nczfs: {mountpoint}: is not mounted any more\n")
        assert mount.process.wait(timeout=30) == 0


def test_a_dead_mount_is_told_by_status_and_cleared_by_umount(mountpoint: Path) -> None:
    with served([*CLI, "mount", "-f", str(SAMPLE)], mountpoint=mountpoint, exit_codes=None) as dead:
        dead.process.kill()
        dead.process.wait()
        done = nczfs("status", mountpoint)
        assert done.returncode == 1
        assert "the daemon of this mount is dead" in done.stderr
        assert nczfs("umount", mountpoint).returncode == 0
        assert mounting.find_mount(str(mountpoint)) is None


def test_a_dead_mount_is_cleared_by_mounting_again(mountpoint: Path) -> None:
    with served([*CLI, "mount", "-f", str(SAMPLE)], mountpoint=mountpoint, exit_codes=None) as dead:
        dead.process.kill()
        dead.process.wait()
        assert nczfs("mount", SAMPLE, mountpoint).returncode == 0
        assert (mountpoint / "objects/time/.zarray").exists()
        assert nczfs("umount", mountpoint).returncode == 0


def test_a_mount_in_use_stays_and_the_remedy_is_named(mountpoint: Path) -> None:
    assert nczfs("mount", SAMPLE, mountpoint).returncode == 0
    with open(mountpoint / "objects/time/.zarray"):
        done = nczfs("umount", mountpoint)
        assert done.returncode == 1
        assert f"in use; end what works there (`fuser -vm {mountpoint}`" in done.stderr
        assert nczfs("umount", "--lazy", mountpoint).returncode == 0
    assert mounting.find_mount(str(mountpoint)) is None


def test_the_effective_options_are_shown_in_the_mount() -> None:
    with mounted(
        SAMPLE, "-o", "metadata_ttl=5m,uid=1234,nosuid", "--memory-limit", "64MiB"
    ) as path:
        config = json.loads((path / ".nczfs/config.json").read_text())
        assert config["metadata-ttl"] == 300.0
        assert config["memory-limit"] == 64 << 20
        assert config["url"] == str(SAMPLE)
        assert (path / "objects/time/.zarray").stat().st_uid == 1234


def test_a_word_of_views_that_names_no_file_is_refused(mountpoint: Path) -> None:
    done = nczfs("mount", SAMPLE, mountpoint, "--views", "values.rw,copy")
    assert done.returncode == 2
    assert done.stderr.startswith("nczfs: --views values.rw: no view has that name; there are: ")
    assert done.stderr.endswith("; did you mean values.raw?\n")


@pytest.mark.parametrize(
    ("option", "shown"),
    [("--views-only", {"datasets", ".nczfs"}), ("--objects-only", {"objects", ".nczfs"})],
)
def test_one_tree_can_be_left_out(option: str, shown: set[str]) -> None:
    with mounted(SAMPLE, option) as path:
        assert set(os.listdir(path)) == shown


def test_the_log_goes_to_the_file_asked_for(tmp_path: Path, mountpoint: Path) -> None:
    log = tmp_path / "log"
    log.write_text("of an earlier mount\n")
    assert nczfs("mount", SAMPLE, mountpoint, "--log-file", log, "-d").returncode == 0
    shown = (mountpoint / ".nczfs/log").read_text()
    pid = json.loads((mountpoint / ".nczfs/status.json").read_text())["pid"]
    assert f", process {pid}: mounts {SAMPLE} on {mountpoint}\n" in shown.splitlines(True)[0]
    assert "read-ahead" in shown
    assert nczfs("umount", mountpoint).returncode == 0
    assert "read-ahead" in log.read_text()


def test_mount_8_mounts_through_the_helper(mountpoint: Path) -> None:
    helper = [sys.executable, "-c", "import sys; from nczfs.cli.helper import *; sys.exit(main())"]
    words = "ro,_netdev,nofail,nosuid,nodev,x-systemd.automount"
    subprocess.run([*helper, str(SAMPLE), str(mountpoint), "-n", "-o", words], check=True)
    assert (mountpoint / "objects/time/.zarray").exists()
    assert os.statvfs(mountpoint).f_flag & os.ST_NOSUID
    end = [sys.executable, "-c", "import sys; from nczfs.cli.helper import *; umount_main()"]
    subprocess.run([*end, str(mountpoint)], check=True)
    assert mounting.find_mount(str(mountpoint)) is None


DEMO_CHECK = Path(__file__).parent.parent / "tools/demo-check"


def test_the_demo_is_as_its_page_shows_it() -> None:
    """The commands that it prints, too."""
    program = Path(sys.executable).parent / "nczfs"
    done = subprocess.run(
        [sys.executable, DEMO_CHECK, program], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@contextmanager
def demo(mountpoint: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A demo that shows itself."""
    out = mountpoint.parent / "out"
    out.parent.mkdir(parents=True, exist_ok=True)
    with out.open("wb") as stdout:
        process = subprocess.Popen([*CLI, "demo", str(mountpoint)], stdout=stdout)
    try:
        deadline = time.monotonic() + 60
        while "Ctrl-C" not in out.read_text():
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        yield process
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_demo_ends_with_an_interrupt_or_its_terminal(number: int, tmp_path: Path) -> None:
    mountpoint = tmp_path / "made/by/demo"
    with demo(mountpoint) as process:
        process.send_signal(number)
        assert process.wait(60) == 0
    assert mounting.find_mount(str(mountpoint)) is None
    assert not mountpoint.exists()


def test_the_demo_ends_when_it_is_unmounted_elsewhere(tmp_path: Path) -> None:
    mountpoint = tmp_path / "mnt"
    with demo(mountpoint) as process:
        assert nczfs("umount", mountpoint).returncode == 0
        assert process.wait(60) == 0


def test_the_sample_of_an_older_version_is_replaced_and_changes_to_ones_own_stay(
    tmp_path: Path,
) -> None:
    cache = tmp_path / "cache/nczfs"
    for older in ("demo/eraint.zarr", "demo-01234567/ostia.zarr"):
        (cache / older).mkdir(parents=True)
    mountpoint = tmp_path / "mnt"
    title = mountpoint / "objects/ostia.zarr/.zattrs"
    with demo(mountpoint):
        (copy,) = cache.iterdir()
        document = "surface_temperature/.zarray"
        assert (copy / "ostia.zarr" / document).read_bytes() == (SAMPLE / document).read_bytes()
        title.write_text('{"title": "mine"}')
    with demo(mountpoint):
        assert title.read_text() == '{"title": "mine"}'
