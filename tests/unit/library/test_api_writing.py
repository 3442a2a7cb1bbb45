"""What a user of the library does to variables and attributes, and what he then finds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from nczfs.errors import BadSelection, BadValue
from nczfs.library.api import OpenDataset
from nczfs.library.opening import open_zmap
from nczfs.library.variable import Variable
from nczfs.model.dtypes import NcType
from nczfs.model.hierarchy import Attribute
from nczfs.zmap.keys import ROOT
from nczfs.zmap.memory import MemoryZMap


@pytest.fixture
def memory() -> MemoryZMap:
    return MemoryZMap()


@pytest.fixture
def dataset(memory: MemoryZMap) -> Iterator[OpenDataset]:
    with open_zmap(memory, "w") as dataset:
        yield dataset


def variable(dataset: OpenDataset, dtype: Any = "i2", **options: Any) -> Variable:
    return dataset.create_variable("v", (6,), dtype, chunks=(4,), **{"fillvalue": 0, **options})


def attributes_found(memory: MemoryZMap) -> dict[str, Attribute]:
    with open_zmap(memory) as dataset:
        return {name: dataset.attrs.described(name) for name in dataset.attrs}


@pytest.mark.parametrize(
    "values",
    [
        [1, 2, 3, 4, 5, 40000],
        [1.0, 2.0, 3.0, 4.0, 5.0, float("nan")],
        np.array([1, 2, 3, 4, 5, None], object),
        ["a"] * 6,
        np.ma.array([1, 2, 3, 4, 5, 40000], mask=np.array([1, 1, 1, 1, 0, 0], bool)),
    ],
)
def test_when_one_value_does_not_fit_nothing_is_written(
    dataset: OpenDataset, memory: MemoryZMap, values: Any
) -> None:
    v = variable(dataset)
    dataset.sync()
    before = {stat.key: stat.version for stat in memory.list(ROOT)}
    with pytest.raises(BadValue, match=r"^/v: "):
        v[...] = values
    assert v[...].tolist() == [0] * 6
    dataset.sync()
    assert {stat.key: stat.version for stat in memory.list(ROOT)} == before


def test_when_the_shape_does_not_fit_nothing_grows(dataset: OpenDataset) -> None:
    dataset.create_dimension("t", None)
    v = dataset.create_variable("w", ("t", 2), "i4")
    for index, values in ((slice(0, 3), np.zeros((2, 2))), ((5, 2), 1), (slice(2), "no")):
        with pytest.raises((BadSelection, BadValue)):
            v[index] = values
    assert v.shape == (0, 2)
    v[0:0] = np.zeros((0, 2))
    v[5:0] = 1
    assert v.shape == (0, 2)


def test_masked_values_become_the_fill_value(dataset: OpenDataset) -> None:
    v = variable(dataset, fillvalue=-9)
    v[...] = np.ma.array([1, 2, 3, 4, 5, 6], mask=np.array([0, 1, 0, 0, 0, 1], bool))
    assert v[...].tolist() == [1, -9, 3, 4, 5, -9]
    v[0] = np.ma.masked
    v[1:3] = np.ma.array([7, 8])
    assert v[...].tolist() == [-9, 7, 8, 4, 5, -9]


def test_what_lies_below_a_mask_is_not_looked_at(dataset: OpenDataset) -> None:
    v = variable(dataset, fillvalue=-9)
    v[0:2] = np.ma.array([40000, 1], mask=np.array([1, 0], bool))
    # A fill value that the type of the values cannot hold.
    wide = dataset.create_variable("wide", (2,), "i4", fillvalue=-100000)
    wide[...] = np.ma.array([1, 2], np.int8, mask=np.array([0, 1], bool))
    assert v[0:2].tolist() == [-9, 1]
    assert wide[...].tolist() == [1, -100000]


def test_masked_values_need_a_fill_value(dataset: OpenDataset) -> None:
    v = variable(dataset, fillvalue=None)
    with pytest.raises(BadValue, match="/v: masked values, but no fill value"):
        v[...] = np.ma.array([1] * 6, mask=np.ones(6, bool))


def test_values_of_every_kind_are_broadcast_as_numpy_does(dataset: OpenDataset) -> None:
    v = variable(dataset)
    v[...] = 7
    v[1:3] = [8.9, True]
    v[-1] = np.float32(3.99)
    v[[4, 3]] = np.array([[1, 2]])
    assert v[...].tolist() == [7, 8, 1, 2, 1, 3]
    with pytest.raises(BadSelection, match="do not fit"):
        v[...] = [1, 2]


def test_values_that_are_read_belong_to_the_caller(dataset: OpenDataset) -> None:
    v = variable(dataset)
    v[1] = 1
    for index in (..., slice(0, 4), slice(None, None, -1), slice(4, 6)):
        found = v[index]
        found[...] = 99
    assert v[...].tolist() == [0, 1, 0, 0, 0, 0]


def test_a_variable_can_be_written_from_itself_turned_round(dataset: OpenDataset) -> None:
    v = variable(dataset)
    v[...] = range(6)
    v[...] = v[::-1]
    assert v[...].tolist() == [5, 4, 3, 2, 1, 0]


def test_values_in_any_order_of_memory_are_written_as_they_look(dataset: OpenDataset) -> None:
    values = np.arange(24, dtype=np.int32).reshape(4, 6)
    w = dataset.create_variable("w", (6, 4), "i4", chunks=(3, 2))
    w[...] = values.T
    np.testing.assert_array_equal(w[...], values.T)
    w[::2] = values.T[::-2]
    np.testing.assert_array_equal(w[::2], values.T[::-2])
    w[...] = np.broadcast_to(np.int32(3), (6, 4))
    assert (w[...] == 3).all()


def test_texts_of_every_language_and_length(dataset: OpenDataset, memory: MemoryZMap) -> None:
    texts = ["", "naïve", "日本語", "\U0001f600"]
    v = dataset.create_variable("v", (4,), str, string_bytes=12)
    v[...] = texts
    v[1] = "Ω"
    with pytest.raises(BadValue, match="has 15 bytes, an element 12"):
        v[0:2] = ["a", "日本語日本"]
    dataset.sync()
    with open_zmap(memory) as found:
        assert found.variables["v"][...].tolist() == ["", "Ω", "日本語", "\U0001f600"]


def test_the_scalar_has_one_value(dataset: OpenDataset, memory: MemoryZMap) -> None:
    v = dataset.create_variable("s", (), "f8", data=1.5)
    assert v[()] == v[...] == 1.5
    v[...] = 2
    dataset.sync()
    with open_zmap(memory) as found:
        assert found.variables["s"][()] == 2.0
        assert found.variables["s"].shape == ()


def test_objects_made_before_a_change_show_it(dataset: OpenDataset) -> None:
    dataset.create_dimension("t", None)
    first = dataset.create_variable("a", ("t",), "i4")
    second = dataset.variables["a"]
    attributes = first.attrs
    second[0:3] = 1
    second.attrs["units"] = "m"
    assert first.shape == (3,)
    assert attributes["units"] == "m"
    assert len(first) == 3
    assert dataset.dimensions["t"].size == 3


@pytest.mark.parametrize(
    ("value", "nc_type"),
    [
        ("text", NcType.CHAR),
        ("", NcType.CHAR),
        ('naïve 日本\n\t"quoted" \\', NcType.CHAR),
        (["a", "b"], NcType.STRING),
        (3, NcType.INT64),
        (-(2**63), NcType.INT64),
        (2**64 - 1, NcType.UINT64),
        (1.5, NcType.DOUBLE),
        (0.1, NcType.DOUBLE),
        (np.float32(0.1), NcType.FLOAT),
        (np.array([1, 2], np.int8), NcType.BYTE),
        (np.array([1e300, -0.0]), NcType.DOUBLE),
        (float("nan"), NcType.DOUBLE),
        (np.array([float("inf"), float("-inf")], np.float32), NcType.FLOAT),
        ([1, 2, 3], NcType.INT64),
        (np.uint16(7), NcType.USHORT),
    ],
)
def test_an_attribute_comes_back_with_its_type_and_bits(
    dataset: OpenDataset, memory: MemoryZMap, value: Any, nc_type: NcType
) -> None:
    dataset.attrs["a"] = value
    here = dataset.attrs["a"]
    dataset.sync()
    with open_zmap(memory) as found:
        there = found.attrs["a"]
        assert found.attrs.described("a").type is nc_type
    for read in (here, there):
        if isinstance(value, str) or (isinstance(value, list) and isinstance(value[0], str)):
            assert read == value
        else:
            assert np.asarray(read).tobytes() == np.asarray(value).tobytes()


def test_attributes_keep_their_order_through_changes(
    dataset: OpenDataset, memory: MemoryZMap
) -> None:
    for name in "cab":
        dataset.attrs[name] = name
    dataset.sync()
    dataset.attrs["a"] = "other"
    dataset.attrs["d"] = "new"
    del dataset.attrs["c"]
    wanted = ["a", "b", "d"]
    assert list(dataset.attrs) == wanted
    assert len(dataset.attrs) == 3
    assert "c" not in dataset.attrs
    dataset.sync()
    assert list(attributes_found(memory)) == wanted


@pytest.mark.parametrize(
    ("known", "value", "nc_type", "stored"),
    [
        (np.int16(1), 7, NcType.SHORT, (7,)),
        (np.int16(1), 40000, NcType.INT64, (40000,)),
        (np.int16(1), 2.0, NcType.SHORT, (2,)),
        (np.int16(1), 2.5, NcType.DOUBLE, (2.5,)),
        (np.float32(1), 3, NcType.FLOAT, (3.0,)),
        (np.float32(1), 0.1, NcType.FLOAT, (float(np.float32(0.1)),)),
        (np.float32(1), 1e300, NcType.DOUBLE, (1e300,)),
        (np.int16(1), [1, 2], NcType.SHORT, (1, 2)),
        (np.int16(1), np.float64(7), NcType.DOUBLE, (7.0,)),
        (np.int16(1), "text", NcType.CHAR, "text"),
        ("text", 7, NcType.INT64, (7,)),
        (["a", "b"], "c", NcType.CHAR, "c"),
    ],
)
def test_an_attribute_keeps_its_type_when_a_plain_number_fits(
    dataset: OpenDataset, memory: MemoryZMap, known: Any, value: Any, nc_type: NcType, stored: Any
) -> None:
    dataset.attrs["a"] = known
    dataset.sync()
    dataset.attrs["a"] = value
    assert dataset.attrs.described("a") == Attribute("a", nc_type, stored)
    dataset.sync()
    assert attributes_found(memory)["a"] == Attribute("a", nc_type, stored)


def test_an_attribute_that_is_not_there_is_a_key_error_that_lists_those_that_are(
    dataset: OpenDataset,
) -> None:
    dataset.attrs["title"] = "t"
    with pytest.raises(KeyError, match=r"titel.*title"):
        dataset.attrs["titel"]
    with pytest.raises(KeyError):
        del dataset.attrs["titel"]


def test_json_that_netcdf_does_not_know_is_kept_in_pure_zarr() -> None:
    zmap = MemoryZMap()
    value = {"a": [1, None, {"b": True}], "c": 2.5}
    with open_zmap(zmap, "w", format="zarr2") as dataset:
        dataset.attrs["json"] = value
        dataset.attrs["flag"] = True
    with open_zmap(zmap) as found:
        assert found.attrs["json"] == value
        assert found.attrs["flag"] is True


def test_a_variable_is_true_whatever_it_holds(dataset: OpenDataset) -> None:
    assert dataset.create_variable("empty", (0,), "i4")
    assert dataset.create_variable("zero", (), "i4", data=0)


def test_a_filter_that_narrows_numbers_stores_what_it_makes_of_them(memory: MemoryZMap) -> None:
    """SEMANTICS W24."""
    scaled = {"id": "fixedscaleoffset", "offset": 0, "scale": 10, "dtype": "<f8", "astype": "|u1"}
    with open_zmap(memory, "w", format="zarr") as dataset:
        variable(dataset, "<f8", codecs=[scaled])[:3] = [1.52, 300, -5]
    with open_zmap(memory) as dataset:
        found = dataset.variables["v"][:3]
    assert found[0] == 1.5
    assert np.all((found[1:] >= 0) & (found[1:] <= 25.5))
