"""A probe of the conditions that a server honours, with temporary objects.

A condition counts only if both headers do what they should, with right and wrong ETags. Each trial
is made when its outcome is first needed, once for a bucket in a process.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import NamedTuple, TypeAlias

from nczfs.errors import AccessDenied, StoreError, Unavailable
from nczfs.zmap.base import ABSENT, Version
from nczfs.zmap.keys import OWN_FILES, Key, Prefix
from nczfs.zmap.s3 import multipart
from nczfs.zmap.s3.answers import call_fault, etag_fault, header_fault, made_version, stat_of
from nczfs.zmap.s3.conditions import REFUSED, Conditions, Memory, SourceCheck
from nczfs.zmap.s3.messages import Call, S3Request
from nczfs.zmap.s3.transport import S3Transport
from nczfs.zmap.web.headers import etag_in

PROBE = f"{OWN_FILES}probe-"
TRIALS_MAX = 20

copy_fault = call_fault("CopyObjectResult", "copied object")
_NOBODYS = Version(f'"{"0" * 32}"')
_SOURCE_CHECKS = (
    SourceCheck("x-amz-copy-source-if-match"),
    SourceCheck("x-amz-copy-source-if-match", quoted=False),
    SourceCheck("x-amz-copy-if-match", quoted=False),  # Ceph's
)


class _Made(NamedTuple):
    """The outcome of a request that was to make an object.

    `repeated` : it was sent twice, and the first request may have made the object.
    """

    status: int
    version: Version | None = None
    repeated: bool = False


_Make: TypeAlias = Callable[[Key, bytes, Mapping[str, str]], _Made]
"""Make an object of these bytes under a condition."""


class ConditionalWriteProbe:
    """How a bucket treats conditions: already known, or tried now.

    Parameters
    ----------
    home : the prefix for the temporary objects of trials.
    headers : that every PUT needs.
    """

    def __init__(
        self,
        transport: S3Transport,
        bucket: tuple[str, str],
        home: Prefix,
        headers: Mapping[str, str],
        memory: Memory,
    ) -> None:
        self._transport = transport
        self._bucket = bucket
        self._before = f"{home}/" if home else ""
        self._headers = headers
        self._memory = memory

    def puts(self) -> Conditions:
        """Return the conditions of a PUT. Without write permission none count as honoured."""
        known = self._memory.recall(self._bucket).puts
        if known is None:
            known = self._tried(self._put)
            if known is None:
                return Conditions()
            self._memory.learn(self._bucket, partial(replace, puts=known))
        return known

    def copies(self) -> Conditions:
        """Return the conditions on the goal of a copy."""
        known = self._memory.recall(self._bucket).copies
        if known is None:
            with self._key() as source:

                def make(goal: Key, body: bytes, condition: Mapping[str, str]) -> _Made:
                    put = self._put(source, body, {})
                    return self._copy(source, goal, condition) if put.status == 200 else put

                known = self._tried(make) or Conditions()
            self._memory.learn(self._bucket, partial(replace, copies=known))
        return known

    def completions(self) -> Conditions:
        """Return the conditions of completing an upload in parts."""
        known = self._memory.recall(self._bucket).completions
        if known is None:
            known = self._tried(self._upload) or Conditions()
            self._memory.learn(self._bucket, partial(replace, completions=known))
        return known

    def sources(self) -> SourceCheck:
        """Return the conditions on the source of a copy."""
        known = self._memory.recall(self._bucket).sources
        if known is None:
            with self._key() as source, self._key() as goal:
                put = self._put(source, b"nczfs probes conditional copies", {})
                known = next(
                    (check for check in _SOURCE_CHECKS if self._checks(check, put, source, goal)),
                    SourceCheck(),
                )
            self._memory.learn(self._bucket, partial(replace, sources=known))
        return known

    def _tried(self, make: _Make) -> Conditions | None:
        """Make an object repeatedly under right and wrong conditions.

        A refusal may come from a request that took effect although its answer was lost, and was
        refused when it was repeated: then everything is tried again.

        Returns
        -------
        None if the object cannot be made even without a condition.

        Raises
        ------
        Unavailable : answers are lost each time.
        """
        for _ in range(TRIALS_MAX):
            made: list[_Made] = []
            with self._key() as key:
                known = self._judged(partial(make, key), key, made)
            if (known and known.hold) or not any(outcome.repeated for outcome in made):
                return known
        raise Unavailable(
            f"{self._transport.name}: cannot find out whether conditions hold: connections break"
        )

    def _judged(
        self, make: Callable[[bytes, Mapping[str, str]], _Made], key: Key, made: list[_Made]
    ) -> Conditions | None:
        """Return the outcome of one trial; a new object is added to `made`."""

        def step(condition: Mapping[str, str]) -> _Made:
            # Other bytes each time, so that the version differs.
            made.append(make(b"nczfs probes conditional writes: %d" % len(made), condition))
            return made[-1]

        creating = Conditions(creates=True).headers(ABSENT)
        creates = step(creating).status == 200 and step(creating).status == 412
        old = step({}).version
        if old is None:
            return None
        for quoted in (True, False):
            known = Conditions(creates, replaces=True, quoted=quoted)
            new = step(known.headers(old)).version
            if new is None:
                continue
            if new == old or step(known.headers(old)).status != 412:
                break
            self._delete(key)
            return known if step(known.headers(new)).status in REFUSED else Conditions(creates)
        return Conditions(creates)

    def _delete(self, key: Key) -> None:
        self._transport.send(S3Request("DELETE", key))

    @contextlib.contextmanager
    def _key(self) -> Iterator[Key]:
        """Use a temporary key, whose object is removed afterwards."""
        key = Key(f"{self._before}{PROBE}{secrets.token_hex(8)}")
        try:
            yield key
        finally:
            with contextlib.suppress(StoreError):
                self._delete(key)

    def _put(self, key: Key, body: bytes, condition: Mapping[str, str]) -> _Made:
        request = S3Request("PUT", key, {**self._headers, **condition}, body=body)
        answer = self._transport.send(request, etag_fault)
        etag = etag_in(answer.headers.get("etag", ""))
        version = Version(etag) if answer.status == 200 else None
        return _Made(answer.status, version, answer.repeated)

    def _copy(self, source: Key, goal: Key, condition: Mapping[str, str]) -> _Made:
        copied_from = self._transport.copy_source(source)
        call = Call("copy_object", goal, copied_from, {**self._headers, **condition})
        answer = self._transport.call(call, copy_fault)
        version = made_version(answer, "CopyObjectResult") if answer.status == 200 else None
        return _Made(answer.status, version, answer.repeated)

    def _upload(self, key: Key, body: bytes, condition: Mapping[str, str]) -> _Made:
        try:
            upload = multipart.begin(self._transport, key, self._headers)
        except AccessDenied:
            return _Made(403)
        answer = None
        try:
            answer = upload.complete([upload.send_part(1, body)], condition)
        finally:
            if answer is None or answer.status != 200:
                upload.abort()
        if answer.status != 200:
            return _Made(answer.status, repeated=answer.repeated)
        return _Made(200, made_version(answer) or self._version(key), answer.repeated)

    def _version(self, key: Key) -> Version | None:
        answer = self._transport.send(S3Request("HEAD", key), header_fault)
        return stat_of(key, answer).version if answer.status == 200 else None

    def _checks(self, check: SourceCheck, put: _Made, source: Key, goal: Key) -> bool:
        if put.version is None:
            return False
        wrong = self._copy(source, goal, check.headers(_NOBODYS))
        return (
            wrong.status == 412
            and self._copy(source, goal, check.headers(put.version)).status == 200
        )
