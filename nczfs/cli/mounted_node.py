"""A group or variable that a mount shows, by its path there or by its URL."""

from __future__ import annotations

import json
import os
from pathlib import Path

from nczfs.cli.sources import Settings
from nczfs.cli.store import shown
from nczfs.errors import UsageError
from nczfs.fuse import mounting
from nczfs.plaindata import frozen

DATASETS = "datasets"


@frozen
class MountedNode:
    """A node in a mount.

    Attributes
    ----------
    mountpoint : absolute.
    path : below the mount point; with the layout ``flat``, it may be that in the store instead.
    """

    mountpoint: str
    path: str

    @property
    def directory(self) -> Path:
        """The directory of the node."""
        return Path(self.mountpoint, self.path)


def mounted_node(place: str, settings: Settings) -> MountedNode:
    """Find the directory of a node.

    Parameters
    ----------
    place : a path in a mount, or the URL of something that is mounted, or lies below it.

    Raises
    ------
    UsageError : nothing of that place is mounted.
    """
    path = os.path.abspath(os.path.expanduser(place))
    ours = [e for e in mounting.mount_table() if e.kind == mounting.FILE_SYSTEM_TYPE]
    for entry in ours:
        if "://" not in place and f"{path}/".startswith(f"{entry.mountpoint}/"):
            return MountedNode(entry.mountpoint, path[len(entry.mountpoint) :].strip("/"))
    url = shown(place, settings)
    for entry in ours:
        source = entry.source.rstrip("/")
        if not f"{url}/".startswith(f"{source}/"):
            continue
        rest = url[len(source) :].strip("/")
        if _is_flat(entry.mountpoint):
            return MountedNode(entry.mountpoint, rest)
        for below in (rest, f"{source.rpartition('/')[2]}/{rest}"):
            node = MountedNode(entry.mountpoint, f"{DATASETS}/{below}".rstrip("/"))
            if below and node.directory.is_dir():
                return node
    raise UsageError(f"{url}: no mount shows it (`nczfs status` lists all mounts); mount it first")


def _is_flat(mountpoint: str) -> bool:
    try:
        config = json.loads(Path(mountpoint, ".nczfs/config.json").read_bytes())
    except OSError:  # it has ended
        return False
    return bool(config.get("layout") == "flat")
