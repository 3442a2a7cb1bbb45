"""What mounting needs of this machine."""

from __future__ import annotations

import os
import platform
import re

from nczfs.doctor.finding import CheckResult, doubtful, well, wrong, wrong_by
from nczfs.fuse import mounting
from nczfs.fuse.mounting import MountError

KERNEL_MIN = (5, 4)  # the oldest that is still maintained somewhere; nczfs is tested on newer ones


def kernel() -> CheckResult:
    """Check the version of the kernel."""
    system, release = platform.system(), platform.release()
    found = re.match(r"(\d+)\.(\d+)", release)
    version = (int(found[1]), int(found[2])) if found else (0, 0)
    if system != "Linux":
        return wrong(f"{system} {release}", "mount on Linux; commands with URLs work without it")
    if version < KERNEL_MIN:
        return doubtful(
            f"{system} {release}: nczfs is not tested on kernels before"
            f" {'.'.join(map(str, KERNEL_MIN))}",
            "use a newer one",
        )
    return well(f"{system} {release}")


def device() -> CheckResult:
    """Check that /dev/fuse can be opened."""
    try:
        mounting.check_device()
        os.close(os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC))
    except MountError as error:
        return wrong_by(error)
    except OSError as error:
        return wrong(
            f"/dev/fuse cannot be opened: {error.strerror}",
            "load the module with `modprobe fuse`; a container needs `--device /dev/fuse`",
        )
    return well("/dev/fuse can be opened")


def fusermount() -> CheckResult:
    """Check the program with which users mount."""
    try:
        mounting.check_fusermount()
    except MountError as error:
        if mounting.may_mount():
            return well("fusermount3 is not needed: this process mounts by itself")
        return wrong_by(error)
    return well("fusermount3 is installed")


def fuse_conf(*, allow_other: bool) -> CheckResult:
    """Check whether other users may be given access, as --allow-other and --allow-root ask."""
    if mounting.may_mount() or mounting.permits_allow_other():
        return well("other users may be given access (--allow-other)")
    remedy = "as root, add the line `user_allow_other` to /etc/fuse.conf"
    if allow_other:
        return wrong("/etc/fuse.conf does not permit --allow-other and --allow-root", remedy)
    return well("mounts are for their own user alone, as /etc/fuse.conf does not permit others")


def read_ahead() -> CheckResult:
    """Check whether nczfs may let the kernel read ahead."""
    is_writable = not os.statvfs("/sys").f_flag & os.ST_RDONLY
    if os.geteuid() == 0 and is_writable:
        return well(f"nczfs lets the kernel read {mounting.READ_AHEAD_KIB}KiB ahead")
    return doubtful(
        "only root of the machine may let the kernel read more than 128KiB ahead, so files that"
        " are read from beginning to end are slower",
        f"after mounting, as root: `echo {mounting.READ_AHEAD_KIB} >"
        " /sys/class/bdi/$(mountpoint -d MOUNTPOINT)/read_ahead_kb`",
    )
