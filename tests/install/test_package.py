"""The Debian package, of an environment that takes all modules from where the tests run."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

import pytest

from nczfs.cli.install_helper import HELPERS
from nczfs.cli.main import COMMANDS

REPOSITORY = Path(__file__).parents[2]
PROGRAMS = ("nczfs", "mount.nczfs", "umount.nczfs")


@dataclass(frozen=True, slots=True)
class Package:
    """A package, and the directory that it was unpacked to, with what controls it in DEBIAN."""

    path: Path
    tree: Path
    environment: Path

    def field(self, name: str) -> str:
        command = ["dpkg-deb", "--field", str(self.path), name]
        return subprocess.check_output(command, text=True).strip()


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Package:
    place = tmp_path_factory.mktemp("package")
    environment = place / "environment"
    venv.create(environment, symlinks=True)
    (modules,) = environment.glob("lib/python3*/site-packages")
    places = [REPOSITORY, *(path for path in sys.path if path.endswith("site-packages"))]
    (modules / "here.pth").write_text("".join(f"{path}\n" for path in places))
    (modules / "some/tests").mkdir(parents=True)
    (modules / "some/tests/test_some.py").touch()
    (modules / "some/module.py").touch(mode=0o755)
    for name in PROGRAMS:
        (environment / "bin" / name).write_text(f"#!{environment}/bin/python3\n")
        (environment / "bin" / name).chmod(0o755)
    done = subprocess.run(
        [REPOSITORY / "scripts/package", "--environment", environment, place],
        env=os.environ | {"DEBFULLNAME": "A User", "DEBEMAIL": "user@example.org"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    path, tree = Path(done.stdout.strip()), place / "tree"
    assert path.parent == place
    subprocess.run(["dpkg-deb", "--raw-extract", path, tree], check=True)
    return Package(path, tree, environment)


def test_it_says_what_it_is_and_what_it_needs(package: Package) -> None:
    assert package.field("Package") == "nczfs"
    assert (
        package.path.name == f"nczfs_{package.field('Version')}_{package.field('Architecture')}.deb"
    )
    assert package.field("Maintainer") == "A User <user@example.org>"
    python = subprocess.check_output(["/usr/bin/python3", "-V"], text=True).split()[1]
    major, minor = map(int, python.split(".")[:2])
    assert package.field("Depends").split(", ") == [
        f"python3 (>= {major}.{minor})",
        f"python3 (<< {major}.{minor + 1})",
        "fuse3",
        "libc6",
        "libstdc++6",
    ]
    sums = ["md5sum", "--check", "--quiet", "--strict", "DEBIAN/md5sums"]
    subprocess.run(sums, cwd=package.tree, check=True)


def test_programs_are_where_users_and_mount_look_for_them(package: Package) -> None:
    links = {f"usr/sbin/{name}": program for name, program in HELPERS.items()}
    for link, program in (links | {"usr/bin/nczfs": "nczfs"}).items():
        target = package.tree / "usr/lib/nczfs/bin" / program
        assert (package.tree / link).resolve() == target
        assert target.read_text() == "#!/usr/lib/nczfs/bin/python3\n"
        assert os.access(target, os.X_OK)
    programs = os.listdir(package.tree / "usr/lib/nczfs/bin")
    assert sorted(name for name in programs if not name.startswith("python")) == sorted(PROGRAMS)


def test_manuals_completions_units_and_pages_come_along(package: Package) -> None:
    share = package.tree / "usr/share"
    for page in (*(f"1/nczfs-{name}.1" for name in COMMANDS), *(f"8/{name}.8" for name in HELPERS)):
        assert b".SH" in gzip.decompress((share / f"man/man{page}.gz").read_bytes()), page
    for name in (
        "bash-completion/completions/nczfs",
        "zsh/vendor-completions/_nczfs",
        "fish/vendor_completions.d/nczfs.fish",
    ):
        assert "convert-metadata" in (share / name).read_text()
    for unit in (REPOSITORY / "systemd").iterdir():
        assert (package.tree / "lib/systemd/system" / unit.name).read_bytes() == unit.read_bytes()
    for name in ("README.md", "CHANGELOG.md", "docs/install.md"):
        assert (share / "doc/nczfs" / name).read_bytes() == (REPOSITORY / name).read_bytes()


def test_nothing_tells_where_it_was_made_or_is_for_others(package: Package) -> None:
    home = package.tree / "usr/lib/nczfs"
    (modules,) = home.glob("lib/python3*/site-packages")
    assert sorted(path.name for path in (modules / "some").iterdir()) == ["module.py"]
    assert (modules / "some/module.py").stat().st_mode & 0o777 == 0o644
    for path in package.tree.rglob("*"):
        assert path.name != "__pycache__"
        if path.is_file() and not path.is_symlink():
            assert os.fsencode(package.environment) not in path.read_bytes(), path
