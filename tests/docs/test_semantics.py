"""docs/SEMANTICS.md: no sentence without a test."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
PAGE = REPOSITORY / "docs/SEMANTICS.md"

IDENTIFIER = re.compile(r"^- \*\*([A-Z]\d+)\*\* ", re.MULTILINE)
CITATION = re.compile(r"SEMANTICS ([A-Z]\d+(?:(?:, | and )[A-Z]\d+)*)")


def sentences() -> list[str]:
    return IDENTIFIER.findall(PAGE.read_text("utf-8"))


def citations() -> dict[str, set[str]]:
    """The files of tests that name a sentence, by its identifier."""
    found: dict[str, set[str]] = {}
    for path in (REPOSITORY / "tests").rglob("test_*.py"):
        for words in CITATION.findall(path.read_text("utf-8")):
            for name in re.findall(r"[A-Z]\d+", words):
                found.setdefault(name, set()).add(path.name)
    return found


def test_every_sentence_has_an_identifier_of_its_own() -> None:
    assert [name for name, count in Counter(sentences()).items() if count > 1] == []
    bullets = re.findall(r"^- .*", PAGE.read_text("utf-8"), re.MULTILINE)
    assert [bullet for bullet in bullets if not IDENTIFIER.match(bullet)] == []


def test_every_sentence_is_carried_by_a_test() -> None:
    untested = [name for name in sentences() if name not in citations()]
    assert untested == []


def test_tests_name_only_sentences_that_are_there() -> None:
    strange = {name: files for name, files in citations().items() if name not in sentences()}
    assert strange == {}
