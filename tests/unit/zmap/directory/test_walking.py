"""What other people put into a directory store is an object, or hidden and left alone."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from nczfs.errors import (
    AccessDenied,
    NoSuchObject,
)
from nczfs.zmap.directory import DirectoryZMap
from nczfs.zmap.keys import MAX_KEY_BYTES, Key
from tests.support.directories import files_in, keys_in, names_in


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
