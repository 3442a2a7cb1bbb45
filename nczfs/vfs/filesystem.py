"""A file system over a tree of nodes, which passes each call to its node."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, nullcontext, suppress
from typing import TypeVar

from nczfs.buffers import Buffer
from nczfs.engine.retrying import error_to_raise
from nczfs.errors import (
    IsADirectory,
    NameTooLong,
    NczfsError,
    NoSuchNode,
    NoSuchPath,
    NotADirectory,
    NotPermitted,
    ReadOnlyMount,
    StaleHandle,
)
from nczfs.vfs import effects
from nczfs.vfs.appearance import Appearance, beyond
from nczfs.vfs.base import (
    AttributeChanges,
    DirectoryEntry,
    FileSystem,
    HandleNo,
    InodeNo,
    NodeAttributes,
    NodeOwner,
    Notifier,
    Opened,
)
from nczfs.vfs.ending import Ending
from nczfs.vfs.handles import FileHandle, HandleTable
from nczfs.vfs.inodes import Inode, InodeTable
from nczfs.vfs.kernel import KernelCache, writes
from nczfs.vfs.listing import OpenDirectory
from nczfs.vfs.nodes import Directory, File, NodeStat, OpenFile
from nczfs.vfs.objects import NAME_BYTES_MAX
from nczfs.zmap.capacity import Capacity

_T = TypeVar("_T")

PAGE_BYTES = 4096
READERS_WAIT_S = 0.5  # for a program that closes a file, and then truncates it
READERS_POLL_S = 0.002


class TreeFileSystem(FileSystem):
    """A tree of nodes as a file system.

    The nodes do the work; this class finds them, and numbers what it finds.

    Parameters
    ----------
    read_only : whether nothing can be made, removed or renamed; files that are `writable` even so
        take writes (the control directory).
    pages_ttl_s : for how long pages in the kernel's cache stay valid without asking the store.
    forget : forgets what is cached of a path in the tree, and returns which other paths show the
        same keys.
    sync : stores writes that nodes hold without an open file, and commits.
    commit : makes durable what the store gathers, whichever file it belongs to.
    capacity : of the store.
    expect_end : ends what takes long.
    save : saves unstored writes of the nodes on this machine.
    end : stops timers that store things later.
    ending : returns what is left after `close`.
    close : closes what the nodes depend on.
    notifier : of the kernel; None if nothing is mounted.
    directories_last : see `InodeTable`.
    """

    def __init__(
        self,
        root: Directory,
        appearance: Appearance,
        *,
        read_only: bool,
        pages_ttl_s: float,
        forget: Callable[[str], Callable[[str], bool]],
        sync: Callable[[], None],
        commit: Callable[[], None],
        capacity: Callable[[], Capacity],
        ending_text: Callable[[], str],
        expect_end: Callable[[], None],
        save: Callable[[], object],
        end: Callable[[], None],
        ending: Callable[[], Ending],
        close: Callable[[], None],
        notifier: Notifier | None = None,
        directories_last: bool = False,
    ) -> None:
        self.inodes = InodeTable(root, directories_last=directories_last)
        self.kernel = KernelCache(self.inodes, notifier, pages_ttl_s)
        self._appearance = appearance
        self._read_only = read_only
        self._forget = forget
        self._sync = sync
        self._commit = commit
        self._capacity = capacity
        self._ending_text = ending_text
        self._expect_end = expect_end
        self._save = save
        self._end = end
        self._ending = ending
        self._close = close
        numbers = itertools.count(1)
        self._files: HandleTable[FileHandle] = HandleTable("file", numbers)
        self._directories: HandleTable[OpenDirectory] = HandleTable("directory", numbers)

    @property
    def open_files(self) -> int:
        return len(self._files)

    def judges_access(self, *, shared: bool) -> bool:
        return self._read_only and (not shared or self._appearance.all_may_read)

    def access(self, ino: InodeNo, mask: int, uid: int) -> bool:
        inode = self.inodes.get(ino)
        if mask & os.W_OK:
            self._check_writable(inode)
            if uid not in (0, os.getuid(), self._appearance.uid):
                return False
        runs = mask & os.X_OK and isinstance(inode.node, File)
        return not runs or bool(self.getattr(ino).mode & 0o111)

    def lookup(self, parent: InodeNo, name: bytes) -> NodeAttributes:
        directory = self._directory(parent)
        if len(name) > NAME_BYTES_MAX:
            raise NameTooLong(f"{os.fsdecode(name)[:40]}...: a name has at most 255 bytes")
        text = os.fsdecode(name)
        node = self._node_of(directory).lookup(text)
        node.looked_up()
        inode = self.inodes.number(directory, text, node)
        # Counted before anything blocks, so that a concurrent forget cannot drop it.
        self.inodes.remember(inode.ino)
        try:
            return self._attributes(inode, inode.node.lookup_stat)
        except BaseException:
            self.inodes.forget([(inode.ino, 1)])
            raise

    def lookup_if_cached(self, parent: InodeNo, name: bytes) -> NodeAttributes | None:
        directory = self._directory(parent)
        text = os.fsdecode(name)
        node = self._node_of(directory).lookup_if_cached(text)
        known = self.inodes.at(directory.ino, text)
        sizings = known.sizings if known is not None else 0
        stat = node.stat_if_cached() if node is not None else None
        if node is None or stat is None:
            return None
        inode = self.inodes.number(directory, text, node)
        self.inodes.remember(inode.ino)
        return self._sent_attributes(inode, stat, sizings)

    def forget(self, counts: Iterable[tuple[InodeNo, int]]) -> None:
        self.inodes.forget(counts)

    def getattr(self, ino: InodeNo) -> NodeAttributes:
        inode = self.inodes.get(ino)
        return self._attributes(inode, inode.node.stat)

    def getattr_if_cached(self, ino: InodeNo) -> NodeAttributes | None:
        inode = self.inodes.get(ino)
        sizings = inode.sizings
        stat = inode.node.stat_if_cached()
        return self._sent_attributes(inode, stat, sizings) if stat is not None else None

    def setattr(
        self, ino: InodeNo, changes: AttributeChanges, handle: HandleNo | None
    ) -> NodeAttributes:
        inode = self.inodes.get(ino)
        if self._read_only or changes.size is not None:
            self._check_writable(inode)
        if changes.size is not None:
            with self.kernel.changing():
                if handle is not None:
                    file = self._files.get(handle).file
                    if not file.begins_itself:
                        effects.begin()
                    file.truncate(changes.size)
                else:
                    effects.begin()
                    with self.kernel.resizing(inode):
                        self._file(inode).truncate(changes.size)
                self.inodes.resized(inode)
        attributes = self.getattr(ino)
        rest = beyond(changes, attributes)
        if rest == AttributeChanges():
            return attributes
        effects.begin()
        inode.node.change(rest)
        return self.getattr(ino)

    def opendir(self, ino: InodeNo) -> HandleNo:
        inode = self._directory(ino)
        return self._directories.add(OpenDirectory(inode, self.inodes, self._appearance))

    def readdir(self, handle: HandleNo, cookie: int) -> Iterator[DirectoryEntry]:
        return self._directories.get(handle).read(cookie)

    def remember(self, ino: InodeNo) -> None:
        self.inodes.remember(ino)

    def releasedir(self, handle: HandleNo) -> None:
        directory = self._directories.take(handle)
        if directory is not None:
            directory.close()

    def open(self, ino: InodeNo, flags: int) -> Opened:
        inode = self.inodes.get(ino)
        node = self._file(inode)
        writing = flags & os.O_ACCMODE != os.O_RDONLY
        truncate = bool(flags & os.O_TRUNC)
        if writing or truncate:
            self._check_writable(inode)
        token_before = node.pages_token
        with ExitStack() as failed, self.kernel.changing():
            if truncate and node.is_replaceable:
                self._open_alone(inode)
            else:
                self.inodes.opened(ino)
            failed.callback(self.inodes.closed, ino)
            file = node.open(writing=writing, truncate=truncate)
            if file.own_node is not None:
                inode.node = file.own_node
            if flags & os.O_ACCMODE == os.O_RDWR:
                file.expect_reads()
            if not truncate:
                self.kernel.check_size(inode)
            failed.pop_all()
        file.appending = bool(flags & os.O_APPEND)
        keep = self.kernel.keeps_pages(inode, node, token_before) and not truncate
        return self._opened(inode, node, file, flags, keep=keep)

    def read(self, handle: HandleNo, offset: int, size: int) -> Buffer:
        return self._files.get(handle).file.read(offset, size)

    def read_if_cached(self, handle: HandleNo, offset: int, size: int) -> Buffer | None:
        return self._files.get(handle).file.read_if_cached(offset, size)

    def write(self, handle: HandleNo, offset: int, data: Buffer) -> int:
        found = self._files.get(handle)
        file, inode = found.file, found.inode
        if not file.begins_itself:
            effects.begin()
        # The kernel writes pages of a mapping back through any file that is open for writing. They
        # lie within the file's size as it knows it; a program's append begins at that size, which
        # may be an earlier one than the last that it was sent. It comes in parts, cut at pages.
        known, goes_on = inode.sent_size, inode.appended == (handle, offset)
        is_page = inode.mappable > 0 and offset % PAGE_BYTES == 0 and offset < (known or 0)
        is_page &= not goes_on
        write = file.append if file.appending and known is not None and not is_page else file.write
        judging = self.kernel.changing() if file.judges_writes else nullcontext()
        with judging, self.kernel.writing(inode):
            count = write(offset, data)
        if not is_page:
            inode.appended = (handle, offset + count) if file.appending else None
            self.inodes.wrote(inode, offset + count)
        return count

    def flush(self, handle: HandleNo) -> None:
        with self.kernel.changing():
            self._files.get(handle).file.flush()

    def fsync(self, handle: HandleNo, *, data_only: bool) -> None:
        with self.kernel.changing():
            self._files.get(handle).file.fsync()
            self._commit()

    def fsyncdir(self, handle: HandleNo) -> None:
        self._node_of(self._directories.get(handle).inode).sync()
        self._commit()

    def release(self, handle: HandleNo) -> None:
        found = self._files.take(handle)
        if found is not None:
            try:
                found.file.close()
            finally:
                self.kernel.open_inodes.closed(found.inode, is_mappable=found.is_mappable)
                self.kernel.closed(found)
                self.inodes.closed(found.inode.ino)

    def create(
        self, parent: InodeNo, name: bytes, flags: int, mode: int, owner: NodeOwner | None = None
    ) -> tuple[Opened, NodeAttributes]:
        directory, text = self._place(parent, name)
        exclusive = bool(flags & os.O_EXCL)
        with self.kernel.changing((directory, text)):
            node, file = self._change_in(
                directory, lambda d: d.create(text, mode, exclusive=exclusive)
            )
            file.appending = bool(flags & os.O_APPEND)
            if flags & os.O_TRUNC:
                file.truncate(0)
        inode = self.inodes.number(directory, text, node)
        self.inodes.remember(inode.ino)
        self.inodes.opened(inode.ino)
        opened = self._opened(inode, node, file, flags, keep=False)
        self._give(inode, owner)
        return opened, self._attributes(inode, node.stat)

    def mkdir(
        self, parent: InodeNo, name: bytes, mode: int, owner: NodeOwner | None = None
    ) -> NodeAttributes:
        directory, text = self._place(parent, name)
        with self.kernel.changing((directory, text)):
            node = self._change_in(directory, lambda d: d.mkdir(text, mode))
        inode = self.inodes.number(directory, text, node)
        self.inodes.remember(inode.ino)
        self._give(inode, owner)
        return self._attributes(inode, node.stat)

    def unlink(self, parent: InodeNo, name: bytes) -> None:
        directory, text = self._place(parent, name)
        with self.kernel.changing((directory, text)):
            self._change_in(directory, lambda d: d.unlink(text))
        self.inodes.removed(parent, text)

    def rmdir(self, parent: InodeNo, name: bytes) -> None:
        directory, text = self._place(parent, name)
        with self.kernel.changing((directory, text)):
            self._change_in(directory, lambda d: d.rmdir(text))
        self.inodes.removed(parent, text)

    def rename(
        self,
        old_parent: InodeNo,
        old_name: bytes,
        new_parent: InodeNo,
        new_name: bytes,
        *,
        replace: bool,
    ) -> None:
        source, old = self._place(old_parent, old_name)
        target, new = self._place(new_parent, new_name)

        def rename(directory: Directory) -> None:
            directory.rename(old, self._node_of(target), new, replace=replace)

        with self.inodes.moving(old_parent, old):
            with self.kernel.changing((source, old), (target, new)):
                self._change_in(source, rename)
            moved = self.inodes.renamed(old_parent, old, new_parent, new)
            for inode in moved:
                self._find_again(inode)
        # Their contents may name the path.
        self.kernel.forget_contents(moved[1:])

    def link(self, ino: InodeNo, parent: InodeNo, name: bytes) -> NodeAttributes:
        source = self._file(self.inodes.get(ino))
        directory, text = self._place(parent, name)
        with self.kernel.changing((directory, text)):
            node = self._node_of(directory).link(source, text)
        inode = self.inodes.number(directory, text, node)
        self.inodes.remember(inode.ino)
        return self._attributes(inode, node.stat)

    def statfs(self) -> Capacity:
        return self._capacity()

    def refresh(self, path: str) -> None:
        self.kernel.forget_all(self._forget(path))

    def sync(self) -> None:
        errors: list[NczfsError] = []
        for store in (*(open_file.file.fsync for open_file in self._files.all()), self._sync):
            try:
                store()
            except NczfsError as error:
                errors.append(error)
        if errors:
            raise error_to_raise(errors)

    def ending_text(self) -> str:
        return self._ending_text()

    def ending(self) -> Ending:
        return self._ending()

    def expect_end(self) -> None:
        self._expect_end()

    def save(self) -> None:
        self._save()

    def close(self) -> None:
        files = self._files.take_all()
        self._end()
        for open_file in files:
            open_file.file.drop()
        self._close()

    def _directory(self, ino: InodeNo) -> Inode:
        inode = self.inodes.get(ino)
        if not isinstance(inode.node, Directory):
            raise NotADirectory(f"{self.inodes.path(inode)}: is not a directory")
        return inode

    def _node_of(self, inode: Inode) -> Directory:
        assert isinstance(inode.node, Directory)
        return inode.node

    def _change_in(self, inode: Inode, change: Callable[[Directory], _T]) -> _T:
        """Change a directory; where it is by now, if a rename around it has come in between."""
        while True:
            node = self._node_of(inode)
            try:
                return change(node)
            except (NoSuchPath, NoSuchNode):
                if not self.inodes.has_moved(inode, node):
                    raise

    def _place(self, parent: InodeNo, name: bytes) -> tuple[Inode, str]:
        """Return a directory, and a name in it that is about to be made or changed."""
        effects.begin()
        directory = self._directory(parent)
        text = os.fsdecode(name)
        if self._read_only:
            path = self.inodes.path(directory).rstrip("/")
            raise ReadOnlyMount(f"{path}/{text}: the mount is read-only")
        if len(name) > NAME_BYTES_MAX:
            raise NameTooLong(f"{text[:40]}...: a name has at most 255 bytes")
        return directory, text

    def _open_alone(self, inode: Inode) -> None:
        """Take an inode that becomes another file out of its place, and note its only open handle.

        Raises
        ------
        StaleHandle : it has readers; the kernel looks the name up again, and finds another inode.
        """
        self.inodes.displace(inode)
        self.kernel.forget_entry(inode)
        give_up = time.monotonic() + READERS_WAIT_S
        while not self.inodes.opened_alone(inode):
            if time.monotonic() > give_up:
                raise StaleHandle(f"{self.inodes.path(inode)}: other programs have it open")
            time.sleep(READERS_POLL_S)

    def _file(self, inode: Inode) -> File:
        if not isinstance(inode.node, File):
            raise IsADirectory(f"{self.inodes.path(inode)}: is a directory")
        return inode.node

    def _check_writable(self, inode: Inode) -> None:
        node = inode.node
        if isinstance(node, File) and node.writable:
            return
        path = self.inodes.path(inode)
        if self._read_only:
            raise ReadOnlyMount(f"{path}: the mount is read-only")
        if isinstance(node, File):
            raise NotPermitted(f"{path}: can only be read")

    def _give(self, inode: Inode, owner: NodeOwner | None) -> None:
        """Give something new to the user who made it, if the tree stores owners."""
        if owner is not None:
            with suppress(NotPermitted):
                inode.node.change(AttributeChanges(uid=owner.uid, gid=owner.gid))

    def _opened(
        self, inode: Inode, node: File, file: OpenFile, flags: int, *, keep: bool
    ) -> Opened:
        file.has_pages(kept=keep)
        is_mappable = flags & os.O_ACCMODE == os.O_RDWR
        self.inodes.shows(inode, node.content)
        self.kernel.opened(inode, file, flags, kept=keep)
        self.kernel.open_inodes.opened(inode, node, is_mappable=is_mappable)
        handle = self._files.add(FileHandle(inode, file, writes(flags), is_mappable))
        return Opened(handle, node.direct_io or file.direct_io, keep, file.is_slow)

    def _attributes(self, inode: Inode, look: Callable[[], NodeStat]) -> NodeAttributes:
        """Look at an inode, and return its attributes, which the kernel receives now."""
        sizings = inode.sizings
        return self._sent_attributes(inode, look(), sizings)

    def _sent_attributes(self, inode: Inode, stat: NodeStat, sizings: int) -> NodeAttributes:
        """Return attributes that the kernel receives now; see `InodeTable.sends_size`."""
        if inode.takes_pages and stat.size < (inode.sent_size or 0):
            self.kernel.forget_contents([inode])  # pages that are being put may lie behind its end
        self.inodes.sends_size(inode, stat.size, sizings)
        return self._appearance.of(inode.ino, inode.node, stat)

    def _find_again(self, inode: Inode) -> None:
        """Look up the node of an inode below a renamed directory, at its new place."""
        parent = self.inodes.get(inode.parent).node
        if isinstance(parent, Directory):
            with suppress(NczfsError):  # it will be looked up again
                node = parent.lookup(inode.name)
                node.looked_up()
                self.inodes.found(inode, node)
