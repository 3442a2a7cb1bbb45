"""Arrays at one place whose chunks get in each other's way.

All pairs of many arrays would be too many to compare. So those that can share a key are looked up:
all keys of one array have the same text but for their numbers, and a number of one is a number, or
digits at the same place, of the other.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from nczfs.model.hierarchy import Variable
from nczfs.model.keysets import LISTED_MAX, KeySet, common, keys_of
from nczfs.plaindata import frozen


@frozen
class Overlap:
    """Two arrays whose chunks get in each other's way.

    Attributes
    ----------
    one, other : paths of the arrays.
    key : in both sets, relative to where the chunks lie; of a path conflict the one of `one` that
        is a directory of the other. `UNKNOWN`: there may be one.
    """

    one: str
    other: str
    key: str


def collisions(arrays: Sequence[Variable]) -> Iterator[Overlap]:
    """Yield pairs of arrays at one place that share a key, or may share one.

    Each array that shares keys is in one pair at least. Of arrays whose keys have the same form,
    each is in a pair with the first one.
    """
    yield from _overlaps(arrays, shared([keys_of(each.array) for each in arrays]))


def path_conflicts(arrays: Sequence[Variable]) -> Iterator[Overlap]:
    """Yield pairs of arrays at one place of which one has a key below one of the other.

    No directory can hold both. Each array with such a key is in one pair at least.
    """
    yield from _overlaps(arrays, below([keys_of(each.array) for each in arrays]))


def shared(sets: Sequence[KeySet]) -> Mapping[tuple[int, int], str]:
    """Return a text that two sets share, by their numbers; of which pairs, see `collisions`."""
    families = _by_form(map(_Owned, itertools.count(), sets))
    found: dict[tuple[int, int], str] = {}
    for same in families.values():
        zeros = same[0].keys.text((0,) * len(same[0].keys.counts))
        found |= {(same[0].number, each.number): zeros for each in same[1:]}
    met = {number for pair in found for number in pair}
    for one, other, text in _meeting(families, families, _listed_max(len(sets)), met, met):
        found[min(one, other), max(one, other)] = text
    return found


def below(sets: Sequence[KeySet]) -> Mapping[tuple[int, int], str]:
    """Return a text of one set that is a directory of another; of which, see `path_conflicts`."""
    places = (
        _Owned(number, place)
        for number, keys in enumerate(sets)
        if keys.size
        for place in keys.directories()
    )
    found: dict[tuple[int, int], str] = {}
    families = _by_form(map(_Owned, itertools.count(), sets))
    others = _by_form(places)
    for one, other, text in _meeting(families, others, _listed_max(len(sets)), set(), set()):
        found[one, other] = text
    return found


@frozen
class _Owned:
    """A set of texts, and the number of the array that it is of."""

    number: int
    keys: KeySet


_Form: TypeAlias = tuple[str, str, int, str]
_Families: TypeAlias = Mapping[_Form, Sequence[_Owned]]
"""Sets that differ in their counts alone, and are not empty."""

_FEW = 8
_NUMBER = "\0"  # stands for one; in no key
_RUN = re.compile(f"[0-9{_NUMBER}]+")


def _by_form(owned: Iterable[_Owned]) -> _Families:
    found: dict[_Form, list[_Owned]] = {}
    for each in owned:
        keys = each.keys
        if keys.size:
            separator = keys.separator if len(keys.counts) > 1 else ""
            form = (keys.head, separator, len(keys.counts), keys.tail)
            found.setdefault(form, []).append(each)
    return found


def _meeting(
    families: _Families,
    others: _Families,
    listed_max: int,
    met: set[int],
    others_met: set[int],
) -> Iterator[tuple[int, int, str]]:
    """Yield the numbers of sets in families of different forms, with a text that they share.

    Parameters
    ----------
    met, others_met : the numbers of sets that need not be found again; those found are added.
    """
    index = _Index(families)
    for form, members in others.items():
        for candidate in index.like(form):
            ones = families[candidate]
            is_same = families is others and candidate == form
            is_over = all(each.number in met for each in ones) and all(
                each.number in others_met for each in members
            )
            if is_same or is_over or common(_union(ones), _union(members), listed_max) is None:
                continue
            for one, other in itertools.product(ones, members):
                if one.number in met and other.number in others_met:
                    continue
                text = common(one.keys, other.keys, listed_max)
                if text is not None:
                    met.add(one.number)
                    others_met.add(other.number)
                    yield one.number, other.number, text


class _Index:
    """Forms, found by those that may share a text with them.

    Forms of one outline, which is their text without digits, are apart only by the digits that are
    not those of a number.
    """

    def __init__(self, forms: Iterable[_Form]) -> None:
        self._forms: dict[tuple[str, ...], dict[tuple[int, ...], list[_Form]]] = {}
        self._found: dict[object, dict[tuple[str, ...], list[_Form]]] = {}
        for form in forms:
            outline, runs = _outline(form)
            places = tuple(place for place, run in enumerate(runs) if _NUMBER not in run)
            self._forms.setdefault(outline, {}).setdefault(places, []).append(form)

    def like(self, form: _Form) -> Iterator[_Form]:
        """Yield the forms that may share a text with one."""
        outline, runs = _outline(form)
        for places, forms in self._forms.get(outline, {}).items():
            fixed = tuple(place for place in places if _NUMBER not in runs[place])
            by_digits = self._found.get((outline, places, fixed))
            if by_digits is None:
                by_digits = self._found[outline, places, fixed] = {}
                for each in forms:
                    digits = _at(_outline(each)[1], fixed)
                    by_digits.setdefault(digits, []).append(each)
            yield from by_digits.get(_at(runs, fixed), ())


def _outline(form: _Form) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what is between the digits of all texts of a form, and their runs of digits."""
    head, separator, ndim, tail = form
    text = head + separator.join(_NUMBER * ndim) + tail
    return tuple(_RUN.split(text)), tuple(_RUN.findall(text))


def _at(runs: Sequence[str], places: Iterable[int]) -> tuple[str, ...]:
    return tuple(runs[place] for place in places)


def _union(members: Sequence[_Owned]) -> KeySet:
    """Return the least set of a form in which all members are contained."""
    keys = members[0].keys
    counts = zip(*(each.keys.counts for each in members), strict=True)
    return KeySet(keys.head, keys.separator, tuple(map(max, counts)), keys.tail)


def _overlaps(
    arrays: Sequence[Variable], found: Mapping[tuple[int, int], str]
) -> Iterator[Overlap]:
    for (one, other), key in sorted(found.items()):
        yield Overlap(arrays[one].path, arrays[other].path, key)


def _listed_max(count: int) -> int:
    """Return how much of each pair may be listed: all pairs of many take no longer than of few."""
    return LISTED_MAX if count <= _FEW else LISTED_MAX // count**2
