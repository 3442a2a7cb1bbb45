"""Archives against a dictionary, with flushes, crashes, other openers and compaction between."""

from __future__ import annotations

import shutil
import tempfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from nczfs.errors import Conflict, NoSuchObject
from nczfs.zmap.base import ABSENT, Version
from nczfs.zmap.keys import ROOT, Key, Prefix
from nczfs.zmap.zip import local
from nczfs.zmap.zip.compact import compact
from nczfs.zmap.zip.creating import ArchiveForm, create_archive
from nczfs.zmap.zip.growing import Commit
from nczfs.zmap.zip.local import LocalZipOptions, LocalZipZMap

NAMES = ["a", "a.b", "a0", "ä", ".zgroup", "b"]
keys = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map("/".join)
forms: st.SearchStrategy[ArchiveForm] = st.sampled_from(["top", "root"])


class Archive(RuleBasedStateMachine):
    """`there` is what our map shows, `flushed` what everybody else finds."""

    @initialize(form=forms, commit=st.sampled_from(Commit))
    def make(self, form: ArchiveForm, commit: Commit) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="nczfs-test-"))
        self.path = self.home / "0" / "data.zip"
        self.path.parent.mkdir()
        self.form = form
        self.options = LocalZipOptions(commit)
        create_archive(str(self.path), form)
        self.zmap = LocalZipZMap(self.path, self.options)
        self.there: dict[str, bytes] = {}
        self.flushed: dict[str, bytes] = {}
        self.versions: dict[str, Version] = {}

    @rule(key=keys, size=st.integers(0, 3000), fill=st.integers(0, 255))
    def write(self, key: str, size: int, fill: int) -> None:
        self.there[key] = bytes([fill]) * size
        self.versions[key] = self.zmap.write(Key(key), self.there[key])

    @rule(key=keys)
    def write_conditionally(self, key: str) -> None:
        expected = self.versions.get(key, ABSENT)
        version = self.zmap.write(Key(key), b"next", replaces=expected)
        with pytest.raises(Conflict):
            self.zmap.write(Key(key), b"late", replaces=Version("0-0-0"))
        self.there[key] = b"next"
        self.versions[key] = version

    @rule(key=keys)
    def delete(self, key: str) -> None:
        if key in self.there:
            self.zmap.delete(Key(key))
            del self.there[key], self.versions[key]
        else:
            with pytest.raises(NoSuchObject):
                self.zmap.delete(Key(key))

    @rule()
    def flush(self) -> None:
        self.zmap.flush()
        self.flushed = dict(self.there)

    @rule()
    def open_again(self) -> None:
        self.zmap.close()
        self.flushed = dict(self.there)
        self.zmap = LocalZipZMap(self.path, self.options)

    @rule()
    def compact(self) -> None:
        self.zmap.close()
        self.flushed = dict(self.there)
        before = self.path.stat().st_size
        expected = compact(str(self.path), dry_run=True)
        assert compact(str(self.path)) == expected
        assert self.path.stat().st_size == expected.size_after <= before
        self.zmap = LocalZipZMap(self.path, self.options)
        self.versions = {stat.key: stat.version for stat in self.zmap.list(ROOT)}

    @rule()
    def crash(self) -> None:
        old = self.path.parent
        self.path = self.home / str(int(old.name) + 1) / "data.zip"
        shutil.copytree(old, self.path.parent)
        self.zmap.close()
        shutil.rmtree(old)
        self.zmap = LocalZipZMap(self.path, self.options)
        self.there = dict(self.flushed)
        self.versions = {stat.key: stat.version for stat in self.zmap.list(ROOT)}

    @invariant()
    def our_map_shows_what_is_there(self) -> None:
        if not hasattr(self, "zmap"):
            return
        found = {stat.key: stat for stat in self.zmap.list(ROOT)}
        assert {key: bytes(self.zmap.read(key).data) for key in found} == self.there
        assert {key: stat.version for key, stat in found.items()} == self.versions
        for prefix in {"", *(key.rpartition("/")[0] for key in self.there)}:
            before = f"{prefix}/" if prefix else ""
            below = [key[len(before) :] for key in self.there if key.startswith(before)]
            entries = {
                entry.name: (entry.stat is not None, entry.is_prefix)
                for entry in self.zmap.search(Prefix(prefix))
            }
            assert entries == {
                name: (name in below, any(key.startswith(f"{name}/") for key in below))
                for name in {key.partition("/")[0] for key in below}
            }

    @invariant()
    def others_find_what_was_flushed(self) -> None:
        if not hasattr(self, "zmap"):
            return
        skip = len("data/") if self.form == "top" else 0
        with zipfile.ZipFile(self.path) as archive:
            names = [name for name in archive.namelist() if not name.endswith("/")]
            assert {name[skip:]: archive.read(name) for name in names} == self.flushed

    def teardown(self) -> None:
        if hasattr(self, "zmap"):
            self.zmap.close()
            shutil.rmtree(self.home)


@pytest.mark.parametrize("fold_least", [0, 1024])
def test_an_archive_is_a_dictionary(fold_least: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "_FOLD_LEAST", fold_least)
    steps = settings(max_examples=40, stateful_step_count=25, deadline=None)
    run_state_machine_as_test(Archive, settings=steps)
