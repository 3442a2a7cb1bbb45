"""``nczfs demo``: a real dataset, mounted, with commands to try."""

from __future__ import annotations

import argparse
import hashlib
import os
import select
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from nczfs.cli import mount
from nczfs.cli.command import Command, CommandLine
from nczfs.cli.options import Scope
from nczfs.cli.umount import unmount
from nczfs.errors import NczfsError, UsageError
from nczfs.fuse import mounting
from nczfs.vfs.ending import EndNote

SAMPLE = Path(__file__).parent / "sample" / "ostia.zarr"
VARIABLE = "surface_temperature"
NETCDF = "ostia.nc"


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "mountpoint", nargs="?", metavar="DIR", help="mount point (default ~/nczfs-demo)"
    )


def run(request: CommandLine) -> int:
    """Mount the sample, say what to try, and stay until a signal or until it is unmounted."""
    directory = request.arguments.mountpoint or os.path.expanduser("~/nczfs-demo")
    store = _copy_sample()
    made = _make(directory)
    try:
        mountpoint = mount.prepare(directory, request.settings)
        _show(store, mountpoint, mount.start(str(store), mountpoint, request, EndNote()))
    finally:
        if made:
            with suppress(OSError):
                os.rmdir(directory)
    return 0


def _show(store: Path, mountpoint: str, pid: int) -> None:
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup does
            signal.signal(number, signal.default_int_handler)
    try:
        daemon = os.pidfd_open(pid)
        print(introduction(Path(mountpoint), store), flush=True)
        select.select([daemon], [], [])
    except KeyboardInterrupt:
        with suppress(OSError):  # the terminal may be gone
            print(flush=True)
    finally:
        if mounting.find_mount(mountpoint) is not None:
            unmount(mountpoint)


def _make(directory: str) -> bool:
    """Make the mount point if it is missing. Returns whether it was."""
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
    """Copy the sample to where the user may write. Each sample is copied once.

    The copy is named after the contents of the sample, so that a newer nczfs does not show an older
    sample.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "nczfs")
    store = cache / f"demo-{_digest(SAMPLE)}"
    if store.exists():
        return store
    unfinished = cache / f".demo-{os.getpid()}"
    try:
        shutil.copytree(SAMPLE, unfinished / SAMPLE.name)
        unfinished.rename(store)
    except OSError as error:
        shutil.rmtree(unfinished, ignore_errors=True)
        if not store.exists():  # otherwise another demo was faster
            raise NczfsError(f"{store}: the sample cannot be copied there: {error}") from error
    for other in (cache / "demo", *cache.glob("demo-*")):  # samples of older versions
        if other != store:
            shutil.rmtree(other, ignore_errors=True)
    return store


def _digest(directory: Path) -> str:
    """Return eight digits that identify the contents of a sample."""
    digest = hashlib.sha256()
    for path in sorted(directory.rglob("*")):
        if path.is_file():
            data = path.read_bytes()
            digest.update(f"{path.relative_to(directory)}\0{len(data)}\0".encode() + data)
    return digest.hexdigest()[:8]


def introduction(mountpoint: Path, store: Path) -> str:
    """Return the text of the demo: the tree, what the values are, and commands to try.

    One of them needs ncdump, and is shown where that is installed.
    """
    dataset = mountpoint / "datasets" / SAMPLE.name
    variable = dataset / VARIABLE
    scale, offset, land = (
        float((variable / "attributes" / name).read_text())
        for name in ("scale_factor", "add_offset", "_FillValue")
    )
    unpacked = f"* {scale:g} + {offset:g}"
    program = "nczfs" if shutil.which("nczfs") else sys.argv[0]
    lines = [
        f"{store} (a directory of Zarr chunks) is mounted on {mountpoint}:",
        "",
        *_tree(mountpoint, dataset),
        "",
        "Monthly sea-surface temperatures along the equator, from October 2009 to September 2010.",
        "They are packed: the dataset stores each temperature as a 16-bit integer, and",
        "",
        f"    temperature in K = stored integer {unpacked}   (its scale_factor and add_offset)",
        "",
        f"where {land:g} (its _FillValue) marks land. nczfs shows the integers as they are stored;",
        "the commands unpack them. Try, in another terminal:",
        "",
        f"  ls -l {variable}",
        f"  cat {variable}/attributes/standard_name {variable}/attributes/units",
        f"  awk '$1 != {land:g} {{sum += $1; n++}} END {{print sum / n {unpacked}}}'"
        f" {variable}/values.txt",
        f"  {sys.executable} -c \"import numpy; print((numpy.load('{variable}/values.npy',"
        f" mmap_mode='r')[:, 9, 288] {unpacked}).round(1))\"",
        f"  od -A d -t d2 -N 32 {variable}/chunks/0.0.0",
        *([f"  ncdump -h {dataset}/{NETCDF}"] if shutil.which("ncdump") else []),
        "",
        f"Ctrl-C, or `{program} umount {mountpoint}`, ends it.",
    ]
    return "\n".join(lines)


def _tree(mountpoint: Path, dataset: Path) -> Iterator[str]:
    """Draw a short view: the whole dataset, one of its variables, a few chunks."""
    yield f"  {mountpoint}/"
    variable = dataset / VARIABLE
    opened = {mountpoint, dataset.parent, dataset, variable, variable / "chunks"}
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


COMMAND = Command(
    "demo",
    "mount a sample dataset and explain it",
    _arguments,
    run,
    ("nczfs demo",),
    frozenset(Scope),
    owns_signals=True,
)
