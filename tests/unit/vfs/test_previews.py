"""The `preview.png` of variables and groups, without a kernel."""

from __future__ import annotations

import os
from collections.abc import Iterator
from io import BytesIO
from typing import Any

import numpy as np
import pytest
from PIL import Image

import nczfs
from nczfs.errors import CorruptChunk, NoSuchPath, NotPermitted
from nczfs.pictures import picture
from nczfs.pictures.picture import PREVIEW_BYTES
from nczfs.vfs.datasets import previewfile
from nczfs.vfs.filesystem import TreeFileSystem
from nczfs.vfs.tree import VfsOptions, mount_tree
from nczfs.zmap.keys import parse_key
from nczfs.zmap.registry import StoreOptions
from tests.support.copies import new_url
from tests.support.drawn import chunk_reads, map_store
from tests.support.trees import exists, find, listing, read, read_inode, tree_over

VARIABLE = "datasets/d.zarr/v"
FILE = f"{VARIABLE}/preview.png"


@pytest.fixture
def url() -> str:
    url = new_url()
    with nczfs.open(f"{url}/d.zarr", "w", format="zarr2") as root:
        root.create_variable("v", (4, 5), data=np.arange(20.0).reshape(4, 5))
        root.create_group("empty")
    return url


@pytest.fixture
def fs(url: str) -> Iterator[TreeFileSystem]:
    tree = mount_tree(url, options=VfsOptions(read_only=False))
    yield tree
    tree.close()


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the variables that were drawn."""
    names: list[str] = []
    draw = picture.variable_picture

    def noted(dataset: Any, variable: Any, *arguments: Any) -> bytes:
        names.append(variable.name)
        return draw(dataset, variable, *arguments)

    monkeypatch.setattr("nczfs.vfs.datasets.previewfile.variable_picture", noted)
    return names


@pytest.fixture
def still(monkeypatch: pytest.MonkeyPatch) -> None:
    """No picture grows old, however long it takes to draw."""
    monkeypatch.setattr(previewfile, "now", lambda: 1.0)


def pixels(data: bytes) -> bytes:
    with Image.open(BytesIO(data)) as image:
        assert image.format == "PNG"
        return image.tobytes()


def test_a_preview_is_found_by_its_name_and_is_a_picture_of_the_size_that_stat_says(
    fs: TreeFileSystem,
) -> None:
    """SEMANTICS D25."""
    for path in (FILE, "datasets/d.zarr/preview.png"):
        data = read(fs, path)
        assert len(data) == find(fs, path).size == PREVIEW_BYTES
        assert pixels(data)


def test_looking_at_directories_and_sizes_draws_nothing(
    fs: TreeFileSystem, made: list[str]
) -> None:
    """SEMANTICS D35."""
    listing(fs, VARIABLE)
    ino = find(fs, FILE).ino
    handle = fs.open(ino, os.O_RDONLY).handle
    fs.release(handle)
    assert made == []
    read_inode(fs, ino, 0, 100)
    assert made == ["v"]


@pytest.mark.parametrize(
    ("options", "is_there", "is_listed"),
    [
        (VfsOptions(), True, False),
        (VfsOptions(lists_previews=True), True, True),
        (VfsOptions(views=frozenset({"preview.png"})), True, True),
        (VfsOptions(views=frozenset({"values.raw"}), lists_previews=True), False, False),
        (VfsOptions(views=frozenset({"copy"}), lists_previews=True), False, False),
    ],
)
def test_which_mounts_list_previews(
    url: str, options: VfsOptions, *, is_there: bool, is_listed: bool
) -> None:
    """SEMANTICS D36."""
    fs = mount_tree(url, options=options)
    try:
        for directory in ("datasets/d.zarr", VARIABLE):
            assert exists(fs, f"{directory}/preview.png") is is_there
            assert ("preview.png" in listing(fs, directory)) is is_listed
    finally:
        fs.close()


def test_without_the_library_there_are_no_previews(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SEMANTICS D38."""
    monkeypatch.setattr(picture, "find_spec", lambda name: None)
    fs = mount_tree(url, options=VfsOptions(lists_previews=True))
    try:
        assert not exists(fs, FILE)
        assert "preview.png" not in listing(fs, VARIABLE)
    finally:
        fs.close()


def test_a_group_that_holds_nothing_has_no_preview(fs: TreeFileSystem) -> None:
    assert not exists(fs, "datasets/d.zarr/empty/preview.png")


@pytest.mark.usefixtures("still")
def test_a_picture_is_drawn_once_until_values_or_attributes_change(
    url: str, made: list[str]
) -> None:
    """SEMANTICS D35, D37."""
    fs = mount_tree(url, options=VfsOptions(read_only=False))
    try:
        first = read(fs, FILE)
        assert read(fs, FILE) == first
        assert made == ["v"]
        group = read(fs, "datasets/d.zarr/preview.png")

        values = fs.open(find(fs, f"{VARIABLE}/values.raw").ino, os.O_RDWR).handle
        fs.write(values, 0, np.float64(1000.0).tobytes())
        fs.flush(values)
        fs.release(values)
        second = read(fs, FILE)
        assert pixels(second) != pixels(first)
        assert pixels(read(fs, "datasets/d.zarr/preview.png")) != pixels(group)

        directory = find(fs, f"{VARIABLE}/attributes").ino
        opened, _ = fs.create(directory, b"units", os.O_WRONLY, 0o644)
        fs.write(opened.handle, 0, b"K\n")
        fs.flush(opened.handle)
        fs.release(opened.handle)
        assert pixels(read(fs, FILE)) != pixels(second)
        assert made == ["v"] * 3
    finally:
        fs.close()


def test_an_open_preview_stays_one_picture_while_another_is_opened(fs: TreeFileSystem) -> None:
    """SEMANTICS D37."""
    ino = find(fs, FILE).ino
    first = fs.open(ino, os.O_RDONLY)
    begun = bytes(fs.read(first.handle, 0, 4096))
    write(fs, 1000.0)
    second, third = (fs.open(find(fs, FILE).ino, os.O_RDONLY) for _ in range(2))
    assert not first.direct_io
    assert second.direct_io, "the kernel would answer from pages of the first one"
    assert third.direct_io
    new = bytes(fs.read(second.handle, 0, PREVIEW_BYTES))
    assert bytes(fs.read(third.handle, 0, PREVIEW_BYTES)) == new
    old = begun + bytes(fs.read(first.handle, 4096, PREVIEW_BYTES))
    assert pixels(old) != pixels(new)
    for opened in (first, second, third):
        fs.release(opened.handle)
    last = fs.open(ino, os.O_RDONLY)
    assert (last.direct_io, last.keep_cache) == (False, False)
    assert bytes(fs.read(last.handle, 0, PREVIEW_BYTES)) == new
    fs.release(last.handle)


def test_a_preview_that_is_read_late_is_that_of_those_who_opened_it_before(
    fs: TreeFileSystem,
) -> None:
    ino = find(fs, FILE).ino
    opened = [fs.open(ino, os.O_RDONLY) for _ in range(2)]
    begun = bytes(fs.read(opened[0].handle, 0, 4096))
    write(fs, 1000.0)
    rest = bytes(fs.read(opened[1].handle, 4096, PREVIEW_BYTES))
    assert pixels(begun + rest)
    assert not any(each.direct_io for each in opened)
    for each in opened:
        fs.release(each.handle)


@pytest.mark.usefixtures("still")
def test_the_kernel_keeps_the_pages_of_the_same_picture_and_no_others(url: str) -> None:
    fs = mount_tree(url, options=VfsOptions(read_only=False))

    def token_of_opened() -> object:
        opened = fs.open(find(fs, FILE).ino, os.O_RDONLY)
        fs.read(opened.handle, 0, 100)
        fs.release(opened.handle)
        return fs.inodes.get(find(fs, FILE).ino).node.pages_token  # type: ignore[attr-defined]

    try:
        first = token_of_opened()
        assert token_of_opened() == first
        write(fs, 1000.0)
        second = token_of_opened()
        assert second != first
        assert token_of_opened() == second
    finally:
        fs.close()


def write(fs: TreeFileSystem, number: float) -> None:
    values = fs.open(find(fs, f"{VARIABLE}/values.raw").ino, os.O_RDWR).handle
    fs.write(values, 0, np.float64(number).tobytes())
    fs.release(values)


def test_a_preview_cannot_be_written(fs: TreeFileSystem) -> None:
    """SEMANTICS D38."""
    with pytest.raises(NotPermitted):
        fs.open(find(fs, FILE).ino, os.O_WRONLY)
    with pytest.raises(NotPermitted):
        fs.unlink(find(fs, VARIABLE).ino, b"preview.png")


def test_a_removed_preview_is_gone(url: str) -> None:
    fs = mount_tree(url, options=VfsOptions(read_only=False, allow_delete=True))
    try:
        fs.unlink(find(fs, VARIABLE).ino, b"preview.png")
        with pytest.raises(NoSuchPath):
            find(fs, FILE)
    finally:
        fs.close()


def test_a_preview_of_a_broken_chunk_names_its_key() -> None:
    store = map_store()
    store.write(parse_key("t2m/0.0.0"), b"short")
    fs = tree_over(store, VfsOptions())
    try:
        with pytest.raises(CorruptChunk, match=r"t2m/0\.0\.0"):
            read(fs, "datasets/store/t2m/preview.png")
    finally:
        fs.close()


def test_a_listing_and_a_preview_read_few_chunks() -> None:
    store = map_store()
    fs = tree_over(store, VfsOptions(lists_previews=True))
    try:
        for name in listing(fs, "datasets/store/t2m"):
            find(fs, f"datasets/store/t2m/{name}")
        assert chunk_reads(store) == 0
        read(fs, "datasets/store/t2m/preview.png")
        assert chunk_reads(store) == 1 + 3
    finally:
        fs.close()


def test_an_array_at_the_root_of_its_dataset_has_a_preview() -> None:
    url = new_url()
    with nczfs.open(f"{url}/d.zarr", "w", format="zarr2") as root:
        root.create_variable("v", (4,), data=np.arange(4.0))
    fs = mount_tree(f"{url}/d.zarr/v", StoreOptions())
    try:
        assert pixels(read(fs, "datasets/v/preview.png"))
    finally:
        fs.close()
