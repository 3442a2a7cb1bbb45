"""``nczfs doctor`` on machines on which something is wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nczfs.doctor import machine, room
from nczfs.doctor.finding import Grade
from nczfs.doctor.limits import memory
from tests.support.examined import examined, examined_by
from tests.support.forked import REPOSITORY
from tests.support.ordinary import NCZFS, OrdinaryUser, ordinary_user

only_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can change the machine")

GIB = 1 << 30


def test_a_machine_that_can_mount_has_nothing_wrong(tmp_path: Path) -> None:
    found = examined("--spool-dir", tmp_path)
    assert found.status == 0
    assert [s for s in found.findings if found.grade(s) == "wrong"] == []
    assert {"kernel", "/dev/fuse", "fusermount3", "fuse.conf", "read-ahead"} <= set(found.findings)


# Everything that root can break at once, in a mount namespace that ends with the command.
BROKEN = r"""
mount -t tmpfs -o size=1M none "$1"
python=$2
mount -t tmpfs none /dev
mknod -m 0666 /dev/null c 1 3
mknod -m 0666 /dev/urandom c 1 9
ulimit -n 256
export http_proxy=http://user:hush-hush@127.0.0.1:0 NCZFS_MEMORY_LIMIT=100TiB
exec setarch --uname-2.6 "$python" -m nczfs.cli.main doctor --json --spool-dir "$1" \
    --max-cache-size 900TiB
"""


@only_root
def test_faults_of_the_machine_are_named_with_their_remedies(tmp_path: Path) -> None:
    words = ["unshare", "--mount", "sh", "-ec", BROKEN, "sh", str(tmp_path), sys.executable]
    found = examined_by(
        subprocess.run(
            words, capture_output=True, text=True, check=False, cwd=REPOSITORY, timeout=120
        )
    )
    assert found.status == 1
    assert "doubtful: Linux 2.6" in found.line("kernel")
    assert "wrong: /dev/fuse is missing: load it with `modprobe fuse`" in found.line("/dev/fuse")
    assert "doubtful: a process may have only 256 descriptors, so at most 64 requests" in (
        found.line("descriptors")
    )
    assert "wrong: caches take at most 100TiB of" in found.line("memory")
    assert "--memory-limit" in found.line("memory")
    assert "wrong: only 1MiB free for unsaved writes" in found.line("spool")
    assert "doubtful: only" in found.line("cache")
    assert "less than --max-cache-size 900TiB" in found.line("cache")
    assert "wrong: http_proxy" in found.line("proxies")
    assert "hush-hush" not in found.text


@pytest.fixture(scope="module")
def user() -> Iterator[OrdinaryUser]:
    with ordinary_user() as user:
        yield user


@only_root
def test_faults_that_only_ordinary_users_meet_are_named(user: OrdinaryUser) -> None:
    (user.home / "fuse.conf").write_text("# user_allow_other\n")
    as_root = [*user.entrance[: user.entrance.index("setpriv")], "sh", "-ec"]
    change = 'chmod 0600 /dev/fuse; mount --bind "$0" /etc/fuse.conf'
    subprocess.run([*as_root, change, str(user.home / "fuse.conf")], check=True)
    found = examined_by(user.run(*NCZFS, "doctor", "--allow-other", "--json"))
    subprocess.run([*as_root, "chmod 0666 /dev/fuse; umount /etc/fuse.conf"], check=True)
    assert found.status == 1
    assert "wrong: /dev/fuse: no permission to open it; as root: `chmod" in found.line("/dev/fuse")
    assert "wrong: fusermount3 is not installed: `apt-get install" in found.line("fusermount3")
    assert "wrong: /etc/fuse.conf does not permit --allow-other" in found.line("fuse.conf")
    assert "user_allow_other" in found.line("fuse.conf")
    assert found.grade("read-ahead") == "doubtful"
    assert "/sys/class/bdi/" in found.line("read-ahead")


def test_directories_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    spool = room.spool(tmp_path / "file/spool")
    assert (spool.grade, "--spool-dir" in spool.line) == (Grade.WRONG, True)
    cache = room.cache(str(tmp_path / "none"), None)
    assert (cache.grade, "create it" in cache.line) == (Grade.WRONG, True)
    assert room.cache(None, 0).grade is Grade.WELL


def test_a_system_other_than_linux_cannot_mount(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.system", lambda: "Darwin")
    monkeypatch.setattr("platform.release", lambda: "25.0.0")
    found = machine.kernel()
    assert (found.grade, found.text) == (Grade.WRONG, "Darwin 25.0.0")
    assert "mount on Linux" in found.remedy


# Changes in a mount namespace that ends with the command. Nothing drives the device: it is there,
# all may open it, and opening it fails. $@ is the command.
ALTERED = r"""
mount -t tmpfs -o size=2G none "$1"
mknod -m 0666 "$1/fuse" c 10 250
mount --bind "$1/fuse" /dev/fuse
mount -t tmpfs none /etc
shift
exec setpriv --bounding-set=-sys_admin "$@"
"""


@only_root
def test_a_dead_device_a_missing_mtab_and_disks_that_are_memory_are_named(tmp_path: Path) -> None:
    doctor = [sys.executable, "-m", "nczfs.cli.main", "doctor", "--json"]
    places = ["--spool-dir", str(tmp_path), "--cache-dir", str(tmp_path)]
    words = ["unshare", "--mount", "sh", "-ec", ALTERED, "sh", str(tmp_path), *doctor, *places]
    found = examined_by(
        subprocess.run(
            words, capture_output=True, text=True, check=False, cwd=REPOSITORY, timeout=120
        )
    )
    assert "wrong: /dev/fuse cannot be opened: No such device" in found.line("/dev/fuse")
    assert "modprobe fuse" in found.line("/dev/fuse")
    assert "wrong: /etc/mtab is missing" in found.line("fusermount3")
    assert "ln -s ../proc/self/mounts /etc/mtab" in found.line("fusermount3")
    assert "doubtful: 2GiB free for unsaved writes" in found.line("spool")
    assert "which is memory, and lost with the machine" in found.line("spool")
    assert "doubtful: 2GiB free for decoded chunks" in found.line("cache")
    assert "which is memory, too; name a disk by --cache-dir" in found.line("cache")


@pytest.mark.parametrize(
    ("mib", "spool", "cache"),
    [
        (63, Grade.WRONG, Grade.DOUBTFUL),
        (64, Grade.DOUBTFUL, Grade.DOUBTFUL),
        (1023, Grade.DOUBTFUL, Grade.DOUBTFUL),
        (1024, Grade.WELL, Grade.WELL),
    ],
)
def test_little_room_on_a_disk_is_named(
    mib: int, spool: Grade, cache: Grade, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "_free_bytes", lambda path: mib << 20)
    monkeypatch.setattr(room, "_is_memory", lambda path: False)
    found = room.spool(tmp_path)
    assert (found.grade, "--spool-dir" in found.line) == (spool, spool is not Grade.WELL)
    found = room.cache(str(tmp_path), None)
    assert (found.grade, "--cache-dir" in found.line) == (cache, cache is not Grade.WELL)


@pytest.mark.parametrize(
    ("limit", "grade"), [(2, Grade.WELL), (5, Grade.DOUBTFUL), (8, Grade.WRONG)]
)
def test_a_limit_of_memory_is_compared_with_what_there_is(limit: int, grade: Grade) -> None:
    found = memory(limit * GIB, 8 * GIB)
    assert found.grade is grade
    assert (found.remedy == "--memory-limit 2GiB") == (grade is not Grade.WELL)
