"""The pages of a listing, put in order."""

from __future__ import annotations

import weakref
from collections.abc import Iterator

import pytest

from nczfs import metrics
from nczfs.errors import Conflict, StoreError
from nczfs.zmap.base import Stat, Version
from nczfs.zmap.keys import ROOT, Key, Prefix
from nczfs.zmap.s3 import listing
from nczfs.zmap.s3.page import ListingPage

HIDDEN = "nczfs_hidden_keys_total"


def page(*objects: tuple[str, int], prefixes: tuple[str, ...] = ()) -> ListingPage:
    stats = [Stat(Key(key), size, Version("v"), 0) for key, size in objects]
    return ListingPage(stats, prefixes, "")


def hidden_by(pages: ListingPage, prefix: Prefix = ROOT) -> tuple[float, float]:
    """How many keys are counted as hidden by looking at a level, and at all below it."""
    counts = []
    for look in (
        lambda: listing.entries(iter([pages]), prefix),
        lambda: listing.stats(iter([pages]), prefix),
    ):
        before = metrics.value(HIDDEN)
        list(look())
        counts.append(metrics.value(HIDDEN) - before)
    return counts[0], counts[1]


def test_what_is_no_key_is_counted_as_hidden() -> None:
    assert hidden_by(page(("a", 1), ("b//c", 1), ("/d", 1))) == (2, 2)


def test_a_marker_of_a_directory_is_not_hidden() -> None:
    assert hidden_by(page(("a/", 0), ("a/b", 1)), Prefix("a")) == (0, 0)
    assert hidden_by(page(("a/", 7)), Prefix("a")) == (1, 1)
    assert hidden_by(page(("a//", 0)), Prefix("a")) == (1, 1)


def test_markers_are_the_directories_that_they_stand_for() -> None:
    pages = page(("a/", 0), ("a/b", 1), ("a/c/", 0), ("a/.nczfs-probe", 1))
    assert list(listing.markers(iter([pages]), "s3://bucket")) == ["a", "a/c"]


@pytest.mark.parametrize(
    ("key", "message"), [("d/", "d/: .* holds 7 bytes"), ("a//b", "a//b: .* cannot be shown")]
)
def test_what_is_neither_key_nor_marker_is_told(key: str, message: str) -> None:
    with pytest.raises(Conflict, match=message):
        list(listing.markers(iter([page(("a", 0), (key, 7))]), "s3://bucket"))


@pytest.mark.parametrize(
    ("pages", "expected"),
    [
        (page(), (False, False)),
        (page(("a/", 0)), (True, False)),
        (page(("a/", 7)), (True, True)),
        (page(("a/b", 0)), (True, True)),
        (page(prefixes=("a//",)), (True, True)),
        (page(("a/.nczfs-lease", 1)), (False, False)),
        (page(("a/", 0), prefixes=("a/.nczfs-x/", "a/./")), (True, True)),
    ],
)
def test_a_prefix_is_there_while_keys_have_it_shown_or_not(
    pages: ListingPage, expected: tuple[bool, bool]
) -> None:
    found = [listing.is_there(iter([pages]), Prefix("a"), marked=m) for m in (True, False)]
    assert tuple(found) == expected


def test_a_glance_is_one_page_and_goes_on_with_what_it_has_held_back() -> None:
    """S3 sorts `a`, `a-1`, `a/`: whether `a` is a prefix too is known on the second page."""
    pages = {
        "": ListingPage(page(("0", 0), ("a", 1), ("a-1", 2)).objects, (), "t"),
        "t": page(("b", 3), prefixes=("a/", "c/")),
    }
    asked: list[str] = []

    def pages_from(token: str) -> Iterator[ListingPage]:
        asked.append(token)
        yield pages[token]

    found, rest = listing.glance(pages_from, ROOT)
    assert rest is not None
    assert [entry.name for entry in found] == ["0"]
    assert asked == [""]
    for _ in range(2):  # it may be asked for more than once
        others = [(e.name, e.stat.size if e.stat else None, e.is_prefix) for e in rest()]
        assert sorted(others) == [
            ("a", 1, True),
            ("a-1", 2, False),
            ("b", 3, False),
            ("c", None, True),
        ]
    assert asked == ["", "t", "t"]


def test_a_glance_at_one_page_has_all_names() -> None:
    found, rest = listing.glance(lambda _: iter([page(("a", 1), prefixes=("c/",))]), ROOT)
    assert {entry.name for entry in found} == {"a", "c"}
    assert rest is None


def test_the_names_of_a_glance_count_among_those_of_a_level(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(listing, "NAMES_MAX", 2)
    pages = {"": ListingPage(page(("a", 1), ("b", 2)).objects, (), "t"), "t": page(("c", 3))}
    _, rest = listing.glance(lambda token: iter([pages[token]]), ROOT)
    assert rest is not None
    with pytest.raises(StoreError, match="over 2 names"):
        list(rest())


def test_what_goes_on_after_a_glance_does_not_hold_its_page() -> None:
    class Objects(list[Stat]):
        """A list whose end can be seen."""

    objects = Objects(page(("a", 1), ("b", 1)).objects)
    held = weakref.ref(objects)
    first = [ListingPage(objects, (), "token")]
    found, rest = listing.glance(lambda _: iter([first.pop()]), ROOT)
    del objects
    assert rest is not None
    assert [entry.name for entry in found] == ["a"]
    assert held() is None
