"""The pages of a listing, put in order."""

from __future__ import annotations

import pytest

from nczfs import metrics
from nczfs.errors import Conflict
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
