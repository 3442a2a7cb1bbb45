"""Verifications on a cluster: workers read chunks and compute checksums.

What is known of the dataset, the findings and the state file are with the process that plans.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace

from nczfs.errors import CodecError, CorruptStore, MetadataError, PiecesFailed, ReferenceRefused
from nczfs.model.hierarchy import Variable
from nczfs.plaindata import frozen
from nczfs.tools.cluster.dask import Cluster, threads_of_worker
from nczfs.tools.cluster.held import held
from nczfs.tools.cluster.opening import OpenedBy
from nczfs.tools.progress import Progress
from nczfs.tools.transfer.source import Notice
from nczfs.tools.verify.chunks import Checked, UnitChecks
from nczfs.tools.verify.digests import Digest, DigestJob, variable_digest
from nczfs.tools.verify.keys import StoredUnit
from nczfs.tools.verify.subject import subject_at
from nczfs.tools.verify.verification import Batch


@frozen
class VerifyJob:
    """What all pieces of a verification share; the memory limit is that of a thread."""

    token: str
    opened_by: OpenedBy


@frozen
class _Result:
    """What a worker found in a unit; see `Checked`."""

    chunks: int
    troubles: tuple[str, ...]
    oddities: tuple[str, ...]


class VerifyRun:
    """Checks units and computes digests on a cluster.

    Parameters
    ----------
    opened_by : the root of the dataset.
    notice : takes a line for each object that could not be checked.
    """

    def __init__(self, cluster: Cluster, opened_by: OpenedBy, notice: Notice) -> None:
        self._cluster = cluster
        self._job = VerifyJob(cluster.token, opened_by)
        self._notice = notice

    def checked(
        self, batches: Iterator[Batch], progress: Progress
    ) -> Iterator[tuple[Batch, Sequence[Checked]]]:
        """Yield batches with what was found in their units, in no particular order.

        Raises
        ------
        PiecesFailed : some units could not be checked; their keys were reported. ClusterLost.
        """
        failed = 0
        for outcome in self._cluster.outcomes(
            check_units, self._job, batches, lambda batch: batch.units, lambda: progress(0)
        ):
            batch = outcome.piece
            if outcome.trouble:
                failed += len(batch.units)
                for unit in batch.units:
                    self._notice(f"{unit.stat.key}: {outcome.trouble}")
                yield batch, ()
                continue
            yield (
                batch,
                [
                    Checked(unit, found.chunks, found.troubles, found.oddities)
                    for unit, found in zip(batch.units, outcome.result or (), strict=True)
                ],
            )
        _raise_if(failed, "objects could not be checked")

    def digests(self, jobs: Iterator[DigestJob], progress: Progress) -> Iterator[Digest]:
        """Yield the digests of variables, each computed by one worker, in no particular order.

        Raises
        ------
        PiecesFailed : some could not be computed; their paths were reported. ClusterLost.
        """
        failed = 0

        def variable_of(job: DigestJob) -> Variable:
            assert job.variable is not None
            return job.variable

        for outcome in self._cluster.outcomes(
            digest_of_variable, self._job, jobs, variable_of, lambda: progress(0)
        ):
            job = outcome.piece
            if outcome.trouble:
                failed += 1
                self._notice(f"{job.path}: {outcome.trouble}")
                continue
            progress(job.size)
            value, trouble = outcome.result or ("", "")
            yield Digest(job.path, value, trouble)
        _raise_if(failed, "checksums could not be computed")


def check_units(job: VerifyJob, units: Sequence[StoredUnit]) -> list[_Result]:
    """Check units in a worker. Returns what was found in each, in their order."""
    with held(job.token, lambda: _Opened(job.opened_by)) as opened:
        checks = UnitChecks(opened.subject, opened.limit // 2)
        found = [checked for unit in units for checked in checks.submit(unit)]
        found += checks.drain()
        return [_Result(each.chunks, each.troubles, each.oddities) for each in found]


def digest_of_variable(job: VerifyJob, variable: Variable) -> tuple[str, str]:
    """Compute a checksum in a worker. Returns it, or why it cannot be computed."""
    with held(job.token, lambda: _Opened(job.opened_by)) as opened:
        try:
            return variable_digest(opened.subject, variable, opened.limit, lambda _: None), ""
        except (CodecError, MetadataError, CorruptStore, ReferenceRefused) as error:
            return "", str(error)


class _Opened:
    """The dataset in a worker.

    Attributes
    ----------
    limit : memory for the values of a piece.
    """

    def __init__(self, by: OpenedBy) -> None:
        threads = threads_of_worker()
        self.limit = by.engine_options.memory_limit_bytes
        options = replace(
            by.engine_options,
            memory_limit_bytes=self.limit * threads,
            decode_threads=threads,
            cache_bytes_max=0,
        )
        self._stack = ExitStack()
        self.subject = self._stack.enter_context(subject_at(by.url, by.store_options, options))

    def close(self) -> None:
        self._stack.close()


def _raise_if(failed: int, what: str) -> None:
    if failed:
        raise PiecesFailed(f"{failed} {what}")
