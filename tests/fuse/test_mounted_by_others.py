"""Mounts that another process made, and an older pyfuse3."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from nczfs.cli.demo import SAMPLE
from nczfs.fuse import mounting
from tests.support.mounts import NCZFS, START_TIMEOUT_S, served
from tests.support.waiting import until

MOUNTER = [sys.executable, "-m", "tests.support.mounter"]
DEBIAN = Path("/usr/lib/python3/dist-packages")


@pytest.mark.skipif(os.getuid() != 0, reason="only root can mount with mount(2)")
def test_a_mount_that_another_process_made_is_served(tmp_path: Path) -> None:
    """SEMANTICS X6."""
    at, store = tmp_path / "at", tmp_path / "store"
    at.mkdir()
    store.mkdir()
    options = ["mount", "--foreground", str(store)]
    with subprocess.Popen([*MOUNTER, str(at), *NCZFS, *options]) as process:
        try:
            until(lambda: mounting.find_mount(str(at)) is not None, START_TIMEOUT_S)
            assert sorted(os.listdir(at)) == [".nczfs", "datasets", "objects"]
            (at / "objects/key").write_bytes(b"value")
            assert (store / "key").read_bytes() == b"value"
            pid = int(subprocess.check_output(["pgrep", "-P", str(process.pid)]))
            os.kill(pid, signal.SIGTERM)
            assert process.wait(60) == 0
        finally:
            process.kill()
            if mounting.find_mount(str(at)) is not None:
                mounting.unmount(str(at), lazy=True)


def older_pyfuse3(directory: Path) -> str:
    """A path for Python on which Debian's pyfuse3 comes first, and nothing else of Debian's."""
    files = [*DEBIAN.glob("pyfuse3*"), *DEBIAN.glob("_pyfuse3*")]
    if not any(file.name == f"pyfuse3{sysconfig.get_config_var('EXT_SUFFIX')}" for file in files):
        pytest.skip("Debian's pyfuse3 is for another Python")
    for file in files:
        (directory / file.name).symlink_to(file)
    return str(directory)


def test_debians_pyfuse3_serves_a_mount(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", older_pyfuse3(tmp_path))
    version = "import pyfuse3; print(pyfuse3.__version__)"
    assert subprocess.check_output([sys.executable, "-c", version], text=True) == "3.2.1\n"
    # Not forked from a process that has the newer one.
    command = [sys.executable, "-m", "nczfs.cli.main", "mount", "--foreground", str(SAMPLE)]
    with served([*command, "--read-only"]) as mount:
        shown = mount.path / "datasets" / SAMPLE.name
        assert (shown / "longitude/values.raw").stat().st_size == 4 * 432
        assert len((shown / "longitude/values.raw").read_bytes()) == 4 * 432
        with pytest.raises(OSError, match="Read-only"):
            (mount.path / "objects/new").write_bytes(b"")


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_the_tests_of_operations_pass_on_debians_pyfuse3(tmp_path: Path) -> None:
    names = ["test_operations.py", "test_life_cycle.py", "test_answers.py"]
    tests = [str(Path(__file__).with_name(name)) for name in names]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "0", *tests],
        env=os.environ | {"PYTHONPATH": older_pyfuse3(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
