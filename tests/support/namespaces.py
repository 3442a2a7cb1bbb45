"""A mount namespace of a test's own, in which it can be root as it likes."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

# The copies of other tests' mounts would keep their daemons from ending.
_ENTRANCE = r"""
awk '$3 ~ /^fuse/ { print $2 }' /proc/self/mounts | while read -r place; do
    # Names are escaped as in proc(5); another test may have unmounted meanwhile.
    umount --internal-only --lazy "$(printf %b "$place")" || true
done
mount -t tmpfs none "$1"
mkdir "$1/upper" "$1/work"
mount -t overlay -o "lowerdir=$2,upperdir=$1/upper,workdir=$1/work" overlay "$2"
touch "$1/fstab"
mount --bind "$1/fstab" /etc/fstab
echo ready
exec sleep infinity
"""


@dataclass(frozen=True, slots=True)
class Machine:
    """A namespace in which /sbin and /etc/fstab are the test's own."""

    pid: int

    def run(
        self, *command: str | Path, cwd: Path | None = None, env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command there, to its end; nothing checks how it ended."""
        return subprocess.run(
            ["nsenter", f"--mount=/proc/{self.pid}/ns/mnt", f"--wd={cwd or '/'}", *command],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
            env=os.environ | {"LC_ALL": "C.UTF-8"} if env is None else env,
        )

    def done(self, *command: str | Path, cwd: Path | None = None) -> str:
        """Run a command there that must succeed, without a word on stderr; what it prints."""
        finished = self.run(*command, cwd=cwd)
        assert (finished.returncode, finished.stderr) == (0, ""), command
        return finished.stdout

    def write_fstab(self, *lines: str) -> None:
        subprocess.run(
            ["nsenter", f"--mount=/proc/{self.pid}/ns/mnt", "tee", "/etc/fstab"],
            input="".join(f"{line}\n" for line in lines).encode(),
            stdout=subprocess.DEVNULL,
            check=True,
        )


@contextmanager
def own_machine(directory: Path) -> Iterator[Machine]:
    """A `Machine`; `directory` is an empty one to keep its files in. Needs root."""
    sbin = os.path.realpath("/sbin")
    words = ["bash", "-ec", _ENTRANCE, "bash", str(directory), sbin]
    process = subprocess.Popen(
        ["unshare", "--mount", "--propagation=private", *words],
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield Machine(process.pid)
        finally:
            # A daemon ends with the last of its mounts, and keeps the namespace until then.
            Machine(process.pid).run("umount", "-a", "-l", "-t", "fuse.nczfs", "--internal-only")
            process.kill()
