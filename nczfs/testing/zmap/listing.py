"""What every store finds below a prefix."""

from __future__ import annotations

import pytest

from nczfs.errors import ObjectExists
from nczfs.testing.zmap.base import Populate, StoreTests
from nczfs.testing.zmap.samples import DATA, ODD_KEYS, K, entry_of, searched
from nczfs.zmap.keys import ROOT, Key, Prefix, join, parse_key, parse_prefix


class ListingTests(StoreTests):
    """One level at a time, or every object; keys of all kinds."""

    def test_search_gives_the_next_level_once_with_sizes(self, populate: Populate) -> None:
        zmap = populate(
            {
                ".zgroup": b"{}",
                "a/.zarray": b"[]",
                "a/0.0": b"1234",
                "a/0.1": b"12",
                "a/deep/er/0": b"1",
                "ab/0": b"",
                "a.b": b"7",
            }
        )
        assert searched(zmap, "") == {
            ".zgroup": (2, False),
            "a": (None, True),
            "ab": (None, True),
            "a.b": (1, False),
        }
        assert searched(zmap, "a") == {
            ".zarray": (2, False),
            "0.0": (4, False),
            "0.1": (2, False),
            "deep": (None, True),
        }
        assert searched(zmap, "a/deep") == {"er": (None, True)}

    def test_prefixes_are_those_of_a_search_and_others_without_keys(
        self, populate: Populate
    ) -> None:
        zmap = populate({"a/x": DATA, "a/deep/er/0": b"1", "ab/0": b"", "a.b": b"7"})
        for prefix in ("", "a", "a/deep", "a/deep/er", "absent", "a.b"):
            shown = {e.name for e in zmap.search(parse_prefix(prefix)) if e.is_prefix}
            found = list(zmap.prefixes(parse_prefix(prefix)))
            assert len(found) == len(set(found))
            assert shown <= set(found)
            for name in shown.symmetric_difference(found):
                assert list(zmap.list(parse_prefix(join(prefix, name)))) == []

    def test_search_below_what_has_no_keys_gives_nothing(self, populate: Populate) -> None:
        zmap = populate({K: DATA, "gro": b""})
        for prefix in ("absent", "grou", "group/var", K, "group/variable/0.0.0/below"):
            assert list(zmap.search(parse_prefix(prefix))) == []
            assert list(zmap.list(parse_prefix(prefix))) == []

    def test_an_empty_store_has_no_names(self, populate: Populate) -> None:
        zmap = populate({})
        assert list(zmap.search(ROOT)) == []
        assert list(zmap.list(ROOT)) == []

    def test_list_gives_every_object_below_a_prefix(self, populate: Populate) -> None:
        objects = {"a/x": b"1", "a/b/y": b"22", "a/b/c/d/z": b"333", "ab/x": b"4444", "a.": b"5"}
        zmap = populate(objects)
        everything = {stat.key: stat.size for stat in zmap.list(ROOT)}
        assert everything == {key: len(data) for key, data in objects.items()}
        assert sorted(stat.key for stat in zmap.list(Prefix("a"))) == ["a/b/c/d/z", "a/b/y", "a/x"]

    @pytest.mark.parametrize("count", [0, 3, 1003])
    def test_a_glance_and_the_search_that_goes_on_give_what_a_search_gives(
        self, populate: Populate, count: int
    ) -> None:
        below = {f"a/{number:04}/x": b"" for number in range(0, count, 2)}
        zmap = populate({**below, **{f"a/{number:04}": b"1" for number in range(1, count, 2)}})
        found, rest = zmap.glance(Prefix("a"))
        names = [entry.name for entry in found]
        assert len(names) == len(set(names))
        others = [] if rest is None else list(rest())
        both = {e.name: (e.stat.size if e.stat else None, e.is_prefix) for e in (*found, *others)}
        assert both == searched(zmap, "a")

    def test_a_run_has_the_versions_of_all_objects_between_its_ends(
        self, populate: Populate
    ) -> None:
        chunks = {f"a/{number}": b"%d" % number for number in range(1, 12)}
        zmap = populate({"a/.zarray": b"{}", **chunks, "a.b": b"", "b/1": b"1"})
        found = {stat.key: stat.version for stat in zmap.list(Prefix("a"))}
        for first in (None, Key("a/1"), Key("a/10"), Key("a/5"), Key("a/99")):
            run = zmap.run_from(Prefix("a"), first)
            if run is None:
                continue
            assert run.covers(first or Key("a/1"))
            assert not run.covers(Key("a"))
            for key, version in found.items():
                if run.covers(key):
                    assert run.versions[key] == version == zmap.stat(key).version
            assert not run.covers(Key("a/6")) or Key("a/66") not in run.versions

    def test_an_object_may_stand_beside_a_prefix_where_the_store_can(
        self, populate: Populate
    ) -> None:
        if not self.key_beside_prefix:
            with pytest.raises(ObjectExists):
                populate({"a": b"object", "a/b": b"below"})
            return
        zmap = populate({"a": b"object", "a/b": b"below", "a.c": b"between in the order of bytes"})
        assert searched(zmap, "") == {"a": (6, True), "a.c": (29, False)}
        assert searched(zmap, "a") == {"b": (5, False)}
        assert bytes(zmap.read(Key("a")).data) == b"object"
        assert bytes(zmap.read(Key("a/b")).data) == b"below"

    @pytest.mark.parametrize("text", ODD_KEYS, ids=lambda text: ascii(text[:20]))
    def test_an_odd_key_is_a_key_like_others(self, populate: Populate, text: str) -> None:
        key = parse_key(text)
        zmap = populate({key: b"odd", "a/usual": b"usual"})
        assert bytes(zmap.read(key).data) == b"odd"
        assert zmap.stat(key).size == 3
        parent, _, name = key.rpartition("/")
        entry = entry_of(zmap, parent, name)
        assert entry.stat is not None
        assert entry.stat.key == key
        assert key in {stat.key for stat in zmap.list(ROOT)}

    def test_names_that_differ_in_case_are_told_apart_where_the_store_says_so(
        self, populate: Populate
    ) -> None:
        zmap = populate({"Case": b"upper", "case": b"lower"})
        names = {entry.name for entry in zmap.search(ROOT)}
        assert (names == {"Case", "case"}) is zmap.features.case_sensitive

    def test_more_keys_than_a_page_are_all_found(self, populate: Populate) -> None:
        count = self.page_keys + 100
        objects = {f"many/{index}.0": b"x" * (index % 7) for index in range(count)}
        objects |= {f"wide/{index}/0": b"" for index in range(count)}
        zmap = populate(objects)
        found = list(zmap.search(Prefix("many")))
        assert len(found) == count
        assert {entry.stat.key: entry.stat.size for entry in found if entry.stat is not None} == {
            key: len(data) for key, data in objects.items() if key.startswith("many/")
        }
        wide = [entry.name for entry in zmap.search(Prefix("wide"))]
        assert sorted(wide) == sorted(str(index) for index in range(count))
        listed = [stat.key for stat in zmap.list(ROOT)]
        assert sorted(listed) == sorted(objects)

    def test_a_listing_may_be_left_before_its_end(self, populate: Populate) -> None:
        zmap = populate({f"a/{index}": b"" for index in range(5)})
        for items in (zmap.search(Prefix("a")), zmap.list(ROOT)):
            next(iter(items))
            del items
        assert len(list(zmap.search(Prefix("a")))) == 5
