"""An ordinary user of a machine without fusermount3, for tests that run as root."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.forked import REPOSITORY

UID = 65_534  # nobody's

# The copies of other tests' mounts would keep their daemons from ending. /dev/fuse may be root's
# own, and Python or this repository may lie below a directory that only root may enter.
_ENTRANCE = r"""
awk '$3 ~ /^fuse/ { print $2 }' /proc/self/mounts | while read -r place; do
    umount --internal-only --lazy "$(printf %b "$place")" || true
done
own=$1; shift
mount -t tmpfs -o mode=0755 none "$own"
mknod -m 0666 "$own/fuse" c 10 229
mount --bind "$own/fuse" /dev/fuse
touch "$own/none"
fusermount=$(command -v fusermount3)
mount --bind "$own/none" "$fusermount"
for closed; do
    mkdir -p "$own/upper$closed" "$own/work$closed"
    chmod 0755 "$own/upper$closed"
    mount -t overlay -o "lowerdir=$closed,upperdir=$own/upper$closed,workdir=$own/work$closed" \
        overlay "$closed"
done
echo ready
exec sleep infinity
"""


@dataclass(frozen=True, slots=True)
class OrdinaryUser:
    """A user that is not root, in a mount namespace without fusermount3.

    Attributes
    ----------
    home : a directory of the user's own.
    """

    home: Path
    entrance: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)

    def make(self, name: str) -> Path:
        """A new directory of the user's own."""
        path = self.home / name
        path.mkdir()
        os.chown(path, UID, UID)
        return path

    def start(self, *words: str | Path, **options: Any) -> subprocess.Popen[str]:
        """Start a program."""
        return subprocess.Popen(
            [*self.entrance, *map(str, words)],
            text=True,
            env=os.environ | self.environment,
            cwd=REPOSITORY,
            **options,
        )

    def run(self, *words: str | Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run a program to its end; nothing checks how it ended."""
        pipe = subprocess.PIPE
        with self.start(*words, stdin=pipe, stdout=pipe, stderr=pipe) as process:
            try:
                output, errors = process.communicate(stdin, timeout=200)
            finally:
                process.kill()
        return subprocess.CompletedProcess([*words], process.returncode, output, errors)


NCZFS = (sys.executable, "-m", "nczfs.cli.main")


@contextmanager
def ordinary_user() -> Iterator[OrdinaryUser]:
    """A user with a home, who has nothing mounted. Needs root."""
    with (
        tempfile.TemporaryDirectory(prefix="nczfs-user-", dir="/tmp") as directory,
        tempfile.TemporaryDirectory() as own,
    ):
        home = Path(directory)
        home.chmod(0o755)
        os.chown(home, UID, UID)
        words = ["bash", "-ec", _ENTRANCE, "bash", own, *_closed()]
        process = subprocess.Popen(
            ["unshare", "--mount", "--propagation=private", *words],
            stdout=subprocess.PIPE,
            text=True,
        )
        with process:
            try:
                assert process.stdout is not None
                assert process.stdout.readline() == "ready\n"
                place = f"--mount=/proc/{process.pid}/ns/mnt"
                user = ("setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups")
                environment = {
                    "HOME": str(home),
                    "TMPDIR": str(home),
                    "PYTHONDONTWRITEBYTECODE": "",
                }
                environment |= {name: "" for name in os.environ if name.startswith("XDG_")}
                yield OrdinaryUser(
                    home, ("nsenter", place, f"--wd={REPOSITORY}", *user), environment
                )
            finally:
                process.kill()


def _closed() -> list[str]:
    """The directories above Python and this repository that others may not enter."""
    above = {*Path(sys.executable).resolve().parents, *Path(__file__).resolve().parents}
    return sorted(str(path) for path in above if not path.stat().st_mode & 0o001)
