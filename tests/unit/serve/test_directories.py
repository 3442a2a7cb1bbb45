"""Directories of more entries than a page has."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import html5lib
import pytest

from tests.support.served import Served

NAMES = sorted([*(f"d{n}.zarr" for n in range(30)), "a b?#%.zarr", "ü&<i>.zarr", "d1.zarr+", "~"])
MOST = 7


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("served")
    for name in (*NAMES, "d7.zarr/z", "d7.zarr/b"):
        (path / name).mkdir()
        (path / name / ".zgroup").write_text('{"zarr_format": 2}')
    return path


def _pages(service: Served) -> Iterator[list[str]]:
    """The names of the directories in each page, from the first one on."""
    target = ""
    while True:
        text = service.get(target).text
        root = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parse(text)
        links = [link for link in root.iter("a") if link.get("rel") is None]
        yield [str(link.text) for link in links if str(link.get("href")).startswith("/")]
        (*following,) = (link.get("href") for link in root.iter("a") if link.get("rel") == "next")
        if not following:
            return
        (target,) = following


def test_every_dataset_is_in_one_page_in_the_order_of_names(
    service: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SEMANTICS V10."""
    monkeypatch.setattr("nczfs.serve.store.LISTED_MAX", MOST)
    pages = list(_pages(service))
    assert [name for page in pages for name in page] == NAMES
    assert {len(page) for page in pages[:-1]} == {MOST}


def test_files_come_before_directories(service: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """SEMANTICS V10."""
    monkeypatch.setattr("nczfs.serve.store.LISTED_MAX", 3)
    found, target = list[str](), "d7.zarr/"
    while target:
        root = html5lib.HTMLParser(namespaceHTMLElements=False).parse(service.get(target).text)
        found += [str(link.get("href")) for cell in root.iter("td") for link in cell.iter("a")]
        following = [link.get("href") for link in root.iter("a") if link.get("rel") == "next"]
        target = f"d7.zarr/{following[0]}" if following else ""
    assert found == sorted(found, key=lambda link: (link.endswith("/"), link))
    assert {"/d7.zarr/b/", "/d7.zarr/d7.nc", "/d7.zarr/z/"} < set(found)
    assert len(found) > 6


def test_what_is_not_listed_is_said(service: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """SEMANTICS V10."""
    assert "are listed" not in service.get("").text
    for module in ("store", "pages"):
        monkeypatch.setattr(f"nczfs.serve.{module}.LOOKED_AT_MAX", 5)
    assert "Only 5 entries are listed" in service.get("").text


@pytest.mark.parametrize("after", ["%FF", "%00/", "/", "", "a=b;c" * 900, "&" * 500, "=&after"])
def test_any_place_may_be_asked_for(service: Served, after: str) -> None:
    assert service.get(f"?after={after}").status == 200
