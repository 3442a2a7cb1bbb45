"""Mount points: checks before mounting, dead mounts, unmounting."""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
import subprocess
from pathlib import Path

from nczfs.errors import NczfsError, UsageError
from nczfs.fuse import systemcalls
from nczfs.plaindata import frozen

FILE_SYSTEM_TYPE = "fuse.nczfs"
CAP_SYS_ADMIN = 21
READ_AHEAD_KIB = 1024  # more has no effect: a request is at most 1 MiB

_DESCRIPTOR = re.compile(r"/dev/fd/\d+")
_OCTAL = re.compile(r"\\([0-7]{3})")


class MountError(NczfsError):
    """Mounting or unmounting is impossible; the message names the remedy."""


@frozen
class MountEntry:
    """A line of the kernel's table of mounts."""

    mountpoint: str
    device: str  # "major:minor"
    kind: str
    source: str


def is_descriptor(mountpoint: str) -> bool:
    """Return whether the mount point is a descriptor of /dev/fuse, mounted by a parent process."""
    return _DESCRIPTOR.fullmatch(mountpoint) is not None


def mount_table() -> list[MountEntry]:
    """Return all mounts that this process sees, in the order of mounting."""
    entries = []
    for line in Path("/proc/self/mountinfo").read_text("utf-8", "surrogateescape").splitlines():
        left, _, right = line.partition(" - ")
        fields, rest = left.split(" "), right.split(" ")
        entries.append(MountEntry(_unescape(fields[4]), fields[2], rest[0], _unescape(rest[1])))
    return entries


def _unescape(text: str) -> str:
    octets = _OCTAL.sub(lambda match: chr(int(match[1], 8)), text)
    # proc(5) escapes blanks, tabs, newlines and backslashes only, so all of them are ASCII.
    return octets


def find_mount(mountpoint: str) -> MountEntry | None:
    """Return the topmost mount at a path; never touches the mount itself."""
    path = resolve(mountpoint)
    return next((e for e in reversed(mount_table()) if e.mountpoint == path), None)


def resolve(mountpoint: str) -> str:
    """Return the absolute path without symbolic links, without touching its last component.

    A dead mount answers nothing, not even whether it is a link.
    """
    path = os.path.abspath(mountpoint)
    if any(e.mountpoint == path for e in mount_table()):
        return path
    return os.path.realpath(path)


def mounts_of(source: str) -> list[MountEntry]:
    """Return the mounts of nczfs that show the same objects as `source`, or some of them."""
    ours = [entry for entry in mount_table() if entry.kind == FILE_SYSTEM_TYPE]
    return [
        entry
        for entry in ours
        if _is_below(entry.source, source) or _is_below(source, entry.source)
    ]


def _is_below(url: str, other: str) -> bool:
    parts, others = (text.partition("#")[0].rstrip("/").split("/") for text in (url, other))
    return parts[: len(others)] == others


def prepare(mountpoint: str, *, allow_other: bool, allow_non_empty: bool = False) -> str:
    """Check that nczfs can mount there, and clear what a dead nczfs daemon left.

    Parameters
    ----------
    allow_other : whether other users, or only root (``allow_root``), get access.
    allow_non_empty : whether the mount may hide the contents of the directory.

    Returns
    -------
    str : the mount point to use, absolute.

    Raises
    ------
    UsageError : there is no such directory, or it is not empty.
    MountError : the machine, or another mount there, prevents it.
    """
    check_fuse(allow_other=allow_other)
    if is_descriptor(mountpoint):
        return mountpoint
    path = resolve(mountpoint)
    for _ in range(8):  # mounts of several dead daemons may lie on top of each other
        entry = find_mount(path)
        if entry is None or not entry.kind.startswith("fuse") or not _is_dead(path):
            break
        if entry.kind != FILE_SYSTEM_TYPE:
            raise MountError(
                f"{path}: a dead mount of {entry.kind} is in the way; unmount it with"
                f" `fusermount3 -uz {path}`"
            )
        unmount(path, lazy=True)
    entry = find_mount(path)
    if entry is not None and entry.kind == FILE_SYSTEM_TYPE:  # perhaps another user's
        raise MountError(
            f"{path}: {entry.source} is already mounted there; `nczfs umount {path}` first"
        )
    _check_directory(path)
    # Looking into an automount point would wait for the mount that is to be made here.
    if not allow_non_empty and (entry is None or entry.kind != "autofs"):
        _check_empty(path)
    return path


def check_fuse(*, allow_other: bool) -> None:
    """Check that this machine and user can mount FUSE file systems. Raises MountError."""
    check_device()
    if may_mount():
        return
    check_fusermount()
    if allow_other and not permits_allow_other():
        raise MountError(
            "allow_other, allow_root: /etc/fuse.conf does not permit them; add the line"
            " `user_allow_other`"
        )


def check_device() -> None:
    """Check that this process can open /dev/fuse. Raises MountError."""
    if not os.path.exists("/dev/fuse"):
        raise MountError(
            "/dev/fuse is missing: load it with `modprobe fuse`; a container needs"
            " `--device /dev/fuse --cap-add SYS_ADMIN`"
        )
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        raise MountError("/dev/fuse: no permission to open it; as root: `chmod 0666 /dev/fuse`")


def check_fusermount() -> None:
    """Check that fusermount3 is there, and finds what it needs. Raises MountError."""
    if _fusermount() is None:
        raise MountError(
            "fusermount3 is not installed: `apt-get install fuse3`; for one command, `nczfs exec`"
            " works without it"
        )
    if not os.path.exists("/etc/mtab"):
        raise MountError(
            "/etc/mtab is missing, and without it fusermount3 does not unmount for users; as root:"
            " `ln -s ../proc/self/mounts /etc/mtab`"
        )


def may_mount() -> bool:
    """Return whether this process has CAP_SYS_ADMIN, and so mounts without fusermount3.

    Root has it, except in most containers; so has any user in a user namespace of the user's own.
    """
    status = Path("/proc/self/status").read_text()
    effective = re.search(r"^CapEff:\s*([0-9a-f]+)$", status, re.MULTILINE)
    return effective is not None and bool(int(effective[1], 16) >> CAP_SYS_ADMIN & 1)


def _fusermount() -> str | None:
    # Mount units of systemd have a short PATH.
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/bin", "/bin", "/usr/sbin"])
    return shutil.which("fusermount3", path=path)


def permits_allow_other() -> bool:
    """Return whether users may give others access to their mounts."""
    try:
        lines = Path("/etc/fuse.conf").read_text("utf-8", "replace").splitlines()
    except OSError:
        return False
    return any(line.strip() == "user_allow_other" for line in lines)


def _is_dead(path: str) -> bool:
    try:
        os.statvfs(path)  # stat may still be answered from the kernel's memory
    except OSError as error:
        # ENOTCONN: the daemon is gone. ECONNABORTED: it is going.
        return error.errno in (errno.ENOTCONN, errno.ECONNABORTED)
    return False


def _check_directory(path: str) -> None:
    try:
        status = os.stat(path)
    except FileNotFoundError:
        raise UsageError(
            f"{path}: no such directory to mount on; `mkdir -p {path}` first"
        ) from None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    if not stat.S_ISDIR(status.st_mode):
        raise UsageError(f"{path}: not a directory, so nothing can be mounted there")
    if not may_mount() and not os.access(path, os.W_OK):
        raise MountError(f"{path}: fusermount3 mounts only where you may write")


def _check_empty(path: str) -> None:
    try:
        with os.scandir(path) as entries:
            is_empty = next(entries, None) is None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    if not is_empty:
        raise UsageError(
            f"{path}: is not empty, and a mount would hide what is in it; mount on an empty"
            " directory, or with --allow-non-empty"
        )


def unmount(path: str, *, lazy: bool = False) -> None:
    """Unmount, through fusermount3 unless this process may do so itself.

    Raises
    ------
    MountError : it is in use, is not a mount, or belongs to another user.
    """
    if may_mount():
        try:
            systemcalls.unmount(path, lazy=lazy)
        except OSError as error:
            raise _refused(path, error.strerror or str(error)) from error
        return
    command = [_fusermount() or "fusermount3", "-uz" if lazy else "-u", "--", path]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode == 0:
        return
    reason = done.stderr.strip().removeprefix("fusermount3: ").splitlines() or ["no reason given"]
    raise _refused(path, reason[-1])


def _refused(path: str, reason: str) -> MountError:
    if "busy" in reason.lower():
        return MountError(
            f"{path}: in use; end what works there (`fuser -vm {path}` shows it), or"
            f" `nczfs umount --lazy {path}`"
        )
    if "not found in /etc/mtab" in reason and find_mount(path) is not None:
        # fusermount3 looks only for mounts of its own user.
        return MountError(
            f"{path}: another user has mounted it; unmount it as that user, or as root"
        )
    return MountError(f"{path}: cannot be unmounted: {reason}")


def force_unmount(path: str) -> None:
    """Unmount as root, without asking a daemon that may hang; its requests fail.

    Raises
    ------
    MountError : umount(8) refused it.
    """
    command = ["umount", "--internal-only", "--force", path]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode != 0:
        raise MountError(f"{path}: cannot be unmounted: {done.stderr.strip() or 'no reason given'}")


def raise_read_ahead(path: str, kib: int) -> bool:
    """Let the kernel read this far ahead of a buffered reader. Returns whether that is permitted.

    Its default of 128 KiB costs eight times the requests: 0.46 instead of 1.4 GB/s.
    """
    entry = find_mount(path)
    if entry is None:
        return False
    try:
        Path(f"/sys/class/bdi/{entry.device}/read_ahead_kb").write_text(str(kib))
    except OSError:
        return False
    return True
