"""``nczfs demo``: a real dataset, mounted, with commands to try."""

from __future__ import annotations

import argparse
import os
import select
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from nczfs.cli import mount
from nczfs.cli.command import Command, Request
from nczfs.cli.options import Scope
from nczfs.cli.umount import unmount
from nczfs.errors import NczfsError, UsageError
from nczfs.fuse import mounting

SAMPLE = Path(__file__).parent / "sample" / "eraint.zarr"


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "mountpoint", nargs="?", metavar="DIR", help="where to mount (default ~/nczfs-demo)"
    )


def run(request: Request) -> int:
    """Mount the sample, say what to try, and stay until Ctrl-C or until it is unmounted."""
    directory = request.arguments.mountpoint or os.path.expanduser("~/nczfs-demo")
    store = _copy_sample()
    made = _make(directory)
    try:
        settings = request.settings
        for_others = settings.flag("allow-other") or settings.flag("allow-root")
        mountpoint = mounting.prepare(directory, allow_other=for_others)
        _show(store, mountpoint, mount.start(str(store), mountpoint, request))
    finally:
        if made:
            with suppress(OSError):
                os.rmdir(directory)
    return 0


def _show(store: Path, mountpoint: str, pid: int) -> None:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        daemon = os.pidfd_open(pid)
        print(introduction(Path(mountpoint), store), flush=True)
        select.select([daemon], [], [])
    except KeyboardInterrupt:
        print()
    finally:
        if mounting.find_mount(mountpoint) is not None:
            unmount(mountpoint)


def _make(directory: str) -> bool:
    """Make the mount point if it is missing; whether it was."""
    try:
        os.makedirs(directory)
    except FileExistsError:
        return False
    except OSError as error:
        if mounting.find_mount(directory) is not None:
            return False  # the dead mount of an earlier demo; `prepare` clears it
        raise UsageError(f"{directory}: {error.strerror}") from error
    return True


def _copy_sample() -> Path:
    """A copy of the sample that is the user's own, made once."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    store = Path(cache, "nczfs", "demo")
    target = store / SAMPLE.name
    if target.exists():
        return store
    unfinished = store / f".{os.getpid()}"
    try:
        shutil.copytree(SAMPLE, unfinished)
        unfinished.rename(target)
    except OSError as error:
        shutil.rmtree(unfinished, ignore_errors=True)
        if not target.exists():  # else another demo was first
            raise NczfsError(f"{store}: the sample cannot be copied there: {error}") from error
    return store


def introduction(mountpoint: Path, store: Path) -> str:
    """The tree, and five commands to try."""
    dataset = mountpoint / "datasets" / SAMPLE.name
    wind = dataset / "u"
    scale = (wind / "attributes/scale_factor").read_text().strip()
    offset = (wind / "attributes/add_offset").read_text().strip()
    program = "nczfs" if shutil.which("nczfs") else sys.argv[0]
    lines = [
        f"{store} (a directory of Zarr chunks) is mounted on {mountpoint}:",
        "",
        *_tree(mountpoint, dataset),
        "",
        "Mean winds and geopotential of ERA-Interim, packed into 16-bit integers. Try, elsewhere:",
        "",
        f"  ls -l {wind}",
        f"  cat {wind}/attributes/long_name {wind}/attributes/units",
        f"  awk '{{sum += $1}} END {{print {scale} * sum / NR + {offset}}}' {wind}/values.txt",
        f"  {sys.executable} -c \"import numpy; print(numpy.load('{wind}/values.npy',"
        " mmap_mode='r')[1, 0, 60])\"",
        f"  od -A d -t d2 -N 32 {wind}/chunks/0.0.0.0",
        "",
        f"Ctrl-C, or `{program} umount {mountpoint}`, ends it.",
    ]
    return "\n".join(lines)


def _tree(mountpoint: Path, dataset: Path) -> Iterator[str]:
    """A short view: all of the dataset, of its variables only the wind, few chunks."""
    yield f"  {mountpoint}/"
    opened = {mountpoint, dataset.parent, dataset, dataset / "u", dataset / "u" / "chunks"}
    yield from _branches(mountpoint, opened, "  ")


def _branches(directory: Path, opened: set[Path], indent: str) -> Iterator[str]:
    paths = sorted(directory.iterdir())
    shown = paths[:2] if directory.name == "chunks" else paths
    for path in shown:
        last = path == shown[-1] and len(shown) == len(paths)
        slash = "/" if path.is_dir() else ""
        yield f"{indent}{'└── ' if last else '├── '}{path.name}{slash}"
        if path in opened:
            yield from _branches(path, opened, indent + ("    " if last else "│   "))
    if len(shown) < len(paths):
        yield f"{indent}└── … ({len(paths)} in all)"


COMMAND = Command("demo", "mount a sample and look around", _arguments, run, frozenset(Scope))
