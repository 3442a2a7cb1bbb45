"""``nczfs recover``: what it says, what it leaves, and how it exits."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nczfs.cli import main
from nczfs.engine.dataset import Dataset, Engine, open_dataset
from nczfs.engine.metadata.documents import MetadataCache
from nczfs.engine.options import format_options
from nczfs.engine.spool.contents import read_entry
from nczfs.engine.spool.entries import read_records
from nczfs.engine.spool.space import Spool, spool_url
from nczfs.library.opening import open_url
from nczfs.model.boxes import Box
from nczfs.model.hierarchy import Variable
from nczfs.vfs.staging import stage
from nczfs.zmap.base import Version
from nczfs.zmap.keys import ROOT
from nczfs.zmap.registry import open_store
from nczfs.zmap.url import parse_url
from tests.support.killed import left_by
from tests.support.power import Disk


class Place:
    """A dataset with a variable ``v``, and mounts of it that end before they store anything."""

    def __init__(self, directory: Path, name: str = "data") -> None:
        self.url = str(directory / name)
        self.spool = directory / "spool"
        with open_url(self.url, "w") as dataset:
            dataset.create_variable("v", (10,), "i4", chunks=(4,), fillvalue=-1)

    def begin(self, **found: int) -> tuple[Engine, Spool]:
        place = parse_url(self.url)
        spool = Spool(self.spool, spool_url(place))
        engine = Engine(None, spool)
        zmap = open_store(place)
        zmap.prepare_writing()
        options = format_options(place.modes, engine.options)
        metadata = MetadataCache(zmap, engine.options, engine.pools)
        dataset = open_dataset(engine, metadata, ROOT, options, writable=True)
        assert isinstance(dataset, Dataset)
        node = dataset.node("v")
        assert isinstance(node, Variable)
        for position, value in found.items():
            at = int(position.removeprefix("at"))
            dataset.array(node).write_box(Box((at,), (at + 1,)), np.array([value], np.int32))
        engine.writeback.close()
        return engine, spool

    def die(self, **found: int) -> None:
        engine, spool = self.begin(**found)
        engine.close()
        spool.close()

    @property
    def values(self) -> list[int]:
        with open_url(self.url) as dataset:
            return [int(value) for value in dataset.variables["v"][...]]

    def recover(self, *words: str) -> int:
        return main.main(["recover", "--spool-dir", str(self.spool), *words])


@pytest.fixture
def place(tmp_path: Path, expected_warnings: Any) -> Place:
    expected_warnings.add("not stored, but kept in")
    return Place(tmp_path)


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()


def test_where_nothing_is_unsaved_it_says_so(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in ([], ["--list"]):
        assert place.recover(*words) == 0
        assert lines(capsys) == [f"{place.spool}: nothing is unsaved"]
    assert place.recover("--json") == 0
    assert lines(capsys) == []


def test_it_lists_what_there_is_since_when_and_why_and_changes_nothing(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    place.die(at1=11)
    assert place.recover("--list") == 0
    (line,) = lines(capsys)
    assert f": {place.url} v[1:2]: unsaved (20" in line
    assert line.endswith("the mount ended before it was stored)")
    assert place.values[1] == -1
    assert len(list(place.spool.glob("*/*.unsaved"))) == 1


def test_what_it_has_put_back_survives_a_power_failure(place: Place, tmp_path: Path) -> None:
    """SEMANTICS W53."""
    place.die(at1=11, at5=15)
    disk = Disk(Path(place.url))
    with disk.watched():
        assert place.recover() == 0
    assert list(place.spool.iterdir()) == []
    with open_url(str(disk.after_failure(tmp_path / "after"))) as dataset:
        assert dataset.variables["v"][:6].tolist() == [-1, 11, -1, -1, -1, 15]


def test_it_puts_everything_back(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    place.die(at1=11)
    place.die(at5=15)
    assert place.recover() == 0
    assert [line.rpartition(": ")[2] for line in lines(capsys)] == ["stored", "stored"]
    assert place.values == [-1, 11, -1, -1, -1, 15, -1, -1, -1, -1]
    assert os.listdir(place.spool) == []


def test_an_entry_goes_when_the_disk_has_what_was_put_back(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.die(at1=11)
    (entry,) = place.spool.glob("*/*.unsaved")
    calls: list[tuple[str, str]] = []
    fsync, unlink = os.fsync, os.unlink

    def synced(descriptor: int) -> None:
        calls.append(("sync", os.readlink(f"/proc/self/fd/{descriptor}")))
        fsync(descriptor)

    def unlinked(path: Any, **options: Any) -> None:
        if "dir_fd" not in options:
            calls.append(("unlink", str(path)))
        unlink(path, **options)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "unlink", unlinked)
    assert place.recover() == 0
    named = calls.index(("sync", f"{place.url}/v"))
    gone = calls.index(("unlink", str(entry)))
    assert any(path.startswith(f"{place.url}/v/") for call, path in calls[:named])
    assert named < gone < calls.index(("sync", str(entry.parent)))


def test_entries_are_put_back_in_the_order_in_which_they_were_written(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for value in (1, 2, 3, 4):
        place.die(at1=value)
    names = [f"{number}" for number in (3, 1, 4, 2)]  # so that no order of names is that of time
    for name, path in zip(names, sorted(place.spool.iterdir(), key=_first_time), strict=True):
        path.rename(place.spool / name)
    assert place.recover() == 0
    assert place.values[1] == 4


def _first_time(directory: Path) -> float:
    (entry,) = directory.glob("*.unsaved")
    return read_entry(entry).saved_at


def test_only_what_is_named_is_put_back(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    place.die(at1=11, at5=15)
    assert place.recover("--list", "--json") == 0
    names = {json.loads(line)["what"]: json.loads(line)["name"] for line in lines(capsys)}
    assert place.recover(names[f"{place.url} v[5:6]"]) == 0
    assert place.values[1:6] == [-1, -1, -1, -1, 15]
    assert len(list(place.spool.glob("*/*.unsaved"))) == 1


def test_what_is_of_the_same_object_is_put_back_with_what_is_named(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    """SEMANTICS W59."""
    place.die(at1=11, at5=15)
    place.die(at1=21, at2=22)
    assert place.recover("--list", "--json") == 0
    names = {json.loads(line)["what"]: json.loads(line)["name"] for line in lines(capsys)}
    assert place.recover("--export", str(place.spool.parent), names[f"{place.url} v[1:3]"]) == 0
    assert len(lines(capsys)) == 1
    assert place.recover(names[f"{place.url} v[1:3]"]) == 0
    assert len(lines(capsys)) == 2
    assert place.values[1:6] == [21, 22, -1, -1, -1]
    assert place.recover() == 0
    assert place.values[1:6] == [21, 22, -1, -1, 15]


def test_a_name_that_is_not_there_is_an_error(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    place.die(at1=11)
    assert place.recover("nothing/1-v") == 2
    assert "nothing/1-v: not in the spool; --list shows the entries" in capsys.readouterr().err


def test_what_remains_makes_the_exit_status_1_and_the_others_are_put_back(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    place.die(at1=11, at5=15)
    torn = sorted(place.spool.glob("*/*.unsaved"))[0]
    torn.write_bytes(torn.read_bytes()[:-3])
    for _ in range(2):
        assert place.recover() == 1
        assert "incomplete" in lines(capsys)[0]
    assert place.values[5] == 15
    assert list(place.spool.glob("*/*.unsaved")) == [torn]


def test_a_store_that_is_gone_leaves_everything(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    place.die(at1=11)
    os.rename(place.url, f"{place.url}-moved")
    assert place.recover() == 1
    assert place.url in lines(capsys)[0]
    os.rename(f"{place.url}-moved", place.url)
    assert place.recover() == 0
    assert place.values[1] == 11


def test_as_json_each_entry_is_an_object(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    place.die(at1=11)
    assert place.recover("--json") == 0
    (line,) = lines(capsys)
    document = json.loads(line)
    assert document.pop("saved_at") > 1e9
    assert "/1-v%2F0" in document.pop("name")
    assert document == {
        "what": f"{place.url} v[1:2]",
        "state": "stored",
        "reason": "the mount ended before it was stored",
    }


def test_it_exports_and_keeps(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place.die(at1=11)
    assert place.recover("--export", str(tmp_path / "new/out")) == 0
    assert (tmp_path / "new/out").stat().st_mode & 0o777 == 0o700
    (line,) = lines(capsys)
    exported = np.load(line.rpartition("written to ")[2])
    assert exported["value"][exported["written"]].tolist() == [11]
    assert len(list(place.spool.glob("*/*.unsaved"))) == 1
    assert place.values[1] == -1


def test_it_discards_only_what_is_named(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    place.die(at1=11, at5=15)
    assert place.recover("--discard") == 2
    assert "--discard: name the entries to delete" in capsys.readouterr().err
    assert place.recover("--list", "--json") == 0
    name = json.loads(lines(capsys)[0])["name"]
    assert place.recover("--discard", name) == 0
    assert len(list(place.spool.glob("*/*.unsaved"))) == 1
    assert place.values[1] == -1


def test_what_a_living_mount_has_is_left_to_it(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    engine, spool = place.begin(at1=11)
    assert place.recover("--list") == 0
    assert "in use by its mount" in lines(capsys)[0]
    assert place.recover() == 0
    assert "left to its mount" in lines(capsys)[0]
    (found,) = place.spool.glob("*/*.unsaved")
    name = f"{found.parent.name}/{found.name.removesuffix('.unsaved')}"
    assert place.recover("--discard", name) == 1
    assert "its mount is running" in lines(capsys)[0]
    assert found.exists()
    engine.close()
    spool.close()


def test_an_object_that_others_have_replaced_needs_force(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    store = open_store(place.url)
    spool = Spool(place.spool, place.url)
    staged = stage(spool, "notes")
    staged.write(0, b"ours")
    staged.keep("notes", Version("x"), "no way")
    spool.close()
    Path(place.url, "notes").write_bytes(b"theirs")
    assert place.recover() == 1
    assert "--force overwrites it" in lines(capsys)[0]
    assert place.recover("--force") == 0
    assert Path(place.url, "notes").read_bytes() == b"ours"
    store.close()


def test_what_the_url_of_an_entry_lacks_can_be_given(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.die(at1=11)
    opened = []

    def open_it(url: Any, options: Any) -> Any:
        opened.append(sorted(url.modes))
        return open_store(url, options)

    monkeypatch.setattr("nczfs.zmap.registry.open_store", open_it)
    assert place.recover("--url", "/elsewhere#mode=zarr") == 0
    place.die(at2=12)
    assert place.recover("--url", f"{place.url}#mode=zarr") == 0
    assert opened == [[], ["nczarr", "zarr"]]
    assert place.values[1:3] == [11, 12]


def test_it_works_for_an_archive_that_only_the_url_tells(
    tmp_path: Path, expected_warnings: Any
) -> None:
    expected_warnings.add("not stored, but kept in")
    place = Place(tmp_path, "data.nc#mode=zarr,zip")
    place.die(at1=11)
    assert place.recover() == 0
    assert place.values[1] == 11


def test_a_listing_says_what_is_damaged(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    place.die(at1=11)
    (entry,) = place.spool.glob("*/*.unsaved")
    content = bytearray(entry.read_bytes())
    flags, _ = read_records(entry)
    content[flags.data.offset] ^= 1
    entry.write_bytes(content)
    assert place.recover("--list") == 1
    assert "the checksum of its flags is wrong: damaged (20" in lines(capsys)[0]


def test_names_cannot_break_the_line_or_reach_the_terminal(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    spool = Spool(place.spool, place.url)
    staged = stage(spool, "a")
    staged.write(0, b"ours")
    staged.keep("a\n\x1b[2J", Version("x"), "no\nway")
    spool.close()
    assert place.recover("--list") == 0
    (line,) = lines(capsys)
    assert r"a\n\x1b[2J: 4 bytes: unsaved" in line
    assert line.endswith(r"no\nway)")


def test_what_nobody_was_promised_is_incomplete_and_can_be_exported_and_discarded(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spool = Spool(place.spool, place.url)
    spool.new_path("sub/ä").write_bytes(b"half of")
    left = left_by(place.spool, tmp_path / "left")
    spool_dir = ["--spool-dir", str(left)]
    for words in ([], ["--list"]):
        assert main.main(["recover", *spool_dir, *words]) == 0
        (line,) = lines(capsys)
        assert f": {place.url} sub/ä: 7 bytes; the mount was killed before" in line
        assert line.endswith("; the store has what fsync had acknowledged: incomplete")
    assert main.main(["recover", *spool_dir, "--export", str(tmp_path / "out")]) == 0
    assert Path(lines(capsys)[0].rpartition("written to ")[2]).read_bytes() == b"half of"
    name = line.partition(": ")[0]
    assert main.main(["recover", *spool_dir, "--discard", name]) == 0
    assert os.listdir(left) == []


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("given", ["directory", "entry"])
def test_what_another_user_left_is_shown_and_needs_force(
    given: str, place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place.die(at1=11)
    (path,) = place.spool.glob("*/*.unsaved")
    os.chown(path if given == "entry" else path.parent, 1234, 1234)
    name = f"{path.parent.name}/{path.stem}"
    assert place.recover("--list") == 0
    (line,) = lines(capsys)
    assert "v[1:2]: of another user (20" in line
    assert place.recover("--export", str(tmp_path / "out")) == 0
    assert len(os.listdir(tmp_path / "out")) == 1
    capsys.readouterr()
    for words in ([], ["--discard", name]):
        assert place.recover(*words) == 1
        (line,) = lines(capsys)
        assert f"{path}: belongs to another user" in line
    assert path.exists()
    assert place.values[1] == -1
    assert place.recover("--force") == 0
    assert place.values[1] == 11
    assert not path.exists()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
def test_the_logs_of_another_users_mount_become_entries_only_by_force(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    """Else its values would be taken for our own."""
    directory = place.spool / "theirs"
    directory.mkdir(parents=True)
    (directory / "lock").touch()
    os.chown(directory, 1234, 1234)
    assert place.recover() == 0
    assert directory.exists()
    assert place.recover("--force") == 0
    assert not directory.exists()


def test_links_and_pipes_in_a_spool_are_neither_shown_nor_removed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "precious").write_text("precious")
    mount = tmp_path / "spool/mount"
    mount.mkdir(parents=True)
    (tmp_path / "spool/linked").symlink_to(elsewhere)
    (mount / "linked").symlink_to(elsewhere / "precious")
    os.mkfifo(mount / "pipe")
    before = sorted(elsewhere.iterdir())
    for words in ([], ["--list"]):
        assert main.main(["recover", "--spool-dir", str(tmp_path / "spool"), *words]) in (0, 1, 2)
        assert "nothing is unsaved" in capsys.readouterr().out
    assert sorted(elsewhere.iterdir()) == before
    assert (elsewhere / "precious").read_text() == "precious"


@pytest.mark.parametrize("kind", ["link", "pipe", "directory", "large", "log"])
def test_a_lock_or_log_that_no_mount_has_made_neither_hangs_nor_is_followed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    mount = tmp_path / "spool/mount"
    mount.mkdir(parents=True)
    precious = tmp_path / "precious"
    precious.write_text('{"format": 1, "url": "s3://secret"}')
    lock = mount / "lock"
    match kind:
        case "link":
            lock.symlink_to(precious)
        case "pipe":
            os.mkfifo(lock)
        case "directory":
            lock.mkdir()
        case "log":
            os.mkfifo(mount / "log.1")
            (mount / "log.2").symlink_to(precious)
        case _:
            with lock.open("wb") as file:
                file.truncate(1 << 40)
    (mount / "1-key.unsaved").write_bytes(b"torn")
    assert main.main(["recover", "--spool-dir", str(tmp_path / "spool"), "--list"]) in (0, 1, 2)
    assert "secret" not in "".join(capsys.readouterr())
    assert precious.exists()
