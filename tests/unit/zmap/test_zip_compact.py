"""Compacted archives: the same members in fewer bytes."""

from __future__ import annotations

import io
import os
import subprocess
import zipfile
from pathlib import Path

import pytest

from nczfs.errors import CorruptStore, NoSuchObject, StoreBusy
from nczfs.testing.archives import OFFSET, patched, u32, zipped, zipped_many
from nczfs.zmap.keys import Key
from nczfs.zmap.zip import disk
from nczfs.zmap.zip.compact import compact
from nczfs.zmap.zip.creating import create_archive
from nczfs.zmap.zip.local import LocalZipZMap


def infos(path: Path) -> dict[str, tuple[object, ...]]:
    """All that the members say of themselves but where they stand, and their content."""
    with zipfile.ZipFile(path) as archive:
        return {
            info.filename: (
                *(info.date_time, info.compress_type, info.external_attr, info.comment),
                *(info.extra, info.CRC, archive.read(info)),
            )
            for info in archive.infolist()
        }


class _Unseekable(io.BytesIO):
    def seekable(self) -> bool:
        return False

    def seek(self, *_: int) -> int:
        raise io.UnsupportedOperation

    def tell(self) -> int:
        raise io.UnsupportedOperation


def odd_archive() -> bytes:
    """Members of every kind, some of them written without seeking, something before them."""
    file = _Unseekable()
    file.write(b"#!/bin/sh\n")
    with zipfile.ZipFile(file, "w") as archive:
        for number, method in enumerate((0, 8, 12, 14)):
            info = zipfile.ZipInfo(f"m/{number}", (1999, 12, 31, 23, 59, 58))
            info.comment = b"comment"
            info.external_attr = 0o100600 << 16
            info.compress_type = method
            with archive.open(info, "w", force_zip64=number % 2 == 0) as member:
                member.write(b"content " * 100)
        archive.mkdir("m/empty")
        archive.comment = b"of the archive"
    return file.getvalue()


def test_dead_space_goes_and_all_else_stays(tmp_path: Path) -> None:
    path = tmp_path / "data.zip"
    path.write_bytes(odd_archive())
    path.chmod(0o640)
    expected = infos(path)
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("m/0", b"newer")
    zmap = LocalZipZMap(path)
    zmap.write(Key("1"), b"x" * 100_000)
    zmap.write(Key("1"), b"newest")
    zmap.write(Key("gone"), b"x" * 100_000)
    zmap.delete(Key("gone"))
    zmap.delete(Key("2"))
    zmap.close()
    done = compact(str(path))
    assert done.dead_bytes > 200_000
    assert path.stat().st_size == done.size_after
    assert path.stat().st_mode & 0o777 == 0o640
    found = infos(path)
    assert set(found) == {"m/0", "m/1", "m/3", "m/empty/"}
    assert done.members == len(found)
    assert found["m/3"] == expected["m/3"]
    assert (found["m/0"][-1], found["m/1"][-1]) == (b"newer", b"newest")
    with zipfile.ZipFile(path) as archive:
        assert archive.comment == b"of the archive"
        assert archive.testzip() is None
    assert path.read_bytes().startswith(b"#!/bin/sh\n")
    assert compact(str(path)).dead_bytes == 0
    assert os.listdir(tmp_path) == ["data.zip"]


def test_what_was_written_without_seeking_moves_with_what_is_behind_it(tmp_path: Path) -> None:
    path = tmp_path / "data.zip"
    path.write_bytes(odd_archive())
    expected = infos(path)
    zmap = LocalZipZMap(path)
    zmap.delete(Key("0"))
    zmap.close()
    assert compact(str(path)).dead_bytes > 0
    del expected["m/0"]
    assert infos(path) == expected


def test_a_dry_run_tells_the_same_and_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "data.zip"
    path.write_bytes(zipped(("m/", b""), ("m/a", b"old"), ("m/a", b"new")))
    before = path.read_bytes()
    path.chmod(0o400)
    told = compact(str(path), dry_run=True)
    assert told.dead_bytes > 0
    assert path.read_bytes() == before
    path.chmod(0o600)
    assert compact(str(path)) == told


def test_members_that_share_their_bytes_go_on_to_do_so(tmp_path: Path) -> None:
    path = tmp_path / "data.zip"
    path.write_bytes(zipped_many(1000, lambda number: f"m/{number % 900}"))
    done = compact(str(path))
    assert done.members == 900
    assert done.dead_bytes > 0
    with zipfile.ZipFile(path) as archive:
        assert len(archive.namelist()) == 900
        assert {info.header_offset for info in archive.infolist()} == {0}


@pytest.mark.parametrize("offset", [1, 2**31])
def test_a_broken_archive_stays_as_it_is(tmp_path: Path, offset: int) -> None:
    path = tmp_path / "data.zip"
    data = patched(zipped(("a", b"1" * 50), ("b", b"2"), ("b", b"3")), {OFFSET: u32(offset)})
    path.write_bytes(data)
    with pytest.raises(CorruptStore, match=r"data\.zip/a: no member begins"):
        compact(str(path))
    assert path.read_bytes() == data
    assert os.listdir(tmp_path) == ["data.zip"]


def test_members_that_overlap_stay_as_they_are(tmp_path: Path) -> None:
    inner = zipped(("b", b"2"), ("b", b"3"))
    outer = zipped(("a", inner), ("b", b""))
    at = outer.index(inner)
    data = bytearray(outer)
    entry = outer.rindex(b"PK\1\2", 0, outer.rindex(b"PK\5\6"))
    data[entry + OFFSET : entry + OFFSET + 4] = u32(at)
    path = tmp_path / "data.zip"
    path.write_bytes(data)
    with pytest.raises(CorruptStore, match="overlap"):
        compact(str(path))
    assert path.read_bytes() == data


def test_nobody_compacts_what_somebody_writes(tmp_path: Path) -> None:
    path = tmp_path / "data.zip"
    create_archive(str(path), "top")
    zmap = LocalZipZMap(path)
    zmap.write(Key("a"), b"1")
    with pytest.raises(StoreBusy, match=f"process {os.getpid()}"):
        compact(str(path))
    compact(str(path), dry_run=True)
    zmap.close()


def test_an_absent_archive_is_no_such_object(tmp_path: Path) -> None:
    for dry_run in (True, False):
        with pytest.raises(NoSuchObject):
            compact(str(tmp_path / "absent.zip"), dry_run=dry_run)


@pytest.mark.parametrize("name", ["copy", "write_at", "sync", "rename"])
def test_a_failing_disk_leaves_the_old_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    path = tmp_path / "data.zip"
    data = zipped(("m/", b""), ("m/a", b"old"), ("m/a", b"new"))
    path.write_bytes(data)

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(disk, name, fail)
    with pytest.raises(Exception, match="No space"):
        compact(str(path))
    assert path.read_bytes() == data
    assert os.listdir(tmp_path) == ["data.zip"]


def test_what_info_zip_writes_is_compacted(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    for name in "ab":
        (tmp_path / "m" / name).write_bytes(name.encode() * 10_000)
    subprocess.run("zip -q - -r m | cat > data.zip", shell=True, cwd=tmp_path, check=True)
    path = tmp_path / "data.zip"
    expected = infos(path)
    zmap = LocalZipZMap(path)
    zmap.delete(Key("a"))
    zmap.close()
    compact(str(path))
    del expected["m/a"]
    assert infos(path) == expected
