"""The forms of elements in netCDF files, and what writing them refuses."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nczfs.errors import BadValue
from nczfs.views.layout import Layout
from nczfs.views.netcdf.cells import cell_form, text_cells
from nczfs.views.segments import Run
from nczfs.views.writer import write_at
from tests.support.elements import Numbers

HALVES = np.arange(1 << 16, dtype=np.uint16).view(np.float16)


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize(
    ("dtype", "cell"),
    [
        ("i4", "i4"),
        ("f8", "f8"),
        ("?", "i1"),
        ("M8[ns]", "i8"),
        ("m8[h]", "i8"),
        ("c16", [("r", "f8"), ("i", "f8")]),
        ("V5", "V5"),
        ("S5", "S5"),
        (
            [("a", "i2"), ("b", "S3"), ("c", "f4", (2,))],
            [("a", "i2"), ("b", "S1", 3), ("c", "f4", (2,))],
        ),
    ],
)
def test_most_cells_have_the_bytes_of_the_element(dtype: object, cell: object, order: str) -> None:
    array, wanted = np.dtype(dtype), np.dtype(cell).newbyteorder(order)  # type: ignore[call-overload]
    size = 3 * array.itemsize
    values = np.frombuffer(bytes(n % 2 for n in range(size)), array)
    form = cell_form(array, wanted)
    data = bytes(form.render(values))
    assert data == values.astype(array.newbyteorder(order)).tobytes()
    assert form.width == wanted.itemsize
    assert form.parse(data, array).tobytes() == values.tobytes()
    assert form.is_uncopied == wanted.isnative


@pytest.mark.parametrize("order", "<>")
def test_every_float16_is_a_float32_and_comes_back(order: str) -> None:
    form = cell_form(HALVES.dtype, np.dtype(f"{order}f4"))
    data = form.render(HALVES)
    np.testing.assert_array_equal(np.frombuffer(data, f"{order}f4"), HALVES.astype("f4"))
    back = form.parse(data, HALVES.dtype)
    np.testing.assert_array_equal(back, HALVES)
    assert (np.signbit(back) == np.signbit(HALVES)).all()


@pytest.mark.parametrize("wrong", [0.1, 1e10, 1e-30, 65520.0])
def test_a_float32_that_is_no_float16_is_refused(wrong: float) -> None:
    values = Numbers(np.zeros(3, "f2"))
    run = Run(values, cell_form(np.dtype("f2"), np.dtype(">f4")), 0, 3, is_compared=True)
    with pytest.raises(BadValue, match="float16"):
        write_at(Layout([run]), 4, np.array([wrong], ">f4").tobytes())
    assert values.written == []


texts = st.lists(
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=4),
    min_size=1,
    max_size=5,
)


@given(texts=texts)
def test_text_is_utf_8_and_comes_back(texts: list[str]) -> None:
    values = np.array(texts, "U4")
    form = cell_form(values.dtype, np.dtype("S16"))
    data = bytes(form.render(values))
    assert data == b"".join(text.encode().ljust(16, b"\0") for text in texts)
    back = form.parse(data, values.dtype)
    assert (back.tolist(), back.dtype) == (texts, values.dtype)
    assert form.restorable(values).all()


@pytest.mark.parametrize("wrong", [b"\xff", b"12345", "żółwie".encode()])
def test_bytes_that_are_no_text_or_too_long_are_refused(wrong: bytes) -> None:
    form = cell_form(np.dtype("U4"), np.dtype("S16"))
    with pytest.raises(BadValue):
        form.parse(wrong.ljust(16, b"\0"), np.dtype("U4"))


def test_elements_that_are_not_unicode_are_shown_and_kept() -> None:
    values = np.array([[ord("a")], [0x7FFFFFFF], [0xD800]], "u4").view("U1").reshape(-1)
    form = cell_form(values.dtype, np.dtype("S4"))
    assert bytes(form.render(values))[:8] == b"a\0\0\0" + "\ufffd".encode() + b"\0"
    assert form.restorable(values).tolist() == [True, False, False]


def test_the_first_and_last_characters_of_unicode_are_text() -> None:
    points = [0xD7FF, 0xD800, 0xDFFF, 0xE000, 0x10FFFF, 0x110000]
    values = np.array(points, "u4").view("U1")
    form = cell_form(values.dtype, np.dtype("S4"))
    assert form.restorable(values).tolist() == [True, False, False, True, True, False]
    shown = bytes(form.render(values[[0, 3, 4, 5]]))
    wanted = ["\ud7ff", "\ue000", "\U0010ffff", "\ufffd"]
    assert shown == b"".join(text.encode().ljust(4, b"\0") for text in wanted)


def test_texts_are_padded_to_their_width() -> None:
    assert text_cells(("a", "", "żó"), 4) == b"a\0\0\0" + bytes(4) + "żó".encode()
