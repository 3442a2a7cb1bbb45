"""What the kernel is told to forget, and for how long it may keep pages."""

from __future__ import annotations

import pytest

from nczfs.engine.chunks.place import ArrayPlace
from nczfs.engine.chunks.storedarray import StoredArray
from nczfs.vfs.base import ROOT_INODE
from nczfs.vfs.inodes import Inode, InodeTable
from nczfs.vfs.kernel import KernelCache
from nczfs.vfs.nodes import File, FixedDirectory, NodeStat, OpenFile
from nczfs.zmap.keys import ROOT
from nczfs.zmap.memory import MemoryZMap
from tests.support.kernels import Kernel
from tests.support.switching import run_beside


class TokenFile(File):
    """A file whose pages have a token."""

    def __init__(self, token: object = "one") -> None:
        self.current = token

    @property
    def pages_token(self) -> object:
        return self.current

    def stat(self) -> NodeStat:
        return self.listing_stat()

    def listing_stat(self) -> NodeStat:
        return NodeStat(0, 0)

    def open(self, *, writing: bool = False, truncate: bool = False) -> OpenFile:
        raise NotImplementedError


class VersionedFile(TokenFile):
    pages_token_is_version = True


class UncachedFile(TokenFile):
    direct_io = True


class Tree:
    """``/d/f``, and a kernel that knows it."""

    def __init__(self, file: TokenFile, pages_ttl_s: float = 100.0) -> None:
        self.node = file
        directory = FixedDirectory({"f": file}, 0)
        self.table = InodeTable(FixedDirectory({"d": directory}, 0))
        self.directory = self.table.number(self.table.root, "d", directory)
        self.file: Inode = self.table.number(self.directory, "f", file)
        self.kernel = Kernel()
        self.cache = KernelCache(self.table, self.kernel, pages_ttl_s)

    def opened(self, token_before: object = "one") -> bool:
        return self.cache.keeps_pages(self.file, self.node, token_before)


def test_pages_are_kept_from_the_second_open_on_while_the_token_is_the_same() -> None:
    tree = Tree(TokenFile())
    assert [tree.opened(), tree.opened()] == [False, True]
    tree.node.current = "two"
    assert [tree.opened("two"), tree.opened("two")] == [False, True]


def test_pages_are_not_kept_when_the_file_changed_while_it_was_opened() -> None:
    tree = Tree(TokenFile())
    tree.opened()
    assert not tree.opened("before")


@pytest.mark.parametrize(("kind", "kept"), [(TokenFile, False), (VersionedFile, True)])
def test_old_pages_are_kept_only_where_the_store_confirmed_them(
    kind: type[TokenFile], kept: bool
) -> None:
    tree = Tree(kind(), pages_ttl_s=0.0)
    tree.opened()
    assert tree.opened() is kept


@pytest.mark.parametrize("file", [UncachedFile(), TokenFile(None)])
def test_pages_of_files_that_are_made_when_opened_are_never_kept(file: TokenFile) -> None:
    tree = Tree(file)
    assert not any(tree.opened(file.current) for _ in range(3))


def test_what_is_below_a_path_is_forgotten_with_its_pages() -> None:
    tree = Tree(TokenFile())
    tree.opened()
    tree.cache.forget_below("d")
    assert tree.kernel.inodes == [tree.directory.ino, tree.file.ino]
    assert tree.kernel.entries == [(ROOT_INODE, b"d"), (tree.directory.ino, b"f")]
    assert not tree.opened()


def test_of_a_path_nobody_looked_at_the_absence_of_its_first_unknown_name_is_forgotten() -> None:
    tree = Tree(TokenFile())
    tree.cache.forget_below("d/absent/deeper")
    assert (tree.kernel.inodes, tree.kernel.entries) == ([], [(tree.directory.ino, b"absent")])


def test_files_along_a_path_are_forgotten_and_no_directory() -> None:
    tree = Tree(TokenFile())
    tree.opened()
    tree.cache.forget_files("d/absent")
    assert tree.kernel.inodes == [tree.file.ino]
    assert tree.kernel.entries == [(tree.directory.ino, b"f")]
    assert not tree.opened()


def test_forgotten_content_keeps_its_name() -> None:
    tree = Tree(TokenFile())
    tree.opened()
    tree.cache.forget_content("d/f")
    assert (tree.kernel.inodes, tree.kernel.entries) == ([tree.file.ino], [])
    assert not tree.opened()
    tree.cache.forget_content("d/absent")
    assert tree.kernel.inodes == [tree.file.ino]


def test_what_concerns_somebody_is_told_by_paths() -> None:
    tree = Tree(TokenFile())
    tree.cache.forget_all(lambda path: path == "/d/f")
    assert tree.kernel.inodes == [tree.file.ino]
    assert tree.kernel.entries == [(tree.directory.ino, b"f")]


def test_a_change_names_its_entries_and_the_inodes_that_they_stand_for() -> None:
    tree = Tree(TokenFile())
    with tree.cache.changing((tree.directory, "f"), (tree.directory, "absent")):
        pass
    above = tree.directory.ino
    assert tree.kernel.changes == [([(above, b"f"), (above, b"absent")], [tree.file.ino])]


def test_without_a_kernel_a_change_is_told_to_nobody() -> None:
    tree = Tree(TokenFile())
    with KernelCache(tree.table, None, 0.0).changing((tree.directory, "f")):
        pass
    assert tree.kernel.changes == []


def test_files_that_show_an_array_are_opened_while_they_are_looked_for() -> None:
    array = StoredArray(MemoryZMap(), ArrayPlace(ROOT))
    file = TokenFile()
    file.arrays = (array, array)
    tree = Tree(file)
    held: list[Inode] = []

    def opened() -> None:
        held.append(tree.table.number(tree.directory, f"f{len(held)}", file))
        tree.cache.keeps_pages(held[-1], file, "one")
        del held[:-100]

    run_beside(lambda: tree.cache.forget_showing(array), opened, 1000)
