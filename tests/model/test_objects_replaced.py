"""A file of ``objects/`` that another client replaces while it is open: nothing is ever mixed."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from nczfs.errors import StaleHandle
from nczfs.testing.copying import Copying
from nczfs.tools import recovery
from nczfs.vfs.base import AttributeChanges, HandleNo
from nczfs.vfs.tree import VfsOptions
from nczfs.zmap.keys import ROOT, Key
from nczfs.zmap.memory import MemoryZMap
from tests.conftest import ExpectedWarnings
from tests.support.trees import exists, find, tree_over
from tests.support.writing import close, open_file, rename, unlink

PATHS = ("objects/d/a", "objects/d/b")
STEP = 8  # bytes that are fetched together

offsets = st.integers(0, 120)
contents = st.binary(min_size=90, max_size=110)
pieces = st.binary(min_size=1, max_size=20)


@pytest.fixture(autouse=True)
def warned(expected_warnings: ExpectedWarnings) -> None:
    for text in (
        "cannot be kept for the programs that have it open",
        "was not stored when it was closed: ",
        "`nczfs recover` puts it back: ",
    ):
        expected_warnings.add(text)


class ReplacedObject(RuleBasedStateMachine):
    """Programs write a file; somebody else replaces or removes its object before they have closed.

    SEMANTICS O9, O24.

    Attributes
    ----------
    content : what the programs see.
    stored : what the store must have under each of the two keys.
    dirty : the programs have written something that is not stored.
    is_gone : the version that they began with is not in the store any more.
    """

    def __init__(self) -> None:
        super().__init__()
        self.memory = MemoryZMap()
        self.copying = Copying(self.memory)
        self.spool = Path(tempfile.mkdtemp())
        self.patches = contextlib.ExitStack()
        self.patches.enter_context(mock.patch("nczfs.vfs.objects.store.NEAR_STEP", STEP))
        options = VfsOptions(read_only=False, spool_dir=self.spool)
        self.fs = tree_over(self.copying, options)
        self.handles: list[HandleNo] = []
        self.path = PATHS[0]
        self.stored: dict[str, bytes] = {}
        self.put(bytes(range(100)))

    def put(self, content: bytes) -> None:
        """Begin with an object that nobody has open."""
        self.content = self.stored[self.key] = content
        self.memory.write(Key(self.key), content)
        self.dirty = self.is_gone = False
        self.fs.refresh("")

    @property
    def key(self) -> str:
        return self.path.removeprefix("objects/")

    def teardown(self) -> None:
        while self.handles:
            self.close(0)
        self.fs.close()
        self.patches.close()
        left = list(self.spool.iterdir())
        shutil.rmtree(self.spool)
        assert left == []

    @precondition(lambda self: not self.dirty and not self.is_gone)
    @rule()
    def open(self) -> None:
        self.handles.append(open_file(self.fs, self.path, os.O_RDWR))

    @precondition(lambda self: self.handles)
    @rule(offset=offsets, piece=pieces, at_end=st.booleans())
    def write(self, offset: int, piece: bytes, at_end: bool) -> None:
        offset = len(self.content) if at_end else offset
        assert self.fs.write(self.handles[-1], offset, piece) == len(piece)
        before = self.content.ljust(offset, b"\0")
        self.content = before[:offset] + piece + before[offset + len(piece) :]
        self.dirty = True

    @precondition(lambda self: self.handles and (self.dirty or not self.is_gone))
    @rule(size=offsets)
    def truncate(self, size: int) -> None:
        ino = find(self.fs, self.path).ino
        assert self.fs.setattr(ino, AttributeChanges(size=size), self.handles[-1]).size == size
        self.content = self.content[:size].ljust(size, b"\0")
        self.dirty = True

    @precondition(lambda self: self.handles)
    @rule(offset=offsets, size=offsets)
    def read(self, offset: int, size: int) -> None:
        """What was not fetched in time cannot be read, and nothing else is given for it."""
        with self.refused(StaleHandle, if_=self.is_gone, always=False):
            seen = bytes(self.fs.read(self.handles[-1], offset, size))
            assert seen == self.content[offset : offset + size]

    @precondition(lambda self: self.handles)
    @rule()
    def fsync(self) -> None:
        with self.refused(StaleHandle, if_=self.dirty and self.is_gone):
            self.fs.fsync(self.handles[-1], data_only=False)
            self.was_stored()

    @precondition(lambda self: self.handles)
    @rule(data=st.data())
    def close_one(self, data: st.DataObject) -> None:
        self.close(data.draw(st.integers(0, len(self.handles) - 1)))

    def close(self, index: int) -> None:
        handle = self.handles.pop(index)
        with self.refused(StaleHandle, if_=self.dirty and self.is_gone):
            self.fs.flush(handle)
            self.was_stored()
        self.fs.release(handle)
        if not self.handles:
            self.ended()

    def ended(self) -> None:
        """The last one has closed: the store has what it had, and the spool what it did not."""
        found = list(recovery.entries(self.spool))
        assert len(found) == (self.dirty and self.is_gone)
        for each in found:
            each.remove()
        self.dirty = self.is_gone = False
        if self.key in self.stored:
            self.content = self.stored[self.key]
        else:
            assert not exists(self.fs, self.path)
            self.put(bytes(100))

    @precondition(lambda self: self.handles)
    @rule(replace=st.booleans())
    def rename(self, replace: bool) -> None:
        goal = PATHS[self.path == PATHS[0]]
        if goal.removeprefix("objects/") in self.stored and not replace:
            return
        if self.is_gone and not self.dirty:
            return  # then it is the new object that is renamed
        with self.refused(StaleHandle, if_=self.is_gone):
            rename(self.fs, self.path, goal, replace=replace)
            del self.stored[self.key]
            self.path = goal
            self.dirty = True
            self.was_stored()

    @precondition(lambda self: self.handles and (self.dirty or not self.is_gone))
    @rule()
    def unlink(self) -> None:
        """The file goes, and the object that has its name by now."""
        unlink(self.fs, self.path)
        assert not exists(self.fs, self.path)
        self.stored.pop(self.key, None)
        for handle in self.handles:
            self.fs.write(handle, 0, b"nowhere")
            close(self.fs, handle)
        self.handles.clear()
        assert not list(recovery.entries(self.spool))
        self.put(bytes(100))

    @precondition(lambda self: self.handles)
    @rule(content=st.none() | contents)
    def second_client(self, content: bytes | None) -> None:
        if content is not None:
            self.memory.write(Key(self.key), content)
            self.stored[self.key] = content
        elif self.stored.pop(self.key, None) is not None:
            self.memory.delete(Key(self.key))
        self.is_gone = True

    @precondition(lambda self: self.handles and not self.is_gone)
    @rule(content=contents)
    def second_client_at_the_goal(self, content: bytes) -> None:
        other = PATHS[self.path == PATHS[0]].removeprefix("objects/")
        self.memory.write(Key(other), content)
        self.stored[other] = content
        self.fs.refresh("")

    @invariant()
    def the_store_has_what_was_stored_last(self) -> None:
        found = {str(s.key): bytes(self.memory.read(s.key).data) for s in self.memory.list(ROOT)}
        assert found == self.stored

    @invariant()
    def what_is_written_has_its_size(self) -> None:
        if self.dirty:
            assert find(self.fs, self.path).size == len(self.content)

    def was_stored(self) -> None:
        if self.dirty:
            self.stored[self.key] = self.content
            self.dirty = False

    @contextlib.contextmanager
    def refused(self, error: type[Exception], *, if_: bool, always: bool = True) -> Iterator[None]:
        try:
            yield
        except error:
            assert if_
        else:
            assert not (if_ and always)


TestReplacedObject = ReplacedObject.TestCase
TestReplacedObject.settings = settings(max_examples=200, stateful_step_count=50, deadline=None)
