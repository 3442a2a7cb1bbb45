from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice

import numpy as np
import pytest

from nczfs.buffers import Values
from nczfs.errors import CodecError
from nczfs.views.jsonvalues import JsonText, json_pieces

LONG = 1 << 21


def objects(*values: object) -> Values:
    found = np.empty(len(values), object)
    for place, value in enumerate(values):
        found[place] = value
    return found


def of_any_length(count: int) -> Iterator[tuple[object, object]]:
    """Elements that repeat something so often, and what they are in JSON."""
    yield "\x01" * count, "\x01" * count
    yield b"\xff" * count, "\xff" * count
    yield np.arange(count), list(range(count))
    nested: object = [["y" * count, {}], {"a": [1, None], "b": []}]
    yield nested, nested
    yield {1: {b"a": "x" * count}}, {"1": {"a": "x" * count}}


@pytest.mark.parametrize("number", range(5))
def test_an_element_of_any_length_is_json_in_short_pieces(number: int) -> None:
    value, expected = next(islice(of_any_length(LONG), number, None))
    assert_in_short_pieces(value, expected)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        *of_any_length(0),
        ("é\x01\n", "é\x01\n"),
        (b"\xff\x00", "\xff\x00"),
        (None, None),
        ({}, {}),
        ({b"a": b"b", "c": [b"d"]}, {"a": "b", "c": ["d"]}),
    ],
)
def test_any_element_is_json(value: object, expected: object) -> None:
    assert_in_short_pieces(value, expected)


def assert_in_short_pieces(value: object, expected: object) -> None:
    pieces = list(json_pieces(value))
    assert json.loads("".join(pieces)) == expected
    assert max(map(len, pieces)) < 1 << 20


@pytest.mark.parametrize("values", [objects("a", "b"), objects(), objects([1, "x"], None)])
def test_elements_are_lines_or_a_list(values: Values) -> None:
    lines, whole = JsonText("here", 100), JsonText("here", 100)
    lines.add_lines(values)
    whole.add_list(values)
    assert lines.taken().decode() == "".join(f"{json.dumps(v)}\n" for v in values.tolist())
    assert whole.taken().decode() == f"{json.dumps(values.tolist())}\n"


def test_a_text_is_no_longer_than_its_limit_and_the_error_names_both() -> None:
    text = JsonText("d.zarr/x/values.txt", 1000)
    with pytest.raises(CodecError, match=r"d\.zarr/x/values\.txt: .* more than 1000 bytes"):
        text.add_list(objects(*["y" * 100] * 10))
