"""The checksums of many variables, including those from earlier runs."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TypeAlias

from nczfs.errors import CodecError, CorruptStore, MetadataError, ReferenceRefused
from nczfs.model.hierarchy import Variable
from nczfs.plaindata import frozen
from nczfs.tools.progress import Progress
from nczfs.tools.transfer.listed import stored_units
from nczfs.tools.verify.digest import BLOCK_BYTES_MAX, digest_of
from nczfs.tools.verify.nodes import Nodes
from nczfs.tools.verify.state import VerifyState, mark_of
from nczfs.tools.verify.subject import Subject

LISTED_LEAST = 1000
"""Objects of an array from which on a listing shows which are stored: a page of S3 has 1000."""


@frozen
class DigestJob:
    """A checksum to compute.

    Attributes
    ----------
    path : of the variable, with a leading slash.
    size : its number of elements.
    incarnation : returns something that changes when the values change.
    digest : computes the checksum, and reports the number of elements after each block.
    variable : for other processes, which compute it from this; None: of a netCDF file.
    """

    path: str
    size: int
    incarnation: Callable[[], str]
    digest: Callable[[Progress], str]
    variable: Variable | None = None


@frozen
class Digest:
    """A checksum, or the error that prevented it: one of the two is ""."""

    path: str
    value: str
    trouble: str = ""


def dataset_jobs(
    subject: Subject, nodes: Nodes, block_bytes_max: int = BLOCK_BYTES_MAX
) -> list[DigestJob]:
    """Return the checksums to compute for the variables that `nodes` found, sorted by path."""
    jobs = [
        DigestJob(
            nodes.shown_path(node.path),
            node.array.size,
            partial(_incarnation, subject, node),
            partial(variable_digest, subject, node, block_bytes_max),
            node,
        )
        for node in nodes.found.values()
        if isinstance(node, Variable)
    ]
    return sorted(jobs, key=lambda job: job.path)


Elsewhere: TypeAlias = Callable[[Iterator[DigestJob], Progress], Iterator[Digest]]
"""Computes checksums in other processes, and yields them in any order."""


def digests(
    jobs: Iterable[DigestJob],
    state: VerifyState | None,
    progress: Progress = lambda _count: None,
    elsewhere: Elsewhere | None = None,
) -> Iterator[Digest]:
    """Compute the checksums, except those that `state` has for the same values.

    Parameters
    ----------
    elsewhere : None: they are computed in this process.

    Raises
    ------
    StoreError : the store could not be reached.
    """
    if elsewhere is not None:
        yield from _digests_elsewhere(jobs, state, progress, elsewhere)
        return
    for job in jobs:
        mark, known = _known(job, state)
        if known is not None:
            progress(job.size)
            yield Digest(job.path, known)
            continue
        try:
            value = job.digest(progress)
        except (CodecError, MetadataError, CorruptStore, ReferenceRefused) as error:
            yield Digest(job.path, "", str(error))
            continue
        if state is not None:
            state.add_digest(mark, value)
        yield Digest(job.path, value)


def _known(job: DigestJob, state: VerifyState | None) -> tuple[bytes, str | None]:
    """Return the mark of the values of a variable, and their checksum if an earlier run has it."""
    if state is None:
        return b"", None
    mark = mark_of("digest", job.path, job.incarnation())
    return mark, state.digest(mark)


def _digests_elsewhere(
    jobs: Iterable[DigestJob],
    state: VerifyState | None,
    progress: Progress,
    elsewhere: Elsewhere,
) -> Iterator[Digest]:
    """Yield checksums from other processes, in the order of the jobs."""
    jobs = list(jobs)
    marks: dict[str, bytes] = {}
    ready: dict[str, Digest] = {}

    def wanted() -> Iterator[DigestJob]:
        for job in jobs:
            marks[job.path], known = _known(job, state)
            if known is None:
                yield job
            else:
                progress(job.size)
                ready[job.path] = Digest(job.path, known)

    waiting = deque(job.path for job in jobs)
    for digest in elsewhere(wanted(), progress):
        if state is not None and not digest.trouble:
            state.add_digest(marks[digest.path], digest.value)
        ready[digest.path] = digest
        while waiting and waiting[0] in ready:
            yield ready.pop(waiting.popleft())
    for path in waiting:
        if path in ready:
            yield ready[path]


def variable_digest(
    subject: Subject, variable: Variable, block_bytes_max: int, progress: Progress
) -> str:
    """Compute a checksum. Few stored objects of a large grid are found by a listing."""
    array = variable.array
    stored = None
    if array.units.chunk_count > LISTED_LEAST and subject.zmap.features.lists_all:
        found = stored_units(subject.dataset, variable.key, {"": variable}, lambda _: None)
        stored = found[""]
    return digest_of(subject.dataset.array(variable), block_bytes_max, progress, stored)


def _incarnation(subject: Subject, variable: Variable) -> str:
    """Return a digest of an array's description and of the versions of its chunks in any order."""
    cut = len(variable.key) + 1 if variable.key else 0
    total = 0
    for stat in subject.zmap.list(subject.dataset.prefix(variable.key)):
        if variable.array.unit_index(stat.key[cut:]) is not None:
            total += int.from_bytes(mark_of(stat.key, stat.version))
    return f"{variable.array!r} {total}"
