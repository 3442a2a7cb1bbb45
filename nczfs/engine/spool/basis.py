"""Upon which version of an object something was written, for those who put it back later."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import google_crc32c
import numpy as np

from nczfs.zmap.base import Buffer, Version

_KEPT: Final = 8  # of the versions, and of what was sent: the newest ones


@dataclass(frozen=True, slots=True)
class Sent:
    """The bytes of an object that were sent to the store, which may have arrived."""

    size: int
    crc32c: int


def sent(parts: Iterable[Buffer]) -> Sent:
    """What was sent, of its bytes."""
    size, crc = 0, 0
    for part in parts:
        data = np.frombuffer(part, np.uint8)
        size, crc = size + data.size, google_crc32c.extend(crc, data)
    return Sent(size, crc)


@dataclass(frozen=True, slots=True)
class Basis:
    """What was known of an object when something was written to it that is not stored yet.

    Attributes
    ----------
    written_ns : when the first of it was written, since 1970.
    versions : those that it was put over, `ABSENT` where there was none; empty: none is known.
    sent : what was sent to the store without an answer: that is what was written, too.
    """

    written_ns: int = field(default_factory=time.time_ns)
    versions: tuple[Version, ...] = ()
    sent: tuple[Sent, ...] = ()

    def upon(self, version: Version | None) -> Basis:
        """The same, put over one more version."""
        if version is None or version in self.versions:
            return self
        return replace(self, versions=(*self.versions, version)[-_KEPT:])

    def sending(self, attempt: Sent) -> Basis:
        """The same, sent once more."""
        others = tuple(each for each in self.sent if each != attempt)
        return replace(self, sent=(*others, attempt)[-_KEPT:])

    def document(self) -> dict[str, Any]:
        """As an entry has it."""
        return {
            "written_ns": self.written_ns,
            "versions": list(self.versions),
            "sent": [[each.size, each.crc32c] for each in self.sent],
        }

    @classmethod
    def parsed(cls, document: Mapping[str, Any], otherwise: int) -> Basis:
        """The one that an entry has. Raises TypeError, ValueError.

        Parameters
        ----------
        otherwise : when it was written, where the entry does not tell.
        """
        versions, attempts = document.get("versions", []), document.get("sent", [])
        if not isinstance(versions, list) or not all(isinstance(v, str) for v in versions):
            raise TypeError(f"{versions!r} are not versions")
        return cls(
            int(document.get("written_ns", otherwise)),
            tuple(map(Version, versions)),
            tuple(Sent(int(size), int(crc)) for size, crc in attempts),
        )
