"""Objects in the spool, and what the store has of them by the time when they are put back."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import google_crc32c
import pytest

from nczfs.engine.spool.objects import KeptObject
from nczfs.engine.spool.records import FileData
from nczfs.errors import SpoolError
from nczfs.zmap.base import ABSENT, Features, Stat, Version
from nczfs.zmap.keys import ROOT, Key
from nczfs.zmap.memory import MemoryZMap

KEY = Key("a")


def kept(directory: Path, replaces: Version, data: bytes = b"new") -> KeptObject:
    path = directory / "1-a.kept"
    path.write_bytes(data)
    return KeptObject(
        url="memory://s",
        key=KEY,
        reason="no way",
        saved_at=0.0,
        files=(path,),
        data=FileData(path, 0, len(data), google_crc32c.value(data)),
        replaces=replaces,
        missing=(),
        sent=(),
    )


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
            entry.put(zmap, force=True)
    assert stored(zmap) == b"theirs"
    entry.put(zmap, force=True)
    assert stored(zmap) == b"new"


def test_a_store_that_compares_no_versions_is_asked_to_compare_none(tmp_path: Path) -> None:
    zmap = MemoryZMap()
    entry = kept(tmp_path, zmap.write(KEY, b"old"))
    with (
        mock.patch.object(MemoryZMap, "features", Features(conditional_writes=False)),
        mock.patch.object(MemoryZMap, "write_parts") as write,
    ):
        entry.put(zmap, force=False)
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
        entry.put(zmap, force=False)


def test_a_store_that_knows_no_times_is_named_without_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zmap, stat = MemoryZMap(), MemoryZMap.stat
    zmap.write(KEY, b"theirs")

    def timeless(zmap: MemoryZMap, key: Key) -> Stat:
        return stat(zmap, key)._replace(mtime_ns=None)

    monkeypatch.setattr(MemoryZMap, "stat", timeless)
    with pytest.raises(SpoolError, match="has replaced it since: it has 6 bytes there"):
        kept(tmp_path, ABSENT).put(zmap, force=False)


def test_damaged_bytes_are_neither_put_back_nor_exported(tmp_path: Path) -> None:
    zmap = MemoryZMap()
    entry = kept(tmp_path, ABSENT)
    entry.data.path.write_bytes(b"not")
    with pytest.raises(SpoolError, match="damaged: the checksum of its content is wrong"):
        entry.put(zmap, force=True)
    with pytest.raises(SpoolError, match="damaged: the checksum of its content is wrong"):
        entry.export(tmp_path / "copy")
    assert list(zmap.list(ROOT)) == []
