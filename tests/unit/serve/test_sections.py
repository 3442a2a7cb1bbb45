"""Section specifications of CDM Remote."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nczfs.errors import BadSelection
from nczfs.serve.sections import ALL, DimSpec, SectionSpec, parse_specs, ranges_of

KNOWN = {"t", "g/u", "a.b", "a(b)", "a,b", "a;b", "a\\b", "s"}


def parsed(text: str) -> list[SectionSpec]:
    return parse_specs(text, KNOWN.__contains__)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("t", SectionSpec("t")),
        ("/t", SectionSpec("t")),
        ("g/u(:)", SectionSpec("g/u", (ALL,))),
        ("/g/u(0:1,3,:)", SectionSpec("g/u", (DimSpec(0, 1), DimSpec(3, 3), ALL))),
        ("t(2:9:3)", SectionSpec("t", (DimSpec(2, 9, 3),))),
        ("t( 1 , 2:3 )", SectionSpec("t", (DimSpec(1, 1), DimSpec(2, 3)))),
        ("t()", SectionSpec("t", ())),
        ("t(0:-1)", SectionSpec("t", (DimSpec(0, -1),))),
        ("t(5:4)", SectionSpec("t", (DimSpec(5, 4),))),
        ("s.member", SectionSpec("s", None, (("member", None),))),
        ("s(0).m\\.n(1:2).x", SectionSpec("s", (DimSpec(0, 0),),
                                          (("m.n", (DimSpec(1, 2),)), ("x", None)))),
    ],
)  # fmt: skip
def test_a_specification_has_a_name_ranges_and_members(text: str, expected: SectionSpec) -> None:
    assert parsed(text) == [expected]


@pytest.mark.parametrize("text", ["t(0:1,2);g/u", "t(0:1,2),/g/u", "t(0:1,2);g/u(:)"])
def test_semicolons_and_commas_outside_parentheses_separate_variables(text: str) -> None:
    assert [spec.name for spec in parsed(text)] == ["t", "g/u"]


@pytest.mark.parametrize("name", sorted(KNOWN))
def test_names_are_understood_with_quotes_and_without(name: str) -> None:
    quoted = re.sub(r"([(),;.\\])", r"\\\1", name)
    for spelling in {quoted, name, f"/{name}"}:
        assert parsed(spelling) == [SectionSpec(name)]
        assert parsed(f"{spelling}(1:2)") == [SectionSpec(name, (DimSpec(1, 2),))]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "begins with the name"),
        ("(1)", "begins with the name"),
        ("nothing", "'nothing': no variable has that name"),
        ("t;nothing(0)", "no variable"),
        ("t(0:1", "not closed"),
        ("t(0)(1)", "is not a range"),
        ("t(a)", "'a' is not a range"),
        ("t(1:)", "is not a range"),
        ("t(-1)", "is not a range"),
        ("t(1:2:3:4)", "is not a range"),
        ("t(٣)", "is not a range"),
        ("t(99999999999999999999)", "is not a range"),
        ("t(3:1)", "ends before it begins"),
        ("t(1:3:0)", "step of 0"),
        ("t;" * 101 + "t", "more than 100"),
    ],
)
def test_the_error_says_what_is_wrong(text: str, words: str) -> None:
    with pytest.raises(BadSelection, match=re.escape(words)):
        parsed(text)


@given(st.text(st.sampled_from("tg/u.(),;:0129- \\ab"), max_size=30))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        specs = parsed(text)
    except BadSelection:
        return
    assert specs
    assert all(spec.name in KNOWN for spec in specs)


@given(st.data())
def test_ranges_are_those_of_slices_that_end_with_their_last_position(data: st.DataObject) -> None:
    length = data.draw(st.integers(1, 50))
    first = data.draw(st.integers(0, length - 1))
    last = data.draw(st.integers(first, length - 1))
    step = data.draw(st.integers(1, length + 1))
    [spec] = parsed(f"t({first}:{last}:{step})")
    assert ranges_of(spec.dims, (length,), "t") == (range(first, last + 1, step),)


def test_positions_beyond_the_end_and_other_ranks_are_refused() -> None:
    assert ranges_of(None, (2, 3), "t") == (range(2), range(3))
    assert ranges_of((ALL, DimSpec(5, 4)), (2, 3), "t") == (range(2), range(0))
    with pytest.raises(BadSelection, match="'t', dimension 1: position 3 is beyond the end"):
        ranges_of((ALL, DimSpec(0, 3)), (2, 3), "t")
    with pytest.raises(BadSelection, match="1 ranges for 2 dimensions"):
        ranges_of((ALL,), (2, 3), "t")
