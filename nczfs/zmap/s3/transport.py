"""Requests to an S3 server: signed, sent, and repeated by `web.attempts` if they fail.

The result is an answer to judge, or `Unavailable` or `DeadlinePassed`. Reads, writes and lists are
built and signed here, in a quarter of boto3's processor time. boto3 makes all others (`client`);
they go the same way.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from nczfs.version import VERSION
from nczfs.zmap.keys import place_of
from nczfs.zmap.registry import StoreOptions
from nczfs.zmap.s3.access import S3Access
from nczfs.zmap.s3.messages import Call, S3Answer, S3Request, judged, region_in
from nczfs.zmap.web.attempts import Deadline
from nczfs.zmap.web.exchange import Exchange, Question
from nczfs.zmap.web.exchange import ServerAnswer as WebAnswer
from nczfs.zmap.web.failures import AttemptFailed

_AGAIN = frozenset({408, 429, 500, 502, 503, 504, 509})
_AGAIN_CODES = frozenset(
    {"RequestTimeout", "SlowDown", "Throttling", "OperationAborted", "ConditionalRequestConflict"}
)
_EXPIRED = frozenset({"ExpiredToken", "TokenRefreshRequired", "RequestExpired"})
_ELSEWHERE = frozenset({301, 302, 307, 308})


class S3Transport:
    """A sender of requests over a pool of connections.

    Parameters
    ----------
    access : finds the bucket, and signs.
    name : of the bucket, for messages.
    clock, sleep : for the waits between attempts, in seconds.
    """

    def __init__(
        self,
        access: S3Access,
        name: str,
        options: StoreOptions,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._access = access
        self.name = name
        self._copies = options.documents.copies
        self._agent = {"user-agent": f"nczfs/{VERSION}"}
        self._common = access.headers | self._agent
        self._exchange = Exchange(
            "s3",
            name,
            options,
            address_from=access.endpoint_from,
            ca_bundle=access.ca_bundle,
            proxy=access.proxies.get(urlsplit(access.site.root_url).scheme, ""),
            clock=clock,
            sleep=sleep,
        )

    @property
    def anonymous(self) -> bool:
        """Whether requests are unsigned."""
        return self._access.anonymous

    @property
    def silent_s(self) -> float:
        """How long the server has been silent; see `ZMap.silent_s`."""
        return self._exchange.silent_s

    def where(self, key: str) -> str:
        """Return the place of a key for messages."""
        return place_of(self.name, key, self._copies)

    def copy_source(self, key: str) -> dict[str, Any]:
        """Return the parameter of a call that copies an object of this bucket."""
        return {"CopySource": self._access.copy_source(key)}

    def send(
        self, request: S3Request, fault: Callable[[S3Answer], str] = lambda answer: ""
    ) -> S3Answer:
        """Repeat a request until there is an answer that another attempt would not change.

        Parameters
        ----------
        fault : returns what is missing in an answer, so that the request is repeated; "": nothing.

        Raises
        ------
        Unavailable : no attempt got an answer, or the server was throttled or broken each time.
        DeadlinePassed : the time was over before.
        AccessDenied : there are no credentials to sign with.
        StoreError : the answer is too long.
        """
        where = self.where(request.key)

        def ask(deadline: Deadline) -> tuple[S3Answer, str]:
            url = self._access.site.url(request.key, request.query)
            headers, signed_by = self._access.sign(
                request.method, url, self._common | dict(request.headers), request.body
            )
            question = Question(request.method, url, headers, request.wanted, request.body)
            return judged(self._exchange.ask(question, deadline, where)), signed_by

        return self._answered(where, ask, self._judge(fault, request.limit is not None), 0.0)

    def call(self, call: Call, fault: Callable[[S3Answer], str] = lambda answer: "") -> S3Answer:
        """Send a request that boto3 makes, as `send` does."""
        where = self.where(call.key)

        def ask(deadline: Deadline) -> tuple[S3Answer, str]:
            return self._call(call, deadline, where)

        return self._answered(where, ask, self._judge(fault, True), call.work_s)

    def close(self) -> None:
        """Release the connections."""
        self._exchange.close()
        self._access.close()

    def _answered(
        self,
        where: str,
        ask: Callable[[Deadline], tuple[S3Answer, str]],
        judge: Callable[[S3Answer], None],
        work_s: float,
    ) -> S3Answer:
        """Repeat until there is an answer. `ask` sends once, and returns which key signed."""
        first = True

        def attempt(deadline: Deadline) -> S3Answer:
            nonlocal first
            repeated, first = not first, False
            answer = self._found(ask, deadline)
            judge(answer)
            return replace(answer, repeated=True) if repeated else answer

        return self._exchange.run(where, attempt, work_s=work_s)

    def _judge(
        self, fault: Callable[[S3Answer], str], is_document: bool
    ) -> Callable[[S3Answer], None]:
        """Return a function that raises AttemptFailed for an unusable answer."""

        def judge(answer: S3Answer) -> None:
            if reason := _trouble(answer):
                raise AttemptFailed(reason)
            if not (reason := fault(answer)):
                return
            if is_document and _is_of_another(answer):
                raise AttemptFailed(f"{reason}; check {self._access.endpoint_from}", attempts=2)
            raise AttemptFailed(reason)

        return judge

    def _found(
        self, ask: Callable[[Deadline], tuple[S3Answer, str]], deadline: Deadline
    ) -> S3Answer:
        """Send once; once more with new credentials, and once more to the bucket's region."""
        renewed = moved = False
        while True:
            answer, signed_by = ask(deadline)
            if answer.code in _EXPIRED and signed_by and not renewed:
                renewed = True
                self._access.renew(signed_by)
            elif _is_elsewhere(answer) and not moved:
                moved = True
                region = answer.region
                if not region and answer.status in _ELSEWHERE:
                    region = self._region(deadline)
                if not region or not self._access.move(region):
                    return answer
            else:
                return answer

    def _region(self, deadline: Deadline) -> str:
        """Ask for the bucket's region, if the server does not give it with a redirection."""
        answer, _ = self._call(Call("head_bucket", ""), deadline, self.name)
        return region_in(answer.headers) or answer.region

    def _call(self, call: Call, deadline: Deadline, where: str) -> tuple[S3Answer, str]:
        client, signed_by = self._access.client()

        def send(question: Question) -> WebAnswer:
            named = replace(question, headers=dict(question.headers) | self._agent)
            return self._exchange.ask(named, deadline, where)

        return client.call(call, send), signed_by


def _trouble(answer: S3Answer) -> str:
    """Return why the server did not even examine the request; "": it did."""
    if answer.status in _AGAIN or answer.code in _AGAIN_CODES:
        return f"the server answers {answer.status} {answer.code or 'without a reason'}"
    return ""


def _is_elsewhere(answer: S3Answer) -> bool:
    """Return whether the bucket is in another region: a redirection, or 400 for the signature."""
    return answer.status in _ELSEWHERE or answer.status == 400


def _is_of_another(answer: S3Answer) -> bool:
    """Return whether an answer without S3's document is of a server that is not S3 at all."""
    start = answer.document[:64].lstrip().lower()
    return bool(start) and not start.startswith((b"<?xml", b"<list", b"<error"))
