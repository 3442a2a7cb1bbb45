"""What is chosen for a new variable where nobody said it: chunks, codecs, types, fill values."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nczfs.engine.structure.creation import CHUNK_BYTES_WANTED, default_chunks
from nczfs.errors import BadValue, Unsupported, UsageError
from nczfs.library.api import OpenDataset
from nczfs.library.opening import open_zmap
from nczfs.library.variable import Variable
from nczfs.model.dtypes import CODE_OF_NC_TYPE, DEFAULT_FILL, NcType
from nczfs.model.hierarchy import Attribute
from nczfs.zmap.memory import MemoryZMap

FORMATS = ("nczarr-L3", "nczarr-L2l", "nczarr-L2U", "nczarr-L1", "zarr2")
NUMBERS = tuple(CODE_OF_NC_TYPE)


def made(zmap: MemoryZMap, *arguments: Any, layout: str = "nczarr-L3", **options: Any) -> None:
    with open_zmap(zmap, "w", format=layout) as dataset:
        dataset.create_variable("v", *arguments, **options)


def found(zmap: MemoryZMap) -> tuple[OpenDataset, Variable]:
    dataset = open_zmap(zmap)
    return dataset, dataset.variables["v"]


@given(
    st.lists(st.tuples(st.integers(0, 5000), st.booleans()), max_size=5),
    st.sampled_from((1, 2, 4, 8, 64)),
)
def test_a_chunk_has_about_4_mib_and_a_length_in_every_dimension(
    dimensions: list[tuple[int, bool]], item: int
) -> None:
    shape = [length for length, _ in dimensions]
    unlimited = [grows for _, grows in dimensions]
    chunks = default_chunks(shape, unlimited, item)
    assert len(chunks) == len(shape)
    assert all(length >= 1 for length in chunks)
    assert prod(chunks) * item <= CHUNK_BYTES_WANTED
    for length, grows, chunk in zip(shape, unlimited, chunks, strict=True):
        assert chunk <= max(1, length) or grows


@pytest.mark.parametrize(
    ("shape", "unlimited", "item", "chunks"),
    [
        ((100, 200), (False, False), 4, (100, 200)),
        ((0, 720, 1440), (True, False, False), 4, (1, 720, 1440)),
        ((4000, 4000), (False, False), 4, (1024, 1024)),
        ((1, 1, 4000, 4000), (False, False, False, False), 4, (1, 1, 1024, 1024)),
        ((0,), (True,), 8, (1024,)),
        ((0, 0), (True, True), 4, (1024, 1024)),
        ((), (), 4, ()),
        ((0,), (False,), 4, (1,)),
    ],
)
def test_chunks_are_chosen_by_the_rule_of_netcdf_c(
    shape: tuple[int, ...], unlimited: tuple[bool, ...], item: int, chunks: tuple[int, ...]
) -> None:
    assert default_chunks(shape, unlimited, item) == chunks


@pytest.mark.parametrize("layout", FORMATS)
@pytest.mark.parametrize("nc_type", NUMBERS)
def test_the_default_fill_value_is_that_of_netcdf_and_no_attribute(
    layout: str, nc_type: NcType
) -> None:
    zmap = MemoryZMap()
    made(zmap, (3,), nc_type, layout=layout)
    dataset, variable = found(zmap)
    with dataset:
        wanted = np.array(DEFAULT_FILL[nc_type], CODE_OF_NC_TYPE[nc_type])
        assert variable.dtype == wanted.dtype
        np.testing.assert_array_equal(variable[...], np.broadcast_to(wanted, 3))
        assert "_FillValue" not in variable.attrs


@pytest.mark.parametrize("layout", FORMATS)
@pytest.mark.parametrize("nc_type", NUMBERS)
def test_a_fill_value_is_what_is_read_and_the_attribute_says_so(
    layout: str, nc_type: NcType
) -> None:
    zmap = MemoryZMap()
    made(zmap, (3,), nc_type, fillvalue=7, layout=layout)
    dataset, variable = found(zmap)
    with dataset:
        assert variable.fill_value == 7
        assert variable[...].tolist() == [7, 7, 7]
        attribute = variable.attrs.described("_FillValue")
        assert attribute.value == (7,)
        # Pure Zarr has no types of attributes.
        assert attribute.type is nc_type or layout == "zarr2"


@pytest.mark.parametrize("layout", FORMATS)
def test_without_a_fill_value_there_is_none(layout: str) -> None:
    zmap = MemoryZMap()
    made(zmap, (3,), "f8", fillvalue=None, layout=layout)
    dataset, variable = found(zmap)
    with dataset:
        assert variable.fill_value is None
        assert "_FillValue" not in variable.attrs
        assert variable[...].tolist() == [0, 0, 0]


@pytest.mark.parametrize("fill", [float("nan"), float("inf"), float("-inf"), -0.0, 0.1])
def test_odd_fill_values_of_floats(fill: float) -> None:
    zmap = MemoryZMap()
    made(zmap, (2,), "f8", fillvalue=fill)
    dataset, variable = found(zmap)
    with dataset:
        assert variable[...].tobytes() == np.full(2, fill).tobytes()
        np.testing.assert_array_equal(variable.attrs["_FillValue"], fill)


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8"])
def test_the_bits_of_a_nan_are_not_lost_where_the_fill_value_is_that_nan(dtype: str) -> None:
    zmap = MemoryZMap()
    values = np.full(2 * np.dtype(dtype).itemsize, 255, np.uint8).view(dtype)
    made(zmap, (2,), dtype, fillvalue=values[0], data=values, layout="zarr2")
    dataset, variable = found(zmap)
    with dataset:
        assert variable[...].tobytes() == values.tobytes()


def test_the_attribute_alone_sets_the_fill_value_too() -> None:
    zmap = MemoryZMap()
    made(zmap, (2,), "i2", attributes={"_FillValue": np.int16(5), "units": "m"})
    dataset, variable = found(zmap)
    with dataset:
        assert variable[...].tolist() == [5, 5]
        assert list(variable.attrs) == ["_FillValue", "units"]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"fillvalue": 300}, BadValue, "/v: fill value: 300 is out of range for int8"),
        ({"fillvalue": "x"}, BadValue, "/v: fill value"),
        ({"chunks": (2, 2)}, UsageError, r"/v: chunks \(2, 2\) do not fit 1 dimensions"),
        ({"chunks": (0,)}, UsageError, "at least 1 for each"),
        ({"codecs": [{"level": 1}]}, UsageError, "is not a codec: it needs an 'id', or in Zarr v3"),
        ({"codecs": [{"name": "gzip", "level": 1}]}, UsageError, "a 'name' and a 'configuration'"),
    ],
)
def test_what_does_not_fit_the_variable_is_refused_and_nothing_is_made(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    zmap = MemoryZMap()
    with open_zmap(zmap, "w") as dataset:
        with pytest.raises(error, match=message):
            dataset.create_variable("v", (3,), "i1", **options)
        assert not dataset.variables
        dataset.create_variable("v", (3,), "i1")
    with open_zmap(zmap) as dataset:
        assert list(dataset.variables) == ["v"]


@pytest.mark.parametrize("dtype", ["?", "c8", "M8[s]", "f2", "V3"])
def test_types_that_netcdf_has_not_are_refused_in_nczarr_and_kept_in_zarr(dtype: str) -> None:
    with open_zmap(MemoryZMap(), "w") as dataset:
        with pytest.raises(Unsupported):
            dataset.create_variable("v", (3,), dtype)
        assert not dataset.variables
    zmap = MemoryZMap()
    made(zmap, (3,), dtype, fillvalue=None, layout="zarr2")
    dataset, variable = found(zmap)
    with dataset:
        assert variable.dtype == np.dtype(dtype)


@pytest.mark.parametrize("dtype", [object(), "no such type", None, "i3"])
def test_what_is_no_type_is_refused_by_name(dtype: Any) -> None:
    with (
        open_zmap(MemoryZMap(), "w") as dataset,
        pytest.raises(UsageError, match=r"variable 'v': .* is not a type"),
    ):
        dataset.create_variable("v", (3,), dtype)


@pytest.mark.parametrize("layout", FORMATS)
def test_the_type_of_the_data_is_that_of_the_variable(layout: str) -> None:
    zmap = MemoryZMap()
    made(zmap, (3,), data=np.array([1, 2, 3], np.uint16), layout=layout)
    dataset, variable = found(zmap)
    with dataset:
        assert variable.dtype == np.uint16
        assert variable[...].tolist() == [1, 2, 3]


@pytest.mark.parametrize("order", ["<", ">"])
def test_the_byte_order_is_that_of_the_store_not_of_the_values(order: str) -> None:
    zmap = MemoryZMap()
    made(zmap, (2,), "i4", data=[1, 256], byte_order=order, codecs=[])
    assert bytes(zmap.read("v/0").data) == np.array([1, 256], f"{order}i4").tobytes()  # type: ignore[arg-type]
    dataset, variable = found(zmap)
    with dataset:
        assert variable.dtype == np.dtype("=i4")
        assert variable[...].tolist() == [1, 256]


@pytest.mark.parametrize(
    ("layout", "size"), [("nczarr-L3", 16), ("nczarr-L2l", 16), ("zarr2", None)]
)
def test_strings_are_text_and_come_back_as_text(layout: str, size: int | None) -> None:
    zmap = MemoryZMap()
    values = np.array(["naïve", "", "日本"], object)
    made(zmap, (3,), str, data=values, layout=layout, string_bytes=size)
    dataset, variable = found(zmap)
    with dataset:
        assert variable[...].tolist() == values.tolist()
        assert variable.dtype == np.dtype(object)


def test_characters_are_bytes_one_by_one() -> None:
    zmap = MemoryZMap()
    made(zmap, (4,), "S1", data="héy")
    dataset, variable = found(zmap)
    with dataset:
        assert b"".join(variable[...]) == "héy".encode()


def test_an_attribute_can_have_exactly_the_type_that_is_wanted() -> None:
    zmap = MemoryZMap()
    flag = Attribute("flag", NcType.UBYTE, (1, 2))
    made(zmap, (5,), "i4", attributes={"flag": flag})
    dataset, variable = found(zmap)
    with dataset:
        assert variable.attrs.described("flag") == flag
