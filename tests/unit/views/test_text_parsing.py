"""Lines of values.txt become the elements that they show, or nothing at all."""

from __future__ import annotations

import numpy as np
import pytest

from nczfs.errors import BadValue
from nczfs.model.dtypes import DataType
from nczfs.views.text import TextForm, text_form


def form_of(dtype: str) -> TextForm:
    found = text_form(DataType(dtype, np.dtype(dtype)))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        ("?", [True, False]),
        ("i1", [-128, 0, 127]),
        ("u8", [0, 2**64 - 1]),
        ("i8", [-(2**63), 2**63 - 1]),
        ("f2", [0.1, 65504, np.inf]),
        ("f4", [0.1, 3.4028235e38, 1e-45, -0.0]),
        ("f8", [0.1, 1.7976931348623157e308, 5e-324, -np.inf]),
        ("c8", [1 + 2j, -0.5j]),
        ("M8[s]", ["2001-01-01", "NaT"]),
        ("m8[ns]", [1, -5]),
        ("S4", [b"", b"a", b"a b", b"abcd"]),
        ("U3", ["", "é", "x y", "\U0001f600\U0001f600\U0001f600"]),
    ],
)
def test_what_is_shown_reads_back_to_the_same_bits(dtype: str, values: list[object]) -> None:
    elements = np.array(values, dtype)
    form = form_of(dtype)
    parsed = form.parse(bytes(form.render(elements)), elements.dtype)
    assert parsed.tobytes() == elements.tobytes()


@pytest.mark.parametrize(
    ("dtype", "line"),
    [
        ("?", b"2"),
        ("?", b" "),
        ("i1", b" 128"),
        ("u1", b" -1"),
        ("i4", b"1.5"),
        ("i4", b""),
        ("i4", b"1 2"),
        ("i4", b"1_000"),
        ("i4", "١".encode()),
        ("f4", b"1e39"),
        ("f4", b"one"),
        ("f8", b"1e309"),
        ("c8", b"1"),
        ("c8", b"1 2 3"),
        ("S4", b"a\tb"),
        ("S4", b"a\0b"),
        ("U3", b"\xff"),
        ("U3", b"abcd"),
    ],
)
def test_what_is_no_value_of_the_type_is_refused(dtype: str, line: bytes) -> None:
    form = form_of(dtype)
    with pytest.raises(BadValue):
        form.parse(line.rjust(form.columns) + b"\n", np.dtype(dtype))


def test_a_line_ends_with_its_newline() -> None:
    form = form_of("i2")
    with pytest.raises(BadValue, match="6 bytes and a newline"):
        form.parse(b"1\n2\n3\n4", np.dtype("i2"))
