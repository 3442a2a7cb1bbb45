"""Clusters of Dask: one that runs already, or processes of this machine.

Dask and its scheduler know of a piece only while it is under way, or waits in a short queue: a run
of a million pieces takes no more memory than one of a thousand.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar
from uuid import uuid4

from nczfs.errors import ClusterLost, UsageError
from nczfs.messages import installing
from nczfs.tools.cluster import held
from nczfs.tools.cluster.window import FutureResult, Outcome, attempted, outcomes
from nczfs.tools.transfer.source import Notice
from nczfs.version import VERSION

Piece = TypeVar("Piece")

PIECES_PER_THREAD = 3  # under way or waiting in the scheduler, so that no worker is ever idle
_COUNT_EVERY_S = 5.0
CONNECT_S = 30.0
_TOLD_AFTER_S = 5.0
_LOGGER = "distributed"


class Cluster:
    """A connection to a scheduler with workers.

    Attributes
    ----------
    token : of this run, for what workers keep open.
    """

    def __init__(self, client: Any) -> None:
        self._client = client
        self._threads = 0
        self._counted_at = 0.0
        self._number = 0
        self.token = uuid4().hex

    @property
    def threads_per_worker(self) -> int:
        """The most threads that any worker has."""
        return max(self._client.nthreads().values(), default=1)

    @property
    def threads(self) -> int:
        """The number of threads of all workers that are there now."""
        found: int = sum(self._client.nthreads().values())
        return max(1, found)

    def outcomes(
        self,
        function: Callable[[Any, Any], Any],
        job: object,
        pieces: Iterator[Piece],
        sent: Callable[[Piece], object],
        tick: Callable[[], object],
    ) -> Iterator[Outcome[Piece, Any]]:
        """Have workers do pieces; see `window.outcomes`.

        Parameters
        ----------
        function : called in a worker with the job and a piece. It can be imported there.
        sent : returns a piece as it is sent to a worker.

        Raises
        ------
        ClusterLost : the scheduler has ended, or cannot be reached any more.
        """

        def submit(piece: Piece) -> FutureResult:
            self._number += 1
            future: FutureResult = self._client.submit(
                attempted,
                function,
                job,
                sent(piece),
                key=f"nczfs-{self.token}-{self._number}",
                pure=False,
            )
            return future

        def look() -> None:
            self._check()
            tick()

        return outcomes(pieces, submit, self._room, look)

    def wait_for_workers(self, notice: Notice, tick: Callable[[], object]) -> None:
        """Wait until there is a worker, and check that all have this version of nczfs.

        Raises
        ------
        UsageError : a worker has another one. ClusterLost.
        """
        started = time.monotonic()
        is_told = False
        while not self._client.nthreads():
            tick()
            self._check()
            if not is_told and time.monotonic() - started > _TOLD_AFTER_S:
                is_told = True
                notice(f"{self._client.scheduler.address}: has no workers yet; waiting for one")
            time.sleep(0.2)
        for address, found in self._client.run(_version).items():
            if found != _version():
                raise UsageError(f"worker {address} has nczfs {found}; this is nczfs {_version()}")

    def close(self) -> None:
        """Let workers close what they have open, and disconnect."""
        if self._client.status == "running":
            with suppress(Exception):  # a worker that ends meanwhile
                self._client.run(held.close_all, on_error="ignore")
        self._client.close(timeout=5)

    def _room(self) -> int:
        """Return how many pieces may be under way. Workers may come and go."""
        if not self._threads or time.monotonic() - self._counted_at > _COUNT_EVERY_S:
            self._check()
            self._threads = sum(self._client.nthreads().values())
            self._counted_at = time.monotonic()
        return max(2, PIECES_PER_THREAD * self._threads)

    def _check(self) -> None:
        if self._client.status != "running":
            raise ClusterLost("the scheduler has ended, or cannot be reached any more")


@contextmanager
def connected(address: str) -> Iterator[Cluster]:
    """Connect to a scheduler.

    Parameters
    ----------
    address : as ``tcp://host:8786``, or the path of a file that the scheduler has written.

    Raises
    ------
    UsageError : Dask is not installed, or nothing answers at the address.
    """
    distributed = _distributed()
    _quiet()
    is_file = "://" not in address and os.path.exists(address)
    where = {"scheduler_file": address} if is_file else {"address": address}
    try:
        client = distributed.Client(**where, timeout=CONNECT_S, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        raise UsageError(f"--scheduler {address}: {error}") from error
    with _closing(Cluster(client)) as cluster:
        yield cluster


@contextmanager
def started(workers: int) -> Iterator[Cluster]:
    """Start a scheduler and workers of one thread each on this machine, for the block.

    Raises
    ------
    UsageError : Dask is not installed.
    """
    distributed = _distributed()
    _quiet()
    with (
        distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            memory_limit=0,  # pieces are cut to the limit; a worker at its limit is not killed
            dashboard_address="127.0.0.1:0",
            silence_logs=logging.CRITICAL,
        ) as local,
        _closing(Cluster(distributed.Client(local, set_as_default=False))) as cluster,
    ):
        yield cluster


def threads_of_worker() -> int:
    """Return the number of threads of the worker that this is called in."""
    try:
        return int(_distributed().get_worker().state.nthreads)
    except ValueError:
        return 1


@contextmanager
def _closing(cluster: Cluster) -> Iterator[Cluster]:
    try:
        yield cluster
    finally:
        cluster.close()


def _distributed() -> Any:
    try:
        import distributed
    except ImportError as error:
        raise UsageError(
            f"{error.name} is not installed; clusters need the extra `dask`: {installing('dask')}"
        ) from error
    return distributed


def _quiet() -> None:
    """Silence Dask, which reports each worker that comes or goes; its import sets the levels.

    What concerns the user is told by the command.
    """
    for name in [*logging.root.manager.loggerDict, _LOGGER]:
        if name.partition(".")[0] == _LOGGER:
            logging.getLogger(name).setLevel(logging.CRITICAL)


def _version() -> str:
    return VERSION
