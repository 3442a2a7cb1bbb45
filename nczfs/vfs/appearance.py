"""The attributes of nodes: owners, permissions, sizes and times."""

from __future__ import annotations

from dataclasses import replace

from nczfs.plaindata import frozen
from nczfs.vfs.base import AttributeChanges, FileKind, InodeNo, NodeAttributes
from nczfs.vfs.nodes import File, NodeStat, TreeNode

DIRECTORY_NLINK = 2


@frozen
class Appearance:
    """The default attributes of nodes.

    Attributes
    ----------
    uid, gid, file_mode, dir_mode : of every file and directory.
    attr_ttl_s : for how long the kernel may cache attributes.
    own_modes : a node may have a mode of its own.
    """

    uid: int = 0
    gid: int = 0
    file_mode: int = 0o444
    dir_mode: int = 0o555
    attr_ttl_s: float = 1.0
    own_modes: bool = False

    @property
    def all_may_read(self) -> bool:
        """Whether modes keep no user from reading anything."""
        modes = self.file_mode & 0o444, self.dir_mode & 0o555
        return modes == (0o444, 0o555) and not self.own_modes

    def of(self, ino: InodeNo, node: TreeNode, stat: NodeStat) -> NodeAttributes:
        """Return the attributes of a file or directory."""
        if isinstance(node, File):
            return self.of_file(ino, stat, self.mode_of(node))
        return NodeAttributes(
            ino=ino,
            kind=FileKind.DIRECTORY,
            mode=self.dir_mode if stat.mode is None else stat.mode,
            size=stat.size,
            mtime_ns=stat.mtime_ns,
            uid=self.uid if stat.uid is None else stat.uid,
            gid=self.gid if stat.gid is None else stat.gid,
            nlink=DIRECTORY_NLINK,
            valid_s=self.attr_ttl_s,
            entry_valid_s=self.attr_ttl_s,
            atime_ns=stat.atime_ns,
        )

    def of_file(self, ino: InodeNo, stat: NodeStat, mode: int) -> NodeAttributes:
        """Return the attributes of a file, with `mode` unless `stat` has one."""
        return NodeAttributes(
            ino=ino,
            kind=FileKind.FILE,
            mode=mode if stat.mode is None else stat.mode,
            size=stat.size,
            mtime_ns=stat.mtime_ns,
            uid=self.uid if stat.uid is None else stat.uid,
            gid=self.gid if stat.gid is None else stat.gid,
            nlink=int(stat.linked),
            valid_s=self.attr_ttl_s if stat.exact else 0.0,
            entry_valid_s=self.attr_ttl_s,
            atime_ns=stat.atime_ns,
        )

    def mode_of(self, file: TreeNode) -> int:
        """Return a file's default mode, in which the owner may write if the file is writable."""
        mode = self.file_mode
        return mode | 0o200 if isinstance(file, File) and file.writable else mode & ~0o222


def beyond(changes: AttributeChanges, shown: NodeAttributes) -> AttributeChanges:
    """Return the requested modes, owners and times that differ from the present ones."""
    return replace(
        changes,
        size=None,
        mode=None if changes.mode == shown.mode else changes.mode,
        uid=None if changes.uid == shown.uid else changes.uid,
        gid=None if changes.gid == shown.gid else changes.gid,
    )
