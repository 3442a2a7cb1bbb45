"""The verification of a dataset: every document, every chunk, and every other key."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from nczfs.model.hierarchy import Variable
from nczfs.plaindata import frozen
from nczfs.tools.progress import Progress
from nczfs.tools.verify.chunks import Checked, UnitChecks
from nczfs.tools.verify.findings import Counts, Finding, FindingKind
from nczfs.tools.verify.keys import KeySorter, StoredUnit
from nczfs.tools.verify.nodes import Nodes, place_of, stale_copies
from nczfs.tools.verify.state import VerifyState, mark_of
from nczfs.tools.verify.subject import Subject
from nczfs.tools.verify.wrecks import wrecks

_SHARE_OF_MEMORY = 2  # half of the limit is for chunks under way

BATCH_UNITS_MAX = 64
BATCH_BYTES = 64 << 20
"""A batch has at most `BATCH_UNITS_MAX` units, and no more when these have so many stored bytes."""

_BATCH_FINDINGS_MAX = 1000


@frozen
class Batch:
    """Units that are checked together, and what was found about other keys among theirs."""

    units: tuple[StoredUnit, ...]
    findings: tuple[Finding, ...]


Elsewhere: TypeAlias = Callable[
    [Iterator[Batch], Progress], Iterator[tuple[Batch, Sequence[Checked]]]
]
"""Checks batches in other processes, and yields them with what was found in their units."""


class Verification:
    """One run over a dataset, or a part of it.

    The documents are read first. Then the keys are listed once, page by page, and the chunks of an
    object are read when its key comes: memory does not grow with the number of chunks.

    Parameters
    ----------
    subject : the dataset.
    state : what earlier runs found sound; None: everything is read.
    progress : called with the number of objects that are done.
    expect : called with the number of all objects with chunks before the first is read; the keys
        are then listed twice. None: nobody wants to know.
    elsewhere : None: the chunks are read in this process.

    Attributes
    ----------
    counts : the progress of the run.
    """

    def __init__(
        self,
        subject: Subject,
        state: VerifyState | None = None,
        progress: Progress = lambda _count: None,
        expect: Callable[[int], None] | None = None,
        elsewhere: Elsewhere | None = None,
    ) -> None:
        self._subject = subject
        self._state = state
        self._progress = progress
        self._expect = expect
        self._elsewhere = elsewhere
        self._nodes = Nodes(subject)
        self._descriptions: dict[str, str] = {}
        self.counts = Counts()

    def run(self, start: str = "") -> Iterator[Finding]:
        """Verify the node at a path and all below it. Yields findings as they are made.

        Raises
        ------
        NoSuchNode : nothing is at `start`.
        StoreError : the store could not be reached; the state has what was found sound before.
        """
        for finding in self._findings(start):
            self.counts.add(finding)
            yield finding

    def _findings(self, start: str) -> Iterator[Finding]:
        yield from self._nodes.walk(start)
        variables = sum(isinstance(node, Variable) for node in self._nodes.found.values())
        self.counts.variables = variables
        self.counts.groups = len(self._nodes.found) - variables
        yield from wrecks(self._nodes)
        if not start:
            yield from stale_copies(self._subject, self._nodes)
        yield from self._objects(start)

    def _objects(self, start: str) -> Iterator[Finding]:
        if self._expect is not None:
            self._expect(self._count(start))
        if self._elsewhere is not None:
            for batch, results in self._elsewhere(self._batches(start), self._progress):
                yield from batch.findings
                for checked in results:
                    yield from self._settled(checked)
            return
        limit = self._subject.engine.options.memory_limit_bytes
        checks = UnitChecks(self._subject, limit // _SHARE_OF_MEMORY)
        for found in self._found(start):
            if isinstance(found, Finding):
                yield found
            else:
                for checked in checks.submit(found):
                    yield from self._settled(checked)
        for checked in checks.drain():
            yield from self._settled(checked)

    def _found(self, start: str) -> Iterator[StoredUnit | Finding]:
        """Yield the units to read, and findings about other keys, from one listing."""
        zmap = self._subject.zmap
        sorter = KeySorter(zmap, self._nodes, self._subject.format.names)
        for stat in zmap.list(self._subject.dataset.prefix(start)):
            found = sorter.sort(stat)
            if isinstance(found, Finding) or (found is not None and self._is_wanted(found)):
                yield found

    def _batches(self, start: str) -> Iterator[Batch]:
        units: list[StoredUnit] = []
        findings: list[Finding] = []
        for found in self._found(start):
            if isinstance(found, Finding):
                findings.append(found)
            else:
                units.append(found)
            if (
                len(units) == BATCH_UNITS_MAX
                or len(findings) == _BATCH_FINDINGS_MAX
                or sum(unit.stat.size for unit in units) >= BATCH_BYTES
            ):
                yield Batch(tuple(units), tuple(findings))
                units, findings = [], []
        if units or findings:
            yield Batch(tuple(units), tuple(findings))

    def _count(self, start: str) -> int:
        """Return the number of objects with chunks that can be decoded."""
        count = 0
        sorter = KeySorter(self._subject.zmap, self._nodes, self._subject.format.names)
        for stat in self._subject.zmap.list(self._subject.dataset.prefix(start)):
            found = sorter.sort(stat)
            count += isinstance(found, StoredUnit) and self._is_decodable(found)
            self._progress(0)
        return count

    def _is_decodable(self, unit: StoredUnit) -> bool:
        return place_of(unit.variable) in self._nodes.sound_codecs

    def _is_wanted(self, unit: StoredUnit) -> bool:
        if not self._is_decodable(unit):
            return False
        if self._state is not None and self._state.is_sound(self._mark(unit)):
            self.counts.chunks_before += unit.variable.array.chunks_of(unit.index).size
            self._progress(1)
            return False
        return True

    def _settled(self, checked: Checked) -> Iterator[Finding]:
        unit = checked.unit
        self.counts.chunks += checked.chunks
        self._progress(1)
        self.counts.stored_bytes += unit.stat.size
        path = self._nodes.shown_path(unit.variable.path)
        for trouble in checked.troubles:
            yield Finding(FindingKind.CHUNK, path, unit.stat.key, trouble)
        for oddity in checked.oddities:
            yield Finding(FindingKind.OVERLAP, path, unit.stat.key, oddity)
        if self._state is not None and not (checked.troubles or checked.oddities):
            self._state.add_sound(self._mark(unit))

    def _mark(self, unit: StoredUnit) -> bytes:
        key = place_of(unit.variable)
        description = self._descriptions.get(key)
        if description is None:
            description = self._descriptions[key] = repr(unit.variable.array)
        return mark_of(description, unit.stat.key, unit.stat.version)
