"""Messages that are written, as siphon reads them."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from siphon.cdmr import ncstream as siphon

from nczfs.buffers import Buffer
from nczfs.errors import BadValue
from nczfs.ncstream.data import data_messages, error_message, parts, ragged_message
from nczfs.ncstream.framing import END, HEADER, START, vint
from nczfs.ncstream.headers import header_message
from nczfs.ncstream.messages import (
    Attribute,
    DataType,
    Dimension,
    EnumType,
    Group,
    Header,
    Range,
    Section,
    StreamError,
    Structure,
    Variable,
    whole_section,
)
from nczfs.ncstream.names import full_name, unescaped

NUMBERS = [t for t in DataType if t.is_fixed and t is not DataType.CHAR]


def read_by_siphon(data: bytes) -> list[Any]:
    return list(siphon.read_ncstream_messages(io.BytesIO(data)))


def joined(pieces: Iterable[Buffer]) -> bytes:
    return b"".join(pieces)


@pytest.mark.parametrize("type_", NUMBERS, ids=lambda t: t.name)
@pytest.mark.parametrize("deflate", [None, 6])
def test_siphon_reads_numbers_of_every_type(type_: DataType, deflate: int | None) -> None:
    values = np.arange(12).reshape(3, 4).astype(type_.dtype.newbyteorder("<"))
    sent = joined(data_messages("v", type_, whole_section((3, 4)), values, deflate=deflate))
    (found,) = read_by_siphon(sent)
    assert (found == values).all()
    assert found.shape == (3, 4)


def test_siphon_reads_a_scalar_and_what_is_empty() -> None:
    sent = joined(data_messages("v", DataType.DOUBLE, Section(), np.array(2.5)))
    sent += joined(data_messages("v", DataType.INT, whole_section((0, 3)), np.empty((0, 3), "i4")))
    scalar, empty = read_by_siphon(sent)
    assert scalar.tolist() == [2.5]
    assert empty.shape == (0, 3)


def test_siphon_reads_characters_strings_and_opaque_elements() -> None:
    shape = whole_section((2,))
    texts = np.array(["naïve 日本", ""], object)
    opaque = np.array([b"\x00\x01", b"ab"], "V2")
    sent = joined(data_messages("c", DataType.CHAR, shape, np.array([b"a", b"\xff"])))
    sent += joined(data_messages("s", DataType.STRING, shape, texts))
    sent += joined(data_messages("o", DataType.OPAQUE, shape, opaque))
    characters, strings, opaques = read_by_siphon(sent)
    assert characters.tobytes() == b"a\xff"
    assert strings.tolist() == ["naïve 日本", ""]
    assert opaques.tolist() == [b"\x00\x01", b"ab"]


def test_a_text_that_is_no_unicode_is_sent_with_replacements() -> None:
    values = np.array(["a\udcff", "\ud800"], object)
    sent = joined(data_messages("s", DataType.STRING, whole_section((2,)), values))
    (found,) = read_by_siphon(sent)
    assert found[0] == "a\ufffd"
    assert "\ufffd" in found[1]


def test_siphon_reads_elements_of_variable_length() -> None:
    rows = np.empty(3, object)
    rows[:] = [np.array([1, 2]), np.array([], int), np.array([3])]
    (found,) = read_by_siphon(joined(ragged_message("v", DataType.INT, whole_section((3,)), rows)))
    assert [list(row) for row in found] == [[1, 2], [], [3]]


def test_structures_are_packed_and_big_endian() -> None:
    dtype = np.dtype({"names": ["a", "b"], "formats": ["<i2", ("<f8", (2,))], "offsets": [0, 8]})
    rows = np.array([(1, (0.5, 1.5)), (2, (2.5, 3.5))], dtype)
    sent = joined(data_messages("r", DataType.STRUCTURE, whole_section((2,)), rows))
    (found,) = read_by_siphon(sent)
    packed = np.frombuffer(found.tobytes(), [("a", ">i2"), ("b", ">f8", (2,))])
    assert packed["a"].tolist() == [1, 2]
    assert packed["b"].tolist() == [[0.5, 1.5], [2.5, 3.5]]


def test_long_values_become_several_messages_with_their_sections() -> None:
    values = np.arange(60, dtype="i4").reshape(3, 4, 5)
    section = Section((Range(10, 3, 2), Range(0, 4), Range(7, 5)))
    sent = joined(data_messages("v", DataType.INT, section, values, block_bytes_max=48))
    found = read_by_siphon(sent)
    assert np.concatenate([part.reshape(-1) for part in found]).tolist() == list(range(60))
    assert max(part.nbytes for part in found) <= 48


def test_a_part_of_a_section_keeps_its_strides() -> None:
    section = Section((Range(10, 6, 3), Range(1, 4, 2)))
    assert section.part((2, 1), (3, 2)) == Section((Range(16, 3, 3), Range(3, 2, 2)))


def test_parts_are_all_elements_in_order() -> None:
    for most in range(1, 26):
        boxes = list(parts((2, 3, 4), most))
        places = np.arange(24).reshape(2, 3, 4)
        assert [i for box in boxes for i in places[box.slices()].reshape(-1)] == list(range(24))
        assert max(box.size for box in boxes) <= most


def test_values_of_another_width_are_refused() -> None:
    with pytest.raises(BadValue, match="float64"):
        joined(data_messages("v", DataType.INT, Section(), np.array(2.5)))


def test_siphon_raises_the_error_of_a_stream() -> None:
    with pytest.raises(RuntimeError, match="no such variable"):
        read_by_siphon(error_message(StreamError("no such variable: zz", 404)))


def test_siphon_reads_a_header() -> None:
    x, time = Dimension("x", 3), Dimension("time", 4, is_unlimited=True)
    attributes = (
        Attribute("units", DataType.STRING, ("K",)),
        Attribute("levels", DataType.USHORT, (1, 65535)),
        Attribute("empty", DataType.DOUBLE, ()),
    )
    member = Variable("z", DataType.DOUBLE, (Dimension("", 2, is_private=True),))
    root = Group(
        dimensions=(x, time),
        variables=(
            Variable("t", DataType.FLOAT, (time, x), attributes),
            Variable("x", DataType.INT, (x,), data=np.arange(3, dtype=">i4").tobytes()),
            Variable("kind", DataType.ENUM1, (x,), enum_type="kinds"),
        ),
        structures=(Structure("r", DataType.STRUCTURE, (x,), variables=(member,)),),
        groups=(Group("sub", variables=(Variable("s", DataType.STRING),)),),
        enum_types=(EnumType("kinds", ((0, "none"), (255, "all"))),),
    )
    sent = header_message(Header(root, "here", "a title", "an id"))
    assert sent.startswith(HEADER)
    (found,) = read_by_siphon(sent)
    assert (found.location, found.title, found.id, found.version) == ("here", "a title", "an id", 1)
    assert [d.isUnlimited for d in found.root.dims] == [False, True]
    t, _, kind = found.root.vars
    assert siphon.unpack_attribute(t.atts[0])[1] == "K"
    assert list(siphon.unpack_attribute(t.atts[1])[1]) == [1, 65535]
    assert [d.length for d in t.shape] == [4, 3]
    assert (kind.dataType, kind.enumType) == (siphon.stream.ENUM1, "kinds")
    assert [(m.code, m.value) for m in found.root.enumTypes[0].map] == [(0, "none"), (255, "all")]
    assert found.root.structs[0].vars[0].shape[0].isPrivate
    assert found.root.groups[0].vars[0].name == "s"


def test_siphon_reads_a_whole_stream(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)  # it logs the first and the last four bytes as unknown
    header = header_message(Header(Group(variables=(Variable("v", DataType.INT),))))
    data = joined(data_messages("v", DataType.INT, Section(), np.array(7, "i4")))
    _, found = read_by_siphon(START + header + data + END)
    assert found.tolist() == [7]


def test_names_are_escaped_and_restored() -> None:
    name = full_name(["g 1", "v.w\\x"])
    assert name == r"g 1/v\.w\\x"
    assert unescaped(f"/{name}") == "g 1/v.w\\x"


@pytest.mark.parametrize(("number", "size"), [(0, 1), (127, 1), (128, 2), (1 << 31, 5)])
def test_a_length_has_seven_bits_in_a_byte(number: int, size: int) -> None:
    assert len(vint(number)) == size
