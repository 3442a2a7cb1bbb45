"""Archives that are written to: who sees what and when, and what others read of it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import zarr
from zarr.storage import ZipStore

from nczfs.errors import (
    BadKey,
    Conflict,
    NoSuchObject,
    ObjectExists,
    ReadOnlyStore,
    StoreBusy,
)
from nczfs.testing.archives import zipped
from nczfs.zmap.base import ABSENT
from nczfs.zmap.keys import ROOT, Key
from nczfs.zmap.registry import StoreOptions, create_store, open_store
from nczfs.zmap.url import parse_url
from nczfs.zmap.zip import index, records
from nczfs.zmap.zip.creating import ArchiveForm, create_archive
from nczfs.zmap.zip.growing import Commit
from nczfs.zmap.zip.local import LocalZipOptions, LocalZipZMap

A, B = Key("v/0.0"), Key("v/0.1")
BOTH = pytest.mark.parametrize("commit", list(Commit))

WRITER = """
import sys
from nczfs.zmap.keys import Key
from nczfs.zmap.zip.local import LocalZipZMap
zmap = LocalZipZMap(sys.argv[1])
zmap.write(Key("v/0.0"), b"of the other")
zmap.flush()
print("written", flush=True)
sys.stdin.read()
zmap.close()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "data.zip"
    create_archive(str(path), "top")
    return path


@contextlib.contextmanager
def opened(
    path: Path, commit: Commit = Commit.APPEND, *, write_once: bool = False
) -> Iterator[LocalZipZMap]:
    zmap = LocalZipZMap(path, LocalZipOptions(commit, write_once))
    try:
        yield zmap
    finally:
        zmap.close()


@contextlib.contextmanager
def another_writer(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that has written and goes on to hold the archive."""
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "written\n"
        yield process


def read(zmap: LocalZipZMap, key: Key) -> bytes:
    return bytes(zmap.read(key).data)


def shown(path: Path) -> dict[str, bytes]:
    """What Python's zipfile finds, directories left out; a name may not come twice."""
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        assert len(set(names)) == len(names)
        assert archive.testzip() is None
        return {name: archive.read(name) for name in names if not name.endswith("/")}


# Visibility


@BOTH
def test_others_see_what_was_written_after_a_flush(path: Path, commit: Commit) -> None:
    with opened(path, commit) as zmap:
        zmap.write(A, b"one")
        assert read(zmap, A) == b"one"
        assert shown(path) == {}
        zmap.flush()
        assert shown(path) == {"data/v/0.0": b"one"}
        zmap.write(A, b"two")
        zmap.write(B, b"")
        zmap.delete(A)
        assert shown(path) == {"data/v/0.0": b"one"}
    assert shown(path) == {"data/v/0.1": b""}


@BOTH
def test_a_flush_does_not_change_the_versions_that_were_given(path: Path, commit: Commit) -> None:
    with opened(path, commit) as zmap:
        first = zmap.write(A, b"one")
        zmap.flush()
        assert zmap.stat(A).version == first
        second = zmap.write(A, b"two", replaces=first)
        zmap.flush()
        assert zmap.read(A, version=second).version == second
        with pytest.raises(Conflict):
            zmap.write(A, b"three", replaces=first)
    with opened(path) as zmap:
        assert zmap.stat(A).version == second


def test_a_flush_without_changes_leaves_the_archive_alone(path: Path) -> None:
    with opened(path) as zmap:
        zmap.write(A, b"one")
        zmap.flush()
        before = path.stat()
        zmap.flush()
        with pytest.raises(ObjectExists):
            zmap.write(A, b"two", replaces=ABSENT)
    after = path.stat()
    assert (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)


def test_nothing_is_left_beside_an_archive_that_was_closed(path: Path) -> None:
    for commit in Commit:
        with opened(path, commit) as zmap:
            zmap.write(A, b"one")
            zmap.flush()
            zmap.write(A, b"two")
    assert os.listdir(path.parent) == ["data.zip"]


def test_maps_of_one_process_see_each_other_at_once(path: Path) -> None:
    with opened(path) as one, opened(path) as other:
        version = one.write(A, b"one")
        assert read(other, A) == b"one"
        other.write(A, b"two", replaces=version)
        assert read(one, A) == b"two"
        with pytest.raises(Conflict):
            one.write(A, b"three", replaces=version)
    assert shown(path) == {"data/v/0.0": b"two"}


def test_members_are_found_again_after_very_many_changes(path: Path) -> None:
    expected = {}
    with opened(path) as zmap:
        for turn in range(3):
            for number in range(0, 3000, turn + 1):
                expected[f"v/{number}"] = b"%d of %d" % (number, turn)
                zmap.write(Key(f"v/{number}"), expected[f"v/{number}"])
            zmap.delete(Key(f"v/{turn}"))
            del expected[f"v/{turn}"]
            zmap.flush()
            found = {stat.key: read(zmap, stat.key) for stat in zmap.list(ROOT)}
            assert found == expected
    assert shown(path) == {f"data/{key}": data for key, data in expected.items()}


# One writer


def test_a_second_process_is_told_who_writes(path: Path) -> None:
    with another_writer(path) as process, opened(path) as zmap:
        assert read(zmap, A) == b"of the other"
        for begin in (zmap.prepare_writing, lambda: zmap.write(A, b"mine")):
            with pytest.raises(StoreBusy, match=rf"process {process.pid} \(.*is writing to it"):
                begin()
        process.communicate("")
        zmap.write(A, b"mine")
    assert shown(path) == {"data/v/0.0": b"mine"}


def test_what_others_appended_is_there_once_we_write(path: Path) -> None:
    with opened(path) as zmap:
        zmap.write(B, b"before")
        zmap.flush()
    with opened(path) as zmap:
        with another_writer(path) as process:
            process.communicate("")
        assert list(zmap.search(ROOT)) != []
        with pytest.raises(NoSuchObject):  # as it was when it was opened
            zmap.stat(A)
        assert read(zmap, B) == b"before"
        with opened(path) as later:
            assert read(later, A) == b"of the other"
        zmap.write(Key("new"), b"mine")
        assert read(zmap, A) == b"of the other"
    assert shown(path) == {
        "data/v/0.0": b"of the other",
        "data/v/0.1": b"before",
        "data/new": b"mine",
    }


def test_the_lock_is_given_back_when_the_last_map_that_wrote_is_closed(path: Path) -> None:
    with opened(path) as reader:
        with opened(path) as zmap:
            zmap.write(A, b"one")
        with another_writer(path):
            assert read(reader, A) == b"one"


@BOTH
def test_a_fork_does_not_write_for_its_parent(path: Path, commit: Commit) -> None:
    program = f"""
import os, sys
from nczfs.errors import StoreBusy
from nczfs.zmap.keys import Key
from nczfs.zmap.zip.growing import Commit
from nczfs.zmap.zip.local import LocalZipOptions, LocalZipZMap
zmap = LocalZipZMap({str(path)!r}, LocalZipOptions({commit}))
zmap.write(Key("a"), b"of the parent")
child = os.fork()
if not child:
    for act in (zmap.flush, lambda: zmap.write(Key("b"), b""), zmap.close):
        try:
            act()
        except StoreBusy as error:
            assert f"process {{os.getppid()}}" in str(error)
        else:
            os._exit(1)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
zmap.close()
"""
    subprocess.run([sys.executable, "-c", program], check=True)
    assert shown(path) == {"data/a": b"of the parent"}


# Changed by others


def test_an_archive_that_others_replace_is_a_conflict(path: Path) -> None:
    with opened(path) as zmap:
        zmap.write(A, b"one")
        zmap.flush()
        new = path.with_name("new")
        new.write_bytes(zipped(("data/v/0.0", b"two")))
        new.rename(path)
        with pytest.raises(Conflict, match="replaced"):
            zmap.read(A)
        zmap.write(A, b"three")
        with pytest.raises(Conflict, match="ignores locks"):
            zmap.flush()
        with contextlib.suppress(Conflict):
            zmap.close()
    assert shown(path) == {"data/v/0.0": b"two"}
    with opened(path) as zmap:
        assert read(zmap, A) == b"two"


def test_an_archive_that_others_write_into_is_a_conflict(path: Path) -> None:
    with opened(path) as zmap:
        zmap.write(A, b"one")
    with opened(path) as zmap:
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr("data/v/0.1", b"foreign")
        with pytest.raises(Conflict, match="changed since"):
            zmap.read(A)
        with pytest.raises(Conflict, match="changed since"):
            zmap.write(A, b"two")
    with opened(path) as zmap:
        assert read(zmap, B) == b"foreign"


# What is made


@pytest.mark.parametrize(("form", "top"), [("top", "data"), ("root", "")])
def test_a_new_archive_has_the_form_that_was_asked_for(
    tmp_path: Path, form: ArchiveForm, top: str
) -> None:
    place = parse_url(str(tmp_path / "data.zip"))
    zmap = create_store(place, StoreOptions(zip_form=form))
    zmap.write(Key("one/0"), b"x")
    zmap.close()
    with zipfile.ZipFile(tmp_path / "data.zip") as archive:
        assert archive.namelist() == ([f"{top}/"] if top else []) + [
            f"{top}/one/0" if top else "one/0"
        ]
        assert all(info.compress_type == 0 for info in archive.infolist())
    # The form stays, also where everything happens to be in one directory.
    zmap = create_store(place, StoreOptions(zip_form="root" if top else "top"))
    assert [stat.key for stat in zmap.list(ROOT)] == ["one/0"]
    zmap.close()


def test_the_entries_are_those_of_netcdf_c(path: Path) -> None:
    with opened(path) as zmap:
        zmap.write(Key("温度"), b"x")
    with zipfile.ZipFile(path) as archive:
        top, member = archive.infolist()
    assert (top.filename, top.external_attr >> 16, top.create_system) == ("data/", 0o40777, 3)
    assert (member.filename, member.external_attr >> 16) == ("data/温度", 0o100666)
    assert member.flag_bits == 0x800
    assert member.compress_type == zipfile.ZIP_STORED


def test_making_an_archive_does_not_touch_one_that_is_there(path: Path) -> None:
    with opened(path) as zmap:
        zmap.write(A, b"one")
    create_archive(str(path), "root")
    assert shown(path) == {"data/v/0.0": b"one"}


def test_what_stands_before_the_archive_and_its_comment_stay(tmp_path: Path) -> None:
    path = tmp_path / "data.zip"
    path.write_bytes(b"#!/bin/sh\nexit\n" + zipped(("m/", b""), ("m/a", b"1"), ("m/b", b"2")))
    with zipfile.ZipFile(path, "a") as archive:
        archive.comment = b"mine"
    for turn in range(3):
        with opened(path) as zmap:
            zmap.write(Key("a"), b"new %d" % turn)
    assert path.read_bytes().startswith(b"#!/bin/sh\nexit\n")
    assert shown(path) == {"m/a": b"new 2", "m/b": b"2"}
    with zipfile.ZipFile(path) as archive:
        assert archive.comment == b"mine"


def test_what_is_no_key_and_what_is_beside_the_top_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "data.zip"
    members = [("m/", b""), ("m/.zgroup", b"{}"), (".zgroup", b"[]")]
    path.write_bytes(zipped(*members, ("m/empty/", b"")))
    with opened(path) as zmap:
        assert zmap.top == "m"
        zmap.write(Key(".zgroup"), b"{ }")
    assert shown(path) == {".zgroup": b"[]", "m/.zgroup": b"{ }"}
    with zipfile.ZipFile(path) as archive:
        assert "m/empty/" in archive.namelist()


def test_of_duplicates_of_others_one_is_left(tmp_path: Path) -> None:
    path = tmp_path / "data.zip"
    path.write_bytes(zipped(("m/", b""), ("m/a", b"old"), ("m/b", b"2"), ("m/a", b"last")))
    with opened(path) as zmap:
        assert read(zmap, Key("a")) == b"last"
        zmap.write(Key("b"), b"3")
    assert shown(path) == {"m/a": b"last", "m/b": b"3"}


def test_members_behind_four_gigabytes_have_zip64_offsets(tmp_path: Path) -> None:
    path = tmp_path / "data.zip"
    shift = (4 << 30) - 50
    head = records.NewMember(b"m/a", 1, 0x83DCEFB7, (0, 33))
    start = shift + len(head.local_header()) + 1
    with open(path, "wb") as file:
        file.seek(shift)
        file.write(head.local_header() + b"1" + head.central_entry(shift))
        size = len(head.central_entry(shift))
        file.write(records.end_records(1, size, start, shift=0, comment=b""))
    with opened(path) as zmap:
        assert read(zmap, Key("a")) == b"1"
        zmap.write(Key("b"), b"22")
        assert read(zmap, Key("b")) == b"22"
    assert shown(path) == {"m/a": b"1", "m/b": b"22"}
    with opened(path) as zmap:
        assert read(zmap, Key("b")) == b"22"
    with zipfile.ZipFile(path) as archive:
        assert [info.header_offset > 1 << 32 for info in archive.infolist()] == [False, True]


def test_a_member_of_four_gigabytes_has_zip64_sizes() -> None:
    for size in (0xFFFFFFFE, 0xFFFFFFFF, 1 << 40):
        new = records.NewMember(b"a", size, 0, (0, 33))
        local = records.LOCAL.unpack_from(new.local_header())
        _, extra, _ = index.entry_parts(new.central_entry(7), 0)
        assert (local[7] == 0xFFFFFFFF) is (size >= 0xFFFFFFFF)
        assert records.widened(extra, [local[7], local[8], 7]) == [size, size, 7]
        assert records.widened(new.local_header()[31:], [local[7], local[8]]) == [size, size]


def test_more_members_than_a_field_counts_have_zip64_end_records(path: Path) -> None:
    count = 66_000
    with opened(path) as zmap:
        for number in range(count):
            zmap.write(Key(f"v/{number}"), b"")
    with zipfile.ZipFile(path) as archive:
        assert len(archive.namelist()) == count + 1
    with opened(path) as zmap:
        assert sum(1 for _ in zmap.list(ROOT)) == count
        assert zmap.stat(Key("v/65999")).size == 0


# Refused


def test_a_name_with_a_backslash_is_refused(path: Path) -> None:
    with opened(path) as zmap, pytest.raises(BadKey, match="backslash"):
        zmap.write(Key("a\\b"), b"")


def test_write_once_replaces_and_deletes_nothing_that_was_flushed(path: Path) -> None:
    with opened(path, write_once=True) as zmap:
        assert zmap.features.write_once
        zmap.write(A, b"one")
        zmap.write(A, b"two")  # nobody else has seen the first
        zmap.flush()
        with pytest.raises(ReadOnlyStore, match="written once"):
            zmap.write(A, b"three")
        with pytest.raises(ObjectExists):
            zmap.write(A, b"three", replaces=ABSENT)
        with pytest.raises(ReadOnlyStore, match="written once"):
            zmap.delete(A)
        zmap.write(B, b"other")
    assert shown(path) == {"data/v/0.0": b"two", "data/v/0.1": b"other"}


@pytest.mark.parametrize("write_once", [False, True])
def test_what_is_deleted_before_a_flush_leaves_no_trace(path: Path, write_once: bool) -> None:
    with opened(path, write_once=write_once) as zmap:
        zmap.write(B, b"other")
        zmap.flush()
        before = path.read_bytes()
        zmap.write(A, b"one")
        zmap.delete(A)
        zmap.flush()
        assert path.read_bytes() == before
        zmap.write(A, b"two")
    assert shown(path) == {"data/v/0.0": b"two", "data/v/0.1": b"other"}


def test_a_member_that_was_flushed_written_again_and_deleted_is_gone(path: Path) -> None:
    with opened(path) as zmap:
        zmap.write(A, b"one")
        zmap.write(B, b"other")
        zmap.flush()
        zmap.write(A, b"two")
        zmap.delete(A)
        zmap.flush()
        assert shown(path) == {"data/v/0.1": b"other"}
        zmap.delete(B)
    assert shown(path) == {}


def test_read_only_is_read_only(path: Path) -> None:
    zmap = open_store(str(path), StoreOptions(read_only=True))
    assert not zmap.features.writable
    with pytest.raises(ReadOnlyStore):
        zmap.write(A, b"")
    zmap.flush()
    zmap.close()
    assert os.listdir(path.parent) == ["data.zip"]


def test_an_absent_archive_is_no_such_object(tmp_path: Path) -> None:
    with pytest.raises(NoSuchObject, match=r"absent\.zip"):
        open_store(str(tmp_path / "absent.zip"))


# Other programs


def test_zarr_python_reads_what_we_write_at_the_root(tmp_path: Path) -> None:
    path = tmp_path / "data.zip"
    create_archive(str(path), "root")
    source = tmp_path / "source.zip"
    with ZipStore(source, mode="w") as store:
        array = zarr.create_array(store, shape=(20,), chunks=(5,), dtype="f4", zarr_format=2)
        array[:] = range(20)
    with zipfile.ZipFile(source) as archive:
        objects = {name: archive.read(name) for name in archive.namelist()}
    with opened(path) as zmap:
        for key in objects:
            zmap.write(Key(key), b"replaced below")
        zmap.flush()
        for key, data in objects.items():
            zmap.write(Key(key), data)
    with ZipStore(path, mode="r") as store:
        assert zarr.open_array(store)[:].tolist() == list(range(20))  # type: ignore[union-attr]


def test_info_zip_adds_to_what_we_write(path: Path) -> None:
    with opened(path) as zmap:
        zmap.write(A, b"one")
        zmap.flush()
        zmap.write(A, b"two")
    (path.parent / "data").mkdir()
    (path.parent / "data/extra").write_bytes(b"by zip")
    subprocess.run(["zip", "-q", "data.zip", "data/extra"], cwd=path.parent, check=True)
    with opened(path) as zmap:
        assert read(zmap, A) == b"two"
        assert read(zmap, Key("extra")) == b"by zip"
        zmap.write(B, b"three")
    assert shown(path) == {"data/v/0.0": b"two", "data/extra": b"by zip", "data/v/0.1": b"three"}
