from __future__ import annotations

import contextlib
import json
import math
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nczfs.errors import BadMetadata
from nczfs.formats.jsontext import (
    DEPTH_MAX,
    Parsed,
    Unfinished,
    Word,
    compact,
    one_line,
    parse,
    parse_object,
    plain,
)
from nczfs.model.hierarchy import Json


def value_of(text: str | bytes) -> Json:
    data = text if isinstance(text, bytes) else text.encode()
    return parse(data, "a/.zattrs").value


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(json_values)
def test_strict_json_means_what_it_means_to_python(value: Json) -> None:
    text = json.dumps(value).encode("utf-8", "surrogatepass")
    assert plain(value_of(text)) == json.loads(text)


@given(json_values)
def test_what_is_written_in_netcdf_style_reads_back(value: Json) -> None:
    parsed = value_of(json.dumps(value))
    assert value_of(compact(parsed)) == parsed


@pytest.mark.parametrize("text", ["007", "+5", "1.", "0x10", "True", "nan", "-inf", "NULL", "$a.b"])
def test_bare_words_of_netcdf_c_are_kept_as_they_are_spelled(text: str) -> None:
    value = value_of(f'{{"a": {text}, "b": [{text}]}}')
    assert value == {"a": text, "b": [text]}
    assert compact(value) == f'{{"a": {text}, "b": [{text}]}}'


def test_one_bare_word_does_not_change_the_other_members() -> None:
    value = value_of(r'{"w": 007, "i": -12, "f": 2.50, "s": "\u00e9\n", "t": true, "n": null}')
    assert plain(value) == {"w": "007", "i": -12, "f": 2.5, "s": "é\n", "t": True, "n": None}


def test_names_of_members_may_be_bare_words() -> None:
    assert value_of("{a:1,b:{c:2}}") == {"a": 1, "b": {"c": 2}}


@pytest.mark.parametrize("text", ["1.50", "1e3", "-0", "-0.0", "1E+05", "NaN", "-Infinity"])
def test_a_number_keeps_its_spelling(text: str) -> None:
    assert compact(value_of(f"[{text}]")) == f"[{text}]"
    assert compact(value_of(f"[{text}, word]")) == f"[{text},word]"


def test_big_integers_are_exact() -> None:
    assert value_of("18446744073709551616") == 2**64
    assert value_of("[-170141183460469231731687303715884105728,007]") == [-(2**127), "007"]


def test_an_integer_of_too_many_digits_stays_a_word() -> None:
    assert value_of("9" * 5000) == Word("9" * 5000)


def test_bare_nan_and_infinity_are_numbers() -> None:
    value = value_of("[NaN, Infinity, -Infinity]")
    assert isinstance(value, list)
    assert [math.isnan(x) or x for x in value if isinstance(x, float)] == [
        True,
        math.inf,
        -math.inf,
    ]


@pytest.mark.parametrize("tail", ["", ", w]"])
def test_a_name_given_twice_is_noted_and_the_last_counts(tail: str) -> None:
    parsed = parse(b'[{"a": 1, "a": 2}' + (tail or "]").encode(), "k")
    assert isinstance(parsed.value, list)
    assert parsed.value[0] == {"a": 2}
    assert parsed.notes == ("k: member 'a' is present more than once; the last one counts",)


def test_bytes_outside_utf_8_are_read_as_latin_1_and_noted() -> None:
    parsed = parse(b'{"u": "\xb0C \xc3\xa9"}', "k")
    assert parsed.value == {"u": "°C é"}
    assert parsed.notes == ("k: byte 7 is not UTF-8; such bytes are read as Latin-1",)


def test_a_byte_order_mark_is_skipped() -> None:
    assert value_of(b"\xef\xbb\xbf{}") == {}


def test_control_characters_in_strings_are_taken() -> None:
    assert value_of('"a\tb\x01"') == "a\tb\x01"
    assert value_of('["a\tb\x01", w]') == ["a\tb\x01", "w"]


def test_a_lonely_surrogate_is_replaced_and_a_pair_is_not() -> None:
    assert value_of(r'["\ud83d\ude00", "x\udc80", "\uD83Dy"]') == ["😀", "x\ufffd", "\ufffdy"]


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("", 0),
        ('{"a" 1}', 5),
        ('{"a": 1}}', 8),
        ("[1,,2]", 3),
        ("[1 2]", 3),
        ("{\"a\": 'x'}", 6),
        ('"open', 0),
        ("[1,2", 4),
        ("{1:", 3),
        ('{"a":1,}', 7),
    ],
)
def test_a_broken_document_is_refused_with_key_and_position(text: str, position: int) -> None:
    with pytest.raises(BadMetadata, match=rf"^g/\.zattrs: not JSON at character {position} \("):
        parse(text.encode(), "g/.zattrs")


@given(json_values, st.data())
def test_the_beginning_of_a_document_is_told_from_what_is_none(
    value: Json, choice: st.DataObject
) -> None:
    data = compact([value]).encode()
    stop = choice.draw(st.integers(0, len(data) - 1))
    with pytest.raises(Unfinished):
        parse(data[:stop], "a/.zattrs")
    with pytest.raises(BadMetadata) as refused:
        parse(data + b"]", "a/.zattrs")
    assert not isinstance(refused.value, Unfinished)


@pytest.mark.parametrize("text", ["[1 2", '{"a" 1', "[,", "{1:2,}", ']"'])
def test_what_nothing_can_end_is_not_unfinished(text: str) -> None:
    with pytest.raises(BadMetadata) as refused:
        parse(text.encode(), "a/.zattrs")
    assert not isinstance(refused.value, Unfinished)


def test_a_document_that_is_no_object_is_refused() -> None:
    with pytest.raises(BadMetadata, match=r"^k: is not a JSON object, but \[1\]$"):
        parse_object(b"[1]", "k")


def nested(depth: int, opening: str, closing: str) -> bytes:
    return (opening * depth + "1" + closing * depth).encode()


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}"), ("[w,", "]")])
def test_depth_is_bounded(opening: str, closing: str) -> None:
    parse(nested(DEPTH_MAX, opening, closing), "k")
    with pytest.raises(BadMetadata, match=r"^k: nested more than"):
        parse(nested(DEPTH_MAX + 1, opening, closing), "k")


def test_brackets_in_strings_are_no_depth() -> None:
    text = json.dumps({"a": "[{" * 1000, 'b"\\': "[" * 1000, "c": ["\\"]})
    assert value_of(text) == json.loads(text)


def test_size_and_number_of_members_are_bounded() -> None:
    with pytest.raises(BadMetadata, match=r"^k: a document of 11 bytes is not read \(max 10\)"):
        parse(b" " * 11, "k", bytes_max=10)
    assert parse(b"[1,2,3]", "k", members_max=4).value == [1, 2, 3]
    with pytest.raises(BadMetadata, match=r"^k: has more than 4 members"):
        parse(b"[1,2,3,4]", "k", members_max=4)
    assert parse(b'["1,2,3,4,5"]', "k", members_max=4) == Parsed(["1,2,3,4,5"])


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 4_000_000,
        b'{"a":' * 400_000,
        b'"' + b'\\"' * 2_000_000,
        b'"\\' * 1_000_000,
        b"-" * 4_000_000,
        b" " * 4_000_000,
        b"9" * 4_000_000,
        b"1e" + b"9" * 4_000_000,
        b'"\\ud800' * 200_000,
        b'"' + b"\\ud800" * 600_000,
        b"[" + b"w," * 20_000,
    ],
    ids=lambda data: repr(data[:6]),
)
def test_time_is_linear_in_the_size(data: bytes) -> None:
    begin = time.process_time()
    with contextlib.suppress(BadMetadata):
        parse(data, "k")
    # A quadratic reader takes minutes for these.
    assert time.process_time() - begin < 10


def test_deep_stacks_of_the_caller_do_not_matter() -> None:
    def at(depth: int) -> Json:
        return at(depth - 1) if depth else value_of(nested(90, "[", "]"))

    assert isinstance(at(sys.getrecursionlimit() - 400), list)


def test_strict_json_on_one_line_has_no_nan() -> None:
    assert (
        one_line([math.nan, {"a": -math.inf}, "é", 1.0]) == '["NaN", {"a": "-Infinity"}, "é", 1.0]'
    )
