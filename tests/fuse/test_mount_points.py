"""Where nczfs mounts, and where it does not."""

from __future__ import annotations

import fcntl
import json
import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from nczfs.cli.demo import SAMPLE
from nczfs.engine.structure.ownership import UNFINISHED
from nczfs.fuse import mounting
from tests.support.mounts import nczfs
from tests.support.servers import S3Server
from tests.support.waiting import is_readable


@pytest.fixture
def mountpoint(tmp_path: Path) -> Iterator[Path]:
    """A directory that is unmounted at the end, whatever happened."""
    path = tmp_path / "mnt"
    path.mkdir()
    yield path
    while mounting.find_mount(str(path)) is not None:
        mounting.unmount(str(path), lazy=True)


def test_a_directory_that_is_not_empty_is_mounted_on_only_when_asked_for(mountpoint: Path) -> None:
    (mountpoint / "notes").write_text("mine")
    refused = nczfs("mount", SAMPLE, mountpoint)
    assert refused.returncode == 2
    assert "is not empty, and a mount would hide what is in it" in refused.stderr
    assert "--allow-non-empty" in refused.stderr
    assert mounting.find_mount(str(mountpoint)) is None
    for words in (["--allow-non-empty"], ["-o", "allow_non_empty"], ["-o", "nonempty"]):
        assert nczfs("mount", SAMPLE, mountpoint, *words).returncode == 0
        assert not (mountpoint / "notes").exists()
        assert nczfs("umount", mountpoint).returncode == 0
        assert (mountpoint / "notes").read_text() == "mine"


def test_a_store_that_is_mounted_twice_for_writing_has_a_line_in_the_log(
    mountpoint: Path, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    (store / "below").mkdir(parents=True)
    (tmp_path / "store-b").mkdir()
    second = tmp_path / "second"
    second.mkdir()
    assert nczfs("mount", store, mountpoint).returncode == 0

    def line(url: Path, *options: str) -> bool:
        log = tmp_path / "log"
        log.unlink(missing_ok=True)
        assert nczfs("mount", url, second, "--log-file", log, *options).returncode == 0
        assert nczfs("umount", second).returncode == 0
        return f"{store} is mounted on {mountpoint} too" in log.read_text()

    assert line(store)
    assert line(store / "below")
    assert not line(tmp_path / "store-b")
    assert not line(store, "--read-only")


@pytest.mark.parametrize("name", ["new.zarr", "two words.zarr", "new.zip"])
def test_a_place_where_nothing_is_names_the_command_that_makes_something(
    name: str, mountpoint: Path, tmp_path: Path
) -> None:
    refused = nczfs("mount", tmp_path / name, mountpoint)
    assert refused.returncode == 1
    program, command = "nczfs ", refused.stderr.split("`")[1]
    assert command.startswith(f"{program}create ")
    words = [sys.executable, "-m", "nczfs.cli.main"]
    shell = f'"$@" {command.removeprefix(program)}'
    subprocess.run(["sh", "-c", shell, "sh", *words], check=True)
    assert nczfs("mount", tmp_path / name, mountpoint).returncode == 0
    assert nczfs("umount", mountpoint).returncode == 0


def test_a_prefix_without_keys_is_mounted_with_a_warning(
    mountpoint: Path, ceph: S3Server, tmp_path: Path
) -> None:
    bucket, log = ceph.new_bucket(), tmp_path / "log"
    for options, keys in (([], 0), (["--read-only"], 0), ([], 1)):
        if keys:
            client = ceph.client()
            client.put_object(Bucket=bucket, Key="era5/typo.zarr/here", Body=b"1")
            client.close()
        url = ceph.url(bucket, "era5/typo.zarr")
        done = nczfs("mount", url, mountpoint, "--log-file", log, *options)
        assert done.returncode == 0
        assert nczfs("umount", mountpoint).returncode == 0
        if keys:
            assert done.stderr == ""
            continue
        (line,) = done.stderr.splitlines()
        assert line.startswith(
            f"nczfs: {url.partition('#')[0]}: no key begins with era5/typo.zarr/"
        )
        assert ("nczfs create --help" in line) == (not options)
        assert line.removeprefix("nczfs: ") in log.read_text()
    assert nczfs("mount", ceph.url(bucket), mountpoint).stderr == ""
    assert nczfs("umount", mountpoint).returncode == 0


def test_unfinished_datasets_have_a_line_at_mount_and_in_the_log(
    mountpoint: Path, tmp_path: Path
) -> None:
    store, log = tmp_path / "store", tmp_path / "log"
    for place in ("one.zarr", "below/two.zarr"):
        (store / place).mkdir(parents=True)
        (store / place / "0").write_bytes(b"chunk")
        (store / place / UNFINISHED).write_text('{"command": "cp"}')
    done = nczfs("mount", store, mountpoint, "--log-file", log)
    assert done.stderr.startswith(f"nczfs: file://{store}/one.zarr: is unfinished: a copy or an")
    assert done.stderr.count("\n") == 1

    def look() -> None:
        (mountpoint / ".nczfs/refresh").write_text("/")
        subprocess.run(["ls", "-lR", mountpoint / "datasets"], check=True, capture_output=True)

    for _ in range(3):
        look()
    (store / "one.zarr" / UNFINISHED).unlink()
    look()
    (store / "one.zarr" / UNFINISHED).write_text("{}")
    look()
    assert nczfs("umount", mountpoint).returncode == 0
    lines = [line for line in log.read_text().splitlines() if "is unfinished" in line]
    assert ["/one.zarr:" in line for line in lines] == [True, False, True]


# From <linux/auto_fs.h>.
AUTOFS_IOC_READY = 0x9360
AUTOFS_IOC_CATATONIC = 0x9362
AUTOFS_V5_PACKET = struct.Struct("=iiI")  # protocol, kind, and the token to answer with


@dataclass(frozen=True, slots=True)
class Automount:
    """An automount point as systemd makes it.

    Attributes
    ----------
    requests : the pipe in which the kernel asks for a mount.
    control : the mount point, for answers.
    """

    requests: int
    control: int


@contextmanager
def automount(path: Path) -> Iterator[Automount]:
    reader, writer = os.pipe()
    options = f"fd={writer},pgrp={os.getpgrp()},minproto=5,maxproto=5,direct"
    command = ["mount", "-i", "-t", "autofs", "-o", options, "systemd-1", str(path)]
    subprocess.run(command, check=True, pass_fds=[writer])
    control = os.open(path, os.O_RDONLY)
    try:
        yield Automount(reader, control)
    finally:
        fcntl.ioctl(control, AUTOFS_IOC_CATATONIC, 0)  # who waits hears that nothing is there
        os.close(control)
        os.close(reader)
        os.close(writer)
        mounting.unmount(str(path), lazy=True)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make an automount point")
def test_an_automount_point_is_mounted_on_when_somebody_looks_into_it(mountpoint: Path) -> None:
    """Whoever is not of the automounter's process group waits for the mount, for ever perhaps."""
    with automount(mountpoint) as point:
        looking = subprocess.Popen(
            ["ls", mountpoint], stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        assert is_readable(point.requests, 60)
        token = AUTOFS_V5_PACKET.unpack_from(os.read(point.requests, 4096))[2]
        with looking:
            try:
                # systemd leaves mount(8) and its helper in its own group.
                done = nczfs("mount", SAMPLE, mountpoint, "--mount-timeout", "20s")
                assert (done.returncode, done.stderr) == (0, "")
                pid = json.loads((mountpoint / ".nczfs/status.json").read_bytes())["pid"]
                assert os.getsid(pid) == pid
                fcntl.ioctl(point.control, AUTOFS_IOC_READY, token)
                assert looking.communicate(timeout=60)[0].split() == ["datasets", "objects"]
            finally:
                looking.kill()
        assert nczfs("umount", mountpoint).returncode == 0
