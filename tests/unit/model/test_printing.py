"""Control characters in texts of others become visible."""

from __future__ import annotations

import pytest

from nczfs.model.printing import printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("später, 雨, µ", "später, 雨, µ"),
        ("a\nb\tc", r"a\nb\tc"),
        ("\x1b[2J\x9b2J\x7f\x00", r"\x1b[2J\x9b2J\x7f\x00"),
        ("x\u202etxt\u2028", r"x\u202etxt\u2028"),
        (b"caf\xe9".decode("utf-8", "surrogateescape"), r"caf\xe9"),
        ("\ud800", r"\ud800"),
    ],
)
def test_what_does_not_print_is_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_characters_can_be_kept() -> None:
    assert printable("a\nb\x1b", keep="\n") == "a\nb\\x1b"
