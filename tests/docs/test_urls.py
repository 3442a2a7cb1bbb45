"""The tables of docs/urls.md are what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nczfs.errors import BadUrl
from nczfs.zmap import url as grammar
from nczfs.zmap.url import StoreUrl, parse_url

PAGE = (Path(__file__).parents[2] / "docs" / "urls.md").read_text("utf-8")
STORES = {
    "file": "directory",
    "zip": "archive",
    "reference": "references",
    "s3": "S3",
    "http": "HTTP",
    "memory": "memory",
}


def table(head: str) -> list[list[str]]:
    """The cells of the table that has `head` for its first column."""
    _, _, rest = PAGE.partition(f"| {head} |")
    lines = rest.partition("\n\n")[0].splitlines()[2:]
    rows = [[cell.strip() for cell in line.strip("| ").split(" |")] for line in lines]
    assert rows, head
    return rows


def words(head: str) -> list[str]:
    return [row[0].strip("`") for row in table(head)]


def described(url: StoreUrl, here: Path) -> str:
    if url.path:
        return f"`{url.path.replace(str(here), '.')}`"
    if not url.bucket or url.kind == "memory":
        return f"`{url.text}`"
    parts = [f"bucket `{url.bucket}`"]
    parts += [f"key `{url.prefix}`"] if url.prefix else []
    parts += [f"region `{url.region}`"] if url.region else []
    parts += [f"at `{url.endpoint_url}`"] if url.endpoint_url else []
    return ", ".join(parts)


@pytest.mark.parametrize(
    ("text", "store", "where"),
    [row for row in table("written") if len(row) == 3],
    ids=lambda cell: cell.strip("`"),
)
def test_each_form_names_what_its_row_says(
    text: str, store: str, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = parse_url(text.strip("`"))
    assert (STORES[found.kind], described(found, tmp_path).lower()) == (store, where.lower())


def refused() -> list[list[str]]:
    rows = re.findall(r"^\| `(.*)` \| (.*) \|$", PAGE.partition("## Refused URLs")[2], re.MULTILINE)
    assert rows
    return rows


@pytest.mark.parametrize(("text", "because"), refused())
def test_what_is_refused_is_refused_for_that_reason(text: str, because: str) -> None:
    with pytest.raises(BadUrl, match=re.escape(because)):
        parse_url(text)


def test_each_key_and_word_has_a_row() -> None:
    assert set(words("key")) == set(vars(grammar)["_KEYS"])
    known = vars(grammar)["_FORMATS"] | vars(grammar)["_STORES"]
    assert set(words("word of `mode`")) == known


@pytest.mark.parametrize(("word", "others"), [row[:2] for row in table("word of `mode`")])
def test_a_word_brings_what_its_row_says(word: str, others: str) -> None:
    word = word.strip("`")
    start = "s3://b/k" if word in ("s3", "gs3") else "file:///no/such"
    known = set(re.findall(r"`(.*?)`", others)) | {word}
    assert parse_url(f"{start}#mode={word}").modes - {"s3"} == known - {"s3"}


def test_every_scheme_and_every_word_of_others_is_in_a_row() -> None:
    text = PAGE.partition("## Fragments")[0]
    for scheme in grammar.SCHEMES:
        assert f"`{scheme}://" in text
    for scheme in vars(grammar)["_FOREIGN_SCHEMES"]:
        assert f"`{scheme}://" in PAGE
