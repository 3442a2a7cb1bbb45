"""Pictures of variables, for the pages of groups: drawn when a browser asks for one, and kept."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from nczfs.engine.dataset import Dataset
from nczfs.engine.metadata.ledger import Shelf
from nczfs.errors import NoSuchPath
from nczfs.messages import shown
from nczfs.model.hierarchy import Variable
from nczfs.pictures import picture
from nczfs.pictures.limits import MIB, PictureLimits
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


@dataclass(frozen=True, slots=True)
class _Kept:
    """A picture; of the variable the digest, because its attributes may be large."""

    variable: bytes
    png: bytes
    drawn_at: float


class Pictures:
    """The pictures of a store. Every method may be called from any thread."""

    def __init__(self, store: ServedStore) -> None:
        self._store = store
        self._kept: Shelf[str, _Kept] = Shelf(store.ledger)

    def kept_answer(self, directory: Directory, path: str, if_none_match: str) -> Answer | None:
        """Return a picture that need not be drawn; None: it must be.

        Raises
        ------
        NoSuchPath : it is no variable, or the libraries that draw are not installed. BadMetadata,
            StoreError.
        """
        _, variable = self._found(directory, path)
        kept = self._kept.get(path)
        if kept is None or _age_s(kept) >= KEPT_S or kept.variable != _digest(variable):
            return None
        return _answer(kept, if_none_match)

    def answer(self, directory: Directory, path: str, if_none_match: str) -> Answer:
        """Return the picture of the variable that a directory shows, drawn unless it is kept.

        Raises
        ------
        as `kept_answer`, and CodecError, MissingChunk.
        """
        known = self.kept_answer(directory, path, if_none_match)  # others may have asked for it
        if known is not None:
            return known
        dataset, variable = self._found(directory, path)
        began = time.monotonic()
        png = picture.variable_picture(
            dataset, variable, LIMITS, fresh_since=self._store.fresh_since
        )
        kept = _Kept(_digest(variable), png, began)
        self._kept.put(path, kept, len(png))
        return _answer(kept, if_none_match)

    def _found(self, directory: Directory, path: str) -> tuple[Dataset, Variable]:
        found = self._store.variable_of(directory)
        if found is None or not is_available():
            raise NoSuchPath(f"{shown(path)}: there is no picture of it")
        return found


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
