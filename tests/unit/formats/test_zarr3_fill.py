"""Fill values of Zarr v3: to the bit, there and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nczfs.codecs.fillelement import fill_element
from nczfs.errors import BadMetadata
from nczfs.formats.problems import Problems
from nczfs.formats.zarr3.fill import fill_value
from nczfs.formats.zarr3.fill_write import fill_json
from nczfs.formats.zarr3.types import data_type
from nczfs.model.dtypes import DataType
from nczfs.model.hierarchy import ArrayDescription, CodecChain


def type_of(name: Any, byte_order: Any = "<") -> DataType:
    return data_type(name, byte_order, "v")


def element(value: Any, dtype: DataType) -> Any:
    problems = Problems()
    fill = fill_value(value, dtype, "v", problems)
    assert problems.as_tuple() == ()
    return fill_element(ArrayDescription((), (), dtype, fill, CodecChain(3)))


def cells(name: str, length: int) -> dict[str, Any]:
    return {"name": name, "configuration": {"length_bytes": length}}


def time(unit: str) -> dict[str, Any]:
    return {"name": "numpy.datetime64", "configuration": {"unit": unit, "scale_factor": 1}}


RECORD = {"name": "structured", "configuration": {"fields": [["a", "int32"], ["b", "uint8"]]}}


@pytest.mark.parametrize(
    ("name", "value", "bits"),
    [
        ("bool", True, "01"),
        ("int64", -(2**63), "8000000000000000"),
        ("uint64", 2**64 - 1, "f" * 16),
        ("uint8", 3, "03"),
        ("float64", 3, "4008000000000000"),
        ("float64", -0.0, "8000000000000000"),
        ("float64", "NaN", "7ff8000000000000"),
        ("float64", "Infinity", "7ff0000000000000"),
        ("float64", "-Infinity", "fff0000000000000"),
        ("float64", "0x7ff8000000000001", "7ff8000000000001"),
        ("float64", "0xfff8000000000000", "fff8000000000000"),
        ("float64", "0x7ff0000000000001", "7ff0000000000001"),
        ("float32", "0x7fc00001", "7fc00001"),
        ("float32", "0x7f800001", "7f800001"),
        ("float32", "0x3fc00000", "3fc00000"),
        ("float32", 0.1, "3dcccccd"),
        ("float16", "0x3e00", "3e00"),
        ("float16", "0x7e01", "7e01"),
        ("float16", "0x7c01", "7c01"),
        ("complex64", [1, "NaN"], "7fc000003f800000"),
        ("complex64", ["0x7fc00001", "-Infinity"], "ff8000007fc00001"),
        ("bfloat16", 1.5, "3fc0"),
        ("bfloat16", "NaN", "7fc0"),
        ("bfloat16", "0x7fc1", "7fc1"),
        ("float8_e4m3fn", 448, "7e"),
        ("float8_e5m2", "-Infinity", "fc"),
        ("float4_e2m1fn", 1.5, "03"),
        ("int4", -8, "08"),  # a byte of ml_dtypes has only the bits of its number
        ("uint2", 3, "03"),
        ("complex_bfloat16", [1, "0x7fc1"], "7fc13f80"),
        (time("s"), "NaT", "8000000000000000"),
        (time("s"), -(2**63), "8000000000000000"),
        (time("s"), 12, "000000000000000c"),
    ],
)
@pytest.mark.parametrize("byte_order", ["<", ">"])
def test_numbers_are_read_and_written_to_the_bit(
    name: Any, value: Any, bits: str, byte_order: str
) -> None:
    dtype = type_of(name, byte_order)
    found = element(value, dtype)
    assert found.astype(found.dtype.newbyteorder("<")).tobytes()[::-1].hex() == bits
    fill = fill_value(value, dtype, "v", Problems())
    again = element(fill_json(fill, dtype), dtype)
    assert again.tobytes() == found.tobytes()


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("r24", [1, 2, 255], b"\x01\x02\xff"),
        ("r24", "AQL/", b"\x01\x02\xff"),
        (cells("raw_bytes", 3), "AQL/", b"\x01\x02\xff"),
        (cells("null_terminated_bytes", 5), "YWI=", b"ab"),
        (cells("null_terminated_bytes", 2), "", b""),
        (cells("fixed_length_utf32", 8), "\u00e5b", "\u00e5b"),
        ("string", "f\u00f8l", "f\u00f8l"),
        ("bytes", [0, 255], b"\x00\xff"),
        ("variable_length_bytes", "AP8=", b"\x00\xff"),
    ],
)
def test_bytes_and_texts_are_read_and_written(name: Any, value: Any, wanted: Any) -> None:
    dtype = type_of(name)
    fill = fill_value(value, dtype, "v", Problems())
    assert fill == wanted
    assert fill_value(fill_json(fill, dtype), dtype, "v", Problems()) == wanted


@pytest.mark.parametrize("byte_order", ["<", ">"])
def test_records_are_objects_or_little_endian_bytes(byte_order: str) -> None:
    dtype = type_of(RECORD, byte_order)
    for value in ({"b": 7, "a": -2}, "/v///wc="):
        found = element(value, dtype)
        assert (int(found["a"]), int(found["b"])) == (-2, 7)
    fill = fill_value({"b": 7, "a": -2}, dtype, "v", Problems())
    assert fill_json(fill, dtype) == "/v///wc="


def test_a_record_keeps_the_bits_of_its_floats() -> None:
    of_floats = {"name": "struct", "configuration": {"fields": [["a", "float32"]]}}
    found = element({"a": "0x7f800001"}, type_of(of_floats))
    assert found.tobytes().hex() == "0100807f"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("bool", 2),
        ("bool", "true"),
        ("int8", 128),
        ("int8", 1.5),
        ("int8", True),
        ("int8", "1"),
        ("uint8", -1),
        ("float32", 1e39),
        ("float32", 10**400),
        ("float32", "nan"),
        ("float32", "0x7ff8000000000000"),
        ("float32", "0x"),
        ("float32", True),
        ("float8_e4m3fn", "Infinity"),
        ("float4_e2m1fn", "NaN"),
        ("int4", 8),
        ("uint2", -1),
        ("complex64", 1),
        ("complex64", [1]),
        (time("s"), 2**63),
        (time("s"), 1.5),
        ("r24", [1, 2]),
        ("r24", [1, 2, 256]),
        ("r24", "AQ=="),
        ("r24", "?"),
        (cells("null_terminated_bytes", 1), "YWI="),
        (cells("fixed_length_utf32", 4), "ab"),
        ("string", 0),
        (RECORD, {"a": 1}),
        (RECORD, {"a": 1, "b": 1, "c": 1}),
        (RECORD, {"a": 1, "b": 256}),
        (RECORD, "AQ=="),
    ],
)
def test_values_of_another_type_are_refused(name: Any, value: Any) -> None:
    with pytest.raises(BadMetadata, match=r"^v: fill_value .* is not of the type"):
        fill_value(value, type_of(name), "v", Problems())


def test_a_nan_is_a_word_only_where_it_is_the_usual_one() -> None:
    dtype = type_of("float32")
    assert fill_json(np.nan, dtype) == "NaN"
    assert fill_json(-np.float32(np.nan), dtype) == "0xffc00000"


def test_an_undefined_fill_value_is_written_as_zero() -> None:
    for name, zero in (("int8", 0), ("float32", 0.0), ("string", ""), ("bytes", "")):
        assert fill_json(None, type_of(name)) == zero
