"""mount(8), fstab and systemd, as docs/boot.md has them."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nczfs.cli.demo import SAMPLE
from nczfs.cli.install_helper import HELPERS
from tests.support.namespaces import Machine, own_machine
from tests.support.servers import S3Server

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="only root mounts by fstab")

REPOSITORY = Path(__file__).parents[2]
PAGE = (REPOSITORY / "docs/boot.md").read_text("utf-8")
PROGRAMS = Path(sys.executable).parent
SYSTEMD_ENVIRONMENT = {
    "LANG": "C.UTF-8",
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin",
}


@pytest.fixture
def bare(tmp_path: Path) -> Iterator[Machine]:
    (tmp_path / "machine").mkdir()
    with own_machine(tmp_path / "machine") as machine:
        yield machine


@pytest.fixture
def machine(bare: Machine) -> Machine:
    """One with the helpers in /sbin."""
    # Where the tests run, others than root may write.
    bare.done(PROGRAMS / "nczfs", "install-helper", "--force")
    return bare


@pytest.fixture
def place(tmp_path: Path) -> Path:
    path = tmp_path / "mnt"
    path.mkdir()
    return path


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def status(machine: Machine, place: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads(machine.done("cat", place / ".nczfs/status.json"))
    return found


def is_mounted(machine: Machine, place: Path) -> bool:
    return machine.run("findmnt", "--mountpoint", place).returncode == 0


def test_without_the_links_the_type_is_unknown_and_again_when_they_are_removed(
    bare: Machine, place: Path
) -> None:
    def unknown() -> bool:
        done = bare.run("mount", "-t", "nczfs", SAMPLE, place)
        return "unknown filesystem type 'nczfs'" in done.stderr

    assert unknown()
    told = bare.done(PROGRAMS / "nczfs", "install-helper", "--force").splitlines()
    assert [line.split(" -> ") for line in told[:-1]] == [
        [f"/sbin/{name}", str(PROGRAMS / program)] for name, program in HELPERS.items()
    ]
    assert not unknown()
    bare.done("umount", place)
    bare.done(PROGRAMS / "nczfs", "install-helper", "--force")  # again: the same
    told = bare.done(PROGRAMS / "nczfs", "install-helper", "--remove").splitlines()
    assert told == [f"/sbin/{name}: removed" for name in HELPERS]
    assert unknown()
    assert bare.done(PROGRAMS / "nczfs", "install-helper", "--remove") == ""


def test_a_program_of_others_in_sbin_stays(bare: Machine) -> None:
    bare.done("touch", "/sbin/umount.nczfs")
    refused = bare.run(PROGRAMS / "nczfs", "install-helper", "--force")
    assert refused.returncode == 2
    assert "/sbin/umount.nczfs: exists and does not belong to nczfs" in refused.stderr
    assert bare.run("ls", "/sbin/mount.nczfs").returncode != 0
    kept = bare.run(PROGRAMS / "nczfs", "install-helper", "--remove")
    assert kept.returncode == 1
    bare.done("ls", "/sbin/umount.nczfs")


def test_the_lines_of_the_page_mount_with_all_others(
    machine: Machine, place: Path, ceph: S3Server, tmp_path: Path
) -> None:
    local, remote, automount = "".join(blocks("fstab")).splitlines()
    bucket = ceph.new_bucket()
    client = ceph.client()
    for path in SAMPLE.rglob("*"):
        if path.is_file():
            key = f"prefix/{path.relative_to(SAMPLE)}"
            client.put_object(Bucket=bucket, Key=key, Body=path.read_bytes())
    client.close()
    other = tmp_path / "other"
    other.mkdir()
    server = f"profile={ceph.profile},endpoint_url={ceph.endpoint_url},region=us-east-1"

    def for_s3(line: str) -> str:
        options = line.split()[3].replace(",profile=era5,region=eu-1", "") + f",{server}"
        return f"s3://{bucket}/prefix {other} nczfs {options} 0 0"

    machine.write_fstab(
        "# A comment, and other file systems",
        "tmpfs /srv tmpfs defaults 0 0",
        local.replace("/data/sst.zarr", str(SAMPLE)).replace("/srv/sst", str(place)),
        for_s3(remote),
    )
    for _ in range(2):  # what is mounted stays so
        machine.done("mount", "-a")
    zarray = (SAMPLE / "time/.zarray").read_bytes().decode()
    for where in (place, other):
        assert machine.done("cat", where / "objects/time/.zarray") == zarray
        assert "Read-only" in machine.run("touch", where / "objects/new").stderr
        assert "allow_other" in machine.done("findmnt", "-no", "OPTIONS", where)
        machine.done("umount", where)
    machine.write_fstab(for_s3(automount))
    machine.done("mount", other)  # what systemd runs when somebody looks into the directory
    assert machine.done("cat", other / "objects/time/.zarray") == zarray
    machine.done("umount", "-a", "-t", "fuse.nczfs")
    assert not is_mounted(machine, other)


def test_systemd_mounts_and_unmounts_with_its_own_environment(
    machine: Machine, place: Path
) -> None:
    """As a mount unit does: no HOME, no terminal, options that are its own."""
    environment = SYSTEMD_ENVIRONMENT | {"XDG_STATE_HOME": os.environ["XDG_STATE_HOME"]}
    done = machine.run(
        "mount", SAMPLE, place, "-t", "nczfs", "-o", "ro,nofail,_netdev,x-systemd.automount",
        env=environment,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert status(machine, place)["read_only"] is True
    done = machine.run("umount", place, "-c", env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert not is_mounted(machine, place)


def test_the_units_are_whole(tmp_path: Path) -> None:
    (unit,) = blocks("systemd")
    (tmp_path / "srv-sst.mount").write_text(unit)
    for name in ("nczfs@", "nczfs-serve@"):
        service = (REPOSITORY / f"systemd/{name}.service").read_text()
        (tmp_path / f"{name}.service").write_text(service)
    for name in ("srv-sst.mount", "nczfs@era5.service", "nczfs-serve@era5.service"):
        done = subprocess.run(
            ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", tmp_path / name],
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("kind", ["nczfs", "fuse.nczfs"])
def test_either_type_mounts_and_the_helper_waits_at_the_end(
    kind: str, machine: Machine, place: Path, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    store.mkdir()
    machine.done("mount", "-t", kind, store, place, "-o", "allow_other")
    pid = status(machine, place)["pid"]
    machine.done("sh", "-c", f"echo text > {place}/objects/file")
    machine.done("umount", place.name, cwd=place.parent)  # of a relative path by the helper
    assert (store / "file").read_text() == "text\n"
    cmdline = Path(f"/proc/{pid}/cmdline")
    assert not cmdline.exists() or not cmdline.read_bytes()


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize("how", ["--force", "--lazy"])
def test_a_daemon_that_hangs_does_not_hold_up_umount(
    how: str, machine: Machine, place: Path
) -> None:
    machine.done("mount", "-t", "nczfs", SAMPLE, place)
    pid = status(machine, place)["pid"]
    assert isinstance(pid, int)
    with stopped(pid):
        machine.done("umount", how, place)
        assert not is_mounted(machine, place)
    deadline = time.monotonic() + 60
    while Path(f"/proc/{pid}").exists() and Path(f"/proc/{pid}/cmdline").read_bytes():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_wrong_line_is_told_with_the_status_of_mount(machine: Machine, place: Path) -> None:
    for source, options, code, text in (
        ("/no/such/store", "ro", 32, "/no/such/store: no such directory"),
        (str(SAMPLE), "alow_other", 1, "did you mean allow-other"),
    ):
        machine.write_fstab(f"{source} {place} nczfs {options} 0 0")
        done = machine.run("mount", place)
        assert done.returncode == code
        assert text in done.stderr
        assert done.stderr.startswith("mount.nczfs: ")
