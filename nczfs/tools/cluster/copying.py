"""Copies on a cluster: what a worker needs for a piece, and what becomes of the pieces."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from uuid import uuid4

from nczfs.engine.dataset import Dataset, Engine
from nczfs.engine.metadata.documents import MetadataCache
from nczfs.engine.metadata.newnodes import Create
from nczfs.engine.options import EngineOptions, format_options
from nczfs.engine.stores import open_store
from nczfs.errors import PiecesFailed, UsageError
from nczfs.formats.registry import new_format
from nczfs.library.opening import open_url
from nczfs.model.hierarchy import Variable
from nczfs.plaindata import frozen
from nczfs.tools.cluster.dask import Cluster, threads_of_worker
from nczfs.tools.cluster.held import held
from nczfs.tools.cluster.opening import OpenedBy
from nczfs.tools.progress import Progress
from nczfs.tools.transfer.copy_pieces import (
    CopyPiece,
    PieceCopier,
    SentPiece,
    keys_of,
    received,
    sent,
)
from nczfs.tools.transfer.source import Notice
from nczfs.tools.transfer.target import NewNode, Target
from nczfs.zmap.keys import ROOT
from nczfs.zmap.url import parse_url


@frozen
class CopyJob:
    """What all pieces of a copy share.

    Attributes
    ----------
    token : of this run.
    source : the memory limit among its options is that of a piece.
    target : of which the format is that of the dataset.
    is_new : whether the target has no chunk yet.
    """

    token: str
    source: OpenedBy
    target: NewNode
    format: str
    is_new: bool


class CopyRun:
    """Does the pieces of a copy on a cluster; to be passed to `run_copy`.

    Parameters
    ----------
    source : of the copy.
    new : its target. The memory limit is that of one piece.
    progress : called with the bytes of the source that are done.
    notice : takes a line for each key that could not be made.
    copy_piece : does one piece in a worker.
    """

    def __init__(
        self,
        cluster: Cluster,
        source: OpenedBy,
        new: NewNode,
        format_name: str,
        progress: Progress,
        notice: Notice,
        copy_piece: Callable[[CopyJob, SentPiece], float] | None = None,
    ) -> None:
        for place in (parse_url(source.url), new.place):
            if place.kind == "memory":
                raise UsageError(f"{place.text}: other processes cannot reach it")
        self._cluster = cluster
        self._source = source
        self._new = new
        self._format = format_name
        self._progress = progress
        self._notice = notice
        self._copy_piece = copy_piece or copy_sent

    def __call__(self, target: Target, pieces: Iterator[CopyPiece]) -> None:
        """Do all pieces.

        Raises
        ------
        UsageError : only one process at a time may write to the store.
        PiecesFailed : some could not be done; their keys were reported. ClusterLost.
        """
        if target.dataset.zmap.features.gathers_writes:
            raise UsageError(
                f"{self._new.name}: an archive is written by one process alone, so not on a cluster"
            )
        token = f"{self._cluster.token}-{uuid4().hex}"  # a copy may have several passes
        job = CopyJob(token, self._source, self._new, self._format, target.is_new)
        failed = 0
        for outcome in self._cluster.outcomes(
            self._copy_piece, job, pieces, sent, lambda: self._progress(0)
        ):
            if not outcome.trouble:
                self._progress(outcome.result or 0.0)
                continue
            failed += 1
            for key in keys_of(outcome.piece, target.dataset):
                self._notice(f"{target.dataset.zmap.name}/{key}: {outcome.trouble}")
        if failed:
            raise PiecesFailed(
                f"{self._new.name}: {failed} piece{'' if failed == 1 else 's'} could not be copied"
            )


def copy_sent(job: CopyJob, piece: SentPiece) -> float:
    """Copy a piece in a worker. Returns the bytes that it counts for."""
    with held(job.token, lambda: _Opened(job)) as opened:
        return opened.copy(piece)


class _Opened:
    """The two datasets of a copy in a worker."""

    def __init__(self, job: CopyJob) -> None:
        threads = threads_of_worker()
        self._job = job
        self._declared: set[str] = set()
        self._lock = threading.Lock()  # guards _declared

        def limited(options: EngineOptions) -> EngineOptions:
            # The pieces of all threads share the cache.
            return replace(
                options,
                memory_limit_bytes=job.target.memory_limit_bytes * threads // 2,
                cache_bytes_max=0,
                decode_threads=threads,
                is_single_writer=True,  # the run itself holds the lease
            )

        source = job.source
        self._source = open_url(
            source.url,
            store_options=source.store_options,
            options=limited(source.engine_options),
        )
        new = job.target
        try:
            self._zmap = open_store(new.place, new.store_options)
            engine = Engine(limited(new.engine_options))
            options = format_options(new.place.modes, engine.options)
            metadata = MetadataCache(self._zmap, engine.options, engine.pools, ledger=engine.ledger)
            found = new_format(job.format, options)
            self._target = Dataset(engine, metadata, ROOT, found, options)
        except BaseException:
            self._source.close()
            raise

    def copy(self, piece: SentPiece) -> float:
        source = self._source.engine_dataset
        copier = PieceCopier(
            source,
            self._target,
            is_new=self._job.is_new,
            memory_limit_bytes=self._job.target.memory_limit_bytes,
        )
        done = 0.0

        def progress(count: float) -> None:
            nonlocal done
            done += count

        self._declare(piece.target)
        with copier.writes(progress) as writes:
            copier.copy(received(piece, source), writes, progress)
        return done

    def _declare(self, variable: Variable) -> None:
        """Note a variable, whose documents are stored at the end, and not by a worker."""
        with self._lock:
            if variable.path not in self._declared:
                self._declared.add(variable.path)
                self._target.edits.add(variable.path, Create(variable))

    def close(self) -> None:
        self._source.close()
        self._target.engine.close()
        self._zmap.close()
