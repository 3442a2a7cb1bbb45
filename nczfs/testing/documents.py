"""Documents without a store."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path


class DictDocuments:
    """The documents of a dataset in a dict; counts what is asked of it.

    Parameters
    ----------
    documents : by key; what is not bytes or text becomes JSON.

    Attributes
    ----------
    asked : the keys that `get` was called with, in order.
    """

    def __init__(self, documents: Mapping[str, object]) -> None:
        self._documents = {key: _as_bytes(value) for key, value in documents.items()}
        self.asked: list[str] = []

    def get(self, key: str) -> bytes | None:
        self.asked.append(key)
        return self._documents.get(key)

    def fetch(self, keys: Iterable[str]) -> None:
        """Nothing to do: all answers are here."""


def documents_in(root: Path) -> DictDocuments:
    """The small files below a directory, by their relative paths."""
    return DictDocuments(
        {
            path.relative_to(root).as_posix(): path.read_bytes()
            for path in root.rglob(".*")
            if path.is_file()
        }
    )


def _as_bytes(value: object) -> bytes:
    if isinstance(value, bytes):
        return value
    return (value if isinstance(value, str) else json.dumps(value)).encode()
