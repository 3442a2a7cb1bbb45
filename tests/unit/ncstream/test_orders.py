"""Random arrays in random messages: what is read is what was written, the later message winning."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from nczfs.ncstream import assemble, read
from nczfs.ncstream.assembling import place
from nczfs.ncstream.data import data_messages
from nczfs.ncstream.framing import END, START
from nczfs.ncstream.headers import header_message
from nczfs.ncstream.messages import (
    DataType,
    Dimension,
    Group,
    Header,
    Range,
    Section,
    Variable,
    whole_section,
)

TYPES = (DataType.SHORT, DataType.DOUBLE, DataType.ULONG, DataType.CHAR, DataType.STRING)


@st.composite
def sections(draw: st.DrawFn, shape: tuple[int, ...]) -> Section:
    ranges = []
    for length in shape:
        start = draw(st.integers(0, length - 1))
        stride = draw(st.integers(1, 3))
        size = draw(st.integers(1, 1 + (length - 1 - start) // stride))
        ranges.append(Range(start, size, stride))
    return Section(tuple(ranges))


def some_values(type_: DataType, shape: tuple[int, ...], seed: int) -> np.ndarray[Any, Any]:
    numbers = np.random.default_rng(seed).integers(0, 100, shape)
    if type_ is DataType.STRING:
        texts = np.empty(shape, object)
        texts.reshape(-1)[:] = [f"ż{n}" for n in numbers.reshape(-1)]
        return texts
    if type_ is DataType.CHAR:
        return np.asarray(numbers, "u1").view("S1")
    return numbers.astype(type_.dtype.newbyteorder("="))


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_messages_in_any_order_give_the_array(data: st.DataObject) -> None:
    type_ = data.draw(st.sampled_from(TYPES))
    shape = tuple(data.draw(st.lists(st.integers(1, 7), max_size=3)))
    expected = some_values(type_, shape, 0)
    variable = Variable("v", type_, tuple(Dimension("", n, is_private=True) for n in shape))
    header = header_message(Header(Group(variables=(variable,))))
    deflate = data.draw(st.sampled_from([None, 1]))
    limit = data.draw(st.sampled_from([8, 40, 1 << 20]))
    pieces = [START, header, *data_messages("v", type_, whole_section(shape), expected)]
    for seed in range(1, data.draw(st.integers(1, 5))):
        section = data.draw(sections(shape))
        values = some_values(type_, section.shape, seed)
        expected[place(section)] = values
        more = data_messages("v", type_, section, values, deflate=deflate, block_bytes_max=limit)
        pieces += more
    found = assemble(read(io.BytesIO(b"".join([*pieces, END]))))["v"]
    assert found.shape == expected.shape
    assert found.tolist() == expected.tolist()
