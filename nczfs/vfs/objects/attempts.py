"""What was sent to the store and not answered: it may arrive there later."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nczfs.vfs.objects.store import ObjectStore
from nczfs.zmap.base import Buffer, Part, Range, Stat, part_bytes, part_size
from nczfs.zmap.keys import Key


@dataclass(frozen=True, slots=True)
class Attempt:
    """The content of an object that was sent, as a digest."""

    key: Key
    size: int
    digest: bytes


def landed(attempts: Iterable[Attempt], key: Key, store: ObjectStore) -> Stat | None:
    """The object that the store has under a key, if it is what one of the attempts sent there."""
    sent = {(each.size, each.digest) for each in attempts if each.key == key}
    found = store.find(key) if sent else None
    if found is None or found.size not in {size for size, _ in sent}:
        return None
    digest = hashlib.blake2b()
    step = store.step
    for start in range(0, found.size, step):
        digest.update(store.read(found, start, min(start + step, found.size)))
    return found if (found.size, digest.digest()) in sent else None


def attempt_of(key: Key, parts: Sequence[Part]) -> Attempt | None:
    """An attempt to store an object; None where a part of it comes from the store itself."""
    digest, size = hashlib.blake2b(), 0
    for part in parts:
        if isinstance(part, Range):
            return None
        for data in part_bytes(part, _nothing):
            digest.update(data)
        size += part_size(part)
    return Attempt(key, size, digest.digest())


def _nothing(part: Range) -> Buffer:
    raise AssertionError(part)
