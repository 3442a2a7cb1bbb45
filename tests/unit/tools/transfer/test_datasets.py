"""A dataset that is made from a source: whole or not there, and nothing of another one harmed."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pytest

import nczfs
from nczfs.engine.structure.ownership import UNFINISHED
from nczfs.errors import BadMetadata, NczfsError, NotADataset, ObjectExists, Unsupported, UsageError
from nczfs.model.declaration import GroupDeclaration, VariableDeclaration
from nczfs.model.dtypes import NcType
from nczfs.model.hierarchy import CodecSpec, Dimension
from nczfs.tools.transfer.cdl_source import cdl_source
from nczfs.tools.transfer.dataset_source import dataset_source
from nczfs.tools.transfer.dataset_target import write_dataset
from nczfs.tools.transfer.netcdf_kinds import KINDS, fitted
from nczfs.tools.transfer.source import Content, Source
from nczfs.tools.transfer.target import NewNode
from nczfs.zmap.keys import ROOT, parse_key
from nczfs.zmap.memory import MemoryZMap
from nczfs.zmap.registry import open_store

ROWS = 8


def source_of(read: Callable[[tuple[slice, ...]], Any], **changes: Any) -> Source:
    """One variable of 8 rows, a row a chunk."""
    declared = VariableDeclaration("v", NcType.INT, ("t", "x"), chunk_shape=(1, 4))
    dimensions = (Dimension("t", ROWS, True), Dimension("x", 4))
    root = GroupDeclaration("", dimensions, (), (replace(declared, **changes),))
    return Source("a file", root, {"v": Content((ROWS, 4), (1, 4), 4, read)})


def ones(selection: tuple[slice, ...]) -> Any:
    return np.ones([part.stop - part.start for part in selection], "i4")


@pytest.fixture
def url() -> str:
    return f"memory://{uuid4().hex}"


def keys(url: str) -> list[str]:
    return sorted(stat.key for stat in open_store(url).list(ROOT))


def write(source: Source, url: str, **options: Any) -> list[str]:
    """Import in blocks of one row; the lines that it tells."""
    told: list[str] = []
    new = NewNode(url, memory_limit_bytes=64, **options)
    write_dataset(source, new, told.append, lambda _count: None)
    return told


def test_a_dataset_has_what_the_source_has(url: str) -> None:
    assert write(source_of(ones), url) == []
    with nczfs.open(url) as dataset:
        assert (dataset.variables["v"][...] == 1).all()
        assert dataset.dimensions["t"].unlimited
        assert dataset.dimensions["t"].size == ROWS
    assert not any("unfinished" in key for key in keys(url))


def test_nobody_sees_a_dataset_before_it_is_whole(url: str) -> None:
    seen: list[bool] = []

    def read(selection: tuple[slice, ...]) -> Any:
        with pytest.raises(NotADataset):
            nczfs.open(url)
        seen.append(any(key.startswith("v/") for key in keys(url)))
        return ones(selection)

    write(source_of(read), url)
    assert seen[0] is False
    assert seen[-1] is True  # chunks are on their way long before the end


def failing(selection: tuple[slice, ...]) -> Any:
    if selection[0].start == ROWS - 1:
        raise KeyboardInterrupt
    return ones(selection)


def test_what_was_written_goes_when_the_import_is_interrupted(url: str) -> None:
    told: list[str] = []
    new = NewNode(url, memory_limit_bytes=64)
    with pytest.raises(KeyboardInterrupt):
        write_dataset(source_of(failing), new, told.append, lambda _count: None)
    assert keys(url) == []
    assert told == [f"{url}: what was written there has been removed"]


def test_what_could_not_be_removed_is_told_as_incomplete(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise NczfsError("no")

    told: list[str] = []
    new = NewNode(url, memory_limit_bytes=64)
    monkeypatch.setattr(MemoryZMap, "delete", refuse)
    with pytest.raises(KeyboardInterrupt):
        write_dataset(source_of(failing), new, told.append, lambda _count: None)
    assert told == [f"{url}: is incomplete, and could not be removed: no"]
    assert UNFINISHED in keys(url)


@pytest.fixture
def left_behind(url: str) -> str:
    """What a killed process leaves."""
    store = open_store(url)
    store.write(parse_key(UNFINISHED), b"")
    store.write(parse_key("v/0.0"), b"chunk")
    store.write(parse_key("old/0"), b"chunk")
    return url


def test_what_a_killed_process_left_is_named_and_goes_only_when_asked(left_behind: str) -> None:
    with pytest.raises(ObjectExists, match="holds an unfinished dataset"):
        write(source_of(ones), left_behind)
    assert "old/0" in keys(left_behind)
    write(source_of(ones), left_behind, overwrite=True)
    assert "old/0" not in keys(left_behind)
    assert (nczfs.open(left_behind).variables["v"][...] == 1).all()


def test_a_dataset_that_is_there_is_kept_unless_told(url: str) -> None:
    write(source_of(ones), url)
    before = keys(url)
    with pytest.raises(ObjectExists):
        write(source_of(ones), url)
    assert keys(url) == before


@pytest.mark.parametrize(
    ("changes", "options", "error", "message"),
    [
        ({"type": NcType.STRING}, {"format": "nczarr-L1"}, Unsupported, "has no strings"),
        ({}, {"format": "nczarr-L2U"}, Unsupported, r"no unlimited dimensions \(t\)"),
        ({"codecs": (CodecSpec("nosuch"),)}, {}, UsageError, "/v: codec 'nosuch'"),
        ({"dimensions": ("t", "y")}, {}, NczfsError, "no dimension 'y'"),
    ],
)
def test_what_the_format_cannot_hold_is_found_before_anything_is_deleted(
    url: str,
    changes: dict[str, Any],
    options: dict[str, Any],
    error: type[Exception],
    message: str,
) -> None:
    write(source_of(ones), url)
    before = keys(url)
    with pytest.raises(error, match=f"a file: .*{message}"):
        write(source_of(ones, **changes), url, overwrite=True, **options)
    assert keys(url) == before


def test_chunks_of_fill_alone_are_not_written(url: str) -> None:
    write(source_of(lambda selection: ones(selection) * -2147483647), url)
    assert [key for key in keys(url) if key.startswith("v/")] == ["v/.zarray", "v/.zattrs"]


STRINGS = """netcdf s {
dimensions: x = 3;
variables: string s(x); string alone; string none(x);
data: s = "a", "日本", ""; alone = "word"; }"""


@pytest.mark.parametrize(
    ("format_name", "sizes"), [("nczarr-L3", [6, 4, 128]), ("zarr2", [0, 0, 0])]
)
def test_strings_have_the_length_of_the_longest_one(
    url: str, format_name: str, sizes: list[int]
) -> None:
    write(cdl_source(STRINGS, "s.cdl"), url, format=format_name)
    with nczfs.open(url) as dataset:
        assert dataset.variables["s"][...].tolist() == ["a", "日本", ""]
        assert dataset.variables["alone"][...] == "word"
        found = [
            dataset.variables[name].description.array.dtype.item_size
            for name in ("s", "alone", "none")
        ]
    assert found == sizes


# -- the other way: a dataset as a source ----------------------------------------------------------


def exported(node: Any, **options: Any) -> tuple[Source, list[str]]:
    told: list[str] = []
    options = {"skip_unsupported": False} | options
    return dataset_source(node, "url", told.append, **options), told


GROUPS = """netcdf g {
dimensions: t = UNLIMITED; x = 2;
group: a { dimensions: y = 3;
  group: b { dimensions: x = 4; variables: int v(t, x, y); int w(/x); data: v = 1; } } }"""


@pytest.fixture
def groups(url: str) -> Iterator[nczfs.OpenDataset]:
    write(cdl_source(GROUPS, "g.cdl"), url)
    with nczfs.open(url) as dataset:
        yield dataset


def names(dimensions: tuple[Dimension, ...]) -> list[tuple[str, int, bool]]:
    return [(d.name, d.size, d.unlimited) for d in dimensions]


def test_a_group_takes_along_the_dimensions_of_those_above(groups: nczfs.OpenDataset) -> None:
    source, told = exported(groups["a"])
    assert names(source.root.dimensions) == [("y", 3, False), ("t", 1, True), ("x", 2, False)]
    (inner,) = source.root.groups
    assert names(inner.dimensions) == [("x", 4, False)]
    assert [v.dimensions for v in inner.variables] == [("/t", "/b/x", "/y"), ("/x",)]
    assert list(source.contents) == ["b/v", "b/w"]
    assert told == []


def test_a_second_dimension_of_one_name_gets_another(groups: nczfs.OpenDataset) -> None:
    source, told = exported(groups["a/b"])
    assert names(source.root.dimensions) == [
        ("x", 4, False),
        ("t", 1, True),
        ("y", 3, False),
        ("x_2", 2, False),
    ]
    assert told == ["/: a second dimension 'x' is renamed to 'x_2'"]


def test_a_second_dimension_never_gets_the_name_of_another_length(url: str) -> None:
    text = """netcdf g { dimensions: x = 2;
    group: a { dimensions: x = 4; x_2 = 9; variables: byte v(/x, x, x_2); } }"""
    write(cdl_source(text, "g.cdl"), url)
    with nczfs.open(url) as dataset:
        source, told = exported(dataset["a"])
    lengths = {f"/{d.name}": d.size for d in source.root.dimensions}
    (variable,) = source.root.variables
    assert [lengths[name] for name in variable.dimensions] == [2, 4, 9]
    assert told == ["/: a second dimension 'x' is renamed to 'x_2_'"]


def test_a_variable_alone_is_a_source(groups: nczfs.OpenDataset) -> None:
    source, _ = exported(groups["a/b/v"])
    assert [variable.name for variable in source.root.variables] == ["v"]
    assert source.contents["v"].read((slice(0, 1), slice(0, 1), slice(0, 2))).tolist() == [
        [[1, -2147483647]]
    ]


def test_a_broken_member_is_refused_or_left_out(tmp_path: Path) -> None:
    write(source_of(ones), str(tmp_path))
    (tmp_path / "v/.zarray").write_text("{")
    with nczfs.open(str(tmp_path)) as dataset:
        with pytest.raises(BadMetadata, match="--skip-unsupported leaves it out"):
            exported(dataset)
        source, told = exported(dataset, skip_unsupported=True)
    assert source.contents == {}
    assert len(told) == 1


def test_a_fill_value_without_an_attribute_becomes_one(url: str) -> None:
    with nczfs.open(url, "w", format="zarr2") as dataset:
        dataset.create_dimension("x", 2)
        dataset.create_variable("v", ("x",), "i2", fillvalue=7)
        dataset.create_variable("usual", ("x",), "i2")
        del dataset["v"].attrs["_FillValue"]
    with nczfs.open(url) as dataset:
        source, _ = exported(dataset)
    found = {v.name: [(a.name, a.value) for a in v.attributes] for v in source.root.variables}
    assert found == {"v": [("_FillValue", (7,))], "usual": []}


@pytest.mark.parametrize(
    ("stored", "fill", "exported_as"),
    [
        ("NaN", math.nan, "nan"),
        (7.5, 7.5, "7.5"),
        # So xarray writes NaN in Zarr v3; in v2 it takes the fill value of the array.
        ("AAAAAAAA+H8=", math.nan, "nan"),
        ("none", 3.0, "3.0"),
    ],
)
def test_a_fill_value_of_pure_zarr_reaches_a_netcdf_file(
    tmp_path: Path, stored: object, fill: float, exported_as: str
) -> None:
    with nczfs.open(str(tmp_path), "w", format="zarr2") as dataset:
        dataset.create_variable("v", (), "<f4", fillvalue=fill)
    (tmp_path / "v/.zattrs").write_text(json.dumps({"_FillValue": stored}))
    with nczfs.open(str(tmp_path)) as dataset:
        source, _ = exported(dataset)
    kept = fitted(source, KINDS["netcdf4"], lambda line: None, skip_unsupported=False)
    (attribute,) = kept.root.variables[0].attributes
    assert attribute.type is NcType.FLOAT
    assert isinstance(attribute.value, tuple)
    assert str(attribute.value[0]) == exported_as


@pytest.mark.parametrize("values", ['char v; data: v = "q";', 'string v; data: v = "word";'])
def test_a_scalar_of_text_is_copied(values: str, url: str) -> None:
    write(cdl_source(f"netcdf a {{ variables: {values} }}", "a.cdl"), url)
    with nczfs.open(url) as dataset:
        assert dataset.variables["v"][...] in (b"q", "word")
