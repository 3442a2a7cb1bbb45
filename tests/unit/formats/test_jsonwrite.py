from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nczfs.formats.jsontext import parse
from nczfs.formats.jsonwrite import shortest, strict


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"b": [1, 2.0], "c": {}}, '{"b": [1,2.0], "c": {}}'),
        ("é漢 \x7f", '"é漢 \x7f"'),
        ('"\\\n\t\x00\x1f', '"\\"\\\\\\n\\t\\u0000\\u001f"'),
        ([True, None, -0.0, 1e300, 1e22], "[true,null,-0.0,1e+300,1e+22]"),
        ([math.nan, math.inf, -math.inf], '["NaN","Infinity","-Infinity"]'),
        (2**64 - 1, "18446744073709551615"),
    ],
)
def test_values_are_strict_json_in_the_style_of_netcdf_c(value: Any, text: str) -> None:
    assert strict(value) == text
    assert json.loads(text) is not None


@pytest.mark.parametrize(
    ("stored", "written"),
    [
        ("[1.50, 1e3, 9.96921e+36, -0]", "[1.50,1e3,9.96921e+36,-0]"),
        ("[007, +5, 0x10, True, nan]", '["007","+5","0x10","True","nan"]'),
        ('{"a": NaN, "b": [-Infinity]}', '{"a": NaN, "b": [-Infinity]}'),
        ("9" * 2000, "9" * 2000),
    ],
)
def test_what_was_read_keeps_its_spelling_and_bare_words_get_quotes(
    stored: str, written: str
) -> None:
    assert strict(parse(stored.encode(), "k").value) == written


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_a_float_has_the_digits_that_its_type_needs(number: float) -> None:
    text = strict(shortest(number, np.dtype("f4")))
    assert np.float32(float(text)) == number
    assert set(text) & set(".e")
    assert _digits(text) <= _digits(repr(number))


def _digits(text: str) -> int:
    """Significant ones, of a number in decimal."""
    mantissa = text.lstrip("-").partition("e")[0].replace(".", "")
    return len(mantissa.strip("0"))


@pytest.mark.parametrize(
    ("number", "code", "text"),
    [
        (float(np.float32(0.1)), "f4", "0.1"),
        (float(np.float32(9.96921e36)), "f4", "9.96921e+36"),
        (9.969209968386869e36, "f8", "9.969209968386869e+36"),
        (16777216.0, "f4", "16777216.0"),
        (float(np.float16(0.1)), "f2", "0.1"),
        (-math.inf, "f4", '"-Infinity"'),
    ],
)
def test_the_shortest_digits_of_well_known_numbers(number: float, code: str, text: str) -> None:
    assert strict(shortest(number, np.dtype(code))) == text
