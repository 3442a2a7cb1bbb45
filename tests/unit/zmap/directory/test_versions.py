"""The versions of files: what no program can keep while it changes a file."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import pytest

from nczfs.errors import Conflict
from nczfs.zmap.keys import parse_key
from nczfs.zmap.registry import open_store


def test_a_file_that_is_rewritten_in_place_has_another_version_whatever_its_times(
    tmp_path: Path,
) -> None:
    """Same inode, same size, and the time of its contents set back, as `touch -r` does."""
    key, path = parse_key("v/0"), tmp_path / "v" / "0"
    with closing(open_store(str(tmp_path))) as store:
        store.write(key, b"old")
        before, status = store.stat(key).version, path.stat()
        while path.stat().st_ctime_ns == status.st_ctime_ns:  # the clock of some kernels is coarse
            with path.open("r+b") as file:
                file.write(b"new")
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        after = path.stat()
        assert (after.st_ino, after.st_size) == (status.st_ino, status.st_size)
        assert after.st_mtime_ns == status.st_mtime_ns
        assert store.stat(key).version != before
        with pytest.raises(Conflict):
            store.write(key, b"mine", replaces=before)
        assert bytes(store.read(key).data) == b"new"
