"""Comparisons of values on a cluster: workers compare blocks of pairs of variables."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

from nczfs.errors import PiecesFailed
from nczfs.library.opening import open_url
from nczfs.library.variable import Variable as LibraryVariable
from nczfs.model.grid import Slices
from nczfs.model.hierarchy import Variable
from nczfs.plaindata import frozen
from nczfs.tools.cluster.dask import Cluster, threads_of_worker
from nczfs.tools.cluster.held import held
from nczfs.tools.cluster.opening import OpenedBy
from nczfs.tools.diff.differences import ValueDifferences
from nczfs.tools.diff.values import Compared, Tolerance, block_differences
from nczfs.tools.progress import Progress
from nczfs.tools.transfer.dataset_source import content_of
from nczfs.tools.transfer.source import Notice


@frozen
class CompareJob:
    """What all pieces of a comparison share; the memory limit is that of a thread."""

    token: str
    a: OpenedBy
    b: OpenedBy
    tolerance: Tolerance


class CompareRun:
    """Compares blocks on a cluster.

    Parameters
    ----------
    a, b : the roots of both datasets.
    notice : takes a line for each block that could not be compared.
    """

    def __init__(
        self, cluster: Cluster, a: OpenedBy, b: OpenedBy, tolerance: Tolerance, notice: Notice
    ) -> None:
        self._cluster = cluster
        self._job = CompareJob(cluster.token, a, b, tolerance)
        self._notice = notice

    def __call__(
        self, a: Compared, b: Compared, blocks: Iterator[Slices], progress: Progress
    ) -> Iterator[tuple[Slices, ValueDifferences | None]]:
        """Yield blocks with what differs in them, in no particular order.

        Raises
        ------
        PiecesFailed : some blocks could not be compared; they were reported. ClusterLost.
        """
        one, other = a.description, b.description
        assert one is not None, "files are not compared on a cluster"
        assert other is not None
        failed = 0
        for outcome in self._cluster.outcomes(
            compare_block,
            self._job,
            blocks,
            lambda block: (one, other, block),
            lambda: progress(0),
        ):
            if outcome.trouble:
                failed += 1
                start = [part.start for part in outcome.piece]
                self._notice(f"/{one.path} at {start}: {outcome.trouble}")
                continue
            yield outcome.piece, outcome.result
        if failed:
            blocks_text = "1 block" if failed == 1 else f"{failed} blocks"
            raise PiecesFailed(f"{blocks_text} of /{one.path} could not be compared")


def compare_block(
    job: CompareJob, piece: tuple[Variable, Variable, Slices]
) -> ValueDifferences | None:
    """Compare a block in a worker. Returns what differs; None: nothing."""
    one, other, block = piece
    with held(job.token, lambda: _Opened(job)) as opened:
        a, b = (
            content_of(LibraryVariable(dataset.engine_dataset, variable, None)).read(block)
            for dataset, variable in ((opened.a, one), (opened.b, other))
        )
    return block_differences(block, a, b, job.tolerance)


class _Opened:
    """The two datasets in a worker."""

    def __init__(self, job: CompareJob) -> None:
        threads = threads_of_worker()
        self._stack = ExitStack()
        try:
            self.a, self.b = (
                self._stack.enter_context(
                    open_url(
                        by.url,
                        store_options=by.store_options,
                        options=replace(
                            by.engine_options,
                            memory_limit_bytes=by.engine_options.memory_limit_bytes * threads,
                            decode_threads=threads,
                            cache_bytes_max=0,
                        ),
                    )
                )
                for by in (job.a, job.b)
            )
        except BaseException:
            self._stack.close()
            raise

    def close(self) -> None:
        self._stack.close()
