"""What other people put into a directory store is an object, or hidden and left alone."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nczfs import metrics
from nczfs.errors import (
    AccessDenied,
    NoSuchObject,
    OutOfDescriptors,
)
from nczfs.zmap.directory import DirectoryZMap
from nczfs.zmap.keys import MAX_KEY_BYTES, ROOT, Key, Prefix
from tests.conftest import ExpectedWarnings
from tests.support.descriptors import descriptors_left
from tests.support.directories import files_in, keys_in, names_in

NOBODY = 65_534


def test_what_is_not_a_regular_file_is_hidden_and_left_alone(
    zmap: DirectoryZMap, root: Path
) -> None:
    os.mkfifo(root / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(root / "socket"))
    assert names_in(zmap) == []
    for name in ("fifo", "socket"):
        with pytest.raises(NoSuchObject):
            zmap.read(Key(name))
        with pytest.raises(NoSuchObject):
            zmap.delete(Key(name))
        with pytest.raises(AccessDenied, match="left alone"):
            zmap.write(Key(name), b"")
    assert files_in(root) == ["fifo", "socket"]


def test_directories_without_keys_are_not_shown(zmap: DirectoryZMap, root: Path) -> None:
    (root / "empty/er").mkdir(parents=True)
    zmap.write(Key("full/er/x"), b"")
    assert names_in(zmap) == ["full"]


def test_what_may_be_a_prefix_is_found_without_a_look_into_it(
    zmap: DirectoryZMap, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "empty/er").mkdir(parents=True)
    zmap.write(Key("full/er/x"), b"")
    zmap.write(Key("object"), b"")
    (root / "linked").symlink_to("full")
    (root / "file").symlink_to("object")
    (root / "loop").symlink_to(".")
    (root / "outside").symlink_to("..")
    looks: list[int] = []
    scan = os.scandir

    def counted(directory: int) -> Any:
        looks.append(directory)
        return scan(directory)

    monkeypatch.setattr(os, "scandir", counted)
    assert sorted(zmap.prefixes(ROOT)) == ["empty", "full", "linked"]
    assert sorted(zmap.prefixes(Prefix("full"))) == ["er"]
    assert list(zmap.prefixes(Prefix("none"))) == []
    assert len(looks) == 2


def test_names_that_are_not_utf8_are_keys(zmap: DirectoryZMap, root: Path) -> None:
    with open(os.fsencode(root) + b"/caf\xe9", "wb") as file:
        file.write(b"latin-1")
    assert names_in(zmap) == ["caf\udce9"]
    assert bytes(zmap.read(Key("caf\udce9")).data) == b"latin-1"
    zmap.write(Key("d\udcff/x"), b"1")
    assert b"d\xff" in os.listdir(os.fsencode(root))


def test_names_too_deep_for_a_key_are_left_out(zmap: DirectoryZMap, root: Path) -> None:
    deep = root / "/".join(["n" * 200] * 5)
    deep.mkdir(parents=True)
    (deep / "fits").write_bytes(b"")
    (deep / ("x" * 200)).write_bytes(b"")
    assert [len(key) <= MAX_KEY_BYTES for key in keys_in(zmap)] == [True]


@contextlib.contextmanager
def as_nobody() -> Iterator[None]:
    """What root may do everywhere, nobody may not."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def test_what_cannot_be_looked_at_does_not_hide_the_others(
    root: Path, expected_warnings: ExpectedWarnings
) -> None:
    """SEMANTICS A8."""
    (root / "good").write_bytes(b"good")
    (root / "closed").mkdir()
    (root / "closed/x").write_bytes(b"")
    (root / "link").symlink_to("closed/x")
    root.chmod(0o755)
    zmap = DirectoryZMap(root)
    (root / "closed").chmod(0)
    hidden = metrics.value("nczfs_hidden_keys_total")
    expected_warnings.add("left out 1 entries, the first: Permission denied")
    with as_nobody():
        assert names_in(zmap) == ["closed", "good"]
    assert metrics.value("nczfs_hidden_keys_total") == hidden + 1
    (root / "closed").chmod(0o755)
    zmap.close()


def test_where_nothing_can_be_looked_at_is_no_empty_directory(root: Path) -> None:
    (root / "dir").mkdir()
    (root / "dir/link").symlink_to("../closed/x")
    (root / "closed").mkdir()
    (root / "closed/x").write_bytes(b"")
    root.chmod(0o755)
    zmap = DirectoryZMap(root)
    (root / "closed").chmod(0)
    with as_nobody(), pytest.raises(AccessDenied, match="dir: Permission denied"):
        list(zmap.search(Prefix("dir")))
    (root / "closed").chmod(0o755)
    zmap.close()


def test_without_a_descriptor_left_nothing_is_taken_for_empty(
    zmap: DirectoryZMap, root: Path
) -> None:
    """SEMANTICS A9."""
    zmap.write(Key("d/x"), b"")
    with descriptors_left(0):
        for ask in (lambda: zmap.read(Key("d/x")), lambda: list(zmap.search(ROOT))):
            with pytest.raises(OutOfDescriptors, match="Too many open files"):
                ask()
