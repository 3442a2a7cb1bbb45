"""The keys of all chunks of an array as a set, which is compared with others without listing it.

Dependent arrays of Zarr v3 have their chunks beside those of another array. The arrays stay apart
as long as no key is in two sets, and in a directory as long as no key lies below another one.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from math import prod

from nczfs.model.grid import ChunkIndex
from nczfs.model.hierarchy import ArrayDescription, Variable
from nczfs.plaindata import frozen

LISTED_MAX = 100_000
"""A set of up to so many keys is listed where the form of the keys does not tell."""

UNKNOWN = "?"
"""Stands for a common key where it cannot be excluded that there is one."""


@frozen
class KeySet:
    """Texts of a head, numbers with a separator between them, and a tail.

    Attributes
    ----------
    counts : of the values of each number, which begin at 0. (): the head and the tail alone.
    """

    head: str
    separator: str
    counts: tuple[int, ...]
    tail: str = ""

    @property
    def size(self) -> int:
        """The number of texts."""
        return prod(self.counts)

    def text(self, index: ChunkIndex) -> str:
        """Return the text with these numbers."""
        return f"{self.head}{self.separator.join(map(str, index))}{self.tail}"

    def __contains__(self, text: str) -> bool:
        if not self.counts:
            return text == self.text(())
        end = len(text) - len(self.tail)
        if end < len(self.head) or not (text.startswith(self.head) and text.endswith(self.tail)):
            return False
        middle = text[len(self.head) : end]
        words = middle.split(self.separator) if len(self.counts) > 1 else [middle]
        if len(words) != len(self.counts):
            return False
        return all(
            len(word) <= len(str(count)) and _is_number(word) and int(word) < count
            for word, count in zip(words, self.counts, strict=True)
        )

    def __iter__(self) -> Iterator[str]:
        return map(self.text, itertools.product(*map(range, self.counts)))

    def directories(self) -> Iterator[KeySet]:
        """Yield the sets of directories in which the keys lie."""
        for place in _slashes(self.head):
            if place:
                yield KeySet(self.head[:place], "", ())
        if self.separator == "/":
            for ndim in range(1, len(self.counts)):
                yield KeySet(self.head, "/", self.counts[:ndim])
        for place in _slashes(self.tail):
            if place or self.head or self.counts:
                yield KeySet(self.head, self.separator, self.counts, self.tail[:place])


def keys_of(array: ArrayDescription) -> KeySet:
    """Return the keys of what an array stores as one object each."""
    keys, counts = array.chunk_keys, array.units.counts
    return KeySet(keys.head(len(counts)), keys.separator, tuple(counts), keys.after)


def common(one: KeySet, other: KeySet, listed_max: int = LISTED_MAX) -> str | None:
    """Return a text that is in both sets; None: there is none. `UNKNOWN`: that is not known.

    Parameters
    ----------
    listed_max : a set of up to so many texts may be listed.

    Notes
    -----
    Where heads and tails are equal, only digits and separators are between them: then the sets are
    disjoint, or of one form, and share the text with zeros. Otherwise a head that differs from the
    beginning of the other set, or a tail from its end, keeps them apart. For what remains, the
    smaller set is listed.
    """
    if not (one.size and other.size):
        return None
    for scalar, texts in ((one, other), (other, one)):
        if not scalar.counts:
            text = scalar.text(())
            return text if text in texts else None
    first = one.text((0,) * len(one.counts))
    if (one.head, one.tail) == (other.head, other.tail):
        return first if first == other.text((0,) * len(other.counts)) else None
    if _are_apart(one.head, other.head) or _are_apart(one.tail[::-1], other.tail[::-1]):
        return None
    fewer, more = sorted((one, other), key=lambda keys: keys.size)
    if fewer.size > listed_max:
        return UNKNOWN
    return next((text for text in fewer if text in more), None)


def family(primary: Variable) -> Iterator[Variable]:
    """Yield an array and all dependent ones, each before those that it declares itself."""
    waiting = [primary]
    while waiting:
        variable = waiting.pop()
        yield variable
        waiting += reversed(variable.dependents)


def _are_apart(one: str, other: str) -> bool:
    """Return whether no text can begin with both: each is followed by a digit."""
    short, long = sorted((one, other), key=len)
    if not long.startswith(short):
        return True
    return len(long) > len(short) and not _is_digit(long[len(short)])


def _is_digit(character: str) -> bool:
    return character in "0123456789"


def _is_number(word: str) -> bool:
    if not word or not all(map(_is_digit, word)):
        return False
    return word == "0" or word[0] != "0"


def _slashes(text: str) -> Iterator[int]:
    return (place for place, character in enumerate(text) if character == "/")
