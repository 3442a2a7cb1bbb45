"""DeleteObjects: many keys in one request."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from nczfs.zmap.keys import Key
from nczfs.zmap.s3.answers import call_fault
from nczfs.zmap.s3.messages import Call
from nczfs.zmap.s3.transport import S3Transport

BATCH_KEYS: Final = 1000  # limit of S3
KEY_S: Final = 0.05  # server time for each key; Swift was seen to take 0.01

_fault = call_fault("DeleteResult", "deletion result")
_NOT_XML = re.compile("[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def delete_batches(transport: S3Transport, keys: Iterable[Key]) -> Iterator[Key]:
    """Delete in batches. Returns the keys that have to be deleted one by one.

    Those are keys that XML cannot contain, keys that the server names as not deleted, and all keys
    if it has no such request.
    """
    rest = iter(keys)
    while batch := list(islice(rest, BATCH_KEYS)):
        named = [key for key in batch if not _NOT_XML.search(key)]
        if len(named) < 2:
            yield from batch
            continue
        yield from (key for key in batch if _NOT_XML.search(key))
        objects = [{"Key": key} for key in named]
        answer = transport.call(
            Call(
                "delete_objects",
                "",
                {"Delete": {"Objects": objects, "Quiet": True}},
                work_s=KEY_S * len(named),
            ),
            _fault,
        )
        if answer.status != 200:
            yield from named
            yield from rest
            return
        failed = {error.get("Key", "") for error in answer.fields.get("Errors", ())}
        yield from (key for key in named if key in failed)
