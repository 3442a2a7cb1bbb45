"""A run of tests has directories of its own, and a process that clears up behind it.

The run of a process has a name that no other run ever has. Every process that a test starts
inherits it in an environment variable, and temporary files lie in directories with this name. When
the process of the run ends, even by kill -9, another process kills what inherited the name,
unmounts what is mounted in these directories and in pytest's, and removes them. It does so first
for earlier runs that had no time for that, for instance because the machine was switched off.

What rewrites its environment, as nginx does, must end with its parent (setpriv --pdeathsig).
"""

from __future__ import annotations

import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

VARIABLE = "NCZFS_TEST_RUN"
MEMORY = Path("/dev/shm")
_NAME = re.compile(r"nczfs-run-([0-9a-f]{8})-(\d+)-(\d+)-(\d+)")
_LINK = "pytest"  # in the directory of a run, to pytest's own, which outlives it
_END_S = 10.0
_PROC = Path("/proc")


def begin(kept: Path) -> Mapping[str, str]:
    """Begin the run of this process.

    Parameters
    ----------
    kept : the directory of pytest; of it only what is mounted there goes with the run.

    Returns
    -------
    The environment variables of the run.
    """
    run = name_of(os.getpid())
    directory = Path(tempfile.gettempdir(), run)
    directory.mkdir()  # other users enter it too, such as that of a web server
    (directory / _LINK).symlink_to(kept)
    places = [str(place) for place in (directory.parent, MEMORY) if place.is_dir()]
    subprocess.run(
        ["setsid", "--fork", sys.executable, "-I", "-S", __file__, run, *places],
        env={name: value for name, value in os.environ.items() if name != VARIABLE},
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    return {VARIABLE: run, "TMPDIR": str(directory)}


def memory() -> Path:
    """A directory of this run in memory; on a disk if the machine has none."""
    directory = MEMORY / os.environ[VARIABLE]
    try:
        directory.mkdir(exist_ok=True)
    except OSError:
        return Path(tempfile.gettempdir())
    return directory


def name_of(pid: int) -> str:
    """The name of a process's run: boot, namespace of process ids, process id, start time."""
    return f"nczfs-run-{_boot()}-{_namespace()}-{pid}-{_started(pid)}"


def clear_behind(run: str, places: Sequence[Path]) -> None:
    """Clear up behind earlier runs, wait for the end of a run, and clear up behind it."""
    pid = int(run.split("-")[-2])
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        process = None
    clear_behind_earlier(places)
    if process is not None and not _has_ended(run):
        select.select([process], [], [])
    _clear(run, places)


def clear_behind_earlier(places: Sequence[Path]) -> None:
    """Clear up behind the runs that have ended."""
    names = [name for place in places for name in os.listdir(place)]
    for run in {*names, *inherited().values()}:
        if _NAME.fullmatch(run) and _has_ended(run):
            _clear(run, places)


def inherited() -> dict[int, str]:
    """The run that each process inherited, as far as this user may know."""
    found = {}
    for pid in filter(str.isdigit, os.listdir(_PROC)):
        with suppress(OSError):  # it has ended, or belongs to another user
            for variable in (_PROC / pid / "environ").read_bytes().split(b"\0"):
                name, _, value = os.fsdecode(variable).partition("=")
                if name == VARIABLE:
                    found[int(pid)] = value
    return found


def _boot() -> str:
    return (_PROC / "sys/kernel/random/boot_id").read_text()[:8]


def _namespace() -> int:
    return (_PROC / "self/ns/pid").stat().st_ino


def _started(pid: int) -> int:
    stat = (_PROC / str(pid) / "stat").read_bytes()
    return int(stat[stat.rindex(b")") + 2 :].split()[19])  # proc(5)


def _has_ended(run: str) -> bool:
    """Whether a run has certainly ended."""
    match = _NAME.fullmatch(run)
    assert match is not None
    boot, namespace, pid, started = match.groups()
    if boot != _boot():
        return True
    if int(namespace) != _namespace():
        return False
    try:
        return _started(int(pid)) != int(started)
    except OSError:
        return not (_PROC / pid).exists()


def _clear(run: str, places: Sequence[Path]) -> None:
    deadline = time.monotonic() + _END_S
    while ours := [pid for pid, name in inherited().items() if name == run]:
        for pid in ours:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            break
        time.sleep(0.02)
    for place in places:
        directory = place / run
        if directory.is_dir() and not directory.is_symlink():
            _remove(directory)


def _remove(directory: Path) -> None:
    below = [str(directory)]
    with suppress(OSError):
        below.append(os.readlink(directory / _LINK))
    unmount = ["fusermount3", "-u", "-z"]
    if os.geteuid() == 0:
        unmount = ["umount", "--internal-only", "--lazy"]
    for mount in sorted(_mounts(below), reverse=True):  # the inner one first
        subprocess.run([*unmount, mount], capture_output=True, check=False)
    if not list(_mounts(below[:1])):  # or else what is mounted would be removed
        shutil.rmtree(directory, ignore_errors=True)


def _mounts(below: Sequence[str]) -> Iterator[str]:
    """The mounts in directories."""
    for line in os.fsdecode((_PROC / "self/mountinfo").read_bytes()).splitlines():
        path = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), line.split()[4])
        if any(Path(path).is_relative_to(directory) for directory in below):
            yield path


if __name__ == "__main__":
    clear_behind(sys.argv[1], [Path(word) for word in sys.argv[2:]])
