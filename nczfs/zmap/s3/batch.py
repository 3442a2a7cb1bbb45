"""DeleteObjects: many keys in one request."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from hashlib import md5
from itertools import islice
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from nczfs.zmap.keys import Key
from nczfs.zmap.s3.transport import Answer, Request, Transport

BATCH_KEYS = 1000  # S3 takes no more
KEY_S = 0.05  # that a server may take for each; Swift was seen to take 0.01

_NOT_XML = re.compile("[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def delete_batches(transport: Transport, keys: Iterable[Key]) -> Iterator[Key]:
    """Delete in batches; the keys that come back are still to be deleted, one by one.

    Those are keys that XML cannot hold, keys that the server names as not deleted, and all of them
    where it has no such request.
    """
    rest = iter(keys)
    while batch := list(islice(rest, BATCH_KEYS)):
        named = [key for key in batch if not _NOT_XML.search(key)]
        if len(named) < 2:
            yield from batch
            continue
        yield from (key for key in batch if _NOT_XML.search(key))
        answer = transport.send(_request(named), _fault)
        if answer.status != 200:
            yield from named
            yield from rest
            return
        failed = _failed(answer.document)
        yield from (key for key in named if key in failed)


def _request(keys: Sequence[Key]) -> Request:
    objects = "".join(f"<Object><Key>{escape(key)}</Key></Object>" for key in keys)
    body = f"<Delete><Quiet>true</Quiet>{objects}</Delete>".encode()
    digest = b64encode(md5(body, usedforsecurity=False).digest()).decode()
    headers = {"content-md5": digest, "content-type": "application/xml"}
    return Request("POST", "", headers, {"delete": ""}, body, work_s=KEY_S * len(keys))


def _fault(answer: Answer) -> str:
    if answer.status != 200:
        return ""
    try:
        _failed(answer.document)
    except ElementTree.ParseError:
        return "the answer is not a deletion result of S3"
    return ""


def _failed(body: bytes) -> frozenset[str]:
    found = ElementTree.fromstring(body).iterfind("{*}Error/{*}Key")
    return frozenset(element.text or "" for element in found)
