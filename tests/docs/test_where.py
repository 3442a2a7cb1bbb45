"""The page that says where to put what: what it names is there."""

from __future__ import annotations

import re
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
PAGE = (REPOSITORY / "docs" / "where-to-put-what.md").read_text()


def test_every_file_that_it_names_is_there() -> None:
    named = set(re.findall(r"`((?:nczfs|tests|scripts)/[\w./-]*)`", PAGE))
    assert len(named) > 20
    assert [path for path in sorted(named) if not (REPOSITORY / path).exists()] == []


def test_every_class_that_it_names_stands_in_its_file() -> None:
    seams = re.findall(r"`([A-Z]\w+)`(?: and `([A-Z]\w+)`)? in `(nczfs/[\w./]+\.py)`", PAGE)
    assert len(seams) >= 7
    missing = [
        (name, path)
        for first, second, path in seams
        for name in filter(None, (first, second))
        if f"class {name}" not in (REPOSITORY / path).read_text()
    ]
    assert missing == []
