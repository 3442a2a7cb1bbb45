"""Places for appended records, claimed in the document that holds the shape of their array.

Records are stored before the shape says that they are there, so that no reader finds one without
values. Two clients that append at the same time must not choose the same place for theirs. So each
one first claims the records [first, stop) in that document, by a conditional write: the loser reads
what the winner has claimed, and claims the place after it. A claim stays until its owner stores a
shape that covers it: a client whose claim was stored although the answer was lost finds it again.
Claims of processes that have ended without that do not count.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict

from nczfs.engine.process import ProcessIdentity, this_process
from nczfs.formats.base import Documents, MetadataFormat, Node
from nczfs.model.hierarchy import Json, Variable
from nczfs.plaindata import frozen

NOTE = "nczfs_appends"
COVERED_MAX = 16  # of other clients, which may have ended on another machine
LENGTH_MAX = 2**63 - 1


@frozen
class AppendClaim:
    """The records [first, stop), and the process that stores them, see `ProcessIdentity`.

    Attributes
    ----------
    name : of those records, at any place.
    """

    name: str
    first: int
    stop: int
    machine: str
    pid: int
    started: int

    @property
    def process(self) -> ProcessIdentity:
        """The process that made the claim."""
        return ProcessIdentity(self.machine, self.pid, self.started)


def with_claim(
    written_as: MetadataFormat,
    data: bytes,
    key: str,
    name: str,
    start: int,
    count: int,
    ended: ProcessIdentity | None = None,
) -> tuple[int, bytes]:
    """Claim a place for some records of this process.

    Parameters
    ----------
    data : the document, with its key for messages.
    name : of the records. If there is a claim of that name already, for as many records, it was
        stored although its answer was lost, and holds.
    start : their place, or the earliest one.
    ended : a process that has ended, even if that cannot be seen from here.

    Returns
    -------
    the index of the first one, and the document with the claim.

    Raises
    ------
    BadMetadata.
    """
    length, claims = _length_and_claims(written_as, data, key)
    for claim in claims:
        if claim.name == name and claim.stop - claim.first == count and claim.first >= start:
            return claim.first, data
    others = [claim for claim in claims if claim.name != name and claim.process != ended]
    first = max(start, length, *(claim.stop for claim in others), 0)
    process = this_process()
    claim = AppendClaim(name, first, first + count, process.machine, process.pid, process.started)
    return first, _with_claims(written_as, data, key, [*others, claim])


def without_covered(
    written_as: MetadataFormat, data: bytes, key: str, own: Collection[str]
) -> tuple[bytes, set[str]]:
    """Return a document without the claims that its shape covers, and the names of all of those.

    Parameters
    ----------
    own : the names of claims of this client; those of others stay, but for the oldest of many.

    Raises
    ------
    BadMetadata.
    """
    if NOTE.encode() not in data:
        return data, set()
    length, claims = _length_and_claims(written_as, data, key)
    covered = [claim for claim in claims if claim.stop <= length and claim.name not in own]
    kept = {id(claim) for claim in covered[-COVERED_MAX:]}
    left = [claim for claim in claims if claim.stop > length or id(claim) in kept]
    names = {claim.name for claim in claims if claim.stop <= length}
    return _with_claims(written_as, data, key, left), names


def covered_document(
    written_as: MetadataFormat, node: Node, documents: Documents, own: Collection[str]
) -> dict[str, bytes]:
    """Return the document of an array, by its key, if it has claims of this client to remove.

    Raises BadMetadata, and as `get`.

    Parameters
    ----------
    own : the names of claims of this client.
    """
    key = written_as.array_key(node.path)
    data = documents.get(key) if own and isinstance(node, Variable) else None
    if data is None or NOTE.encode() not in data:
        return {}
    length, claims = _length_and_claims(written_as, data, key)
    is_covered = any(claim.stop <= length and claim.name in own for claim in claims)
    return {key: data} if is_covered else {}


def _length_and_claims(
    written_as: MetadataFormat, data: bytes, key: str
) -> tuple[int, list[AppendClaim]]:
    """Return the length of an array, and the claims of processes that may be alive."""
    shape, note = written_as.shape_and_note(data, key, NOTE)
    return next(iter(shape), 0), _living_claims(note)


def _living_claims(found: Json) -> list[AppendClaim]:
    """Return the claims in the note of an array whose processes may be alive."""
    claims = map(_claim_of, found if isinstance(found, list) else [])
    return [claim for claim in claims if claim is not None and not claim.process.has_ended()]


def _claim_of(item: Json) -> AppendClaim | None:
    if not isinstance(item, dict):
        return None
    name, machine = item.get("name"), item.get("machine")
    first, stop = item.get("first"), item.get("stop")
    pid, started = item.get("pid"), item.get("started")
    if not (isinstance(name, str) and isinstance(machine, str)):
        return None
    if not (isinstance(first, int) and isinstance(stop, int) and 0 <= first < stop <= LENGTH_MAX):
        return None
    if not (isinstance(pid, int) and isinstance(started, int) and pid > 0):
        return None
    return AppendClaim(name, first, stop, machine, pid, started)


def _with_claims(
    written_as: MetadataFormat, data: bytes, key: str, claims: list[AppendClaim]
) -> bytes:
    note: Json = [asdict(claim) for claim in claims]
    return written_as.with_note(data, key, NOTE, note or None)
