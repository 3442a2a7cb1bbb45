"""How servers treat conditions: findings about buckets, for the life of the process.

Servers differ. Amazon's takes ``If-None-Match: *`` and ``If-Match: "etag"``, with copies and the
end of uploads as well; Ceph 16 takes an ETag without its quotes only, with PUTs alone, and has its
own header for the version to copy; Swift answers If-Match with 501, and several of the writers that
race for a new key with If-None-Match win. `probe` finds it out.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from nczfs.plaindata import frozen
from nczfs.zmap.base import ABSENT, Version

REFUSED = frozenset({404, 412})  # 404: Amazon's answer to If-Match where there is no object


@frozen
class Conditions:
    """How a server treats the conditions of a request that makes an object.

    Attributes
    ----------
    creates : whether ``If-None-Match: *`` refuses if there is an object.
    replaces : whether ``If-Match`` refuses other versions, and takes the right one.
    quoted : whether it takes ETags in quotes.
    """

    creates: bool = False
    replaces: bool = False
    quoted: bool = True

    @property
    def hold(self) -> bool:
        """Whether conditions are expected to hold against racing writers."""
        return self.creates and self.replaces

    def headers(self, replaces: Version) -> dict[str, str]:
        """Return the header of a condition; none if the server would not honour it."""
        if replaces == ABSENT:
            return {"if-none-match": "*"} if self.creates else {}
        return {"if-match": _etag(replaces, quoted=self.quoted)} if self.replaces else {}


@frozen
class SourceCheck:
    """How to tell a server which version to copy.

    Attributes
    ----------
    header : "" if it copies any version.
    quoted : whether it takes ETags in quotes.
    """

    header: str = ""
    quoted: bool = True

    def headers(self, version: Version) -> dict[str, str]:
        """Return the header; none if the server would not honour it."""
        return {self.header: _etag(version, quoted=self.quoted)} if self.header else {}


@frozen
class Traits:
    """What is known of a bucket; None: not tried.

    Attributes
    ----------
    puts, copies, completions : conditions on the existing object, for a PUT, a copy, the end of an
        upload.
    sources : conditions on the source of a copy.
    """

    puts: Conditions | None = None
    copies: Conditions | None = None
    completions: Conditions | None = None
    sources: SourceCheck | None = None


class TraitsStore(Protocol):
    """A store of traits that outlives the process."""

    def read(self, bucket: tuple[str, str]) -> Traits:
        """Return the stored traits of a bucket."""

    def write(self, bucket: tuple[str, str], traits: Traits) -> None:
        """Store what is known of a bucket."""


@dataclass(slots=True)
class Memory:
    """The traits of buckets, by endpoint and name. The lock guards the table.

    Parameters
    ----------
    kept : shared with other processes; None: nothing is shared.
    """

    kept: TraitsStore | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _known: dict[tuple[str, str], Traits] = field(default_factory=dict)

    def get(self, bucket: tuple[str, str]) -> Traits:
        """Return what is known of a bucket."""
        with self._lock:
            return self._known.get(bucket, Traits())

    def recall(self, bucket: tuple[str, str]) -> Traits:
        """Return what this or other processes know of a bucket."""
        with self._lock:
            known = self._known.get(bucket)
        if known is None and self.kept is not None:
            known = self.kept.read(bucket)
            with self._lock:
                known = self._known.setdefault(bucket, known)
        return known or Traits()

    def learn(self, bucket: tuple[str, str], add: Callable[[Traits], Traits]) -> None:
        """Add to what is known of a bucket."""
        with self._lock:
            known = self._known[bucket] = add(self._known.get(bucket, Traits()))
        if self.kept is not None:
            self.kept.write(bucket, known)


def _etag(version: Version, *, quoted: bool) -> str:
    return version if quoted else version.strip('"')
