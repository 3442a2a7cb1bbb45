"""Answers to requests, before a server sends them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from http import HTTPStatus
from typing import Final

from nczfs import errors
from nczfs.buffers import Buffer
from nczfs.plaindata import frozen

TEXT: Final = "text/plain; charset=utf-8"
HTML: Final = "text/html; charset=utf-8"
BINARY: Final = "application/octet-stream"


@frozen
class Answer:
    """An answer.

    Attributes
    ----------
    pieces : of its body, each of which is made when it is sent. An empty one gives the client time
        to go away, while the next one is not made yet. If the first one raises
        `NczfsError`, that is answered instead; if a later one does, the connection is cut, so that
        no client takes what it has received for everything.
    size : of the body, in bytes; None: not known beforehand, or not to be said.
    """

    pieces: Iterable[Buffer] = ()
    media_type: str = TEXT
    status: int = HTTPStatus.OK
    size: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


def text_answer(text: str, status: int = HTTPStatus.OK, media_type: str = TEXT) -> Answer:
    """Return a short answer that is made already."""
    data = text.encode("utf-8", "replace")
    return Answer((data,), media_type, status, len(data))


def refusal(status: int, text: str) -> Answer:
    """Return an answer that says, as text, why there is none."""
    return text_answer(f"{status} {HTTPStatus(status).phrase}: {text}\n", status)


def answer_of(error: errors.NczfsError) -> Answer:
    """Return the answer to a request that failed.

    What is wrong with a request is described in full. Of failures of the store it learns the kind
    alone: their messages can name places that are nobody's business; they are in the log.
    """
    for cls, status in _STATUS.items():
        if isinstance(error, cls):
            return refusal(status, str(error))
    return refusal(HTTPStatus.BAD_GATEWAY, failure_text(error))


def is_ordinary(error: errors.NczfsError) -> bool:
    """Return whether an error is the client's, and not worth a line of the log."""
    return isinstance(error, tuple(_STATUS))


def failure_text(error: errors.NczfsError) -> str:
    """Return what a client is told of a failure that it has not caused."""
    what = next(text for cls, text in _FAILURES.items() if isinstance(error, cls))
    return f"{what}; the log of the server says why"


_STATUS: Final[Mapping[type[errors.NczfsError], HTTPStatus]] = {
    errors.BadSelection: HTTPStatus.BAD_REQUEST,
    errors.NotADataset: HTTPStatus.NOT_FOUND,
    errors.NoSuchNode: HTTPStatus.NOT_FOUND,
    errors.PathError: HTTPStatus.NOT_FOUND,
    errors.BadKey: HTTPStatus.NOT_FOUND,
    errors.UsageError: HTTPStatus.BAD_REQUEST,
}

_FAILURES: Final[Mapping[type[errors.NczfsError], str]] = {
    errors.MetadataError: "metadata of the dataset cannot be read",
    errors.CodecError: "a chunk of the dataset cannot be decoded",
    errors.StructureChanged: "the dataset was changed meanwhile; ask again",
    errors.MissingChunk: "a chunk of the dataset was never written",
    errors.StoreError: "the store cannot be read",
    errors.NczfsError: "the dataset cannot be read",
}
