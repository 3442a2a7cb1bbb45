"""All members below a prefix of an archive are replaced by one new central directory."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest

from nczfs.errors import NoSuchObject, StoreError
from nczfs.zmap.keys import Key, Prefix
from nczfs.zmap.zip.creating import create_archive
from nczfs.zmap.zip.growing import GrowingArchive
from nczfs.zmap.zip.local import LocalZipOptions, LocalZipZMap
from tests.support.contents import objects_of

OLD = {"group/a": b"old", "group/b/c": b"old", "other": b"kept"}
NEW = {"group/b/d": b"new", "other": b"kept"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    create_archive(str(tmp_path / "a.zip"), "root")
    zmap = LocalZipZMap(tmp_path / "a.zip")
    for key, data in OLD.items():
        zmap.write(Key(key), data)
    zmap.close()
    return tmp_path / "a.zip"


def members(path: Path) -> dict[str, bytes]:
    """What another program finds, after it has tested all checksums."""
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        return {name: archive.read(name) for name in archive.namelist()}


def test_the_exchange_is_one_commit(path: Path) -> None:
    zmap = LocalZipZMap(path)
    with zmap.aside(Prefix("group"), "x") as aside:
        zmap.write(Key(f"{aside.prefix}/x/b/d"), b"new")
        zmap.write(Key("written"), b"meanwhile")
        zmap.flush()
        assert members(path) == {**OLD, "written": b"meanwhile"}
        aside.exchange()
        assert members(path) == objects_of(zmap) == {**NEW, "written": b"meanwhile"}
    zmap.close()
    assert members(path) == {**NEW, "written": b"meanwhile"}


def test_what_is_given_up_leaves_the_archive_as_it_was(path: Path) -> None:
    before = path.read_bytes()
    zmap = LocalZipZMap(path)
    with zmap.aside(Prefix("group")) as aside:
        zmap.write(Key(f"{aside.prefix}/b/d"), b"new")
    assert objects_of(zmap) == OLD
    zmap.close()
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == ["a.zip"]


def test_what_is_aside_outlives_a_flush_of_changes_that_cancel_out(path: Path) -> None:
    zmap = LocalZipZMap(path)
    with zmap.aside(Prefix("group")) as aside:
        zmap.write(Key(f"{aside.prefix}/b/d"), b"new")
        zmap.write(Key("scratch"), b"")
        zmap.delete(Key("scratch"))
        zmap.flush()
        aside.exchange()
    zmap.close()
    assert members(path) == NEW


def test_an_exchange_that_cannot_be_stored_changes_nothing_and_can_be_repeated(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zmap = LocalZipZMap(path)
    with zmap.aside(Prefix("group")) as aside:
        zmap.write(Key(f"{aside.prefix}/b/d"), b"new")

        def refuse(*_: object) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patched:
            patched.setattr(GrowingArchive, "_append", refuse)
            with pytest.raises(StoreError):
                aside.exchange()
        assert members(path) == objects_of(zmap) == OLD
        aside.exchange()
    assert objects_of(zmap) == NEW
    zmap.close()
    assert members(path) == NEW


def test_a_killed_writer_leaves_the_old_members_or_the_new_ones(path: Path) -> None:
    for is_exchanged in (False, True):
        pid = os.fork()
        if not pid:
            zmap = LocalZipZMap(path)
            with zmap.aside(Prefix("group")) as aside:
                zmap.write(Key(f"{aside.prefix}/b/d"), b"new")
                zmap.flush()
                if is_exchanged:
                    aside.exchange()
                os._exit(0)
        os.waitpid(pid, 0)
        assert members(path) == (NEW if is_exchanged else OLD)
    zmap = LocalZipZMap(path)
    zmap.write(Key("next"), b"")
    zmap.close()
    assert members(path) == {**NEW, "next": b""}


def test_an_archive_that_is_written_once_and_a_missing_prefix_are_not_replaced(path: Path) -> None:
    zmap = LocalZipZMap(path, LocalZipOptions(write_once=True))
    assert not zmap.features.exchanges.covers(Prefix("group"))
    with pytest.raises(StoreError), zmap.aside(Prefix("group")):
        pass
    zmap.close()
    zmap = LocalZipZMap(path)
    with pytest.raises(NoSuchObject), zmap.aside(Prefix("missing")):
        pass
    with zmap.aside(Prefix("group"), "never made") as aside, pytest.raises(NoSuchObject):
        aside.exchange()
    assert objects_of(zmap) == OLD
    zmap.close()
