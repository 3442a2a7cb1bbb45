"""Objects in the spool, and what the store has of them by the time when they are put back."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import google_crc32c
import pytest

from nczfs.engine.spool.objects import KeptObject, put_together
from nczfs.engine.spool.records import FileData
from nczfs.engine.spool.staged import Staged
from nczfs.errors import SpoolError
from nczfs.model.ranges import END
from nczfs.zmap.base import ABSENT, Features, Stat, Version
from nczfs.zmap.keys import ROOT, Key
from nczfs.zmap.memory import MemoryZMap

KEY = Key("a")


def kept(
    directory: Path,
    replaces: Version,
    data: bytes = b"new",
    missing: tuple[tuple[int, int], ...] = (),
    changed: tuple[tuple[int, int], ...] | None = None,
) -> KeptObject:
    """An object in the spool; of an entry that does not say it, all that is there was written."""
    staged = Staged.begun(KEY, replaces, missing, changed)
    path = directory / f"{len(list(directory.iterdir()))}-a.kept"
    path.write_bytes(data)
    return KeptObject(
        url="memory://s",
        key=KEY,
        reason="no way",
        saved_at=0.0,
        files=(path,),
        data=FileData(path, 0, len(data), google_crc32c.value(data)),
        replaces=replaces,
        missing=missing,
        changed=tuple(staged.changed.within(0, END)),
        sent=(),
    )


def put(zmap: MemoryZMap, entry: KeptObject, *, force: bool = False) -> None:
    (problem,) = put_together(zmap, [entry], force=force)
    if problem is not None:
        raise problem


def stored(zmap: MemoryZMap) -> bytes:
    return bytes(zmap.read(KEY).data)


def test_what_another_client_stores_just_before_it_is_put_back_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SEMANTICS W21."""
    zmap, stat = MemoryZMap(), MemoryZMap.stat
    entry = kept(tmp_path, zmap.write(KEY, b"old"))

    def looked_at(zmap: MemoryZMap, key: Key) -> Stat:
        found = stat(zmap, key)
        zmap.write(key, b"theirs")
        return found

    with monkeypatch.context() as patched:
        patched.setattr(MemoryZMap, "stat", looked_at)
        with pytest.raises(SpoolError, match="another client is writing it"):
            put(zmap, entry, force=True)
    assert stored(zmap) == b"theirs"
    put(zmap, entry, force=True)
    assert stored(zmap) == b"new"


def test_a_store_that_compares_no_versions_is_asked_to_compare_none(tmp_path: Path) -> None:
    zmap = MemoryZMap()
    entry = kept(tmp_path, zmap.write(KEY, b"old"))
    with (
        mock.patch.object(MemoryZMap, "features", Features(conditional_writes=False)),
        mock.patch.object(MemoryZMap, "write_parts") as write,
    ):
        put(zmap, entry, force=False)
    assert write.call_args.kwargs == {"replaces": None}


@pytest.mark.parametrize(
    ("now", "what"),
    [
        (None, "a: another client has deleted it since, 3 in the spool"),
        (
            b"theirs",
            r"a: another client has replaced it since at \d+.*: it has 6 bytes there, 3 in",
        ),
    ],
)
def test_why_it_is_not_put_back_is_said(tmp_path: Path, now: bytes | None, what: str) -> None:
    zmap = MemoryZMap()
    entry = kept(tmp_path, zmap.write(KEY, b"old"))
    if now is None:
        zmap.delete(KEY)
    else:
        zmap.write(KEY, now)
    with pytest.raises(SpoolError, match=what):
        put(zmap, entry, force=False)


def test_a_store_that_knows_no_times_is_named_without_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zmap, stat = MemoryZMap(), MemoryZMap.stat
    zmap.write(KEY, b"theirs")

    def timeless(zmap: MemoryZMap, key: Key) -> Stat:
        return stat(zmap, key)._replace(mtime_ns=None)

    monkeypatch.setattr(MemoryZMap, "stat", timeless)
    with pytest.raises(SpoolError, match="has replaced it since: it has 6 bytes there"):
        put(zmap, kept(tmp_path, ABSENT))


def test_damaged_bytes_are_neither_put_back_nor_exported(tmp_path: Path) -> None:
    zmap = MemoryZMap()
    entry = kept(tmp_path, ABSENT)
    entry.data.path.write_bytes(b"not")
    with pytest.raises(SpoolError, match="damaged: the checksum of its content is wrong"):
        put(zmap, entry, force=True)
    with pytest.raises(SpoolError, match="damaged: the checksum of its content is wrong"):
        entry.export(tmp_path / "copy")
    assert list(zmap.list(ROOT)) == []


def test_what_several_mounts_left_of_an_object_is_put_back_by_one_write(tmp_path: Path) -> None:
    """SEMANTICS W59: and so it is after recover was ended before it removed the entries."""
    zmap = MemoryZMap()
    version = zmap.write(KEY, b"0123456789")
    entries = [
        kept(tmp_path, version, b"\0\0aaaa\0\0\0\0AAA", ((0, 2), (6, 10))),
        kept(tmp_path, version, b"\0\0\0\0bb\0\0B", ((0, 4), (6, 8))),
    ]
    written: list[bytes] = []
    for _ in range(3):
        assert put_together(zmap, entries, force=False) == [None, None]
        written.append(stored(zmap) + zmap.stat(KEY).version.encode())
    assert stored(zmap) == b"01aabb67B"
    assert len(set(written)) == 1
    assert put_together(zmap, entries[1:], force=False) == [None]


def test_of_what_several_mounts_left_of_an_object_each_stands_for_itself(tmp_path: Path) -> None:
    """SEMANTICS W51: another client has replaced the version of the first one."""
    zmap = MemoryZMap()
    first = kept(tmp_path, zmap.write(KEY, b"0123"), b"a\0\0\0", ((1, 4),))
    second = kept(tmp_path, zmap.write(KEY, b"4567"), b"\0b\0\0", ((0, 1), (2, 4)))
    damaged = kept(tmp_path, ABSENT)
    damaged.files[0].write_bytes(b"old")
    problems = put_together(zmap, [first, second, damaged], force=False)
    assert ["another client has replaced" in str(each) for each in problems] == [True, False, False]
    assert (problems[1], "checksum" in str(problems[2])) == (None, True)
    assert stored(zmap) == b"4b67"


def test_by_force_the_latest_of_several_counts_where_they_have_the_same(tmp_path: Path) -> None:
    zmap = MemoryZMap()
    version = zmap.write(KEY, b"0123")
    zmap.write(KEY, b"theirs")
    whole = kept(tmp_path, version, b"ab")
    part = kept(tmp_path, version, b"\0c", ((0, 1),))
    assert put_together(zmap, [part, whole], force=True) == [None, None]
    assert stored(zmap) == b"ab"
    assert put_together(zmap, [whole, part], force=True) == [None, None]
    assert stored(zmap) == b"ac"
    with pytest.raises(SpoolError, match="the version with bytes 0 to 1 is gone"):
        put_together(zmap, [part], force=True)
    assert stored(zmap) == b"ac"


def test_by_force_the_rest_is_what_the_latest_was_made_from(tmp_path: Path) -> None:
    """An older one was made from a version that is gone."""
    zmap = MemoryZMap()
    older = kept(tmp_path, zmap.write(KEY, b"0123"), b"a\0\0\0", ((1, 4),))
    latest = kept(tmp_path, zmap.write(KEY, b"4567"), b"\0b\0\0", ((0, 1), (2, 4)))
    assert put_together(zmap, [older, latest], force=True) == [None, None]
    assert stored(zmap) == b"ab67"


def test_an_object_of_which_the_spool_has_no_byte_is_in_no_other_of_its_size(
    tmp_path: Path,
) -> None:
    """It became shorter; an empty one is like every empty one."""
    zmap = MemoryZMap()
    version = zmap.write(KEY, b"0123")
    shorter, empty = kept(tmp_path, version, b"\0\0", ((0, 2),)), kept(tmp_path, version, b"")
    zmap.write(KEY, b"45")
    with pytest.raises(SpoolError, match="another client has replaced it since"):
        put(zmap, shorter)
    zmap.write(KEY, b"")
    put(zmap, empty)
    assert stored(zmap) == b""


def test_an_export_has_the_bytes(tmp_path: Path) -> None:
    copy = kept(tmp_path, ABSENT).export(tmp_path / "copy")
    assert (copy, copy.read_bytes()) == (tmp_path / "copy", b"new")
