"""``nczfs install-helper``: makes the type nczfs known to mount(8), fstab and systemd."""

from __future__ import annotations

import argparse
import os
import stat
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from nczfs.cli.command import Command, CommandLine
from nczfs.errors import UsageError

# Where mount(8) and umount(8) look. They look for the type that is typed, and for the one in the
# table of mounts, which is fuse.nczfs.
DIRECTORY = Path("/sbin")
HELPERS = {
    "mount.nczfs": "mount.nczfs",
    "mount.fuse.nczfs": "mount.nczfs",
    "umount.nczfs": "umount.nczfs",
    "umount.fuse.nczfs": "umount.nczfs",
}


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--remove", action="store_true", help="remove the links again")
    parser.add_argument(
        "--force",
        action="store_true",
        help="link to the programs even if others than root can change them",
    )


def run(request: CommandLine) -> int:
    """Make or remove the links, and print which."""
    if os.geteuid() != 0:
        program = Path(sys.argv[0]).absolute()
        raise UsageError(f"only root may write to {DIRECTORY}: sudo {program} install-helper")
    if request.arguments.remove:
        return _remove()
    programs = _programs()
    if not request.arguments.force:
        _check_owner(programs)
    for name in HELPERS:
        link = DIRECTORY / name
        if os.path.lexists(link) and not _is_ours(link):
            raise UsageError(f"{link}: exists and does not belong to nczfs; move it away first")
    for name, helper in HELPERS.items():
        link, program = DIRECTORY / name, programs / helper
        link.unlink(missing_ok=True)
        link.symlink_to(program)
        print(f"{link} -> {program}")
    print("mount(8), /etc/fstab and mount units of systemd know the type nczfs now.")
    return 0


def _remove() -> int:
    status = 0
    for name in HELPERS:
        link = DIRECTORY / name
        if _is_ours(link):
            link.unlink()
            print(f"{link}: removed")
        elif os.path.lexists(link):
            print(f"nczfs: {link}: does not belong to nczfs; not removed", file=sys.stderr)
            status = 1
    return status


def _is_ours(link: Path) -> bool:
    return link.is_symlink() and link.readlink().name in HELPERS.values()


def _programs() -> Path:
    """Return the directory of mount.nczfs and umount.nczfs: that of the running nczfs."""
    places = (Path(sys.argv[0]).resolve().parent, Path(sysconfig.get_path("scripts")))
    for place in places:
        if all((place / helper).is_file() for helper in HELPERS.values()):
            return place
    raise UsageError(f"no mount.nczfs in {places[0]}: install nczfs with pip, or run scripts/setup")


def _check_owner(programs: Path) -> None:
    """Refuse programs that another user can change, since root runs them."""
    for path in (programs / "mount.nczfs", Path(sys.prefix), Path(__file__)):
        for place in _with_parents(path):
            status = place.stat()
            shared = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
            sticky = stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX
            if status.st_uid != 0 or (shared and not sticky):
                raise UsageError(
                    f"{place}: users other than root can change it, and so what root runs at a"
                    " mount; install nczfs where only root writes, as with"
                    " `python3 -m venv /opt/nczfs`, or use --force"
                )


def _with_parents(path: Path) -> Iterator[Path]:
    resolved = path.resolve()
    yield resolved
    yield from resolved.parents


COMMAND = Command(
    "install-helper",
    "let mount(8), fstab and systemd mount stores",
    _arguments,
    run,
    ("sudo nczfs install-helper", "sudo nczfs install-helper --remove"),
)
