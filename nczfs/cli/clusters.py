"""The options with which commands run on a cluster of Dask."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from nczfs.cli import interrupts
from nczfs.cli.codecs import positive
from nczfs.cli.parser import typed
from nczfs.cli.progress import tell

if TYPE_CHECKING:
    from nczfs.tools.cluster.dask import Cluster


def add_cluster_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that name a cluster."""
    parser.add_argument(
        "--scheduler",
        metavar="ADDRESS|FILE",
        help="run on the cluster of this Dask scheduler; --memory-limit is that of each worker",
    )
    parser.add_argument(
        "--workers",
        type=typed(positive),
        metavar="N",
        help="run in N processes of this machine, started by Dask",
    )


@contextmanager
def cluster_of(arguments: argparse.Namespace) -> Iterator[Cluster | None]:
    """Connect to the cluster that the options name, or start it; None: they name none.

    Raises
    ------
    UsageError : both are given, Dask is not installed, or no scheduler answers.
    """
    if arguments.scheduler is None and arguments.workers is None:
        yield None
        return
    from nczfs.errors import UsageError
    from nczfs.tools.cluster.dask import connected, started

    if arguments.scheduler is not None and arguments.workers is not None:
        raise UsageError("--scheduler and --workers: give one of them")
    opening = (
        connected(arguments.scheduler)
        if arguments.scheduler is not None
        else started(arguments.workers)
    )
    with opening as cluster:
        cluster.wait_for_workers(tell, interrupts.check)
        yield cluster


def check_no_cluster(arguments: argparse.Namespace, why: str) -> None:
    """Raise UsageError if the options name a cluster, for work that cannot be done on one."""
    if arguments.scheduler is not None or arguments.workers is not None:
        from nczfs.errors import UsageError

        raise UsageError(f"{why}: --scheduler and --workers do not apply")
