"""A directory is replaced in one step, and what a killed writer leaves of that goes away."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nczfs.errors import StoreError
from nczfs.zmap.directory import DirectoryZMap
from nczfs.zmap.keys import Key, Prefix
from tests.support.directories import files_in, names_in

G = Prefix("parent/group")


def test_a_directory_keeps_its_mode(zmap: DirectoryZMap, root: Path) -> None:
    zmap.write(Key(f"{G}/old"), b"")
    (root / G).chmod(0o2750)
    with zmap.aside(G) as aside:
        zmap.write(Key(f"{aside.prefix}/new"), b"")
        aside.exchange()
    assert (root / G).stat().st_mode & 0o7777 == 0o2750


def test_what_is_missing_or_no_directory_is_not_replaced(zmap: DirectoryZMap, root: Path) -> None:
    zmap.write(Key("real/x"), b"1")
    (root / "link").symlink_to("real")
    zmap.write(Key("object"), b"")
    for name in ("missing", "link", "object"):
        with pytest.raises(StoreError), zmap.aside(Prefix(name)):
            pass
    assert sorted(os.listdir(root)) == ["link", "object", "real"]


def test_an_exchange_that_fails_changes_nothing(zmap: DirectoryZMap, root: Path) -> None:
    zmap.write(Key(f"{G}/old"), b"")
    with pytest.raises(StoreError), zmap.aside(G, "never made") as aside:
        aside.exchange()
    assert files_in(root) == ["parent", "parent/group", "parent/group/old"]


@pytest.mark.parametrize("is_exchanged", [False, True])
def test_a_killed_writer_leaves_one_of_the_two_and_a_listing_removes_the_other(
    zmap: DirectoryZMap, root: Path, *, is_exchanged: bool
) -> None:
    zmap.write(Key(f"{G}/old"), b"")
    pid = os.fork()
    if not pid:
        with zmap.aside(G, "deep") as aside:
            zmap.write(Key(f"{aside.prefix}/deep/new"), b"")
            if is_exchanged:
                aside.exchange()
            os._exit(0)
    os.waitpid(pid, 0)
    assert len(os.listdir(root / "parent")) == 2
    assert names_in(DirectoryZMap(root, read_only=True), "parent") == ["group"]
    assert len(os.listdir(root / "parent")) == 2
    assert names_in(zmap, "parent") == ["group"]
    assert os.listdir(root / "parent") == ["group"]
    assert os.listdir(root / G) == ["new" if is_exchanged else "old"]


def test_a_listing_leaves_alone_what_a_living_writer_has_aside(
    zmap: DirectoryZMap, root: Path
) -> None:
    zmap.write(Key(f"{G}/old"), b"")
    with zmap.aside(G) as aside:
        zmap.write(Key(f"{aside.prefix}/x"), b"1")
        assert names_in(DirectoryZMap(root), "parent") == ["group"]
        assert zmap.read(Key(f"{aside.prefix}/x")).data == b"1"
