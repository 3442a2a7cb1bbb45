"""Pictures of variables, for the pages of groups: drawn when a browser asks for one, and kept."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from nczfs.engine.dataset import Dataset
from nczfs.engine.metadata.ledger import Shelf
from nczfs.errors import NoSuchPath
from nczfs.messages import shown
from nczfs.model.hierarchy import Variable
from nczfs.pictures import picture
from nczfs.pictures.limits import MIB, PictureLimits
from nczfs.plaindata import frozen
from nczfs.serve.answers import Answer
from nczfs.serve.store import ServedStore
from nczfs.vfs.nodes import Directory

QUERY: Final = "picture"
"""The query that asks for the picture of the variable whose page it is added to."""

LIMITS: Final = PictureLimits(
    chunks=16, chunk_bytes=64 * MIB, decoded_bytes=64 * MIB, width=480, height=300, steps=2
)
KEPT_S: Final = 60.0
"""For so long a picture may show older values, in the service and in a browser."""

is_available = picture.is_available


@frozen
class _Kept:
    """A picture; of the variable the digest, because its attributes may be large."""

    variable: bytes
    png: bytes
    drawn_at: float


@frozen
class Wanted:
    """A picture that a request asks for: of a variable at a path, with its digest."""

    path: str
    dataset: Dataset
    variable: Variable
    digest: bytes


class Pictures:
    """The pictures of a store. Every method may be called from any thread."""

    def __init__(self, store: ServedStore) -> None:
        self._store = store
        self._kept: Shelf[str, _Kept] = Shelf(store.ledger)

    def wanted(self, directory: Directory, path: str) -> Wanted:
        """Return what a request for the picture of a directory asks for.

        Raises
        ------
        NoSuchPath : it is no variable, or the libraries that draw are not installed. BadMetadata,
            StoreError.
        """
        found = self._store.variable_of(directory)
        if found is None or not is_available():
            raise NoSuchPath(f"{shown(path)}: there is no picture of it")
        dataset, variable = found
        return Wanted(path, dataset, variable, _digest(variable))

    def kept_answer(self, wanted: Wanted, if_none_match: str) -> Answer | None:
        """Return a picture that need not be drawn; None: it must be."""
        kept = self._kept.get(wanted.path)
        if kept is None or _age_s(kept) >= KEPT_S or kept.variable != wanted.digest:
            return None
        return _answer(kept, if_none_match)

    def answer(self, wanted: Wanted, if_none_match: str) -> Answer:
        """Return a picture, drawn unless it is kept.

        Raises
        ------
        CodecError, MissingChunk, StoreError.
        """
        known = self.kept_answer(wanted, if_none_match)  # others may have asked for it
        if known is not None:
            return known
        began = time.monotonic()
        png = picture.variable_picture(
            wanted.dataset, wanted.variable, LIMITS, fresh_since=self._store.fresh_since
        )
        kept = _Kept(wanted.digest, png, began)
        self._kept.put(wanted.path, kept, len(png))
        return _answer(kept, if_none_match)


def _digest(variable: Variable) -> bytes:
    return hashlib.sha256(repr(variable).encode(errors="backslashreplace")).digest()


def _answer(kept: _Kept, if_none_match: str) -> Answer:
    tag = f'"{hashlib.sha256(kept.png).hexdigest()[:32]}"'
    headers: Mapping[str, str] = {
        "Cache-Control": f"private, max-age={max(0, round(KEPT_S - _age_s(kept)))}",
        "ETag": tag,
    }
    if tag in [each.strip() for each in if_none_match.split(",")]:
        return Answer((), "image/png", HTTPStatus.NOT_MODIFIED, headers=headers)
    return Answer((kept.png,), "image/png", size=len(kept.png), headers=headers)


def _age_s(kept: _Kept) -> float:
    return time.monotonic() - kept.drawn_at
