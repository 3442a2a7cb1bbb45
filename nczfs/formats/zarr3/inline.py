"""The place of consolidated metadata in a ``zarr.json``: a member, which can be very large.

It is taken out before the rest is read, and put back as it is spelled after the rest was written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from nczfs.errors import BadMetadata
from nczfs.formats.base import Documents
from nczfs.formats.jsonparts import Parts
from nczfs.formats.jsonwrite import strict
from nczfs.plaindata import frozen

T = TypeVar("T")

CONSOLIDATED = "consolidated_metadata"

_MEMBERS_MAX = 1 << 16  # of a document, without those within them


@frozen
class SplitDocument:
    """A document of a group.

    Attributes
    ----------
    own : it without its consolidated metadata.
    copy : these, as they are spelled, within the document; None: it has none.
    """

    own: bytes
    copy: memoryview | None


def split(data: bytes, where: str) -> SplitDocument:
    """Take the consolidated metadata out of a document, of which nothing is parsed.

    Parameters
    ----------
    where : its key, for messages.
    """
    if CONSOLIDATED.encode() not in data:
        return SplitDocument(data, None)
    try:
        parts = Parts(data, where, members_max=_MEMBERS_MAX, levels=1)
    except BadMetadata:
        return SplitDocument(data, None)  # the parser will tell what is wrong
    members = {part.name: part for part in parts.members}
    copy = members.pop(CONSOLIDATED, None)
    if copy is None:
        return SplitDocument(data, None)
    own = object_of({name: parts.text(part) for name, part in members.items()})
    return SplitDocument(own, parts.view(copy))


def joined(own: bytes, copy: bytes | memoryview | None) -> bytes:
    """Return the document with consolidated metadata; None: without any.

    Parameters
    ----------
    own : an object with members, as `jsonwrite` spells it.
    """
    if copy is None:
        return own
    return b"".join((own.rstrip()[:-1], b', "', CONSOLIDATED.encode(), b'": ', copy, b"}"))


def object_of(members: Mapping[str, bytes]) -> bytes:
    """Return an object with members that are JSON."""
    named = (
        b"%b: %b" % (strict(name).encode("utf-8", "surrogateescape"), value)
        for name, value in members.items()
    )
    return b"{" + b", ".join(named) + b"}"


class OwnDocuments:
    """Documents without their consolidated metadata; implements `Documents`."""

    def __init__(self, inner: Documents) -> None:
        self._inner = inner

    def get(self, key: str) -> bytes | None:
        data = self._inner.get(key)
        return None if data is None else split(data, key).own

    def fetch(self, keys: Iterable[str]) -> None:
        self._inner.fetch(keys)

    def derived(self, name: str, keys: Iterable[str], make: Callable[[], tuple[T, int]]) -> T:
        return self._inner.derived(name, keys, make)
