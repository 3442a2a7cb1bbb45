"""References in columns: a million of them take only the memory of their texts."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Final

import numpy as np

from nczfs.errors import Unsupported
from nczfs.messages import size_text
from nczfs.plaindata import frozen
from nczfs.zmap.keys import Key, Prefix

WHOLE = -1
"""As the size of a reference: the whole object."""

UNREADABLE_BYTES: Final = 1
"""As the size of what cannot be read: one byte, which programs ask for, and get the error."""

_INLINE = -1
_BROKEN = -2  # as target: the bytes in the document say what is wrong
_PROBLEM_CHARACTERS_MAX = 200
_ROW_BYTES = 160  # of a reference besides its key, until the table is sorted; then 28
_URL_BYTES = 160  # of a URL besides its characters


@frozen
class Reference:
    """The place of a key's bytes.

    Attributes
    ----------
    row : its position in the table.
    data : the bytes themselves; None if they are elsewhere.
    url : of the object that contains them, as in the document.
    offset, size : of the bytes in that object; a size of `WHOLE` is all of it.
    problem : why it cannot be read; empty if nothing is wrong with it.
    """

    row: int
    data: bytes | None
    url: str = ""
    offset: int = 0
    size: int = WHOLE
    problem: str = ""


class TooMuch(Unsupported):
    """A document of references needs more memory or computing than it may."""


class ExpansionLimit:
    """The limit, in bytes, of a document of references and of all that it expands to.

    A document of 60 KB can expand to gigabytes: by rules that make references, by templates, or by
    values that take more in memory than in the document.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit = self._left = limit_bytes

    def spend(self, size: int) -> None:
        """Take some of it. Raises TooMuch if there is not enough."""
        self._left -= size
        if self._left < 0:
            raise TooMuch(
                f"its references come to more than the memory limit ({size_text(self._limit)})"
            )


class TableBuilder:
    """A builder that takes references in any order; of two with the same key the later counts."""

    def __init__(self, budget: ExpansionLimit) -> None:
        self._budget = budget
        self._keys = bytearray()
        self._ends = array("Q", [0])
        self._targets = array("i")
        self._offsets = array("q")
        self._sizes = array("q")
        self._data = bytearray()
        self._urls: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._targets)

    def add_broken(self, key: Key, problem: str) -> None:
        """Add a key whose reference cannot be read, and why."""
        text = _encoded(problem[:_PROBLEM_CHARACTERS_MAX])
        self._budget.spend(len(text))
        self._add(key, _BROKEN, len(self._data), len(text))
        self._data += text

    def add_bytes(self, key: Key, data: bytes) -> None:
        """Add a key with bytes in the document."""
        self._budget.spend(len(data))
        self._add(key, _INLINE, len(self._data), len(data))
        self._data += data

    def add_range(self, key: Key, url: str, offset: int, size: int) -> None:
        """Add a key whose bytes are a range of an object, or all of it."""
        target = self._urls.get(url)
        if target is None:
            self._budget.spend(len(url) + _URL_BYTES)
            target = self._urls[url] = len(self._urls)
        self._add(key, target, offset, size)

    def build(self) -> Table:
        """Return the table; nothing more may be added."""
        keys, ends = self._keys, self._ends

        def key_at(row: int) -> bytes:
            return bytes(keys[ends[row] : ends[row + 1]])

        order = sorted(range(len(self)), key=key_at)
        kept: list[int] = []
        joined = bytearray()
        bounds = array("Q", [0])
        before = None
        for row in order:
            key = key_at(row)
            if key == before:
                kept[-1] = row
                continue
            before = key
            kept.append(row)
            joined += key
            bounds.append(len(joined))
        rows = np.array(kept, np.int64)
        return Table(
            bytes(joined),
            np.frombuffer(bounds, np.uint64).astype(np.int64),
            np.frombuffer(self._targets, np.int32)[rows],
            np.frombuffer(self._offsets, np.int64)[rows],
            np.frombuffer(self._sizes, np.int64)[rows],
            bytes(self._data),
            list(self._urls),
        )

    def _add(self, key: Key, target: int, offset: int, size: int) -> None:
        encoded = _encoded(key)
        self._budget.spend(len(encoded) + _ROW_BYTES)
        self._keys += encoded
        self._ends.append(len(self._keys))
        self._targets.append(target)
        self._offsets.append(offset)
        self._sizes.append(size)


class Table:
    """References sorted by key. Immutable and thread-safe. `TableBuilder` makes it."""

    def __init__(
        self,
        keys: bytes,
        bounds: np.ndarray[tuple[int], np.dtype[np.int64]],
        targets: np.ndarray[tuple[int], np.dtype[np.int32]],
        offsets: np.ndarray[tuple[int], np.dtype[np.int64]],
        sizes: np.ndarray[tuple[int], np.dtype[np.int64]],
        data: bytes,
        urls: list[str],
    ) -> None:
        self._keys = keys
        self._bounds = bounds
        self._targets = targets
        self._offsets = offsets
        self._sizes = sizes
        self._data = data
        self.urls = urls
        self.url_problems: dict[int, str] = {}
        """By the position of a URL in `urls`: why it leads nowhere."""

    def __len__(self) -> int:
        return len(self._targets)

    @property
    def memory_bytes(self) -> int:
        """About what the table takes."""
        columns = (self._bounds, self._targets, self._offsets, self._sizes)
        urls = sum(map(len, self.urls)) + _URL_BYTES * len(self.urls)
        return len(self._keys) + sum(column.nbytes for column in columns) + len(self._data) + urls

    def broken_below(self, prefix: Prefix) -> Iterator[tuple[Key, str]]:
        """Yield the references below a prefix that cannot be read, and why."""
        for row in self.broken_rows(prefix).tolist():
            yield Key(_decoded(self._key(row))), self._at(row).problem

    def broken_rows(self, prefix: Prefix) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """Return the positions of the references below a prefix that cannot be read."""
        start, end = self._span(prefix)
        wrong = np.array([_BROKEN, *self.url_problems], np.int32)
        return np.flatnonzero(np.isin(self._targets[start:end], wrong)) + start

    def find(self, key: str) -> Reference | None:
        """Return the reference of a key."""
        wanted = _encoded(key)
        row = self._bisect(wanted)
        return self._at(row) if row < len(self) and self._key(row) == wanted else None

    def below(self, prefix: Prefix) -> Iterator[tuple[Key, Reference]]:
        """Yield all references below a prefix."""
        for row in range(*self._span(prefix)):
            yield Key(_decoded(self._key(row))), self._at(row)

    def children(self, prefix: Prefix) -> Iterator[tuple[str, Reference | None, bool]]:
        """Yield names of the next level with their references, and whether others are below."""
        skip = len(_encoded(prefix)) + 1 if prefix else 0
        row, end = self._span(prefix)
        first = row
        while row < end:
            key = self._key(row)
            cut = key.find(b"/", skip)
            if cut < 0:
                after = self._bisect(key + b"/", row, end)
                has_below = after < end and self._key(after).startswith(key + b"/")
                yield _decoded(key[skip:]), self._at(row), has_below
                row += 1
            else:
                child = key[:cut]
                # A key of exactly that name sorts before this one and has already come.
                before = self._bisect(child, first, row)
                if self._key(before) != child:
                    yield _decoded(child[skip:]), None, True
                row = self._bisect(child + b"0", row, end)  # "0" comes after "/"

    def _span(self, prefix: str) -> tuple[int, int]:
        if not prefix:
            return 0, len(self)
        key = _encoded(prefix)
        start = self._bisect(key + b"/")
        return start, self._bisect(key + b"0", start)

    def _bisect(self, wanted: bytes, low: int = 0, high: int | None = None) -> int:
        """Return the first row whose key is not before `wanted`."""
        high = len(self) if high is None else high
        while low < high:
            middle = (low + high) // 2
            if self._key(middle) < wanted:
                low = middle + 1
            else:
                high = middle
        return low

    def _key(self, row: int) -> bytes:
        return self._keys[self._bounds[row] : self._bounds[row + 1]]

    def _at(self, row: int) -> Reference:
        target, offset = int(self._targets[row]), int(self._offsets[row])
        size = int(self._sizes[row])
        if target == _INLINE:
            return Reference(row, self._data[offset : offset + size], size=size)
        if target == _BROKEN:
            return Reference(row, None, problem=_decoded(self._data[offset : offset + size]))
        problem = self.url_problems.get(target, "")
        return Reference(row, None, self.urls[target], offset, size, problem)


def _encoded(key: str) -> bytes:
    return key.encode("utf-8", "surrogateescape")


def _decoded(key: bytes) -> str:
    return key.decode("utf-8", "surrogateescape")
