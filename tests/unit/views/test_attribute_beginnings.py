"""What a text begins with tells whether it can become an attribute, and never too early."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nczfs.cdl.constants import begins_number
from nczfs.errors import BadValue
from nczfs.model.dtypes import CODE_OF_NC_TYPE, NcType
from nczfs.model.hierarchy import Attribute
from nczfs.views.attributes import attribute_from, check_beginning

NUMBERS = [
    *("0", "-1", "+7s", "12ub", "0x1Fus", "017", "300UL", "9ll", "18446744073709551615ull"),
    *("1.", ".5", "-2.5e-3f", "1e9D", "+Infinityf", "NaN", "-nanf", "Inf", "7f", "1.5L"),
]

numbers = (
    st.sampled_from(NUMBERS)
    | st.integers(-(2**64), 2**64).map(str)
    | st.floats(allow_nan=False).map(repr)
)
texts = (
    st.lists(numbers, min_size=1, max_size=4).map(" ".join)
    | st.lists(numbers | st.sampled_from([",", " , ", "\n", "x", "1_0", "''", "é"])).map("".join)
    | st.recursive(
        st.none() | st.booleans() | st.floats(allow_nan=False) | st.text('a\\"é{}[]:,u 1'),
        lambda inner: st.lists(inner) | st.dictionaries(st.text('a"\\'), inner),
        max_leaves=5,
    ).map(json.dumps)
)


@settings(max_examples=300)
@given(texts, st.sampled_from([*CODE_OF_NC_TYPE, NcType.CHAR, NcType.STRING, NcType.JSON]))
def test_nothing_is_refused_that_can_still_become_an_attribute(text: str, nc_type: NcType) -> None:
    known = Attribute("a", nc_type, "" if nc_type is NcType.CHAR else ())
    data = f"{text}\n".encode()
    try:
        attribute_from("a", data, known)
    except BadValue:
        with suppress(BadValue):
            check_beginning("a", data, nc_type, is_single=False)
        return
    for stop in range(len(data) + 1):
        check_beginning("a", data[:stop], nc_type, is_single=False)


@pytest.mark.parametrize("number", NUMBERS)
def test_every_beginning_of_a_number_can_begin_one(number: str) -> None:
    for stop in range(len(number) + 1):
        assert begins_number(number[:stop].encode()), number[:stop]


def test_lists_within_lists_are_a_text_however_many_they_are() -> None:
    text = "[" * 5000 + "]" * 5000
    found = attribute_from("a", text.encode(), Attribute("a", NcType.STRING, ()))
    assert found.value == (text,)


REFUSED: list[tuple[NcType, bytes]] = [
    (NcType.INT, b"x"),
    (NcType.INT, b"many\n"),
    (NcType.INT, b"2.5\n"),
    (NcType.INT, b"2.5 "),
    (NcType.INT, b"1,,"),
    (NcType.INT, b",1"),
    (NcType.INT, b"0x1g"),
    (NcType.INT, b"12 m"),
    (NcType.SHORT, b"1 40000 "),
    (NcType.FLOAT, b"1e99\n"),
    (NcType.DOUBLE, b"1.5e+x"),
    (NcType.DOUBLE, b'"'),
    (NcType.CHAR, b"\xff"),
    (NcType.STRING, b"a\xe9 "),
    (NcType.JSON, b"[1,]"),
    (NcType.JSON, b"{1}"),
    (NcType.JSON, b"1 2"),
]


@pytest.mark.parametrize(("nc_type", "data"), REFUSED)
def test_what_nothing_behind_it_can_mend_is_refused(nc_type: NcType, data: bytes) -> None:
    with pytest.raises(BadValue, match="'a'"):
        check_beginning("a", data, nc_type, is_single=False)


@pytest.mark.parametrize(
    ("nc_type", "data"),
    [
        (NcType.INT, b"2.5"),  # 2.5e1 is 25
        (NcType.INT, b""),
        (NcType.INT, b" \n"),
        (NcType.INT, b"1 , "),
        (NcType.CHAR, b"a\xc3"),
        (NcType.JSON, b'{"a": [1, "'),
        (NcType.JSON, b"[1, tr"),
        (None, b"anything"),
    ],
)
def test_what_may_still_become_one_is_taken(nc_type: NcType | None, data: bytes) -> None:
    check_beginning("a", data, nc_type, is_single=False)


@pytest.mark.parametrize(("text", "is_refused"), [("7", False), ("7\n", False), ("7 8", True)])
def test_a_fill_value_is_one_value(text: str, is_refused: bool) -> None:
    def check() -> None:
        check_beginning("_FillValue", text.encode(), NcType.INT, is_single=True)

    if not is_refused:
        check()
        return
    with pytest.raises(BadValue, match="one value"):
        check()


def test_a_new_attribute_is_any_text_that_is_utf_8() -> None:
    check_beginning("a", "é 1,,\n".encode(), None, is_single=False)
    with pytest.raises(BadValue, match="UTF-8"):
        check_beginning("a", b"\xff", None, is_single=False)
