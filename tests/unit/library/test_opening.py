"""Modes, formats and places: what each opens, makes, deletes, and above all leaves alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import nczfs
from nczfs.errors import (
    NoContent,
    NotADataset,
    NotWritable,
    ObjectExists,
    StoreError,
    UsageError,
)
from nczfs.library.opening import MODES, open_zmap
from nczfs.testing.datasets import put_array, put_group
from nczfs.zmap.keys import parse_key
from nczfs.zmap.memory import MemoryZMap
from nczfs.zmap.wrappers import ReadOnly
from tests.support.contents import objects_of


@pytest.fixture
def nothing() -> MemoryZMap:
    return MemoryZMap()


@pytest.fixture
def dataset() -> MemoryZMap:
    zmap = MemoryZMap()
    with open_zmap(zmap, "w") as made:
        made.attrs["title"] = "old"
        made.create_variable("v", (4,), "i4", chunks=(2,))[...] = 1
    return zmap


@pytest.fixture
def foreign() -> MemoryZMap:
    zmap = MemoryZMap()
    for key in ("letters/to.txt", "photo.jpg"):
        zmap.write(parse_key(key), b"dear")
    return zmap


@pytest.mark.parametrize("mode", MODES)
def test_a_mode_opens_or_makes_a_dataset_where_there_is_nothing(
    nothing: MemoryZMap, mode: str
) -> None:
    if mode in ("r", "r+"):
        with pytest.raises(NotADataset, match="no Zarr or NCZarr group or array"):
            open_zmap(nothing, mode)
        assert objects_of(nothing) == {}
    else:
        open_zmap(nothing, mode).close()
        with open_zmap(nothing) as made:
            assert made.header.format == "nczarr-L3"
            assert not made.variables


@pytest.mark.parametrize("mode", MODES)
def test_a_mode_keeps_or_replaces_a_dataset_that_is_there(dataset: MemoryZMap, mode: str) -> None:
    before = objects_of(dataset)
    if mode == "x":
        with pytest.raises(ObjectExists, match="something is there already"):
            open_zmap(dataset, mode)
        assert objects_of(dataset) == before
        return
    with open_zmap(dataset, mode) as opened:
        assert opened.attrs.get("title") == (None if mode == "w" else "old")
    if mode == "w":
        assert not any(key.startswith("v/") for key in objects_of(dataset))
    else:
        assert objects_of(dataset) == before, "opening alone changes nothing"


@pytest.mark.parametrize("mode", MODES)
def test_no_mode_touches_what_is_no_dataset(foreign: MemoryZMap, mode: str) -> None:
    before = objects_of(foreign)
    with pytest.raises((NotADataset, ObjectExists)):
        open_zmap(foreign, mode)
    assert objects_of(foreign) == before


@pytest.mark.parametrize("mode", ["w", "a", "x", "r+", "r"])
def test_no_mode_touches_a_directory_of_other_files(tmp_path: Path, mode: str) -> None:
    place = tmp_path / "documents"
    (place / "deep").mkdir(parents=True)
    (place / "deep" / "thesis.txt").write_text("years of work")
    (place / ".hidden").write_text("too")
    with pytest.raises((NotADataset, ObjectExists)):
        nczfs.open(str(place), mode)
    assert (place / "deep" / "thesis.txt").read_text() == "years of work"
    assert (place / ".hidden").read_text() == "too"
    assert sorted(path.name for path in place.rglob("*")) == [".hidden", "deep", "thesis.txt"]


def test_a_directory_is_made_where_its_parent_is(tmp_path: Path) -> None:
    place = tmp_path / "new.zarr"
    for mode in ("r", "r+"):
        with pytest.raises((NoContent, NotADataset, StoreError)):
            nczfs.open(str(place), mode)
        assert not place.exists()
    with nczfs.open(str(place), "x") as made:
        made.attrs["title"] = "t"
    with nczfs.open(str(place), "a") as opened:
        assert opened.attrs["title"] == "t"
        opened.attrs["title"] = "T"
    with nczfs.open(str(place), "w") as replaced:
        assert not replaced.attrs


def test_reading_alone_every_change_is_refused_with_the_remedy(dataset: MemoryZMap) -> None:
    before = objects_of(dataset)
    with open_zmap(dataset) as opened:
        variable = opened.variables["v"]

        def write() -> None:
            variable[0] = 1

        def set_attribute() -> None:
            opened.attrs["a"] = 1

        def delete_attribute() -> None:
            del opened.attrs["title"]

        for change in (
            write,
            set_attribute,
            delete_attribute,
            lambda: opened.create_group("g"),
            lambda: opened.create_dimension("x", 1),
            lambda: opened.create_variable("w", (), "i4"),
        ):
            with pytest.raises(
                NotWritable, match=r"was opened for reading; open it with mode 'r\+'"
            ):
                change()
    assert objects_of(dataset) == before


@pytest.mark.parametrize("mode", ["r+", "w", "a"])
def test_a_store_that_refuses_writes_is_not_taken_for_one_that_has_them(
    dataset: MemoryZMap, mode: str
) -> None:
    before = objects_of(dataset)
    with pytest.raises(NotWritable, match="this store is read-only"):
        open_zmap(ReadOnly(dataset), mode)
    assert objects_of(dataset) == before


@pytest.mark.parametrize(
    ("named", "format"),
    [
        (None, "nczarr-L3"),
        ("nczarr", "nczarr-L3"),
        ("nczarr-L2l", "nczarr-L2l"),
        ("nczarr-L2U", "nczarr-L2U"),
        ("nczarr-L1", "nczarr-L1"),
        ("zarr", "zarr2"),
        ("zarr2", "zarr2"),
    ],
)
def test_the_format_that_was_asked_for_is_the_one_that_is_found(
    nothing: MemoryZMap, named: str | None, format: str
) -> None:
    open_zmap(nothing, "w", format=named).close()
    with open_zmap(nothing) as made:
        assert made.header.format == format


def test_the_mode_words_of_a_url_choose_the_format(tmp_path: Path) -> None:
    for words, format in (("zarr", "zarr2"), ("noxarray", "zarr2"), ("nczarr", "nczarr-L3")):
        place = tmp_path / words
        url = f"file://{place}#mode={words},file"
        with nczfs.open(url, "w") as made:
            made.create_dimension("x", 2)
            made.create_variable("v", ("x",), "i4")
        with nczfs.open(str(place)) as found:
            assert found.header.format == format
        attributes = place / "v" / ".zattrs"
        text = attributes.read_text() if attributes.exists() else ""
        assert ("_ARRAY_DIMENSIONS" in text) == (words != "noxarray")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mode": "rw"}, "mode 'rw' is not one of 'r', 'r\\+'"),
        ({"mode": "w", "separator": "-"}, "separator '-' is neither"),
        ({"mode": "w", "format": "hdf5"}, "'hdf5' is not a metadata format"),
    ],
)
def test_what_does_not_exist_is_refused_before_anything_is_made(
    tmp_path: Path, arguments: dict[str, str], message: str
) -> None:
    place = tmp_path / "new.zarr"
    with pytest.raises(UsageError, match=message):
        nczfs.open(str(place), **arguments)  # type: ignore[arg-type]
    assert not place.exists()


@pytest.mark.parametrize("arguments", [{"mode": "rw"}, {"mode": "w", "format": "hdf5"}])
def test_a_wrong_word_does_not_delete_what_is_there(
    dataset: MemoryZMap, arguments: dict[str, str]
) -> None:
    before = objects_of(dataset)
    with pytest.raises(UsageError):
        open_zmap(dataset, **arguments)  # type: ignore[arg-type]
    assert objects_of(dataset) == before


@pytest.mark.parametrize("separator", [".", "/"])
def test_the_separator_is_that_of_the_chunk_keys(nothing: MemoryZMap, separator: str) -> None:
    with open_zmap(nothing, "w", separator=separator) as made:
        made.create_variable("v", (4, 4), "i4", chunks=(2, 2))[...] = 1
    assert f"v/1{separator}0" in objects_of(nothing)


def test_a_root_that_is_an_array_can_be_written(nothing: MemoryZMap) -> None:
    put_array(nothing, "", np.arange(6, dtype=np.int32), (4,))
    with open_zmap(nothing, "r+", name="levels") as opened:
        variable = opened.variables["levels"]
        variable[1:3] = [10, 20]
        variable.attrs["units"] = "m"
        assert variable[...].tolist() == [0, 10, 20, 3, 4, 5]
    with open_zmap(nothing, name="levels") as found:
        assert found.variables["levels"][...].tolist() == [0, 10, 20, 3, 4, 5]
        assert found.variables["levels"].attrs["units"] == "m"
        assert found.variables["levels"].path == "/levels"


def test_a_dataset_of_others_is_opened_for_writing_in_its_own_format(nothing: MemoryZMap) -> None:
    put_group(nothing, "", {"title": "theirs"})
    with open_zmap(nothing, "a", format="nczarr-L3") as opened:
        opened.attrs["more"] = 1
    with open_zmap(nothing) as found:
        assert found.header.format == "zarr2"
        assert dict(found.attrs) == {"title": "theirs", "more": 1}


def test_closing_twice_is_closing_once(nothing: MemoryZMap) -> None:
    made = open_zmap(nothing, "w")
    made.close()
    made.close()


def test_an_error_inside_of_the_context_does_not_discard_what_was_written(
    nothing: MemoryZMap,
) -> None:
    def write_and_fail() -> None:
        with open_zmap(nothing, "w") as made:
            made.attrs["title"] = "t"
            raise KeyError("title")

    with pytest.raises(KeyError, match="title"):
        write_and_fail()
    with open_zmap(nothing) as found:
        assert found.attrs["title"] == "t"


@pytest.mark.parametrize("mode", ["r", "r+"])
def test_whatever_is_asked_of_a_closed_dataset_it_says_so(tmp_path: Path, mode: str) -> None:
    url = str(tmp_path / "d.zarr")
    with nczfs.open(url, "w") as made:
        made.create_variable("v", (4,), "i4", chunks=(2,))[...] = 1
    root = nczfs.open(url, mode)
    variables, attributes = root.variables, root.attrs
    variable = variables["v"]
    root.close()
    for asked in (
        lambda: root["v"],
        lambda: variables["v"],
        lambda: variable[...],
        lambda: variable.__setitem__(0, 2),
        lambda: variable.shape,
        lambda: root.attrs["title"],
        lambda: attributes.__setitem__("title", "new"),
        lambda: root.create_group("g"),
        root.tree,
    ):
        with pytest.raises(UsageError, match=r"d\.zarr.*: the dataset was closed"):
            asked()
    assert "closed" in repr(root)
    assert "closed" in repr(variable)


def test_a_path_need_not_be_text(tmp_path: Path) -> None:
    place = tmp_path / "d"
    nczfs.open(place, "w").close()
    for each in (place, str(place)):
        with nczfs.open(each) as dataset:
            assert dataset.path == "/"
    with pytest.raises(TypeError, match="PathLike"):
        nczfs.open(3)  # type: ignore[arg-type]
