"""From mounting to the end, by whatever end."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nczfs.fuse import mounting
from nczfs.fuse.mounting import MountError
from tests.support.mounts import Served, served, wait_until_ended
from tests.support.waiting import until

TOY = [sys.executable, "-X", "faulthandler", "-m", "tests.support.toydaemon"]


def is_mounted(path: Path) -> bool:
    return mounting.find_mount(str(path)) is not None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_unmounts_and_closes(number: signal.Signals) -> None:
    with served([*TOY, "plain"]) as mount:
        mount.process.send_signal(number)
        assert wait_until_ended(mount.process) == 0
        assert not is_mounted(mount.path)
        assert "\nCLOSED" in mount.log.read_text()


def test_further_signals_do_not_keep_what_was_written_from_being_stored() -> None:
    # What is left to be killed, when all is stored and closed, is Python at its end.
    with served([*TOY, "plain"], exit_codes=None) as mount:
        while mount.process.poll() is None:
            mount.process.send_signal(signal.SIGTERM)
            mount.process.send_signal(signal.SIGINT)
            time.sleep(0.001)
        assert not is_mounted(mount.path)
        assert "\nCLOSED" in mount.log.read_text()


def test_unmounting_from_outside_ends_the_daemon() -> None:
    with served([*TOY, "plain"]) as mount:
        mounting.unmount(str(mount.path))
        assert wait_until_ended(mount.process) == 0
        assert "\nCLOSED" in mount.log.read_text()


def test_a_mount_in_use_is_not_unmounted_but_lazily() -> None:
    with served([*TOY, "plain"]) as mount:
        with open(mount.path / "big", "rb") as file:
            with pytest.raises(MountError, match="in use; end what works there"):
                mounting.unmount(str(mount.path))
            mounting.unmount(str(mount.path), lazy=True)
            assert not is_mounted(mount.path)
            assert file.read(4) == b"\x00\x01\x02\x03"
            assert mount.process.poll() is None
        assert wait_until_ended(mount.process) == 0


def test_hangup_refreshes() -> None:
    with served([*TOY, "plain"]) as mount:
        mount.process.send_signal(signal.SIGHUP)
        wait_for(mount, "refreshed=['']")
        assert (mount.path / "directory/hello").read_bytes() == b"hello\n"


def test_usr1_writes_all_stacks_to_the_log_and_nothing_else_happens() -> None:
    with served([*TOY, "plain"]) as mount:
        mount.process.send_signal(signal.SIGUSR1)
        wait_for(mount, "most recent call first")
        assert (mount.path / "directory/hello").read_bytes() == b"hello\n"


def test_a_killed_daemon_leaves_a_dead_mount_and_the_next_clears_it(tmp_path: Path) -> None:
    """SEMANTICS A6."""
    path = tmp_path / "mnt"
    with served([*TOY, "plain"], mountpoint=path, exit_codes=None) as mount:
        mount.process.kill()
        wait_until_ended(mount.process)
        # An empty directory would tell rsync --delete that all files are gone.
        assert is_mounted(path)
        with pytest.raises(OSError, match="not connected") as caught:
            os.listdir(path)
        assert caught.value.errno == errno.ENOTCONN
        with served([*TOY, "plain"], mountpoint=path) as again:
            assert (again.path / "directory/hello").read_bytes() == b"hello\n"


def test_nobody_waits_for_a_daemon_that_was_killed_while_it_waited_itself(tmp_path: Path) -> None:
    """SEMANTICS A6."""
    with served([*TOY, "stuck"], mountpoint=tmp_path / "mnt", exit_codes=None) as mount:
        with subprocess.Popen(["cat", mount.path / "file"], stderr=subprocess.PIPE) as reader:
            wait_until_uninterruptible(mount.process.pid)
            mount.process.kill()
            _, said = reader.communicate(timeout=120)
            assert reader.returncode == 1, said
        wait_until_ended(mount.process)
        assert is_mounted(mount.path)
        with pytest.raises(OSError, match=r"not connected|connection abort"):
            os.listdir(mount.path)


def test_a_daemon_that_fails_leaves_a_dead_mount_and_says_so_in_its_exit_code(
    tmp_path: Path,
) -> None:
    path = tmp_path / "mnt"
    with served([*TOY, "crash"], mountpoint=path, exit_codes=None) as mount:
        with pytest.raises(OSError, match=r"not connected|connection abort"):
            (path / "crash").stat()
        assert wait_until_ended(mount.process) != 0
        assert is_mounted(path)
        with pytest.raises(OSError, match="not connected"):
            os.listdir(path)


def test_a_dead_mount_of_another_program_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with served([*TOY, "plain"], exit_codes=None) as mount:
        mount.process.kill()
        wait_until_ended(mount.process)
        monkeypatch.setattr(mounting, "FILE_SYSTEM_TYPE", "fuse.other")
        with pytest.raises(MountError, match=r"dead mount of fuse\.nczfs is in the way; unmount"):
            mounting.prepare(str(mount.path), allow_other=False)
        monkeypatch.undo()


def test_a_second_mount_on_a_living_one_is_refused() -> None:
    with (
        served([*TOY, "plain"]) as mount,
        pytest.raises(MountError, match="is already mounted there; `nczfs umount"),
    ):
        mounting.prepare(str(mount.path), allow_other=False)


def test_the_mount_table_names_program_and_source() -> None:
    with served([*TOY, "plain"]) as mount:
        entry = mounting.find_mount(str(mount.path))
        assert entry is not None
        assert entry.kind == "fuse.nczfs"
        assert entry.source == "toy, with a comma"


def test_words_for_the_kernel_reach_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOY_WORDS", "noexec ro noatime")
    with served([*TOY, "plain"]) as mount:
        assert os.statvfs(mount.path).f_flag & os.ST_RDONLY
        assert os.statvfs(mount.path).f_flag & os.ST_NOEXEC


def test_a_word_that_libfuse_does_not_know_fails_the_mount(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TOY_WORDS", "nonsense")
    done = subprocess.run([*TOY, "plain", str(tmp_path)], capture_output=True, text=True)
    assert done.returncode != 0
    assert "nonsense" in done.stderr
    assert not is_mounted(tmp_path)


def test_the_service_manager_is_told_about_start_and_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(120)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        with served([*TOY, "plain"]) as mount:
            assert manager.recv(100) == b"READY=1"
            mount.process.send_signal(signal.SIGTERM)
            assert manager.recv(100) == b"STOPPING=1"


def test_the_kernel_reads_ahead_far_where_that_is_permitted() -> None:
    with served([*TOY, "plain"]) as mount:
        entry = mounting.find_mount(str(mount.path))
        assert entry is not None
        setting = Path(f"/sys/class/bdi/{entry.device}/read_ahead_kb")
        if os.access(setting, os.W_OK):
            wait_for(mount, "READY")
            assert int(setting.read_text()) == 1024


def wait_for(mount: Served, text: str) -> None:
    until(lambda: text in mount.log.read_text())


def wait_until_uninterruptible(pid: int) -> None:
    """Return when a thread of a process waits where no signal reaches it."""

    def waits(thread: Path) -> bool:
        try:
            return thread.read_text().rpartition(")")[2].split()[0] == "D"
        except OSError:  # it has ended
            return False

    until(lambda: any(map(waits, Path(f"/proc/{pid}/task").glob("*/stat"))))
