"""What was sent of a unit without an answer, and what of it the entries of the spool do not say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from nczfs.engine.spool.basis import Sent
from nczfs.engine.spool.saved import Attempt, Saved


@dataclass(slots=True)
class Attempts:
    """The revisions of chunks that are in the objects that were sent.

    A chunk is known by its object: another one of the same place counts its revisions anew.
    """

    _revisions: dict[Sent, Mapping[object, int]] = field(default_factory=dict)

    def note(self, sent: Sent, taken: Iterable[tuple[object, int]], among: Iterable[Sent]) -> None:
        """Note what was sent.

        Parameters
        ----------
        taken : the revision of each chunk of which all is in the object; -1: none.
        among : everything that was sent; others are forgotten.
        """
        known = self._revisions.get(sent, {})
        revisions = {chunk: max(count, known.get(chunk, -1)) for chunk, count in taken}
        found = self._revisions | {sent: {**known, **revisions}}
        self._revisions = {each: found[each] for each in among if each in found}

    def clear(self) -> None:
        """Forget all: what was sent since is in the store."""
        self._revisions = {}

    def unrecorded(self, chunk: object, saved: Saved) -> Sequence[Attempt]:
        """Return what the entry of a chunk does not say."""
        found: list[Attempt] = []
        for sent, revisions in self._revisions.items():
            revision = revisions.get(chunk, -1)
            if sent not in saved.recorded:
                found.append(Attempt(sent, revision >= saved.revision))
            elif not saved.recorded[sent] and revision > saved.revision:
                found.append(Attempt(sent, is_whole=True))  # the same was sent once more
        return found


def record_attempts(unrecorded: Iterable[tuple[Saved, Sequence[Attempt]]]) -> None:
    """Record in entries what was sent; a record that is the same for many is made once."""
    made: dict[Attempt, Attempt] = {}
    for saved, attempts in unrecorded:
        saved.record([made.setdefault(each, each) for each in attempts])
