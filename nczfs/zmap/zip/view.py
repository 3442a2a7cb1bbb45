"""The members of an archive as objects: its index, with changes since then."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterator

from nczfs.plaindata import frozen
from nczfs.zmap.aside import ASIDE
from nczfs.zmap.base import Version
from nczfs.zmap.zip.index import ZipIndex, ZipMember


@frozen
class WrittenMember:
    """A member that was written since the index was read, with its directory entry."""

    member: ZipMember
    entry: bytes


class MemberChanges:
    """Writes and deletions since the index was read. One lock guards its changes.

    Parameters
    ----------
    by_key : the first ones.

    Attributes
    ----------
    by_key : None for deleted members; changed by `put` and `drop` only.
    """

    def __init__(self, by_key: dict[bytes, WrittenMember | None] | None = None) -> None:
        self._lock = threading.Lock()
        self.by_key: dict[bytes, WrittenMember | None] = {} if by_key is None else by_key
        self._sorted: list[bytes] = []

    def __len__(self) -> int:
        return len(self.by_key)

    def put(self, key: bytes, written: WrittenMember | None) -> None:
        """Note that a member was written, or (None) deleted."""
        with self._lock:
            self.by_key[key] = written

    def drop(self, start: bytes) -> None:
        """Forget all members whose keys begin with a text."""
        with self._lock:
            for key in [key for key in self.by_key if key.startswith(start)]:
                del self.by_key[key]

    def keys(self) -> list[bytes]:
        """Return all present keys, sorted; the result must not be changed."""
        with self._lock:
            if len(self._sorted) != len(self.by_key):
                self._sorted = sorted(self.by_key)
            return self._sorted

    def written(self) -> list[WrittenMember]:
        """Return the members in the order of the archive."""
        with self._lock:
            found = [written for written in self.by_key.values() if written is not None]
        return sorted(found, key=lambda written: written.member.offset)

    def below(self, before: bytes) -> Iterator[tuple[bytes, ZipMember]]:
        """Yield the written members whose keys begin with a text."""
        for key in self.keys():
            if key.startswith(before) and (written := self.by_key.get(key)) is not None:
                yield key, written.member


class ArchiveView:
    """An index and later changes. Thread-safe; listings see changes while they run.

    Parameters
    ----------
    aside : members that will replace others; only listings of their own place show them.
    """

    def __init__(self, index: ZipIndex, aside: MemberChanges) -> None:
        self.index = index
        self.changes = MemberChanges()
        self.aside = aside

    def find(self, key: bytes) -> ZipMember | None:
        """Return the member with a key."""
        if (apart := self.aside.by_key.get(key)) is not None:
            return apart.member
        if key not in self.changes.by_key:
            return self.index.find(key)
        written = self.changes.by_key[key]
        return written.member if written else None

    def below(self, prefix: bytes) -> Iterator[tuple[bytes, ZipMember]]:
        """Yield all members below a prefix."""
        before = prefix + b"/" if prefix else b""
        if _is_aside(prefix):
            yield from self.aside.below(before)
            return
        cursor = _Cursor(self, before)
        while (found := cursor.current()) and found[0].startswith(before):
            yield found
            cursor.step(found[0])

    def children(self, prefix: bytes) -> Iterator[tuple[bytes, ZipMember | None, bool]]:
        """Yield names of the next level, each with its member, and whether others are below it."""
        before = prefix + b"/" if prefix else b""
        skip = len(before)
        if _is_aside(prefix):
            yield from _first_level(self.aside.below(before), skip)
            return
        cursor = _Cursor(self, before)
        while (found := cursor.current()) and found[0].startswith(before):
            key, member = found
            cut = key.find(b"/", skip)
            if cut < 0:
                cursor.step(key)
                yield key[skip:], member, cursor.has_below(key)
            else:
                child = key[:cut]
                # A member of exactly that name sorts before this one and has already come.
                if self.find(child) is None:
                    yield child[skip:], None, True
                cursor.seek(child + b"0")  # the least text behind all keys below: "0" follows "/"


class _Cursor:
    """A cursor in the sorted keys of a view, beginning at the first key not before `start`."""

    def __init__(self, view: ArchiveView, start: bytes) -> None:
        self._index = view.index
        self._changes = view.changes
        self._changed_keys = view.changes.keys()
        self._at = self._changed_at = 0
        self.seek(start)

    def seek(self, key: bytes) -> None:
        """Go to the first key that is not before `key`."""
        self._go(
            self._index.position(key),
            bisect_left(self._changed_keys, key),
        )

    def current(self) -> tuple[bytes, ZipMember] | None:
        """Return the key here, and its member; None after the last."""
        while True:
            changed = self._changed
            if changed is None or (self._indexed is not None and self._indexed < changed):
                if self._indexed is None:
                    return None
                return self._indexed, self._index.member(self._at)
            written = self._changes.by_key.get(changed)
            if written is not None:
                return changed, written.member
            self.step(changed)  # it was deleted

    def step(self, key: bytes) -> None:
        """Go to the next key."""
        self._go(self._at + (key == self._indexed), self._changed_at + (key == self._changed))

    def has_below(self, key: bytes) -> bool:
        """Return whether there are keys below one that was just passed."""
        if not (found := self.current()) or not found[0].startswith(key):
            return False
        here = self._at, self._changed_at
        self.seek(key + b"/")
        found = self.current()
        self._go(*here)
        return found is not None and found[0].startswith(key + b"/")

    def _go(self, at: int, changed_at: int) -> None:
        self._at = at
        self._changed_at = changed_at
        self._indexed = self._index[at] if at < len(self._index) else None
        self._changed = (
            self._changed_keys[changed_at] if changed_at < len(self._changed_keys) else None
        )


def _is_aside(prefix: bytes) -> bool:
    return b"/" + ASIDE.encode() in b"/" + prefix


def _first_level(
    found: Iterator[tuple[bytes, ZipMember]], skip: int
) -> Iterator[tuple[bytes, ZipMember | None, bool]]:
    """Yield the names of a level, as `ArchiveView.children` does.

    Parameters
    ----------
    skip : the length of what is before the names.
    """
    names: dict[bytes, tuple[ZipMember | None, bool]] = {}
    for key, member in found:
        name, _, below = key[skip:].partition(b"/")
        own, has_below = names.get(name, (None, False))
        names[name] = (own, True) if below else (member, has_below)
    for name, (own, has_below) in names.items():
        yield name, own, has_below


def version_of(member: ZipMember) -> Version:
    """Return a version: members do not move within an archive, and no place is used twice."""
    return Version("%x-%x-%x" % (member.offset, member.size, member.crc))  # noqa: UP031 - half the time
