"""FUSE requests, one method each: arguments in, one call of the file system, attributes out."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Callable, Sequence
from errno import EACCES, EINVAL, ENOSYS, EPERM
from typing import cast

# Its types of numbers and names came with pyfuse3 3.4, so that they stand in annotations alone.
import pyfuse3
from pyfuse3 import EntryAttributes, FileInfo, FUSEError, StatvfsData

from nczfs import metrics
from nczfs.errors import NoSuchPath
from nczfs.fuse.answers import answers
from nczfs.fuse.listing import Listing
from nczfs.fuse.workers import Workers
from nczfs.vfs.base import (
    AttributeChanges,
    FileKind,
    FileSystem,
    HandleNo,
    InodeNo,
    NodeAttributes,
    NodeOwner,
    Opened,
)

log = logging.getLogger(__name__)

# The buffer size of stdio, cp and CDO: the largest request of buffered reading with the kernel's
# default read-ahead. With 1 MiB, cp, cat, nccopy and CDO were no faster, and a program that reads
# single values here and there through stdio would read 1 MiB for each. netcdf-c's classic files do
# not use it: builds of distributions and wheels read two pages at a time.
_BLOCK_SIZE = 128 * 1024


class Operations(pyfuse3.Operations):
    """The handlers of the kernel's requests, which a `FileSystem` answers.

    Parameters
    ----------
    fs : the file system; methods that may block are called in a thread.
    workers : those threads.
    negative_ttl_s : for how long the kernel may remember that a name is absent.
    on_init : called when the kernel has accepted the connection.
    judges_access : the kernel does not judge by modes who may do what, so that it is asked of `fs`.
    """

    supports_dot_lookup = False
    enable_writeback_cache = False  # the kernel would own sizes and times of files

    def __init__(
        self,
        fs: FileSystem,
        workers: Workers,
        negative_ttl_s: float,
        on_init: Callable[[], None],
        *,
        judges_access: bool = False,
    ) -> None:
        super().__init__()
        self._fs = fs
        self._workers = workers
        self._absent = EntryAttributes()
        self._absent.st_ino = 0
        self._absent.entry_timeout = negative_ttl_s
        self._on_init = on_init
        self._judges_access = judges_access
        # Touched on the event loop only.
        self._listings: dict[int, Listing] = {}
        self._writable: set[int] = set()
        self._slow: set[int] = set()

    def init(self) -> None:
        self._on_init()

    # -- names and attributes

    @answers
    async def lookup(
        self, parent_inode: int, name: bytes, ctx: pyfuse3.RequestContext
    ) -> EntryAttributes:
        parent = InodeNo(parent_inode)
        try:
            found = self._fs.lookup_if_cached(parent, name)
            if found is None:
                found = await self._workers.metadata.run_or_undo(
                    "lookup", lambda: self._fs.lookup(parent, name), self._forget_one
                )
        except NoSuchPath:
            # An answer instead of an error, because the kernel caches only answers.
            return self._absent
        return _entry(found)

    async def forget(self, inode_list: Sequence[tuple[int, int]]) -> None:
        try:
            self._fs.forget((InodeNo(ino), count) for ino, count in inode_list)
        except Exception:
            # FORGET has no reply to carry an error, so @answers would end the mount.
            log.exception("forget(%s)", inode_list)

    @answers
    async def getattr(self, inode: int, ctx: pyfuse3.RequestContext) -> EntryAttributes:
        ino = InodeNo(inode)
        attributes = self._fs.getattr_if_cached(ino)
        if attributes is None:
            attributes = await self._workers.metadata.run("getattr", lambda: self._fs.getattr(ino))
        return _entry(attributes)

    @answers
    async def setattr(
        self,
        inode: int,
        attr: EntryAttributes,
        fields: pyfuse3.SetattrFields,
        fh: int | None,
        ctx: pyfuse3.RequestContext,
    ) -> EntryAttributes:
        changes = AttributeChanges(
            size=attr.st_size if fields.update_size else None,
            mode=stat.S_IMODE(attr.st_mode) if fields.update_mode else None,
            uid=attr.st_uid if fields.update_uid else None,
            gid=attr.st_gid if fields.update_gid else None,
            atime_ns=attr.st_atime_ns if fields.update_atime else None,
            mtime_ns=attr.st_mtime_ns if fields.update_mtime else None,
        )
        handle = None if fh is None else HandleNo(fh)
        stores = fields.update_size and fh is None  # truncate(2) returns when it is stored
        workers = self._workers.flushers if stores else self._workers.writers
        return _entry(
            await workers.run("setattr", lambda: self._fs.setattr(InodeNo(inode), changes, handle))
        )

    @answers
    async def access(self, inode: int, mode: int, ctx: pyfuse3.RequestContext) -> bool:
        if not self._judges_access:
            return True  # the kernel, which has default_permissions, judges by itself
        return await self._workers.metadata.run(
            "access", lambda: self._fs.access(InodeNo(inode), mode, ctx.uid)
        )

    @answers
    async def statfs(self, ctx: pyfuse3.RequestContext) -> StatvfsData:
        capacity = await self._workers.metadata.run("statfs", self._fs.statfs)
        answer = StatvfsData()
        answer.f_bsize = answer.f_frsize = 4096
        answer.f_blocks = capacity.total_bytes // 4096
        answer.f_bfree = capacity.free_bytes // 4096
        answer.f_bavail = capacity.available_bytes // 4096
        answer.f_files = capacity.files
        answer.f_ffree = answer.f_favail = capacity.free_files
        answer.f_namemax = 255
        return answer

    # -- directories

    @answers
    async def opendir(self, inode: int, ctx: pyfuse3.RequestContext) -> int:
        return await self._workers.metadata.run_or_undo(
            "opendir", lambda: self._fs.opendir(InodeNo(inode)), self._fs.releasedir
        )

    @answers
    async def readdir(self, fh: int, start_id: int, token: pyfuse3.ReaddirToken) -> None:
        listing = self._listings.pop(fh, None)
        if listing is None or listing.cookie != start_id or start_id == 0:
            listing = Listing(self._fs, HandleNo(fh), start_id)
        accepted = 0
        while True:
            entry = listing.peek()
            if entry is None:
                if listing.ended:
                    break
                # An error after accepted entries would lose them, and their lookup counts with
                # them: they are answered first, and the next request meets the error again.
                if accepted:
                    return
                await self._workers.metadata.run("readdir", listing.load)
                continue
            name = entry.name
            if not pyfuse3.readdir_reply(token, name, _entry(entry.attributes), entry.cookie):
                break
            accepted += 1
            if name not in (b".", b".."):
                self._fs.remember(entry.attributes.ino)
            listing.take()
        self._listings[fh] = listing

    @answers
    async def releasedir(self, fh: int) -> None:
        self._listings.pop(fh, None)
        self._fs.releasedir(HandleNo(fh))

    @answers
    async def fsyncdir(self, fh: int, datasync: bool) -> None:
        await self._workers.flushers.run("fsyncdir", lambda: self._fs.fsyncdir(HandleNo(fh)))

    @answers
    async def mkdir(
        self, parent_inode: int, name: bytes, mode: int, ctx: pyfuse3.RequestContext
    ) -> EntryAttributes:
        return _entry(
            await self._workers.writers.run_or_undo(
                "mkdir",
                lambda: self._fs.mkdir(
                    InodeNo(parent_inode), name, stat.S_IMODE(mode), _owner(ctx)
                ),
                self._forget_one,
            )
        )

    @answers
    async def unlink(self, parent_inode: int, name: bytes, ctx: pyfuse3.RequestContext) -> None:
        await self._workers.writers.run(
            "unlink", lambda: self._fs.unlink(InodeNo(parent_inode), name)
        )

    @answers
    async def rmdir(self, parent_inode: int, name: bytes, ctx: pyfuse3.RequestContext) -> None:
        await self._workers.flushers.run(
            "rmdir", lambda: self._fs.rmdir(InodeNo(parent_inode), name)
        )

    @answers
    async def rename(
        self,
        parent_inode_old: int,
        name_old: bytes,
        parent_inode_new: int,
        name_new: bytes,
        flags: int,
        ctx: pyfuse3.RequestContext,
    ) -> None:
        if flags & ~pyfuse3.RENAME_NOREPLACE:
            raise FUSEError(EINVAL)
        await self._workers.flushers.run(
            "rename",
            lambda: self._fs.rename(
                InodeNo(parent_inode_old),
                name_old,
                InodeNo(parent_inode_new),
                name_new,
                replace=not flags & pyfuse3.RENAME_NOREPLACE,
            ),
        )

    @answers
    async def link(
        self, inode: int, new_parent_inode: int, new_name: bytes, ctx: pyfuse3.RequestContext
    ) -> EntryAttributes:
        return _entry(
            await self._workers.flushers.run_or_undo(
                "link",
                lambda: self._fs.link(InodeNo(inode), InodeNo(new_parent_inode), new_name),
                self._forget_one,
            )
        )

    # -- files

    @answers
    async def open(self, inode: int, flags: int, ctx: pyfuse3.RequestContext) -> FileInfo:
        opened = await self._workers.metadata.run_or_undo(
            "open", lambda: self._open(InodeNo(inode), flags, ctx.uid), self._release_opened
        )
        return self._file_info(opened, flags)

    @answers
    async def create(
        self,
        parent_inode: int,
        name: bytes,
        mode: int,
        flags: int,
        ctx: pyfuse3.RequestContext,
    ) -> tuple[FileInfo, EntryAttributes]:
        opened, attributes = await self._workers.writers.run_or_undo(
            "create",
            lambda: self._fs.create(
                InodeNo(parent_inode), name, flags, stat.S_IMODE(mode), _owner(ctx)
            ),
            self._undo_create,
        )
        # Even a file made with O_RDONLY is stored when it is closed.
        return self._file_info(opened, flags | os.O_RDWR), _entry(attributes)

    @answers
    async def mknod(
        self,
        parent_inode: int,
        name: bytes,
        mode: int,
        rdev: int,
        ctx: pyfuse3.RequestContext,
    ) -> EntryAttributes:
        if not stat.S_ISREG(mode):
            raise FUSEError(EPERM)

        def make() -> NodeAttributes:
            opened, attributes = self._fs.create(
                InodeNo(parent_inode),
                name,
                os.O_WRONLY | os.O_EXCL,
                stat.S_IMODE(mode),
                _owner(ctx),
            )
            self._fs.flush(opened.handle)
            self._fs.release(opened.handle)
            return attributes

        return _entry(await self._workers.flushers.run_or_undo("mknod", make, self._forget_one))

    @answers
    async def read(self, fh: int, off: int, size: int) -> bytes:
        handle = HandleNo(fh)
        data = self._fs.read_if_cached(handle, off, size)
        if data is not None:
            metrics.FUSE_WARM_READS.inc()
        else:
            pool = self._workers.slow_readers if fh in self._slow else self._workers.readers
            data = await pool.run("read", lambda: self._fs.read(handle, off, size))
        metrics.FUSE_READ_BYTES.inc(len(data))
        # Any contiguous buffer is sent as it is; the annotation of pyfuse3 says bytes.
        return data  # type: ignore[return-value]

    @answers
    async def write(self, fh: int, off: int, buf: bytes) -> int:
        size = await self._workers.writers.run(
            "write", lambda: self._fs.write(HandleNo(fh), off, buf)
        )
        metrics.FUSE_WRITTEN_BYTES.inc(size)
        return size

    @answers
    async def flush(self, fh: int) -> None:
        # Every close() of every program comes here; only writers have to wait.
        if fh in self._writable:
            await self._workers.flushers.run("flush", lambda: self._fs.flush(HandleNo(fh)))

    @answers
    async def fsync(self, fh: int, datasync: bool) -> None:
        await self._workers.flushers.run(
            "fsync", lambda: self._fs.fsync(HandleNo(fh), data_only=datasync)
        )

    @answers
    async def release(self, fh: int) -> None:
        self._writable.discard(fh)
        self._slow.discard(fh)
        await self._workers.flushers.run("release", lambda: self._fs.release(HandleNo(fh)))

    # -- what a tree over a flat store does not have

    @answers
    async def readlink(self, inode: int, ctx: pyfuse3.RequestContext) -> pyfuse3.FileNameT:
        raise FUSEError(EINVAL)

    @answers
    async def symlink(
        self, parent_inode: int, name: bytes, target: bytes, ctx: pyfuse3.RequestContext
    ) -> EntryAttributes:
        raise FUSEError(EPERM)

    # After ENOSYS the kernel never asks again; otherwise each write(2) would first request
    # security.capability, and `ls -l` every entry's ACL.

    @answers
    async def getxattr(self, inode: int, name: bytes, ctx: pyfuse3.RequestContext) -> bytes:
        raise FUSEError(ENOSYS)

    @answers
    async def setxattr(
        self, inode: int, name: bytes, value: bytes, ctx: pyfuse3.RequestContext
    ) -> None:
        raise FUSEError(ENOSYS)

    @answers
    async def listxattr(
        self, inode: int, ctx: pyfuse3.RequestContext
    ) -> Sequence[pyfuse3.XAttrNameT]:
        raise FUSEError(ENOSYS)

    @answers
    async def removexattr(self, inode: int, name: bytes, ctx: pyfuse3.RequestContext) -> None:
        raise FUSEError(ENOSYS)

    # -- helpers

    def _open(self, ino: InodeNo, flags: int, uid: int) -> Opened:
        if self._judges_access and _writes(flags) and not self._fs.access(ino, os.W_OK, uid):
            raise FUSEError(EACCES)
        return self._fs.open(ino, flags)

    def _file_info(self, opened: Opened, flags: int) -> FileInfo:
        if _writes(flags):
            self._writable.add(opened.handle)
        if opened.is_slow:
            self._slow.add(opened.handle)
        return FileInfo(
            fh=cast("pyfuse3.FileHandleT", opened.handle),
            direct_io=opened.direct_io,
            keep_cache=opened.keep_cache,
        )

    def _forget_one(self, attributes: NodeAttributes) -> None:
        self._fs.forget([(attributes.ino, 1)])

    def _release_opened(self, opened: Opened) -> None:
        self._fs.release(opened.handle)

    def _undo_create(self, made: tuple[Opened, NodeAttributes]) -> None:
        self._release_opened(made[0])
        self._forget_one(made[1])


def _writes(flags: int) -> bool:
    return flags & (os.O_ACCMODE | os.O_TRUNC) != os.O_RDONLY


def _owner(ctx: pyfuse3.RequestContext) -> NodeOwner | None:
    """Return the user of a request, unless it is the one who mounted."""
    return None if ctx.uid == os.getuid() else NodeOwner(ctx.uid, ctx.gid)


def _entry(attributes: NodeAttributes) -> EntryAttributes:
    """Make FUSE's attributes, whose default timeouts of 300 s are replaced here."""
    entry = EntryAttributes()
    entry.st_ino = cast("pyfuse3.InodeT", attributes.ino)
    kind = stat.S_IFDIR if attributes.kind is FileKind.DIRECTORY else stat.S_IFREG
    entry.st_mode = kind | attributes.mode
    entry.st_nlink = attributes.nlink
    entry.st_uid = attributes.uid
    entry.st_gid = attributes.gid
    entry.st_size = attributes.size
    entry.st_blksize = _BLOCK_SIZE
    entry.st_blocks = (attributes.size + 511) // 512  # 0 would be taken for a hole
    entry.st_ctime_ns = entry.st_mtime_ns = attributes.mtime_ns
    atime_ns = attributes.atime_ns
    entry.st_atime_ns = attributes.mtime_ns if atime_ns is None else atime_ns
    entry.attr_timeout = attributes.valid_s
    entry.entry_timeout = attributes.entry_valid_s
    return entry
