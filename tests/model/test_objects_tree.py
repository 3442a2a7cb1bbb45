"""The tree ``objects/`` against a dict of bytes: what is written, and what is in the store."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from nczfs.engine.spool.basis import Sent
from nczfs.errors import DirectoryNotEmpty, PathExists, Unavailable
from nczfs.testing.copying import Copying
from nczfs.testing.faults import Fault, Faulty
from nczfs.vfs.base import AttributeChanges, HandleNo
from nczfs.vfs.objects import ObjectStore
from nczfs.vfs.tree import VfsOptions, mount_tree
from nczfs.zmap.base import Part, ZMap
from nczfs.zmap.keys import ROOT, parse_key
from nczfs.zmap.memory import MemoryZMap
from tests.support.trees import find, listing, read
from tests.support.writing import mkdir, open_file, rename, rmdir, split, truncate, unlink

DIRECTORIES = ("", "d", "e")
PATHS = ("a", "b", "d/a", "e/a")
MODES = (os.O_RDONLY, os.O_WRONLY, os.O_RDWR)
WRITES = Fault(0, operations=frozenset({"write", "write_parts"}))
STEP = 8  # bytes that are fetched together
CONTENT = bytes(range(100, 200))

paths = st.sampled_from(PATHS)
offsets = st.integers(0, 120)
pieces = st.binary(min_size=1, max_size=20)


@dataclass(eq=False)
class Model:
    """A file: what programs see, and what the store must have (None: nothing)."""

    content: bytes
    stored: bytes | None
    dirty: bool = False
    only_truncated: bool = False
    path: str | None = None


@dataclass(frozen=True)
class Open:
    handle: HandleNo
    file: Model
    mode: int
    made: bool = False

    @property
    def stores(self) -> bool:
        return self.made or self.mode != os.O_RDONLY


class ObjectsTree(RuleBasedStateMachine):
    """Programs with open handles, and a second client that comes when nobody has a file open."""

    def __init__(self) -> None:
        super().__init__()
        self.memory = MemoryZMap()
        self.faulty = Faulty(self.store())
        self.patches = contextlib.ExitStack()
        self.patches.enter_context(mock.patch("nczfs.vfs.objects.store.NEAR_STEP", STEP))
        self.spool = Path(tempfile.mkdtemp())
        self.files: dict[str, Model] = {}
        self.directories = {"", "d"}
        self.handles: list[Open] = []
        for path in ("a", "d/a"):
            self.memory.write(parse_key(path), CONTENT)
            self.files[path] = Model(CONTENT, CONTENT, path=path)

        def opened(*_: object) -> ZMap:
            return self.faulty

        with mock.patch("nczfs.vfs.tree.open_store", opened):
            options = VfsOptions(read_only=False, spool_dir=self.spool)
            self.fs = mount_tree("memory://model", None, options)
        # A directory with something of ours in it stays, whatever the second client does.
        mkdir(self.fs, "objects/d/x")
        rmdir(self.fs, "objects/d/x")

    def store(self) -> ZMap:
        """The store that is mounted, round `memory`."""
        return self.memory

    @contextlib.contextmanager
    def storing(self) -> Iterator[None]:
        """What happens in this context stores files."""
        yield

    def may_be_read(self, _: Model) -> bool:
        """Whether to read a file after each step."""
        return True

    def teardown(self) -> None:
        with self.storing():
            self.fs.sync()
        self.fs.close()
        self.patches.close()
        for file in self.files.values():
            if file.dirty:
                file.stored = file.content
        self.check_store()
        left = list(self.spool.iterdir())
        shutil.rmtree(self.spool)
        assert left == []

    @rule(path=paths, mode=st.sampled_from(MODES), truncating=st.booleans())
    def open(self, path: str, mode: int, truncating: bool) -> None:
        if mode == os.O_RDONLY:
            truncating = False
        file = self.files.get(path)
        if not self.has_parent(path):
            return
        flags = mode | os.O_CREAT | (os.O_TRUNC if truncating else 0)
        handle = open_file(self.fs, f"objects/{path}", flags)
        made = file is None
        if file is None:
            file = self.files[path] = Model(b"", None, dirty=True, path=path)
        elif truncating and not (file.stored is None and file.content == b""):
            file.only_truncated = file.only_truncated or not file.dirty
            file.content, file.dirty = b"", True
        self.handles.append(Open(handle, file, mode, made))

    @rule(path=paths)
    def create_exclusively(self, path: str) -> None:
        if not self.has_parent(path):
            return
        flags = os.O_RDWR | os.O_EXCL
        if path in self.files:
            with pytest.raises(PathExists):
                self.fs.create(*split(self.fs, f"objects/{path}"), flags, 0o600)
            return
        handle = self.fs.create(*split(self.fs, f"objects/{path}"), flags, 0o600)[0].handle
        file = self.files[path] = Model(b"", None, dirty=True, path=path)
        self.handles.append(Open(handle, file, os.O_RDWR))

    @precondition(lambda self: self.handles)
    @rule(data=st.data(), offset=offsets, piece=pieces, at_end=st.booleans())
    def write(self, data: st.DataObject, offset: int, piece: bytes, at_end: bool) -> None:
        found = data.draw(st.sampled_from(self.handles))
        if found.mode == os.O_RDONLY:
            return
        before = found.file.content
        offset = len(before) if at_end else offset
        assert self.fs.write(found.handle, offset, piece) == len(piece)
        before = before.ljust(offset, b"\0")
        self.changed(found.file, before[:offset] + piece + before[offset + len(piece) :])

    @precondition(lambda self: self.handles)
    @rule(data=st.data(), size=offsets)
    def set_size_of_handle(self, data: st.DataObject, size: int) -> None:
        found = data.draw(st.sampled_from(self.handles))
        if found.mode == os.O_RDONLY or found.file.path is None:
            return
        parent, name = split(self.fs, f"objects/{found.file.path}")
        ino = self.fs.lookup(parent, name).ino
        assert self.fs.setattr(ino, AttributeChanges(size=size), found.handle).size == size
        if not (found.file.stored is None and size == len(found.file.content)):
            self.changed(found.file, found.file.content[:size].ljust(size, b"\0"))

    @precondition(lambda self: self.files)
    @rule(data=st.data(), size=offsets)
    def set_size(self, data: st.DataObject, size: int) -> None:
        path = self.some_path(data)
        file = self.files[path]
        with self.storing():
            assert truncate(self.fs, f"objects/{path}", size).size == size
        file.content = file.content[:size].ljust(size, b"\0")
        file.dirty = True
        self.was_stored(file)

    @precondition(lambda self: self.handles)
    @rule(data=st.data(), offset=offsets, size=offsets)
    def read(self, data: st.DataObject, offset: int, size: int) -> None:
        found = data.draw(st.sampled_from(self.handles))
        if found.mode != os.O_WRONLY:
            seen = self.fs.read(found.handle, offset, size)
            assert bytes(seen) == found.file.content[offset : offset + size]

    @precondition(lambda self: self.handles)
    @rule(data=st.data(), fails=st.booleans())
    def fsync(self, data: st.DataObject, fails: bool) -> None:
        found = data.draw(st.sampled_from(self.handles))
        if fails and found.file.dirty and found.file.path is not None:
            self.faulty.arm(WRITES)
            with pytest.raises(Unavailable):
                self.fs.fsync(found.handle, data_only=False)
            self.faulty.arm()
        else:
            with self.storing():
                self.fs.fsync(found.handle, data_only=False)
            self.was_stored(found.file)

    @precondition(lambda self: self.handles)
    @rule(data=st.data(), fails=st.booleans())
    def close(self, data: st.DataObject, fails: bool) -> None:
        """The kernel says flush, and then release of the last: what failed before succeeds then."""
        found = data.draw(st.sampled_from(self.handles))
        file = found.file
        writing = found.stores
        stores = writing and file.dirty and file.path is not None
        if fails and stores and not (file.only_truncated and file.stored is not None):
            self.faulty.arm(WRITES)
            with pytest.raises(Unavailable):
                self.fs.flush(found.handle)
            self.faulty.arm()
        else:
            with self.storing():
                self.fs.flush(found.handle)
            if writing and not (file.only_truncated and file.stored is not None):
                self.was_stored(file)
            self.check_store()
        with self.storing():
            self.fs.release(found.handle)
        self.handles.remove(found)
        if writing and not any(each.stores for each in self.handles if each.file is file):
            self.was_stored(file)

    @precondition(lambda self: self.files)
    @rule(data=st.data())
    def unlink(self, data: st.DataObject) -> None:
        path = self.some_path(data)
        unlink(self.fs, f"objects/{path}")
        self.gone(path)

    @precondition(lambda self: self.files)
    @rule(data=st.data(), goal=paths, replace=st.booleans())
    def rename(self, data: st.DataObject, goal: str, replace: bool) -> None:
        path = self.some_path(data)
        if path == goal or not self.has_parent(goal):
            return
        if goal in self.files and not replace:
            with pytest.raises(PathExists):
                rename(self.fs, f"objects/{path}", f"objects/{goal}", replace=False)
            return
        # What is replaced is read, for those who have it open.
        with contextlib.nullcontext() if goal in self.files else self.storing():
            rename(self.fs, f"objects/{path}", f"objects/{goal}", replace=replace)
        self.gone(goal)
        file = self.files.pop(path)
        self.was_stored(file)
        file.path = goal
        self.files[goal] = file

    @precondition(lambda self: self.files)
    @rule(data=st.data(), goal=paths)
    def link(self, data: st.DataObject, goal: str) -> None:
        path = self.some_path(data)
        if not self.has_parent(goal):
            return
        ino = find(self.fs, f"objects/{path}").ino
        parent, name = split(self.fs, f"objects/{goal}")
        if goal in self.files:
            with pytest.raises(PathExists):
                self.fs.link(ino, parent, name)
            return
        with self.storing():
            self.fs.link(ino, parent, name)
        content = self.files[path].content
        self.files[goal] = Model(content, content, path=goal)

    @rule(name=st.sampled_from(("d", "e")))
    def mkdir(self, name: str) -> None:
        if name not in self.directories:
            mkdir(self.fs, f"objects/{name}")
            self.directories.add(name)

    @rule(name=st.sampled_from(("d", "e")))
    def rmdir(self, name: str) -> None:
        if name not in self.directories:
            return
        if any(path.startswith(f"{name}/") for path in self.files):
            with pytest.raises(DirectoryNotEmpty):
                rmdir(self.fs, f"objects/{name}")
        else:
            rmdir(self.fs, f"objects/{name}")
            self.directories.remove(name)

    @rule()
    def rename_directory(self) -> None:
        if "d" not in self.directories:
            return
        if any(path.startswith("e/") for path in self.files):
            with pytest.raises(DirectoryNotEmpty):
                rename(self.fs, "objects/d", "objects/e")
            return
        with self.storing():
            rename(self.fs, "objects/d", "objects/e")
        self.directories.remove("d")
        self.directories.add("e")
        for path in [path for path in self.files if path.startswith("d/")]:
            file = self.files.pop(path)
            self.was_stored(file)
            file.path = f"e{path[1:]}"
            self.files[file.path] = file

    @rule(path=paths, data=st.none() | pieces)
    def second_client(self, path: str, data: bytes | None) -> None:
        if any(found.file.path == path for found in self.handles) or not self.has_parent(path):
            return
        if data is not None:
            self.memory.write(parse_key(path), data)
            self.files[path] = Model(data, data, path=path)
        elif path in self.files:
            self.memory.delete(parse_key(path))
            del self.files[path]
        self.fs.refresh("")

    @invariant()
    def every_program_sees_what_was_written(self) -> None:
        for directory in self.directories:
            expected = {
                path.removeprefix(f"{directory}/") if directory else path: len(file.content)
                for path, file in self.files.items()
                if path.rpartition("/")[0] == directory
            }
            listed = listing(self.fs, f"objects/{directory}")
            names = expected.keys() | (self.directories - {""} if not directory else set())
            assert listed.keys() == names
            assert {name: listed[name].size for name in expected} == expected
        for path in filter(lambda path: self.may_be_read(self.files[path]), self.files):
            assert read(self.fs, f"objects/{path}") == self.files[path].content

    @invariant()
    def check_store(self) -> None:
        expected = {p: f.stored for p, f in self.files.items() if f.stored is not None}
        stored = {s.key: bytes(self.memory.read(s.key).data) for s in self.memory.list(ROOT)}
        assert stored == expected

    def some_path(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(sorted(self.files)))

    def has_parent(self, path: str) -> bool:
        return path.rpartition("/")[0] in self.directories

    def changed(self, file: Model, content: bytes) -> None:
        file.content = content
        file.dirty, file.only_truncated = True, False

    def was_stored(self, file: Model) -> None:
        if file.path is not None and file.dirty:
            file.stored = file.content
            file.dirty = file.only_truncated = False

    def gone(self, path: str) -> None:
        if (file := self.files.pop(path, None)) is not None:
            file.path, file.dirty = None, False


class CopyingObjectsTree(ObjectsTree):
    """The same where the store copies ranges: what was never fetched is not fetched to be stored.

    Nor is it read in passing here, by which it would be fetched. Only the end of a file that became
    shorter is read, by which its upload is recognised.
    """

    def store(self) -> ZMap:
        self.copying = Copying(self.memory)
        return self.copying

    @contextlib.contextmanager
    def storing(self) -> Iterator[None]:
        sent, before, ends = ObjectStore.sent, self.copying.reads, 0

        def counted(store: ObjectStore, parts: Sequence[Part]) -> Sent:
            nonlocal ends
            begun = self.copying.reads
            found = sent(store, parts)
            ends += self.copying.reads - begun
            return found

        with mock.patch.object(ObjectStore, "sent", counted):
            yield
        assert self.copying.reads == before + ends

    def may_be_read(self, file: Model) -> bool:
        return not any(found.file is file for found in self.handles)


TestObjectsTree = ObjectsTree.TestCase
TestObjectsTree.settings = settings(max_examples=200, stateful_step_count=50, deadline=None)

TestCopyingObjectsTree = CopyingObjectsTree.TestCase
TestCopyingObjectsTree.settings = TestObjectsTree.settings
