"""Whether a server honours the conditions of a PUT: tried once, and remembered.

Servers differ. Amazon's takes ``If-None-Match: *`` and ``If-Match: "etag"``; Ceph 16 takes an ETag
without its quotes only; Swift answers If-Match with 501, and of several writers that race for a new
key with If-None-Match several win. So a condition is believed only where both headers did, with
right and wrong ETags, what they should.
"""

from __future__ import annotations

import contextlib
import secrets
import threading
from collections.abc import Mapping
from dataclasses import dataclass

from nczfs.errors import StoreError
from nczfs.zmap.base import ABSENT, Version
from nczfs.zmap.keys import OWN_FILES, Prefix
from nczfs.zmap.s3.answers import etag_fault, version_of
from nczfs.zmap.s3.transport import Answer, Request, Transport

PROBE = f"{OWN_FILES}probe-"
REFUSED = frozenset({404, 412})  # 404: Amazon's answer to If-Match where there is no object


@dataclass(frozen=True, slots=True)
class Conditions:
    """What a server makes of the conditions of a PUT.

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
        if not self.replaces:
            return {}
        return {"if-match": replaces.token if self.quoted else replaces.token.strip('"')}


class Memory:
    """What is known of the buckets this process wrote to, by endpoint and name.

    The lock guards the table.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[tuple[str, str], Conditions] = {}

    def get(self, bucket: tuple[str, str]) -> Conditions | None:
        with self._lock:
            return self._known.get(bucket)

    def keep(self, bucket: tuple[str, str], conditions: Conditions) -> None:
        with self._lock:
            self._known[bucket] = conditions


def probe(transport: Transport, home: Prefix, headers: Mapping[str, str]) -> Conditions | None:
    """Find out with an object of our own below a prefix, which is removed again.

    Parameters
    ----------
    headers : that a PUT needs, whatever its condition.

    Returns
    -------
    None where we may not write, so that nothing can be learned.
    """
    key = f"{home}/{PROBE}{secrets.token_hex(8)}" if home else f"{PROBE}{secrets.token_hex(8)}"
    trial = _Trial(transport, key, headers)
    try:
        return trial.run()
    finally:
        with contextlib.suppress(StoreError):
            transport.send(Request("DELETE", key))


class _Trial:
    """The steps of a probe; the content of the object counts them."""

    def __init__(self, transport: Transport, key: str, headers: Mapping[str, str]) -> None:
        self._transport = transport
        self._key = key
        self._headers = headers
        self._step = 0

    def run(self) -> Conditions | None:
        first = self._put({"if-none-match": "*"})
        creates = first.status == 200 and self._put({"if-none-match": "*"}).status == 412
        plain = self._put({})
        if plain.status != 200:
            return None
        for quoted in (True, False):
            known = Conditions(creates, replaces=True, quoted=quoted)
            replaced = self._put(known.headers(_version(plain)))
            if replaced.status == 200:
                return (
                    known if self._refuses_others(known, plain, replaced) else Conditions(creates)
                )
        return Conditions(creates)

    def _refuses_others(self, known: Conditions, old: Answer, new: Answer) -> bool:
        """Whether a version that was replaced is refused, and one that was deleted."""
        if _version(old) == _version(new) or self._put(known.headers(_version(old))).status != 412:
            return False
        self._transport.send(Request("DELETE", self._key))
        return self._put(known.headers(_version(new))).status in REFUSED

    def _put(self, condition: Mapping[str, str]) -> Answer:
        self._step += 1
        body = b"nczfs probes conditional writes: %d" % self._step
        headers = {**self._headers, **condition}
        return self._transport.send(Request("PUT", self._key, headers, body=body), etag_fault)


def _version(answer: Answer) -> Version:
    return version_of(answer.headers["etag"])
