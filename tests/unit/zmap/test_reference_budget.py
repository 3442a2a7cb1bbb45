"""All that a document of references comes to is bounded, whatever it is made of."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from nczfs.errors import BadMetadata, Unsupported
from nczfs.zmap.keys import Key
from nczfs.zmap.reference_json import SECTION_BYTES_MAX
from nczfs.zmap.reference_templates import TEXT_CHARACTERS_MAX
from nczfs.zmap.registry import open_store
from tests.support.bounded import watched

OPEN = """
from nczfs.errors import BadMetadata, Unsupported
from nczfs.zmap.registry import StoreOptions, open_store
options = StoreOptions(memory_bytes=int(sys.argv[2]) << 20)
"""
REFUSED = """
try:
    open_store(sys.argv[1], options)
except (Unsupported, BadMetadata) as error:
    assert "refs.json: " in str(error), error
    assert sys.argv[3] in str(error), error
else:
    raise AssertionError("it was opened")
"""
BUDGET = "come to more than the"


def generated(url: str, **more: Any) -> Mapping[str, Any]:
    """A document whose rule makes a million references."""
    rule = {"key": "{{i}}", "url": url, "dimensions": {"i": {"stop": 1_000_000}}} | more
    return {"version": 1, "refs": {}, "gen": [rule]}


def refuse(place: Path, document: object, reason: str, budget_mib: int = 16) -> float:
    """By how many MiB refusing a document lets the memory grow."""
    path = place / "refs.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    took = watched(OPEN, REFUSED, path, budget_mib, reason)
    assert took.longest_s < 5
    return took.grown_mib


def test_a_long_template_makes_no_gigabytes(tmp_path: Path) -> None:
    """A document of 60 KB came to 3.9 GB."""
    url = "{{i}}" + "x" * 60_000
    assert refuse(tmp_path, generated(url), "too long", 512) < 100


# Functions, as each process that collects tests would hold 200 MB of them for the whole run.
LARGE: Mapping[str, Callable[[], Mapping[str, Any]]] = {
    "urls": lambda: generated("x" * (TEXT_CHARACTERS_MAX - 10) + "{{i}}"),
    "keys": lambda: generated("x", key="x" * 900 + "{{i}}"),
    "rows": lambda: generated("x", offset="0", length="{{i}}"),
    "members": lambda: {str(number): "" for number in range(300_000)},
    "own urls": lambda: {str(n): ["x" * 100 + str(n)] for n in range(80_000)},
    "documents": lambda: {str(number): {} for number in range(300_000)},
    "templates": lambda: {
        "version": 1,
        "templates": {"u": "x" * (TEXT_CHARACTERS_MAX - 10)},
        "refs": {str(number): ["{{u}}" + str(number)] for number in range(3000)},
    },
}


@pytest.mark.parametrize("kind", LARGE)
def test_whatever_it_is_made_of_is_charged_to_one_budget(tmp_path: Path, kind: str) -> None:
    document = LARGE[kind]()
    assert refuse(tmp_path, document, BUDGET) < 160


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ('{"a": BRACKETS}', "neither text nor"),
        ('{"a": {"b": BRACKETS}, "c": 1}', "neither text nor"),
        ('{"version": 1, "refs": {}, "gen": BRACKETS}', "over"),
        ('{"version": 1, "refs": {}, "templates": BRACKETS}', "over"),
        ('{"version": BRACKETS, "refs": {}}', "over"),
    ],
    ids=["reference", "document", "gen", "templates", "version"],
)
def test_brackets_take_no_more_memory_than_they_may(
    tmp_path: Path, document: str, reason: str
) -> None:
    brackets = "[" + "[]," * (4 << 20) + "[]]"  # a Python list of it takes 300 MB
    assert refuse(tmp_path, document.replace("BRACKETS", brackets), reason, 64) < 160


TWICE = {f"t{depth}": f"{{{{t{depth + 1}}}}}" * 2 for depth in range(15)} | {"t15": "x" * 8000}


@pytest.mark.parametrize(
    ("templates", "url"),
    [
        (TWICE, "{{t0}}"),
        ({"u": "x" * 8000}, "{{u}}" * 1000),
        ({"u": "x" * 8000}, "{{" + "u+" * 400 + "u}}"),
        ({}, "{{" * 4000),
        ({}, "{{'" + "x" * 900 + "'}}" + "y" * 8000),
    ],
)
def test_templates_in_templates_come_to_no_more_than_a_text(
    tmp_path: Path, templates: Mapping[str, str], url: str
) -> None:
    path = tmp_path / "refs.json"
    document = {"version": 1, "templates": templates, "refs": {"a": [url, 0, 1]}}
    path.write_text(json.dumps(document))
    if url.startswith("{{{{"):
        open_store(str(path)).close()  # which holds no expression, since none ends
        return
    with pytest.raises(Unsupported, match=r"refs\.json: "):
        open_store(str(path))


def test_a_rule_without_references_makes_none_however_long_it_runs(tmp_path: Path) -> None:
    rule = generated("x", dimensions={"i": {"stop": 10**12}, "j": []})
    path = tmp_path / "refs.json"
    path.write_text(json.dumps({**rule, "refs": {"a": "b"}}))
    zmap = open_store(str(path))
    assert [stat.key for stat in zmap.list(Key(""))] == ["a"]  # type: ignore[arg-type]  # the root
    zmap.close()


def test_a_section_that_is_too_long_is_named_by_its_place(tmp_path: Path) -> None:
    path = tmp_path / "refs.json"
    text = "x" * SECTION_BYTES_MAX
    path.write_text(f'{{"version": 1, "templates": {{"u": "{text}"}}, "refs": {{}}}}')
    with pytest.raises(BadMetadata, match=r"refs\.json: .* at character 28"):
        open_store(str(path))
