"""File systems that take names for one that differ in case."""

from __future__ import annotations

from pathlib import Path

import pytest

from nczfs.errors import (
    ObjectExists,
)
from nczfs.zmap.directory import DirectoryZMap
from nczfs.zmap.keys import Key
from tests.support.directories import files_in, keys_in
from tests.support.folding import fold_names


def test_an_empty_directory_tells_by_a_trial_whether_case_counts(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert DirectoryZMap(root).prepare_writing().case_sensitive
    fold_names(monkeypatch)
    zmap = DirectoryZMap(root)
    assert not zmap.prepare_writing().case_sensitive
    assert files_in(root) == []
    read_only = DirectoryZMap(root, read_only=True)
    assert read_only.prepare_writing() == read_only.features


def test_names_that_are_there_tell_whether_case_counts(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "0").mkdir()
    (root / "Name").write_bytes(b"")
    assert DirectoryZMap(root).features.case_sensitive
    fold_names(monkeypatch)
    assert not DirectoryZMap(root).features.case_sensitive


@pytest.mark.parametrize("key", ["Group/x", "group/X/0", "GROUP"])
def test_where_case_does_not_count_nothing_is_written_over_another_key(
    root: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    fold_names(monkeypatch)
    zmap = DirectoryZMap(root)
    zmap.write(Key("group/x"), b"old")
    zmap = DirectoryZMap(root)
    with pytest.raises(ObjectExists, match="does not distinguish"):
        zmap.write(Key(key), b"new")
    assert (root / "group/x").read_bytes() == b"old"
    zmap.write(Key("group/x"), b"newer")
    zmap.write(Key("group/y"), b"beside")
    assert keys_in(zmap) == ["group/x", "group/y"]
