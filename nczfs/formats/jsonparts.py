"""The members of a large JSON object as they are spelled, without parsing their values."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from nczfs.errors import BadMetadata
from nczfs.model import jsonshape
from nczfs.plaindata import frozen

_BOM = b"\xef\xbb\xbf"
_BLANKS = b" \t\r\n\f\v"
_HEAD = re.compile(rb'[ \t\r\n\f\v]*+"((?:[^"\\]++|\\.)*+)"[ \t\r\n\f\v]*+:', re.DOTALL)
_OBJECT = re.compile(rb"\{,*+\}")


@frozen
class JsonPart:
    """A member of an object.

    Attributes
    ----------
    start, stop : the range of its value, without surrounding blanks.
    depth : of the object that it is a member of; the outermost has 1.
    """

    name: str
    start: int
    stop: int
    depth: int = 1


class Parts:
    """The members of a JSON object, and those of the objects in its outer levels.

    Values are not parsed: one may turn out not to be JSON.

    Parameters
    ----------
    data : the text, or a view of one in another text.
    where : the key it was found at, for messages.
    members_max : of all these levels together.
    levels : of nested objects that have members.

    Raises
    ------
    BadMetadata : the text is not an object, or exceeds the limit.
    """

    def __init__(
        self, data: bytes | memoryview, where: str, *, members_max: int, levels: int = 2
    ) -> None:
        self._data = data
        self._where = where
        self._marks = jsonshape.outline(data, levels=levels)
        if self._marks.places.size > members_max:
            raise BadMetadata(f"{where}: has more than {members_max} members")
        begin = len(_BOM) if bytes(data[: len(_BOM)]) == _BOM else 0
        self.members = tuple(self._members(begin, len(data), depth=1))

    @property
    def size(self) -> int:
        """The bytes of the text."""
        return len(self._data)

    def text(self, part: JsonPart) -> bytes:
        """Return the value of a member, as it is spelled."""
        return bytes(self._data[part.start : part.stop])

    def view(self, part: JsonPart) -> memoryview:
        """Return the value as `text` does, but not a copy of it."""
        return memoryview(self._data)[part.start : part.stop]

    def within(self, part: JsonPart) -> Iterator[JsonPart]:
        """Return the members of a member. Raises BadMetadata if that is not an object."""
        return self._members(part.start, part.stop, depth=part.depth + 1)

    def _members(self, start: int, stop: int, *, depth: int) -> Iterator[JsonPart]:
        """Return the members of the object from `start` to `stop`."""
        start, stop = self._trimmed(start, stop)
        marks = self._marks
        low, high = np.searchsorted(marks.places, (start, stop))
        level = marks.depths[low:high] == depth
        places = marks.places[low:high][level].tolist()
        kinds = marks.marks[low:high][level].tobytes()
        if not _OBJECT.fullmatch(kinds) or (places[0], places[-1]) != (start, stop - 1):
            raise self._broken(start)
        if len(places) == 2 and self._trimmed(start + 1, stop - 1) == (stop - 1, stop - 1):
            return
        for before, after in pairwise(places):
            head = _HEAD.match(self._data, before + 1, after)
            if head is None:
                raise self._broken(before + 1)
            value = self._trimmed(head.end(), after)
            yield JsonPart(self._name(head[1], before + 1), *value, depth)

    def _trimmed(self, start: int, stop: int) -> tuple[int, int]:
        """Return a range without the blanks at both ends."""
        while start < stop and self._data[start] in _BLANKS:
            start += 1
        while start < stop and self._data[stop - 1] in _BLANKS:
            stop -= 1
        return start, stop

    def _name(self, text: bytes, place: int) -> str:
        if b"\\" not in text:
            return text.decode("utf-8", "surrogateescape")
        try:
            name: str = json.loads(b'"' + text + b'"')
        except ValueError as error:
            raise self._broken(place) from error
        return name

    def _broken(self, place: int) -> BadMetadata:
        return BadMetadata(f"{self._where}: not JSON at byte {place}, or not an object")
