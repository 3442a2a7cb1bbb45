"""Inode numbers, and how long they are kept."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from weakref import WeakKeyDictionary

from nczfs.errors import StaleHandle
from nczfs.vfs.base import ROOT_INODE, InodeNo
from nczfs.vfs.nodes import Directory, NumberedDirectory, TreeNode

# A directory of more entries than this numbers them one by one, when they are looked up: inode
# numbers have 64 bits, and are never reused.
BLOCK_COUNT_MAX = 1 << 32

# Less than 2^53, since some programs hold inode numbers as doubles.
FIRST_OF_LAST_DIRECTORIES = 1 << 52


class Inode:
    """An inode in use: its node, its place, and why it must be kept.

    `pages_from` and `pages_token` remember when the kernel's cached pages were last begun anew,
    and for which state of the node; `sent_size` is the size that the kernel knows, None if it was
    never sent, and `sizings` counts the writes and changes of size that it made. `writers` counts
    the open files through which bytes can change, `mappable` those through whose mappings they
    can. `appended` is the handle of the last write that was not a page, if that has O_APPEND, and
    where it ended: the kernel sends one write after another. `takes_pages` tells whether pages were
    put into the kernel's cache. If `is_alone`, it is the file of the one program that opened it.
    """

    __slots__ = (
        "__weakref__",
        "appended",
        "ino",
        "is_alone",
        "lookups",
        "mappable",
        "name",
        "node",
        "opens",
        "pages_from",
        "pages_token",
        "parent",
        "sent_size",
        "sizings",
        "takes_pages",
        "writers",
    )

    def __init__(self, ino: InodeNo, parent: InodeNo, name: str, node: TreeNode) -> None:
        self.ino = ino
        self.parent = parent
        self.name = name
        self.node = node
        self.lookups = 0
        self.opens = 0
        self.is_alone = False
        self.writers = self.mappable = 0
        self.appended: tuple[int, int] | None = None
        self.takes_pages = False
        self.pages_from = 0.0
        self.pages_token: object = None
        self.sent_size: int | None = None
        self.sizings = 0


_NONE: Mapping[str, Inode] = {}


class _Block:
    """Consecutive numbers for all entries of a numbered directory, counted together."""

    __slots__ = ("directory", "first", "last", "lookups", "opens", "owner")

    def __init__(self, first: int, owner: Inode, directory: NumberedDirectory) -> None:
        self.first = first
        self.last = first + directory.count
        self.owner = owner
        self.directory = directory
        self.lookups = 0
        self.opens = 0


class InodeTable:
    """Inodes by number and by place. Numbers come from counters and are never reused.


    Entries of a `NumberedDirectory` get a block of consecutive numbers without separate records,
    so that ten million chunk files cost nothing. `_lock` guards all tables and counts.

    Parameters
    ----------
    directories_last : whether directories have greater numbers than files. `cp -r` copies the
        entries of a directory in the order of their numbers (coreutils, savedir.c:
        SAVEDIR_SORT_FASTREAD), and an array has to be there before those that it declares. Other
        mounts have small numbers, for programs whose inode numbers have 32 bits.
    """

    def __init__(self, root: Directory, *, directories_last: bool = False) -> None:
        self._lock = threading.Lock()
        self._next = ROOT_INODE + 1
        self._next_directory = FIRST_OF_LAST_DIRECTORIES if directories_last else None
        self._by_number: dict[int, Inode] = {}
        self._children: dict[int, dict[str, Inode]] = {}
        self._blocks: list[_Block] = []
        self._block_starts: list[int] = []
        self._block_of: dict[int, _Block] = {}
        self._shown: WeakKeyDictionary[object, Inode] = WeakKeyDictionary()
        self._moving: list[Inode] = []
        self._moved = threading.Condition(self._lock)
        self.root = Inode(ROOT_INODE, ROOT_INODE, "", root)
        self.root.lookups = 1
        self._by_number[ROOT_INODE] = self.root

    def __len__(self) -> int:
        return len(self._by_number)

    def get(self, ino: InodeNo) -> Inode:
        """Return the inode of a number. Raises StaleHandle if nothing has it any more."""
        inode = self._by_number.get(ino)
        if inode is not None:
            return inode
        with self._lock:
            block = self._block_at(ino)
            if block is None:
                raise StaleHandle(f"inode {ino} is gone")
            number = ino - block.first
            directory = block.directory
            return Inode(ino, block.owner.ino, directory.name_of(number), directory.child(number))

    def number(self, parent: Inode, name: str, node: TreeNode) -> Inode:
        """Return the inode of a found entry: the known one while the token is the same."""
        with self._lock:
            if isinstance(parent.node, NumberedDirectory):
                block = self._block_for(parent, parent.node)
                number = parent.node.number_of(name)
                if block is not None and number is not None:
                    return Inode(InodeNo(block.first + number), parent.ino, name, node)
            known = self._showing(node.content)
            if known is not None:  # the open file may have gone on here after a rename has failed
                self._move(known, parent.ino, name)
            known = known or self.at(parent.ino, name)
            if known is not None:
                is_same = type(known.node) is type(node) and known.node.token == node.token
                if is_same and not known.node.has_left(node):
                    node.succeeds(known.node)
                    known.node = node
                    return known
                self._displace(known)
            inode = Inode(self._new_number(node), parent.ino, name, node)
            self._by_number[inode.ino] = inode
            self._place(inode)
            return inode

    def along(self, words: Iterable[str]) -> list[Inode]:
        """Return the known inodes along a path, from the root on."""
        with self._lock:
            found = [self.root]
            for word in words:
                inode = self.at(found[-1].ino, word)
                if inode is None:
                    break
                found.append(inode)
            return found

    def below(self, inode: Inode) -> list[Inode]:
        """Return an inode and all known ones below it, from the top."""
        with self._lock:
            return self._and_below(inode)

    def children(self, inode: Inode) -> list[Inode]:
        """Return the known inodes right below one."""
        with self._lock:
            return list(self._children.get(inode.ino, _NONE).values())

    def all(self) -> list[Inode]:
        """Return every inode with a separate record, except the root."""
        with self._lock:
            return [inode for inode in self._by_number.values() if inode.ino != ROOT_INODE]

    def first_of_block(self, parent: Inode) -> int | None:
        """Return the number of entry 0 of a numbered directory; None if numbered one by one."""
        assert isinstance(parent.node, NumberedDirectory)
        with self._lock:
            block = self._block_for(parent, parent.node)
            return block.first if block is not None else None

    def remember(self, ino: InodeNo) -> None:
        """Raise the lookup count by one."""
        with self._lock:
            counted = self._by_number.get(ino) or self._block_at(ino)
            if counted is not None:
                counted.lookups += 1

    def forget(self, counts: Iterable[tuple[InodeNo, int]]) -> None:
        """Lower lookup counts, and drop inodes that nothing holds any more."""
        with self._lock:
            for ino, count in counts:
                inode = self._by_number.get(ino)
                if inode is not None:
                    inode.lookups = max(0, inode.lookups - count)
                    self._drop_if_unused(inode)
                elif (block := self._block_at(ino)) is not None:
                    block.lookups = max(0, block.lookups - count)
                    self._drop_block_if_unused(block)

    def opened(self, ino: InodeNo) -> None:
        """Note an open handle, which holds the inode. Raises StaleHandle: another has it alone."""
        with self._lock:
            counted = self._by_number.get(ino) or self._block_at(ino)
            if isinstance(counted, Inode) and counted.is_alone:
                raise StaleHandle(f"inode {ino} is the file of a single program")
            if counted is not None:
                counted.opens += 1

    def opened_alone(self, inode: Inode) -> bool:
        """Note the only open handle that there will be. Returns False while there are others."""
        with self._lock:
            if inode.opens:
                return False
            inode.opens, inode.is_alone = 1, True
            return True

    def closed(self, ino: InodeNo) -> None:
        """Note a closed handle."""
        with self._lock:
            inode = self._by_number.get(ino)
            if inode is not None:
                inode.opens -= 1
                self._drop_if_unused(inode)
            elif (block := self._block_at(ino)) is not None:
                block.opens -= 1
                self._drop_block_if_unused(block)

    def shows(self, inode: Inode, content: object) -> None:
        """Note what the programs that have an inode open share; see `TreeNode.content`."""
        if content is not None:
            with self._lock:
                self._shown[content] = inode

    def sends_size(self, inode: Inode, size: int, sizings: int) -> None:
        """Note a size that the kernel receives.

        It does not believe one that was looked at before its last write or change of size ended
        (Linux, fs/fuse/inode.c: fuse_change_attributes, `attr_version`).

        Parameters
        ----------
        sizings : of the inode before the size was looked at.
        """
        with self._lock:
            if inode.sent_size is None or inode.sizings == sizings:
                inode.sent_size = size

    def wrote(self, inode: Inode, end: int) -> None:
        """Note a write, after which the kernel takes a file for `end` bytes long at least."""
        with self._lock:
            inode.sizings += 1
            if inode.sent_size is not None:
                inode.sent_size = max(inode.sent_size, end)

    def resized(self, inode: Inode) -> None:
        """Note that the kernel changed the size of a file, and learns it next."""
        with self._lock:
            inode.sizings += 1

    def can_change(self, inode: Inode, count: int, *, is_mappable: bool) -> None:
        """Count an open file, or with -1 a closed one, through which bytes can change."""
        with self._lock:
            inode.writers += count
            inode.mappable += count * is_mappable

    def is_recorded(self, inode: Inode) -> bool:
        """Return whether an inode has a separate record, which all of its open files share."""
        return self._by_number.get(inode.ino) is inode

    def drop_unused(self, inos: Iterable[InodeNo]) -> None:
        """Drop inodes that a listing made and the kernel did not take."""
        with self._lock:
            for ino in inos:
                inode = self._by_number.get(ino)
                if inode is not None:
                    self._drop_if_unused(inode)

    def removed(self, parent: InodeNo, name: str) -> None:
        """Note that a name is gone; holders of its inode keep it, without a place."""
        with self._lock:
            self._clear(parent, name)

    def displace(self, inode: Inode) -> None:
        """Take an inode out of its place; its holders keep it."""
        with self._lock:
            self._displace(inode)

    def renamed(
        self, parent: InodeNo, name: str, new_parent: InodeNo, new_name: str
    ) -> list[Inode]:
        """Move a name. Returns the inodes that moved with it, from the top."""
        with self._lock:
            inode = self.at(parent, name)
            if inode is None:
                self._clear(new_parent, new_name)
                return []
            self._move(inode, new_parent, new_name)
            return self._and_below(inode)

    @contextmanager
    def moving(self, parent: InodeNo, name: str) -> Iterator[None]:
        """Enclose a rename: from before the store has it until inodes have their new nodes."""
        with self._lock:
            moving = [inode] if (inode := self.at(parent, name)) is not None else []
            self._moving += moving
        try:
            yield
        finally:
            with self._lock:
                for inode in moving:
                    self._moving.remove(inode)
                self._moved.notify_all()

    def has_moved(self, inode: Inode, node: TreeNode) -> bool:
        """Return whether the node of an inode was replaced, after the renames around it.

        Who renames something waits only for what is above that, so nobody waits in a circle.
        """
        with self._moved:
            self._moved.wait_for(lambda: not any(each in self._moving for each in self._up(inode)))
            return inode.node is not node

    def found(self, inode: Inode, node: TreeNode) -> None:
        """Set the node of an inode that was renamed, or is below a renamed one."""
        with self._lock:
            node.succeeds(inode.node)
            inode.node = node
            block = self._block_of.get(inode.ino)
            if block is None or not isinstance(node, NumberedDirectory):
                return
            if block.directory.token == node.token:
                block.directory = node

    def at(self, parent: InodeNo, name: str) -> Inode | None:
        """Return the inode of a name in a directory, if it is known."""
        return self._children.get(parent, _NONE).get(name)

    def path(self, inode: Inode) -> str:
        """Return the path of an inode in the mount, for messages."""
        names = [each.name for each in self._up(inode)]
        return "/" + "/".join(reversed(names))

    def _up(self, inode: Inode) -> Iterator[Inode]:
        """Yield an inode and the known ones above it, except the root."""
        above: Inode | None = inode
        while above is not None and above.ino != ROOT_INODE:
            yield above
            above = self._by_number.get(above.parent)

    def _new_number(self, node: TreeNode) -> InodeNo:
        if self._next_directory is not None and isinstance(node, Directory):
            self._next_directory += 1
            return InodeNo(self._next_directory - 1)
        self._next += 1
        return InodeNo(self._next - 1)

    def _drop_if_unused(self, inode: Inode) -> None:
        if inode.lookups or inode.opens or inode.ino == ROOT_INODE:
            return
        self._by_number.pop(inode.ino, None)
        self._displace(inode)

    def _place(self, inode: Inode) -> None:
        self._children.setdefault(inode.parent, {})[inode.name] = inode

    def _displace(self, inode: Inode) -> None:
        """Remove an inode from its place, if it is there."""
        names = self._children.get(inode.parent)
        if names is not None and names.get(inode.name) is inode:
            del names[inode.name]
            if not names:
                del self._children[inode.parent]

    def _showing(self, content: object) -> Inode | None:
        """Return the open inode that has a content."""
        inode = None if content is None else self._shown.get(content)
        return inode if inode is not None and inode.opens else None

    def _move(self, inode: Inode, parent: InodeNo, name: str) -> None:
        """Put an inode into a place, where no other one is from now on."""
        if self.at(parent, name) is not inode:
            self._clear(parent, name)
        self._displace(inode)
        inode.parent, inode.name = parent, name
        self._place(inode)

    def _clear(self, parent: InodeNo, name: str) -> None:
        """Take the inode out of a place; holders keep it."""
        inode = self.at(parent, name)
        if inode is not None:
            self._displace(inode)
            self._drop_if_unused(inode)

    def _and_below(self, inode: Inode) -> list[Inode]:
        found = [inode]
        for above in found:
            found += self._children.get(above.ino, _NONE).values()
        return found

    def _block_at(self, ino: int) -> _Block | None:
        number = bisect_right(self._block_starts, ino) - 1
        if number < 0 or ino >= self._blocks[number].last:
            return None
        return self._blocks[number]

    def _block_for(self, parent: Inode, directory: NumberedDirectory) -> _Block | None:
        is_room = self._next + directory.count < FIRST_OF_LAST_DIRECTORIES
        if directory.count > BLOCK_COUNT_MAX or not is_room:
            return None
        block = self._block_of.get(parent.ino)
        if block is None or block.directory.token != directory.token:
            block = _Block(self._next, parent, directory)
            self._next = block.last
            self._blocks.append(block)
            self._block_starts.append(block.first)
            self._block_of[parent.ino] = block
        return block

    def _drop_block_if_unused(self, block: _Block) -> None:
        if block.lookups or block.opens:
            return
        position = self._blocks.index(block)
        del self._blocks[position]
        del self._block_starts[position]
        if self._block_of.get(block.owner.ino) is block:
            del self._block_of[block.owner.ino]
