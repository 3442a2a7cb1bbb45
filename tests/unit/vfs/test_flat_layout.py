"""The layout ``flat``: each dataset as one netCDF file, and nothing else."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import netCDF4
import numpy as np
import pytest

import nczfs
from nczfs.errors import (
    DirectoryNotEmpty,
    MetadataError,
    NczfsError,
    NoSuchPath,
    NotPermitted,
    PathExists,
    ReadOnlyMount,
)
from nczfs.testing.datasets import put_array, put_group, put_json
from nczfs.vfs.base import FileKind
from nczfs.vfs.datasets.flat import shown_name, stored_names
from nczfs.vfs.datasets.importing import ImportOptions
from nczfs.vfs.filesystem import TreeFileSystem
from nczfs.vfs.mountpaths import FlatPaths
from nczfs.vfs.tree import VfsOptions, mount_tree
from tests.conftest import ExpectedWarnings
from tests.support.counted import CountedStore
from tests.support.sample import zip_up
from tests.support.trees import exists, find, listing, read, tree_over
from tests.support.writing import open_file, rename, split, unlink, write

VALUES = np.arange(4.0)


def make(path: Path | str, values: np.ndarray = VALUES) -> None:
    with nczfs.open(str(path), "w") as root:
        root.create_dimension("x", len(values))
        root.create_variable("v", ("x",), data=values)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """An archive with datasets of several names, and files beside them."""
    place = tmp_path / "store"
    for name in ("a/x.zarr", "a/plain", "a/b/z.nczarr", "a/w.nc", "top.zarr"):
        make(place / name)
    make(tmp_path / "zipped.zarr")
    zip_up(tmp_path / "zipped.zarr", place / "a/p.zarr.zip")
    (place / "a/README").write_text("about")
    (place / "docs/old").mkdir(parents=True)
    (place / "docs/old/note.txt").write_text("about")
    return place


@pytest.fixture
def fs(store: Path, tmp_path: Path) -> Iterator[TreeFileSystem]:
    with_all = VfsOptions(read_only=False, flat=".nc", spool_dir=tmp_path / "spool")
    found = mount_tree(str(store), options=with_all)
    yield found
    found.close()


@pytest.fixture
def file(tmp_path: Path) -> bytes:
    with netCDF4.Dataset(tmp_path / "new.nc", "w") as dataset:
        dataset.createDimension("x", 4)
        dataset.createVariable("v", "f8", ("x",))[:] = VALUES
    return (tmp_path / "new.nc").read_bytes()


def values_in(data: bytes) -> list[float]:
    with netCDF4.Dataset("any.nc", memory=data) as dataset:
        return [float(each) for each in dataset["v"][:]]


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("x.zarr", "x.nc"),
        ("x", "x.nc"),
        ("x.nczarr", "x.nc"),
        ("x.zarr.zip", "x.nc"),
        ("x.zip", "x.nc"),
        ("x.nc", "x.nc"),
        ("x.y.zarr", "x.y.nc"),
        ("x.nc.zarr", "x.nc.nc"),
        (".zarr", ".zarr.nc"),
        (".nc", ".nc.nc"),
        ("x.zarr.zarr", "x.zarr.nc"),
    ],
)
def test_the_name_of_a_file_leads_back_to_the_dataset(name: str, shown: str) -> None:
    assert shown_name(name) == shown
    assert name in stored_names(shown)


def test_a_directory_has_a_file_for_each_dataset_and_nothing_else(fs: TreeFileSystem) -> None:
    """SEMANTICS F1."""
    kinds = {name: entry.kind for name, entry in listing(fs, "").items()}
    directory = FileKind.DIRECTORY
    assert kinds == {"a": directory, "docs": directory, "top.nc": FileKind.FILE}
    assert set(listing(fs, "a")) == {"x.nc", "plain.nc", "w.nc", "p.nc", "b"}
    assert set(listing(fs, "a/b")) == {"z.nc"}
    assert set(listing(fs, "docs")) == {"old"}
    assert not listing(fs, "docs/old")
    for path in ("a/x.nc", "a/plain.nc", "a/w.nc", "a/p.nc", "a/b/z.nc", "top.nc"):
        assert values_in(read(fs, path)) == [*VALUES]
    hidden = ("a/x.zarr", "a/plain", "a/README", "a/x.classic.nc", "a/none.nc", "docs/old.nc")
    assert not any(exists(fs, path) for path in hidden)


def test_the_files_that_control_the_mount_are_not_listed(fs: TreeFileSystem) -> None:
    """SEMANTICS F1."""
    assert ".nczfs" not in listing(fs, "")
    assert b'"read_only": false' in read(fs, ".nczfs/status.json")


def test_a_dataset_at_the_root_is_the_only_file(store: Path) -> None:
    fs = mount_tree(str(store / "a/x.zarr"), options=VfsOptions(flat=".nc"))
    assert set(listing(fs, "")) == {"x.nc"}
    assert values_in(read(fs, "x.nc")) == [*VALUES]
    fs.close()


def test_classic_files_have_the_same_names(store: Path) -> None:
    """SEMANTICS F1."""
    options = VfsOptions(flat=".classic.nc", views=frozenset({"classic.nc"}))
    fs = mount_tree(str(store), options=options)
    assert read(fs, "a/x.nc")[:3] == b"CDF"
    assert set(listing(fs, "a/b")) == {"z.nc"}
    fs.close()


def test_of_two_datasets_of_one_name_the_usual_one_is_shown(
    store: Path,
    fs: TreeFileSystem,
    expected_warnings: ExpectedWarnings,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """SEMANTICS F2."""
    expected_warnings.add("is not shown")
    make(store / "a/x", VALUES + 1)
    make(store / "a/u.zarr")
    (store / "a/u.nc").write_text("an object")
    (store / "a/plain.nc/below").mkdir(parents=True)
    (store / "a/plain.nc/below/file").write_text("")
    assert [*listing(fs, "a")].count("x.nc") == 1
    assert values_in(read(fs, "a/x.nc")) == [*VALUES]
    assert find(fs, "a/plain.nc").kind is FileKind.FILE
    listing(fs, "a")
    assert sorted(record.getMessage() for record in caplog.records) == [
        "a/plain.nc: is not shown: a/plain is called plain.nc here, too",
        "a/u.nc: is not shown: a/u.zarr is called u.nc here, and objects are not shown",
        "a/x: is not shown: a/x.zarr is called x.nc here, too",
    ]


def test_a_dataset_that_cannot_be_read_is_a_file_that_cannot(
    store: Path, fs: TreeFileSystem, expected_warnings: ExpectedWarnings
) -> None:
    expected_warnings.add("broken.zarr")
    (store / "broken.zarr").mkdir()
    (store / "broken.zarr/.zarray").write_text("{")
    fs.refresh("")
    assert find(fs, "broken.nc").kind is FileKind.FILE
    with pytest.raises(MetadataError, match=r"broken\.zarr"):
        read(fs, "broken.nc")


def test_values_are_written_in_place(store: Path, fs: TreeFileSystem) -> None:
    """SEMANTICS F3."""
    at = read(fs, "a/x.nc").index(VALUES.tobytes())
    write(fs, "a/x.nc", np.float64(7).tobytes(), offset=at + 8, flags=0)
    assert values_in(read(fs, "a/x.nc")) == [0, 7, 2, 3]
    fs.sync()
    with nczfs.open(str(store / "a/x.zarr")) as root:
        assert [*np.asarray(root["v"])] == [0, 7, 2, 3]


def test_a_copied_file_becomes_a_dataset(store: Path, fs: TreeFileSystem, file: bytes) -> None:
    """SEMANTICS F4."""
    write(fs, "a/new.nc", file)
    assert values_in(read(fs, "a/new.nc")) == [*VALUES]
    assert "new.nc" in listing(fs, "a")
    with nczfs.open(str(store / "a/new.zarr")) as root:
        assert [*np.asarray(root["v"])] == [*VALUES]


@pytest.mark.parametrize("temporary", [".n.nc.AbC123", "n.nc.pid12.ncks.tmp"])
def test_a_file_is_imported_under_its_final_name(
    store: Path, fs: TreeFileSystem, file: bytes, temporary: str
) -> None:
    """SEMANTICS F4."""
    write(fs, temporary, file)
    assert temporary in listing(fs, "")
    assert read(fs, temporary) == file
    assert not exists(fs, "n.nc")
    rename(fs, temporary, "n.nc")
    assert values_in(read(fs, "n.nc")) == [*VALUES]
    assert temporary not in listing(fs, "")


def test_nothing_is_left_of_a_file_that_was_dropped(
    store: Path, fs: TreeFileSystem, file: bytes
) -> None:
    before = {path.name for path in store.iterdir()}
    write(fs, "n.nc.tmp", file)
    unlink(fs, "n.nc.tmp")
    assert {path.name for path in store.iterdir()} == before


def test_what_is_no_netcdf_file_is_refused_and_can_be_copied_again(
    fs: TreeFileSystem, file: bytes, expected_warnings: ExpectedWarnings
) -> None:
    """SEMANTICS F4."""
    expected_warnings.add("nothing is imported")
    with pytest.raises(NczfsError):
        write(fs, "n.nc", b"no netCDF file")
    assert not exists(fs, "n.nc")
    assert "n.nc" not in listing(fs, "")
    write(fs, "n.nc", file)
    assert values_in(read(fs, "n.nc")) == [*VALUES]
    for name in ("notes.txt", "a/.nc", "n.zarr"):
        with pytest.raises(NotPermitted):
            write(fs, name, b"1")


def test_a_new_directory_takes_files(store: Path, fs: TreeFileSystem, file: bytes) -> None:
    """SEMANTICS F4."""
    fs.mkdir(*split(fs, "2027"), 0o755)
    fs.mkdir(*split(fs, "empty"), 0o755)
    assert {"2027", "empty"} <= set(listing(fs, ""))
    with pytest.raises(PathExists):
        fs.mkdir(*split(fs, "2027"), 0o755)
    write(fs, "2027/n.nc", file)
    assert (store / "2027/n.zarr").is_dir()
    assert set(listing(fs, "2027")) == {"n.nc"}
    fs.rmdir(*split(fs, "empty"))
    assert not exists(fs, "empty")
    for name in ("2027", "docs"):
        with pytest.raises(DirectoryNotEmpty):
            fs.rmdir(*split(fs, name))


def test_content_is_removed_and_replaced_only_where_the_mount_allows_it(
    store: Path, fs: TreeFileSystem, tmp_path: Path, file: bytes
) -> None:
    """SEMANTICS F5."""
    with pytest.raises(NotPermitted):
        unlink(fs, "a/x.nc")
    with pytest.raises(NotPermitted):
        write(fs, "a/x.nc", file)
    with pytest.raises(NotPermitted):
        rename(fs, "a/x.nc", "a/y.nc")
    assert values_in(read(fs, "a/x.nc")) == [*VALUES]
    options = VfsOptions(
        read_only=False,
        flat=".nc",
        allow_delete=True,
        imports=ImportOptions(replaces=True),
        spool_dir=tmp_path / "another",
    )
    other = mount_tree(str(store), options=options)
    unlink(other, "a/plain.nc")
    assert not (store / "a/plain").exists()
    make(store / "a/x.zarr", VALUES + 1)
    other.refresh("a/x.nc")
    assert values_in(read(other, "a/x.nc")) == [*VALUES + 1]
    write(other, "a/x.nc", file)
    assert values_in(read(other, "a/x.nc")) == [*VALUES]
    other.close()


@pytest.fixture
def changing(tmp_path: Path) -> VfsOptions:
    """The options of a mount in which everything can be changed."""
    return VfsOptions(
        read_only=False,
        flat=".nc",
        allow_delete=True,
        imports=ImportOptions(replaces=True),
        spool_dir=tmp_path / "spool",
    )


@pytest.mark.parametrize("temporary", [".top.nc.Ab12Cd", "top.nc.pid1.ncks.tmp"])
def test_removing_a_temporary_file_that_is_gone_keeps_the_dataset(
    store: Path, changing: VfsOptions, temporary: str
) -> None:
    """SEMANTICS F5."""
    fs = mount_tree(str(store), options=changing)
    with pytest.raises(NoSuchPath):
        unlink(fs, temporary)
    assert values_in(read(fs, "top.nc")) == [*VALUES]
    fs.close()


@pytest.mark.parametrize("temporary", [".top.nc.Ab12Cd", "top.nc.pid1.ncks.tmp"])
def test_the_only_dataset_of_a_store_is_replaced_like_any_other(
    store: Path, changing: VfsOptions, file: bytes, temporary: str
) -> None:
    """SEMANTICS F4, F5."""
    make(store / "top.zarr", VALUES + 1)
    fs = mount_tree(str(store / "top.zarr"), options=changing)
    write(fs, temporary, file)
    assert set(listing(fs, "")) == {"top.nc", temporary}
    assert read(fs, temporary) == file
    unlink(fs, temporary)
    assert values_in(read(fs, "top.nc")) == [*VALUES + 1]
    write(fs, temporary, file)
    rename(fs, temporary, "top.nc")
    assert values_in(read(fs, "top.nc")) == [*VALUES]
    assert set(listing(fs, "")) == {"top.nc"}
    fs.close()


def test_a_directory_that_only_the_mount_shows_keeps_no_file_from_being_made(
    store: Path, fs: TreeFileSystem, file: bytes
) -> None:
    """SEMANTICS F4."""
    fs.mkdir(*split(fs, "y.zarr"), 0o755)
    write(fs, "y.nc", file)
    assert values_in(read(fs, "y.nc")) == [*VALUES]
    assert {"y.zarr", "y.nc"} <= set(listing(fs, ""))
    write(fs, "y.zarr/below.nc", file)
    assert values_in(read(fs, "y.nc")) == [*VALUES]
    with nczfs.open(str(store / "y")) as root:
        assert [*np.asarray(root["v"])] == [*VALUES]


def test_nothing_is_made_in_a_read_only_mount(store: Path) -> None:
    fs = mount_tree(str(store), options=VfsOptions(flat=".nc"))
    with pytest.raises(ReadOnlyMount):
        fs.mkdir(*split(fs, "new"), 0o755)
    with pytest.raises(ReadOnlyMount):
        write(fs, "n.nc", b"1")
    with pytest.raises(ReadOnlyMount):
        unlink(fs, "top.nc")
    fs.close()


def test_a_refresh_is_by_the_path_of_the_file(store: Path, fs: TreeFileSystem) -> None:
    handle = open_file(fs, "a/b/z.nc", os.O_RDONLY)
    before = find(fs, "a/b/z.nc").ino
    make(store / "a/b/z.nczarr", np.arange(8.0))
    fs.refresh("a/b/z.nc")
    assert values_in(read(fs, "a/b/z.nc")) == [*np.arange(8.0)]
    assert find(fs, "a/b/z.nc").ino != before
    fs.release(handle)


def test_a_far_listing_shows_what_can_be_opened_where_two_have_one_name(tmp_path: Path) -> None:
    """SEMANTICS F2, F6."""
    store = CountedStore()
    put_json(store, "x.zarr/notes.json", {})
    put_group(store, "x", {"title": "t"})
    fs = tree_over(store, VfsOptions(flat=".nc", spool_dir=tmp_path / "spool"))
    assert set(listing(fs, "")) == {"x.zarr", "x.nc"}  # and nothing is logged
    assert exists(fs, "x.nc")
    fs.close()


def test_a_far_store_that_is_one_dataset_is_listed_as_it_was_found(tmp_path: Path) -> None:
    """SEMANTICS F6."""
    store = CountedStore()
    put_group(store, "", {"title": "t"})
    put_array(store, "v", VALUES, (4,))
    options = VfsOptions(flat=".nc", spool_dir=tmp_path / "spool")
    fs = tree_over(store, options, "memory://x.zarr")
    size = len(read(fs, "x.nc"))
    assert find(fs, "x.nc").size == size
    assert listing(fs, "") == {"x.nc": find(fs, "x.nc")}
    fs.close()


def test_listing_a_far_store_asks_for_names_alone(tmp_path: Path) -> None:
    """SEMANTICS F6."""
    store = CountedStore()
    for number in range(100):
        put_group(store, f"a/s{number:03}.zarr", {"title": "t"})
    put_array(store, "a/s050.zarr/v", VALUES + 1, (4,))
    fs = tree_over(store, VfsOptions(flat=".nc", spool_dir=tmp_path / "spool"))
    listing(fs, "")
    store.reads.clear()
    searches = store.searches
    assert len(listing(fs, "a")) == 100
    assert store.searches - searches <= 2
    assert not store.reads
    assert values_in(read(fs, "a/s050.nc")) == [*VALUES + 1]
    assert not [key for key in store.reads if key.startswith("a/s") and "s050" not in key]
    again = find(fs, "a/s050.nc").ino
    assert listing(fs, "a")["s050.nc"].ino == again
    fs.close()


def test_a_path_of_the_mount_may_go_on_in_the_dataset() -> None:
    paths = FlatPaths("archive", is_dataset=False)
    assert "2026/01.zarr/g/t" in paths.in_store("2026/01.nc/g/t")
    assert paths.in_store("2026/01.zarr/t") == ["2026/01.zarr/t"]
    alone = FlatPaths("x.zarr", is_dataset=True)
    assert alone.in_store("x.nc/t") == alone.in_store("t") == ["t"]
    assert alone.in_store("x.nc") == alone.in_store("") == [""]
