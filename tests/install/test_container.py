"""The steps of the Containerfile, and with them the Debian package in bare systems."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.containerfile import REPOSITORY, Image, build, make_system

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(3000),
    pytest.mark.skipif(os.getuid() != 0, reason="only root makes systems"),
]

SAMPLE = "/usr/lib/nczfs/lib/python3*/site-packages/nczfs/cli/sample/ostia.zarr"


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = tmp_path_factory.mktemp("systems")
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="module")
def image(work: Path) -> Image:
    built = build(REPOSITORY / "Containerfile", work)
    give(built, "tests/tools/demo-check", "docs/demo.md")
    return built


def give(image: Image, *names: str) -> None:
    """Copy files and directories of the repository to /srv."""
    for name in names:
        target = image.root / "srv" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if (REPOSITORY / name).is_dir() else shutil.copy
        copy(REPOSITORY / name, target)


def test_the_image_has_no_compiler_and_runs_the_demo(image: Image) -> None:
    assert image.run("sh", "-c", "command -v cc gcc || true") == ""
    assert image.run(*image.entrypoint, "version").startswith("nczfs ")
    image.run("/srv/tests/tools/demo-check", "/usr/bin/nczfs")


def test_mount_and_exec_find_what_they_need(image: Image) -> None:
    at = "mkdir -p /srv/at; trap 'rmdir /srv/at' EXIT"
    mount = f"mount -t nczfs {SAMPLE} /srv/at -o ro; ls /srv/at; umount /srv/at"
    assert image.run("sh", "-ec", f"{at}; {mount}") == "datasets\nobjects\n"
    assert image.run("sh", "-ec", f"nczfs exec {SAMPLE} -- ls /mnt") == "datasets\nobjects\n"
    assert "LISTEN" in image.run("nczfs", "serve", "--help").upper()
    image.run("/usr/lib/nczfs/bin/python3", "-c", "import starlette, uvicorn")


def test_lintian_finds_no_error_in_the_package(image: Image, work: Path) -> None:
    (package,) = work.glob("image-0/tmp/nczfs_*.deb")
    command = ["lintian", "--no-cfg", "--allow-root", "--fail-on", "error", str(package)]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stdout + told.stderr


def test_removing_the_package_leaves_nothing_of_it(image: Image) -> None:
    """The last test: of what root has done in the others, logs stay."""
    image.run("sh", "-ec", "dpkg --verify nczfs; apt-get purge -q -y nczfs")
    find = "find / -xdev -path /proc -prune -o -path /root -prune -o -name '*nczfs*' -print"
    assert image.run("sh", "-ec", find) == ""


def test_pip_takes_debians_pyfuse3_and_compiles_nothing(work: Path) -> None:
    system = Image(work / "pip")
    make_system("bookworm", system.root)
    give(system, "nczfs", "pyproject.toml", "README.md", "LICENSE", "tests/tools", "docs/demo.md")
    packages = "apt-get install -q -y --no-install-recommends python3-pyfuse3 python3-venv fuse3"
    system.run("sh", "-ec", f"apt-get update -q; {packages}")
    steps = "python3 -m venv --system-site-packages /opt/nczfs; /opt/nczfs/bin/pip install /srv"
    system.run("sh", "-ec", f"! command -v gcc; {steps}; /opt/nczfs/bin/pip check")
    version = "import pyfuse3; print(pyfuse3.__version__)"
    assert system.run("/opt/nczfs/bin/python3", "-c", version) == "3.2.1\n"
    system.run("/srv/tests/tools/demo-check", "/opt/nczfs/bin/nczfs")
