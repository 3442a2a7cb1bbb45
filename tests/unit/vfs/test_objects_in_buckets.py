"""``objects/`` over a bucket, with keys that no file can be called."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nczfs.errors import DirectoryNotEmpty, KeyNotText, NotPermitted
from nczfs.vfs.filesystem import TreeFileSystem
from nczfs.vfs.tree import VfsOptions, mount_tree
from nczfs.zmap.registry import StoreOptions
from tests.support.s3_bucket import Bucket
from tests.support.s3_script import Serve
from tests.support.trees import exists, find, listing
from tests.support.writing import mkdir, open_file, rename, rmdir, write

Mounting = Callable[..., tuple[TreeFileSystem, Bucket]]


@pytest.fixture
def mounting(serve: Serve, tmp_path: Path) -> Iterator[Mounting]:
    """Mounts a bucket with these objects."""
    trees = []

    def mount(**objects: bytes) -> tuple[TreeFileSystem, Bucket]:
        bucket = Bucket(objects={key: (data, {}) for key, data in objects.items()})
        server, _ = serve(bucket)
        options = StoreOptions(endpoint_url=server.endpoint_url)
        usual = VfsOptions(read_only=False, spool_dir=tmp_path / "spool")
        trees.append(mount_tree("s3://bucket", options, usual))
        return trees[-1], bucket

    yield mount
    for tree in trees:
        tree.close()


def test_a_directory_is_there_while_a_key_has_its_prefix(mounting: Mounting) -> None:
    """SEMANTICS O5."""
    fs, bucket = mounting(**{"a//b": b"1"})
    assert listing(fs, "objects").keys() == {"a"}
    assert listing(fs, "objects/a") == {}
    with pytest.raises(DirectoryNotEmpty):
        rmdir(fs, "objects/a")
    fs.refresh("")
    assert find(fs, "objects/a")
    bucket.objects.clear()
    fs.refresh("")
    assert not exists(fs, "objects/a")


@pytest.mark.parametrize("key", ["a/", "a/b/", "a//b", "a/./b"])
def test_a_directory_that_would_stay_in_part_is_not_renamed(mounting: Mounting, key: str) -> None:
    """SEMANTICS O38."""
    fs, bucket = mounting(**{key: b"12", "a/k": b"1"})
    before = dict(bucket.objects)
    with pytest.raises(NotPermitted, match=f"{key}: the object of this name .* another client"):
        rename(fs, "objects/a", "objects/z")
    assert bucket.objects == before
    del bucket.objects["a/k"]
    with pytest.raises(NotPermitted):
        rename(fs, "objects/a", "objects/z")
    mkdir(fs, "objects/z")
    rename(fs, "objects/z", "objects/y")


def test_a_name_that_is_no_text_is_refused_before_anything_is_asked(
    mounting: Mounting, tmp_path: Path
) -> None:
    """SEMANTICS L3."""
    fs, bucket = mounting(**{"a/k": b"1"})
    name = "objects/a/\udcff\udcfe"
    attempts: list[Callable[[], object]] = [
        lambda: open_file(fs, name, os.O_CREAT | os.O_WRONLY),
        lambda: fs.create(find(fs, "objects/a").ino, b"\xff\xfe", os.O_EXCL, 0o644),
        lambda: mkdir(fs, name),
        lambda: rename(fs, "objects/a/k", name),
        lambda: rename(fs, "objects/a", "objects/\udcff"),
    ]
    for attempt in attempts:
        with pytest.raises(KeyNotText, match="is not UTF-8"):
            attempt()
    write(fs, "objects/a/ü", b"2")
    assert bucket.objects.keys() == {"a/k", "a/ü"}
    assert not list(tmp_path.glob("spool/*/*-*"))
