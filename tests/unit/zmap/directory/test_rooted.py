"""Symbolic links in a directory store: they work inside the root and never lead out of it."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from nczfs.errors import AccessDenied, NoSuchObject, StoreError
from nczfs.zmap.base import ABSENT
from nczfs.zmap.directory import DirectoryZMap
from nczfs.zmap.keys import Key, Prefix, join
from tests.support.descriptors import open_paths
from tests.support.directories import files_in, keys_in, names_in


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A directory beside the root, with a file that must not be reached."""
    path = tmp_path / "root-beside"
    path.mkdir()
    (path / "secret").write_bytes(b"secret")
    return path


def test_a_link_out_of_the_root_is_hidden_and_denied(
    zmap: DirectoryZMap, root: Path, outside: Path
) -> None:
    (root / "absolute").symlink_to(outside / "secret")
    (root / "relative").symlink_to("../root-beside/secret")
    assert names_in(zmap) == []
    assert keys_in(zmap) == []
    for name in ("absolute", "relative"):
        for ask in (
            lambda key: zmap.read(key),
            lambda key: zmap.stat(key),
            lambda key: zmap.write(key, b"overwritten"),
            lambda key: zmap.delete(key),
        ):
            with pytest.raises(AccessDenied, match=f"{name}: a symbolic link leads out"):
                ask(Key(name))
        assert (root / name).is_symlink()
    assert (outside / "secret").read_bytes() == b"secret"


def test_a_link_that_leads_nowhere_is_hidden_and_denied(zmap: DirectoryZMap, root: Path) -> None:
    """SEMANTICS L5: it stands for something that is elsewhere, not for a missing object."""
    (root / "link").symlink_to(".git/annex/objects/content")
    assert names_in(zmap) == []
    assert keys_in(zmap) == []
    for ask in (
        lambda key: zmap.read(key),
        lambda key: zmap.stat(key),
        lambda key: zmap.write(key, b"new"),
        lambda key: zmap.write(key, b"new", replaces=ABSENT),
        lambda key: zmap.delete(key),
    ):
        with pytest.raises(AccessDenied, match="link: a symbolic link leads nowhere"):
            ask(Key("link"))
    assert (root / "link").is_symlink()


def test_a_link_that_is_removed_meanwhile_is_a_missing_object(
    zmap: DirectoryZMap, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "link").symlink_to("nowhere")
    opened = os.open

    def remove(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if path == "link" and flags & os.O_PATH:
            (root / "link").unlink()
        return opened(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", remove)
    with pytest.raises(NoSuchObject):
        zmap.read(Key("link"))


def test_a_key_that_nothing_has_checked_does_not_lead_out_of_the_root(
    zmap: DirectoryZMap, root: Path
) -> None:
    (root.parent / "secret").write_bytes(b"secret")
    for ask in (
        lambda key: zmap.read(key),
        lambda key: zmap.stat(key),
        lambda key: zmap.write(key, b"overwritten"),
        lambda key: zmap.delete(key),
    ):
        with pytest.raises(AccessDenied):
            ask(Key("../secret"))
    assert (root.parent / "secret").read_bytes() == b"secret"
    assert [*zmap.prefixes(Prefix(".."))] == []
    assert [*zmap.list(Prefix(".."))] == []


def test_a_directory_link_out_of_the_root_is_hidden_and_denied(
    zmap: DirectoryZMap, root: Path, outside: Path
) -> None:
    (root / "link").symlink_to(outside)
    (root / "up").symlink_to("..")
    assert names_in(zmap) == []
    assert names_in(zmap, "link") == []
    assert names_in(zmap, "up/root-beside") == []
    for key in (Key("link/secret"), Key("up/root-beside/secret"), Key("link/new/deep")):
        for ask in (
            lambda key: zmap.read(key),
            lambda key: zmap.write(key, b"overwritten"),
            lambda key: zmap.delete(key),
        ):
            with pytest.raises((AccessDenied, NoSuchObject)):
                ask(key)
    with pytest.raises(AccessDenied):
        zmap.read(Key("link/secret"))
    assert files_in(outside) == ["secret"]
    assert (outside / "secret").read_bytes() == b"secret"


def test_links_that_stay_inside_work(zmap: DirectoryZMap, root: Path) -> None:
    zmap.write(Key("2024.zarr/x/0"), b"data")
    (root / "latest.zarr").symlink_to("2024.zarr")
    (root / "absolute.zarr").symlink_to(root / "2024.zarr")
    (root / "file").symlink_to("2024.zarr/x/0")
    assert names_in(zmap) == ["2024.zarr", "absolute.zarr", "file", "latest.zarr"]
    for key in ("latest.zarr/x/0", "absolute.zarr/x/0", "file"):
        assert bytes(zmap.read(Key(key)).data) == b"data"
        assert zmap.stat(Key(key)).version == zmap.read(Key("2024.zarr/x/0")).version
        assert key in keys_in(zmap)
    zmap.write(Key("latest.zarr/x/1"), b"more")
    assert (root / "2024.zarr/x/1").read_bytes() == b"more"
    zmap.delete(Key("latest.zarr/x/1"))
    assert not (root / "2024.zarr/x/1").exists()


def test_a_link_is_replaced_and_removed_itself_and_not_its_target(
    zmap: DirectoryZMap, root: Path
) -> None:
    zmap.write(Key("target"), b"target")
    (root / "replaced").symlink_to("target")
    (root / "removed").symlink_to("target")
    zmap.write(Key("replaced"), b"new", replaces=zmap.stat(Key("replaced")).version)
    zmap.delete(Key("removed"))
    assert (root / "target").read_bytes() == b"target"
    assert keys_in(zmap) == ["replaced", "target"]


def test_links_in_circles_are_absent(zmap: DirectoryZMap, root: Path) -> None:
    (root / "circle").symlink_to("circle")
    (root / "d").mkdir()
    (root / "d/up").symlink_to("../d")
    (root / "d/x").write_bytes(b"1")
    with pytest.raises(NoSuchObject):
        zmap.read(Key("circle"))
    assert names_in(zmap) == ["d"]
    assert len(keys_in(zmap)) <= 2


def linked_levels(root: Path, count: int) -> None:
    """Directories beside each other, with two links to the next one in each."""
    for number in range(count):
        level = root / f"{number:02}"
        level.mkdir(parents=True)
        for name in "ab" if number + 1 < count else "":
            (level / name).symlink_to(f"../{number + 1:02}")


def test_links_that_make_a_million_million_ways_to_no_file_are_an_empty_directory(
    zmap: DirectoryZMap, root: Path
) -> None:
    """SEMANTICS A7."""
    linked_levels(root / "top", 40)
    assert names_in(zmap) == []
    assert names_in(zmap, "top") == []


def test_links_that_make_a_million_million_keys_are_an_error_where_all_are_listed(
    zmap: DirectoryZMap, root: Path
) -> None:
    """SEMANTICS A7."""
    linked_levels(root / "top", 40)
    (root / "top/39/file").write_bytes(b"x")
    assert names_in(zmap, "top/00") == ["a", "b"]
    with pytest.raises(StoreError, match=r"top/\S+: symbolic links lead to this directory over 64"):
        keys_in(zmap)


def walk(zmap: DirectoryZMap, prefix: str = "") -> Iterator[str]:
    """Go through all directories, as ``ls -R`` does."""
    for entry in zmap.search(Prefix(prefix)):
        if entry.is_prefix:
            yield join(prefix, entry.name)
            yield from walk(zmap, join(prefix, entry.name))


def test_going_through_all_directories_ends_wherever_links_lead(
    zmap: DirectoryZMap, root: Path
) -> None:
    """SEMANTICS L5, A7."""
    linked_levels(root / "top", 40)
    (root / "top/39/file").write_bytes(b"x")
    (root / "top/39/up").symlink_to("..")
    for one, other in ("mn", "nm"):
        (root / one).mkdir()
        (root / one / "file").write_bytes(b"x")
        (root / one / "other").symlink_to(f"../{other}")
    found = list(walk(zmap))
    assert len(found) < 1000
    assert "top/00/a/b/a" in found
    assert "top/00/a/b/a/a" not in found
    assert {"m/other", "n/other"} <= set(found)
    assert "m/other/other" not in found
    deep = "top/30/" + "a/" * 9
    assert bytes(zmap.read(Key(f"{deep}file")).data) == b"x"
    assert names_in(zmap, deep.rstrip("/")) == ["file"]


def test_a_directory_swapped_for_a_link_never_leads_out(
    zmap: DirectoryZMap, root: Path, outside: Path
) -> None:
    (root / "kept").mkdir()
    (root / "kept/secret").write_bytes(b"inside")
    (root / "link").symlink_to(outside)
    (root / "link").rename(root / "swapped")
    stop = threading.Event()

    def swap() -> None:
        turn = 0
        while not stop.is_set():
            target = (outside, root / "kept")[turn % 2]
            (root / "next").symlink_to(target)
            (root / "next").rename(root / "swapped")
            turn += 1

    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        seen = set()
        for turn in range(2000):
            try:
                seen.add(bytes(zmap.read(Key("swapped/secret")).data))
                zmap.write(Key(f"swapped/new{turn % 3}"), b"")
            except AccessDenied:
                seen.add(b"denied")
    finally:
        stop.set()
        swapper.join()
    assert seen <= {b"inside", b"denied"}
    assert files_in(outside) == ["secret"]


def test_a_store_that_nobody_has_any_more_holds_no_descriptor(root: Path) -> None:
    zmap = DirectoryZMap(root)
    assert open_paths().count(str(root)) == 1
    del zmap
    gc.collect()
    assert str(root) not in open_paths()
