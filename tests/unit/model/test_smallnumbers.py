"""Numbers of ml_dtypes are told apart from raw bytes, by their names in Zarr v3."""

from __future__ import annotations

import numpy as np
import pytest

from nczfs.model.dtypes import DataType
from nczfs.model.smallnumbers import SMALL_NUMBERS, bits_of, number_kind, ordered, small_number


@pytest.mark.parametrize("name", SMALL_NUMBERS)
def test_a_small_number_has_its_name_in_either_byte_order(name: str) -> None:
    dtype = SMALL_NUMBERS[name]
    assert small_number(dtype) == name
    assert small_number(dtype.newbyteorder(">")) == name


@pytest.mark.parametrize("dtype", ["V1", "V2", "f2", "i1", "u1", "b1", "c8", [("a", "i4")]])
def test_types_of_numpy_itself_are_no_small_numbers(dtype: object) -> None:
    found: np.dtype[np.generic] = np.dtype(dtype)  # type: ignore[call-overload]
    assert small_number(found) is None
    assert number_kind(found) == found.kind


@pytest.mark.parametrize(
    ("name", "kind", "bits"),
    [
        ("int4", "i", 4), ("uint2", "u", 2), ("bfloat16", "f", 16), ("float6_e3m2fn", "f", 6),
        ("float8_e5m2", "f", 8), ("complex_bfloat16", "c", 16),
    ],
)  # fmt: skip
def test_kind_and_bits_are_those_of_the_number(name: str, kind: str, bits: int) -> None:
    assert number_kind(SMALL_NUMBERS[name]) == kind
    assert bits_of(SMALL_NUMBERS[name]) == bits


def test_bits_of_numpys_own_numbers() -> None:
    assert [bits_of(np.dtype(code)) for code in ("b1", "i2", "f8", "c8")] == [1, 16, 64, 32]


def test_a_number_of_one_byte_has_no_byte_order() -> None:
    one = SMALL_NUMBERS["int4"]
    assert ordered(one, ">") == one
    two = SMALL_NUMBERS["bfloat16"]
    assert ordered(two, ">") == two.newbyteorder(">")
    assert DataType("bfloat16", ordered(two, ">")).native == two
