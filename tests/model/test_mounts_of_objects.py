"""Files of ``objects/`` with several handles and mappings, renamed with their directories, while
requests fail or arrive late: what fsync or close said 0 to is in the store, and other mounts show
it."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias
from unittest import mock

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from nczfs.engine.options import EngineOptions
from nczfs.engine.spool.renames import UnfinishedRename
from nczfs.errors import (
    AccessDenied,
    DeadlinePassed,
    DirectoryNotEmpty,
    NoSuchObject,
    StaleHandle,
    StoreError,
    Unavailable,
)
from nczfs.testing.faults import Fault, Faulty
from nczfs.tools import recovery
from nczfs.vfs.base import AttributeChanges, HandleNo
from nczfs.vfs.filesystem import TreeFileSystem
from nczfs.vfs.objects.names import parent_of
from nczfs.vfs.tree import VfsOptions
from nczfs.zmap.base import Version
from nczfs.zmap.keys import ROOT, Key
from nczfs.zmap.wrappers import Prefixed
from tests.conftest import ExpectedWarnings
from tests.support.killed import recovered
from tests.support.late import LateZMap
from tests.support.trees import exists, find, read, tree_over
from tests.support.writing import mkdir, open_file, rename, truncate, unlink

PAGE = 16
DIRECTORIES = ("d", "e")
PATHS = ("d/a", "d/b", "e/a", "e/b")
OPTIONS = EngineOptions(cache_bytes_max=0, metadata_ttl_s=0.0, store_threads=2, fetch_threads=2)
Trouble: TypeAlias = "Fault | int | None"
"""What fails, or how many writes take effect after their deadline."""

STORING = frozenset({"write", "write_parts"})
ALL = frozenset({"read", "stat"}) | STORING
troubles = (
    st.none()
    | st.integers(1, 2)
    | st.builds(
        Fault,
        st.integers(0, 4),
        st.sampled_from((Unavailable, DeadlinePassed)),
        after=st.booleans(),
        operations=st.sampled_from((STORING, ALL)),
        repeats=st.sampled_from((1, 2, 1000)),
    )
    | st.builds(Fault, st.integers(0, 2), st.just(AccessDenied), operations=st.just(STORING))
)
renamings = st.sampled_from((STORING | {"copy"}, frozenset({"delete"}), ALL))
renaming_troubles = (
    st.none()
    | st.builds(
        Fault,
        st.integers(0, 3),
        st.sampled_from((Unavailable, DeadlinePassed)),
        after=st.booleans(),
        operations=renamings,
        repeats=st.sampled_from((1, 1000)),
    )
    | st.builds(Fault, st.integers(0, 3), st.just(AccessDenied), operations=renamings)
)
directory_troubles = st.none() | st.builds(
    Fault,
    st.sampled_from((0, 0, 1, 2)),
    st.sampled_from((Unavailable, DeadlinePassed, AccessDenied)),
    after=st.booleans(),
    operations=st.sampled_from(
        (STORING | {"copy"}, frozenset({"delete"}), frozenset({"list", "stat"}))
    ),
    repeats=st.sampled_from((1, 2)),
)
offsets = st.integers(0, 3 * PAGE)
pieces = st.binary(min_size=1, max_size=PAGE + 4)
paths = st.sampled_from(PATHS)


@pytest.fixture(autouse=True)
def warned(expected_warnings: ExpectedWarnings, monkeypatch: pytest.MonkeyPatch) -> None:
    expected_warnings.add("was not stored when it was closed: ")
    monkeypatch.setattr("nczfs.vfs.filesystem.PAGE_BYTES", PAGE)


@dataclass(eq=False)
class Content:
    """A file as programs see it.

    Attributes
    ----------
    path : "" once the name is gone.
    possible : what the store may hold; None: nothing.
    pages : of mappings that were changed, and not written back.
    is_whole : whether its bytes could be saved before its object was replaced.
    """

    path: str
    seen: bytes = b""
    is_dirty: bool = True
    possible: set[bytes | None] = field(default_factory=lambda: {None})
    pages: dict[int, bytes] = field(default_factory=dict)
    is_whole: bool = True

    def put(self, offset: int, data: bytes) -> None:
        before = self.seen.ljust(offset, b"\0")
        self.seen = before[:offset] + data + before[offset + len(data) :]
        self.is_dirty = True

    def stored(self) -> None:
        if self.is_dirty:
            self.possible = {self.seen}
            self.is_dirty = False


@dataclass(eq=False)
class Open:
    content: Content
    handle: HandleNo
    flags: int

    @property
    def maps(self) -> bool:
        """Whether it may have a shared mapping that is written to."""
        return self.flags & os.O_ACCMODE == os.O_RDWR

    @property
    def writes(self) -> bool:
        return self.flags & os.O_ACCMODE != os.O_RDONLY


class MountsOfObjects(RuleBasedStateMachine):
    """One mount writes, another one of the same store reads; both believe nothing for long."""

    def __init__(self) -> None:
        super().__init__()
        self.spools = Path(tempfile.mkdtemp(prefix="nczfs-model-"))
        self.patches = contextlib.ExitStack()
        self.patches.enter_context(mock.patch("nczfs.vfs.filesystem.PAGE_BYTES", PAGE))
        self.memory = LateZMap()
        self.faulty = Faulty(self.memory)
        self.fs = self.mounted(self.faulty, "ours")
        self.other = self.mounted(Prefixed(self.memory, ROOT), "other")
        self.directories = {"d"}
        self.failed = self.unfinished = 0  # renames of directories
        mkdir(self.fs, "objects/d")
        self.files: dict[str, Content] = {}
        self.handles: list[Open] = []
        self.times = 0

    def mounted(self, zmap: Any, name: str) -> TreeFileSystem:
        options = VfsOptions(engine=OPTIONS, read_only=False, spool_dir=self.spools / name)
        return tree_over(zmap, options)

    @contextlib.contextmanager
    def failing(self, trouble: Trouble) -> Iterator[None]:
        """What is asked of the store in this context may fail, or take effect later."""
        self.faulty.arm(*([trouble] if isinstance(trouble, Fault) else []))
        self.memory.delay(trouble if isinstance(trouble, int) else 0)
        try:
            yield
        except StoreError:
            assert self.faulty.fired or self.memory.missed
            raise
        finally:
            self.has_failed = bool(self.faulty.fired)
            self.faulty.arm()
            self.memory.delay(0)

    def stores(self, content: Content, trouble: Trouble, store: Callable[[], None]) -> bool:
        """Ask for a file to be stored; whether it is."""
        if content.is_dirty:
            content.possible.add(content.seen)
        try:
            with self.failing(trouble):
                store()
        except StoreError:
            return False
        content.stored()
        return True

    # Files

    @rule(
        path=paths,
        flags=st.sampled_from(
            (
                os.O_RDONLY,
                os.O_WRONLY,
                os.O_RDWR,
                os.O_RDWR | os.O_APPEND,
                os.O_WRONLY | os.O_APPEND,
            )
        ),
    )
    def open(self, path: str, flags: int) -> None:
        if parent_of(path) not in self.directories:
            path = beside(path)
        if len(self.handles) >= 6 or (path not in self.files and flags == os.O_RDONLY):
            return
        handle = open_file(self.fs, f"objects/{path}", flags | os.O_CREAT)
        content = self.files.setdefault(path, Content(path))
        self.handles.append(Open(content, handle, flags))

    @precondition(lambda self: self.writers())
    @rule(data=st.data(), offset=offsets, piece=pieces)
    def write(self, data: st.DataObject, offset: int, piece: bytes) -> None:
        found = data.draw(st.sampled_from(self.writers()))
        if found.flags & os.O_APPEND:
            offset = len(found.content.seen)  # so says the kernel
        self.write_pages(found)
        assert self.fs.write(found.handle, offset, piece) == len(piece)
        found.content.put(offset, piece)

    @precondition(lambda self: self.writers())
    @rule(data=st.data(), offset=offsets, piece=pieces)
    def write_through_a_mapping(self, data: st.DataObject, offset: int, piece: bytes) -> None:
        """Which changes bytes of one page, and not beyond the end."""
        mapped = data.draw(st.sampled_from(self.writers()))
        if not mapped.maps:
            return
        content = mapped.content
        number, place = divmod(offset, PAGE)
        page = content.pages.get(number, content.seen[number * PAGE : (number + 1) * PAGE])
        if place < len(page):
            content.pages[number] = (page[:place] + piece + page[place + len(piece) :])[: len(page)]

    def write_pages(self, through: Open) -> None:
        """The kernel writes whole pages back, through any handle that can write."""
        content = through.content
        for number, page in sorted(content.pages.items()):
            self.fs.write(through.handle, number * PAGE, page)
            content.put(number * PAGE, page)
        content.pages.clear()

    @precondition(lambda self: self.writers())
    @rule(data=st.data(), size=offsets)
    def set_size_of_handle(self, data: st.DataObject, size: int) -> None:
        found = data.draw(st.sampled_from(self.writers()))
        if not found.content.path:
            return
        self.write_pages(found)
        ino = find(self.fs, f"objects/{found.content.path}").ino
        assert self.fs.setattr(ino, AttributeChanges(size=size), found.handle).size == size
        found.content.put(size, b"")
        found.content.seen = found.content.seen[:size]

    @precondition(lambda self: self.files)
    @rule(data=st.data(), size=offsets)
    def set_size(self, data: st.DataObject, size: int) -> None:
        content = self.some_file(data)
        if content.pages:
            return
        truncate(self.fs, f"objects/{content.path}", size)
        content.put(size, b"")
        content.seen = content.seen[:size]
        content.stored()

    @precondition(lambda self: self.handles)
    @rule(data=st.data(), trouble=troubles)
    def fsync(self, data: st.DataObject, trouble: Trouble) -> None:
        found = data.draw(st.sampled_from(self.handles))
        writers = [each for each in self.writers() if each.content is found.content]
        if writers:
            self.write_pages(data.draw(st.sampled_from(writers)))
        fsync = self.fs.fsync
        self.stores(found.content, trouble, lambda: fsync(found.handle, data_only=False))

    @precondition(lambda self: self.handles)
    @rule(data=st.data(), trouble=troubles)
    def close(self, data: st.DataObject, trouble: Trouble) -> None:
        """What failed when it was closed is tried again when the last one has gone."""
        found = data.draw(st.sampled_from(self.handles))
        content = found.content
        others = [each for each in self.writers() if each is not found and each.content is content]
        if found.maps and not any(each.maps for each in others):
            self.write_pages(found)
        if found.writes:
            self.stores(content, trouble, lambda: self.fs.flush(found.handle))
        else:
            self.fs.flush(found.handle)
        self.handles.remove(found)
        self.fs.release(found.handle)
        if found.writes and not others:
            content.stored()

    @precondition(lambda self: self.files)
    @rule(data=st.data())
    def unlink(self, data: st.DataObject) -> None:
        self.late_requests_arrive()
        content = self.some_file(data)
        unlink(self.fs, f"objects/{content.path}")
        self.gone(content)

    # Names, times, and what is believed

    @precondition(lambda self: self.files)
    @rule(data=st.data(), goal=paths, trouble=renaming_troubles)
    def rename(self, data: st.DataObject, goal: str, trouble: Trouble) -> None:
        content = self.some_file(data)
        if goal == content.path or parent_of(goal) not in self.directories:
            return
        self.late_requests_arrive()
        if content.is_dirty:
            content.possible.add(content.seen)
        path, before = content.path, self.version(goal)
        try:
            with self.failing(trouble):
                rename(self.fs, f"objects/{path}", f"objects/{goal}")
        except StoreError:
            if self.version(goal) == before:
                return
            is_moved = not exists(self.fs, f"objects/{path}")
            assert isinstance(trouble, Fault)
            is_unanswered = "delete" not in trouble.operations
            replaced = self.files.get(goal)
            if is_unanswered and any(each.content is replaced for each in self.writers()):
                assert replaced is not None
                replaced.possible.add(self.stored_bytes(goal))
                replaced.is_dirty = True  # and is stored again, over what no answer came to
                return
        else:
            is_moved = True
        if goal in self.files:
            self.files[goal].is_whole = not self.has_failed
            self.gone(self.files[goal])
        if is_moved:
            self.moved(content, goal)
        else:  # both are there
            self.found(goal)

    @rule(data=st.data(), trouble=directory_troubles)
    def rename_a_directory(self, data: st.DataObject, trouble: Trouble) -> None:
        """An error leaves each object under its old name, the new one, or both."""
        source = data.draw(st.sampled_from(sorted(self.directories)))
        goal = DIRECTORIES[source == "d"]
        if any(parent_of(path) == goal for path in self.files):
            with pytest.raises(DirectoryNotEmpty):
                rename(self.fs, f"objects/{source}", f"objects/{goal}")
            return
        self.late_requests_arrive()
        below = {path: c for path, c in self.files.items() if parent_of(path) == source}
        before = {path: self.version(path) for path in below}
        try:
            with self.failing(trouble):
                rename(self.fs, f"objects/{source}", f"objects/{goal}")
        except StoreError:
            self.failed += 1
            is_begun = any(before.values()) and any(map(self.version, map(beside, below)))
            self.unfinished += is_begun
            for path, content in below.items():
                new_path = beside(path)
                copy = self.stored_bytes(new_path)
                assert copy is None or copy in content.possible | {content.seen}
                if before[path] is not None and self.version(path) is None:
                    self.moved(content, new_path)
                elif copy is not None:
                    self.found(new_path)
            if any(parent_of(path) == goal for path in self.files):
                self.directories.add(goal)
            return
        self.directories = {*(self.directories - {source}), goal}
        for path, content in below.items():
            self.moved(content, beside(path))

    @rule(name=st.sampled_from(DIRECTORIES))
    def mkdir(self, name: str) -> None:
        if name not in self.directories:
            mkdir(self.fs, f"objects/{name}")
            self.directories.add(name)

    @precondition(lambda self: self.files)
    @rule(data=st.data())
    def change_times(self, data: st.DataObject) -> None:
        content = self.some_file(data)
        self.times += 1
        ino = find(self.fs, f"objects/{content.path}").ino
        changed = self.fs.setattr(
            ino, AttributeChanges(mtime_ns=self.times, atime_ns=self.times), None
        )
        assert (changed.mtime_ns, changed.size) == (self.times, len(content.seen))

    @rule(path=st.sampled_from(("", "objects/d", "objects/d/a")))
    def refresh(self, path: str) -> None:
        self.fs.refresh(path)

    @rule(trouble=troubles)
    def sync(self, trouble: Trouble) -> None:
        """As a word written to ``.nczfs/flush``; a file that nobody writes has nothing to store."""
        waiting = [each for each in self.files.values() if each.is_dirty]
        for content in waiting:
            content.possible.add(content.seen)
        try:
            with self.failing(trouble):
                self.fs.sync()
        except StoreError:
            return
        for content in waiting:
            content.stored()

    @rule()
    def late_requests_arrive(self) -> None:
        """Before its name goes: what arrived after that would stay, as no one can tell."""
        self.memory.land()

    # What holds after each step

    @invariant()
    def the_store_has_what_it_may_have(self) -> None:
        stored = {
            str(stat.key): bytes(self.memory.read(stat.key).data) for stat in self.memory.list(ROOT)
        }
        for path, content in self.files.items():
            found = stored.pop(path, None)
            assert found in content.possible, (path, found, content.possible)
            if not content.is_dirty:
                assert read(self.other, f"objects/{path}") == found
        assert stored == {}

    @invariant()
    def programs_see_what_was_written(self) -> None:
        """SEMANTICS O10."""
        for path, content in self.files.items():
            assert find(self.fs, f"objects/{path}").size == len(content.seen)
            assert read(self.fs, f"objects/{path}") == content.seen
        for found in self.handles:
            if found.flags & os.O_ACCMODE != os.O_WRONLY:
                with (
                    contextlib.nullcontext()
                    if found.content.is_whole
                    else contextlib.suppress(StaleHandle)
                ):
                    assert bytes(self.fs.read(found.handle, 0, 1000)) == found.content.seen

    def version(self, path: str) -> Version | None:
        try:
            return self.memory.stat(Key(path)).version
        except NoSuchObject:
            return None

    def stored_bytes(self, path: str) -> bytes | None:
        try:
            return bytes(self.memory.read(Key(path)).data)
        except NoSuchObject:
            return None

    def writers(self) -> list[Open]:
        return [found for found in self.handles if found.writes]

    def some_file(self, data: st.DataObject) -> Content:
        return self.files[data.draw(st.sampled_from(sorted(self.files)))]

    def moved(self, content: Content, goal: str) -> None:
        """What was written was stored under the new name."""
        del self.files[content.path]
        content.path = goal
        self.files[goal] = content
        content.stored()

    def found(self, path: str) -> None:
        """A copy is a file of its own."""
        copy = self.stored_bytes(path)
        assert copy is not None
        self.files[path] = Content(path, copy, is_dirty=False, possible={copy})

    def gone(self, content: Content) -> None:
        del self.files[content.path]
        content.path = ""
        content.is_dirty = False

    def teardown(self) -> None:
        for found in self.handles:
            self.fs.flush(found.handle)
            self.fs.release(found.handle)
        self.fs.sync()
        for content in self.files.values():
            content.pages.clear()
            content.stored()
        self.the_store_has_what_it_may_have()
        self.fs.close()
        self.other.close()
        self.patches.close()
        self.check_that_recover_loses_nothing()
        left = [path for path in self.spools.rglob("*") if path.is_file()]
        shutil.rmtree(self.spools)
        assert left == [], [(path, path.read_bytes()) for path in left]

    def check_that_recover_loses_nothing(self) -> None:
        """It ends renames as far as nothing is overwritten, and each content is under one name."""
        entries = recovery.entries(self.spools / "ours")
        assert all(isinstance(found.entry, UnfinishedRename) for found in entries)
        assert self.unfinished <= len(entries) <= self.failed
        recovered(self.spools / "ours", self.memory, refusing=True)
        for path, content in self.files.items():
            found = {self.stored_bytes(path), self.stored_bytes(beside(path))}
            assert found & content.possible, (path, found, content.possible)


def beside(path: str) -> str:
    """The path of the same name in the other directory."""
    directory, name = path.split("/")
    return f"{DIRECTORIES[directory == 'd']}/{name}"


TestMountsOfObjects = MountsOfObjects.TestCase
TestMountsOfObjects.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
