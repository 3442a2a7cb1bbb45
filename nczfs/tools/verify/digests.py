"""The checksums of many variables, including those from earlier runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from nczfs.errors import CodecError, CorruptStore, MetadataError, ReferenceRefused
from nczfs.model.hierarchy import Variable
from nczfs.tools.progress import Progress
from nczfs.tools.transfer.listed import stored_units
from nczfs.tools.verify.digest import BLOCK_BYTES_MAX, digest_of
from nczfs.tools.verify.nodes import Nodes
from nczfs.tools.verify.state import VerifyState, mark_of
from nczfs.tools.verify.subject import Subject

LISTED_LEAST = 1000
"""Objects of an array from which on a listing shows which are stored: a page of S3 has 1000."""


@dataclass(frozen=True, slots=True)
class DigestJob:
    """A checksum to compute.

    Attributes
    ----------
    path : of the variable, with a leading slash.
    size : its number of elements.
    incarnation : returns something that changes when the values change.
    digest : computes the checksum, and reports the number of elements after each block.
    """

    path: str
    size: int
    incarnation: Callable[[], str]
    digest: Callable[[Progress], str]


@dataclass(frozen=True, slots=True)
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
            partial(_digest, subject, node, block_bytes_max),
        )
        for node in nodes.found.values()
        if isinstance(node, Variable)
    ]
    return sorted(jobs, key=lambda job: job.path)


def digests(
    jobs: Iterable[DigestJob], state: VerifyState | None, progress: Progress = lambda _count: None
) -> Iterator[Digest]:
    """Compute the checksums, except those that `state` has for the same values.

    Raises
    ------
    StoreError : the store could not be reached.
    """
    for job in jobs:
        mark = mark_of("digest", job.path, job.incarnation()) if state is not None else b""
        known = state.digest(mark) if state is not None else None
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


def _digest(subject: Subject, variable: Variable, block_bytes_max: int, progress: Progress) -> str:
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
