"""What a server makes of conditions: what was learned of buckets, for the life of the process.

Servers differ. Amazon's takes ``If-None-Match: *`` and ``If-Match: "etag"``, with copies and the
end of uploads as well; Ceph 16 takes an ETag without its quotes only, with PUTs alone, and has a
name of its own for the version that is to be copied; Swift answers If-Match with 501, and of
several writers that race for a new key with If-None-Match several win. `trials` finds it out.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from nczfs.zmap.base import ABSENT, Version

REFUSED = frozenset({404, 412})  # 404: Amazon's answer to If-Match where there is no object


@dataclass(frozen=True, slots=True)
class Conditions:
    """What a server makes of the conditions of a request that makes an object.

    Attributes
    ----------
    creates : ``If-None-Match: *`` refuses where there is an object.
    replaces : ``If-Match`` refuses other versions, and takes the right one.
    quoted : in which form it takes an ETag.
    """

    creates: bool = False
    replaces: bool = False
    quoted: bool = True

    @property
    def hold(self) -> bool:
        """Whether conditions are believed to hold against writers that race."""
        return self.creates and self.replaces

    def headers(self, replaces: Version) -> dict[str, str]:
        """The header that asks for a condition; none where the server would not honour it."""
        if replaces == ABSENT:
            return {"if-none-match": "*"} if self.creates else {}
        return {"if-match": _etag(replaces, quoted=self.quoted)} if self.replaces else {}


@dataclass(frozen=True, slots=True)
class SourceCheck:
    """How a server is told which version it shall copy.

    Attributes
    ----------
    header : "" where it copies whatever is there.
    quoted : in which form it takes an ETag.
    """

    header: str = ""
    quoted: bool = True

    def headers(self, version: Version) -> dict[str, str]:
        """The header; none where the server would not honour it."""
        return {self.header: _etag(version, quoted=self.quoted)} if self.header else {}


@dataclass(frozen=True, slots=True)
class Traits:
    """What is known of a bucket; None where it was not tried.

    Attributes
    ----------
    puts, copies, completions : conditions on what is there, of a PUT, a copy, the end of an upload.
    sources : conditions on what is copied.
    """

    puts: Conditions | None = None
    copies: Conditions | None = None
    completions: Conditions | None = None
    sources: SourceCheck | None = None


@dataclass(slots=True)
class Memory:
    """The traits of buckets, by endpoint and name. The lock guards the table."""

    _lock: threading.Lock = field(default_factory=threading.Lock)
    _known: dict[tuple[str, str], Traits] = field(default_factory=dict)

    def get(self, bucket: tuple[str, str]) -> Traits:
        """What is known of a bucket."""
        with self._lock:
            return self._known.get(bucket, Traits())

    def learn(self, bucket: tuple[str, str], add: Callable[[Traits], Traits]) -> None:
        """Add to what is known of a bucket."""
        with self._lock:
            self._known[bucket] = add(self._known.get(bucket, Traits()))


def _etag(version: Version, *, quoted: bool) -> str:
    return version if quoted else version.strip('"')
