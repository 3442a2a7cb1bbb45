"""DeleteObjects: many keys in one request."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

from nczfs.zmap.keys import Key
from nczfs.zmap.s3.answers import call_fault
from nczfs.zmap.s3.messages import Call, S3Answer
from nczfs.zmap.s3.transport import S3Transport

BATCH_KEYS: Final = 1000  # limit of S3
FIRST_KEYS: Final = 100  # as long as the pace of the server is unknown
LEAST_KEYS: Final = 10  # one slow request does not end batches
BATCH_S: Final = 4.0  # aimed at for each request
KEY_S: Final = 0.05  # server time for each key; Swift was seen to take 0.01, and 0.06 under load

_fault = call_fault("DeleteResult", "deletion result")
_NOT_XML = re.compile("[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class BatchDeletion:
    """Deletion in batches, as large as the server deletes in a few seconds.

    Some servers delete a thousand keys at once, others one by one before they answer.
    """

    def __init__(self, transport: S3Transport, clock: Callable[[], float] = time.monotonic) -> None:
        self._transport = transport
        self._clock = clock
        self._batch_keys = FIRST_KEYS

    def delete(self, keys: Iterable[Key]) -> Iterator[Key]:
        """Delete in batches. Returns the keys that have to be deleted one by one.

        Those are keys that XML cannot contain, keys that the server names as not deleted, and all
        keys if it has no such request.
        """
        rest = iter(keys)
        while batch := list(islice(rest, self._batch_keys)):
            named = [key for key in batch if not _NOT_XML.search(key)]
            if len(named) < 2:
                yield from batch
                continue
            yield from (key for key in batch if _NOT_XML.search(key))
            answer = self._request(named)
            if answer.status != 200:
                yield from named
                yield from rest
                return
            failed = {error.get("Key", "") for error in answer.fields.get("Errors", ())}
            yield from (key for key in named if key in failed)

    def _request(self, keys: Sequence[Key]) -> S3Answer:
        objects = [{"Key": key} for key in keys]
        begin = self._clock()
        answer = self._transport.call(
            Call(
                "delete_objects",
                "",
                {"Delete": {"Objects": objects, "Quiet": True}},
                work_s=KEY_S * len(keys),
            ),
            _fault,
        )
        spent_s = max(self._clock() - begin, 1e-3)
        fitting = min(max(LEAST_KEYS, int(len(keys) * BATCH_S / spent_s)), BATCH_KEYS)
        if spent_s > BATCH_S or fitting > self._batch_keys:  # a few keys do not show the pace
            self._batch_keys = fitting
        return answer
