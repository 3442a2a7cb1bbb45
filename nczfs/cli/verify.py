"""``nczfs verify``: checks a dataset, lists chunks that were never written, prints checksums."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from nczfs.cli import logs
from nczfs.cli.clusters import add_cluster_arguments, check_no_cluster, cluster_of
from nczfs.cli.command import Command, CommandLine
from nczfs.cli.memory_limit import default_memory_limit
from nczfs.cli.netcdf_files import is_netcdf_file
from nczfs.cli.progress import progress_bar, tell
from nczfs.cli.sources import Settings
from nczfs.cli.store import engine_options, place, store_options
from nczfs.cli.transfers import TRANSFER_SCOPES
from nczfs.errors import ClusterError, StoreError, UsageError

if TYPE_CHECKING:
    from nczfs.cli.verify_output import Output
    from nczfs.tools.cluster.dask import Cluster
    from nczfs.tools.cluster.verifying import VerifyRun
    from nczfs.tools.verify.digests import DigestJob, Elsewhere
    from nczfs.tools.verify.nodes import Nodes
    from nczfs.tools.verify.state import VerifyState
    from nczfs.tools.verify.subject import Subject


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", metavar="URL", help="a dataset, or a group or variable in it")
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--digest",
        action="store_true",
        help="print a checksum of the values of each variable; URL may be a netCDF file",
    )
    what.add_argument("--holes", action="store_true", help="list chunks that were never written")
    parser.add_argument(
        "--resume", metavar="FILE", help="record progress in FILE, and continue from there"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    add_cluster_arguments(parser)


def run(request: CommandLine) -> int:
    """Verify and print the findings. Returns 1 if something cannot be read as it is declared."""
    from nczfs.cli.memory import share_one_heap

    share_one_heap()
    arguments, settings = request.arguments, request.settings
    logs.configure_command(settings)
    if arguments.holes and arguments.resume:
        raise UsageError("--holes reads no chunks: there is nothing to --resume")
    if is_netcdf_file(arguments.url):
        file = Path(arguments.url).expanduser().absolute()
        if not arguments.digest:
            raise UsageError(
                f"{file} is a netCDF file, not a store; `nczfs verify --digest` prints the "
                "checksums of its values"
            )
        check_no_cluster(arguments, f"{file} is a netCDF file, which one process reads")
        with _hint_at_resuming(arguments.resume):
            return _digest_file(file, arguments)
    if arguments.holes:
        check_no_cluster(arguments, "--holes reads no chunks")
    base, path = _located(arguments.url, settings)
    with (
        cluster_of(arguments) as cluster,
        _opened(base, settings) as subject,
        _hint_at_resuming(arguments.resume),
    ):
        if arguments.holes:
            return _list_holes(subject, path, arguments)
        run = None if cluster is None else _run_on(cluster, base, settings)
        if arguments.digest:
            return _digest_dataset(subject, path, arguments, run)
        return _verify(subject, path, arguments, run)


def _run_on(cluster: Cluster, base: str, settings: Settings) -> VerifyRun:
    from nczfs.tools.cluster.opening import OpenedBy
    from nczfs.tools.cluster.verifying import VerifyRun

    limit = settings.maybe_number("memory-limit") or default_memory_limit()
    share = limit // 2 // cluster.threads_per_worker
    options = replace(engine_options(settings), memory_limit_bytes=share)
    return VerifyRun(cluster, OpenedBy(base, store_options(settings), options), tell)


def _verify(
    subject: Subject, path: str, arguments: argparse.Namespace, run: VerifyRun | None
) -> int:
    from nczfs.tools.verify.verification import Verification

    with _state(arguments, subject.zmap.name) as state, _output(arguments, "findings") as output:
        with progress_bar(None, " objects") as progress:
            expect = progress.expect if progress.is_shown else None
            elsewhere = None if run is None else run.checked
            verification = Verification(subject, state, progress, expect, elsewhere)
            for finding in verification.run(path):
                output.finding(finding)
        output.summary(verification.counts)
    return 1 if verification.counts.errors else 0


def _list_holes(subject: Subject, path: str, arguments: argparse.Namespace) -> int:
    from nczfs.model.hierarchy import ChunkKeys, Variable
    from nczfs.tools.verify.holes import holes

    with _output(arguments, "findings", "holes") as output:
        nodes, status = _nodes(subject, path, output)
        for node in nodes.found.values():
            if isinstance(node, Variable):
                for index in holes(subject, node):
                    output.hole(nodes.shown_path(node.path), ChunkKeys().name(index))
    return status


def _digest_dataset(
    subject: Subject, path: str, arguments: argparse.Namespace, run: VerifyRun | None
) -> int:
    from nczfs.tools.verify.digests import dataset_jobs

    with (
        _state(arguments, subject.zmap.name) as state,
        _output(arguments, "findings", "digests") as output,
    ):
        nodes, status = _nodes(subject, path, output)
        # as much again as the cache of chunks takes
        jobs = dataset_jobs(subject, nodes, subject.engine.options.memory_limit_bytes)
        elsewhere = None if run is None else run.digests
        return max(status, _print_digests(jobs, state, output, elsewhere))


def _digest_file(file: Path, arguments: argparse.Namespace) -> int:
    from nczfs.tools.verify.netcdf import file_jobs

    with (
        _state(arguments, file.as_uri()) as state,
        file_jobs(file) as jobs,
        _output(arguments, "digests") as output,
    ):
        return _print_digests(jobs, state, output)


def _print_digests(
    jobs: Sequence[DigestJob],
    state: VerifyState | None,
    output: Output,
    elsewhere: Elsewhere | None = None,
) -> int:
    from nczfs.tools.verify.digests import digests

    status = 0
    with progress_bar(sum(job.size for job in jobs), " values") as progress:
        for digest in digests(jobs, state, progress, elsewhere):
            output.digest(digest)
            status = 1 if digest.trouble else status
    return status


def _nodes(subject: Subject, path: str, output: Output) -> tuple[Nodes, int]:
    """Return the nodes from a path on, and 1 if some of them cannot be read."""
    from nczfs.tools.verify.findings import FindingKind
    from nczfs.tools.verify.nodes import Nodes

    nodes, status = Nodes(subject), 0
    for finding in nodes.walk(path):
        if finding.kind in (FindingKind.UNREADABLE, FindingKind.MISSING):
            output.finding(finding)
            status = 1
    return nodes, status


def _output(arguments: argparse.Namespace, *lists: str) -> Output:
    from nczfs.cli.verify_output import JsonOutput, Lines

    if arguments.json:
        return JsonOutput(*lists)
    return Lines(findings_are_results=lists == ("findings",))


def _state(
    arguments: argparse.Namespace, subject: str
) -> AbstractContextManager[VerifyState | None]:
    from nczfs.tools.verify.state import VerifyState

    return VerifyState(arguments.resume, subject) if arguments.resume else nullcontext()


def _opened(url: str, settings: Settings) -> AbstractContextManager[Subject]:
    from nczfs.tools.verify.subject import subject_at

    options = replace(
        engine_options(settings),
        memory_limit_bytes=(settings.maybe_number("memory-limit") or default_memory_limit()) // 2,
    )
    return subject_at(url, store_options(settings), options)


def _located(url: str, settings: Settings) -> tuple[str, str]:
    """Return the URL of the dataset that a URL leads to or into, and the path in it."""
    from nczfs.cli.nodes import opened
    from nczfs.library.api import Group

    with opened(url, settings) as node:
        is_root = not isinstance(node, Group) and node.description.key == ""
        path = "" if is_root else node.path.rstrip("/")
    front, hash_sign, fragment = place(url, settings).partition("#")
    return front.rstrip("/").removesuffix(path) + hash_sign + fragment, path.strip("/")


@contextmanager
def _hint_at_resuming(resume: str | None) -> Iterator[None]:
    """Print how to continue when the run is interrupted."""
    try:
        yield
    except (KeyboardInterrupt, StoreError, ClusterError):
        hint = (
            f"run the same command again to continue; {resume} holds what is done"
            if resume
            else "with --resume FILE a later run would continue here"
        )
        print(f"nczfs: stopped; {hint}", file=sys.stderr)
        raise


COMMAND = Command(
    "verify",
    "check that a dataset is whole, or print checksums of its values",
    _arguments,
    run,
    (
        "nczfs verify s3://bucket/era5.zarr",
        "nczfs verify --digest era5.nc",
    ),
    scopes=TRANSFER_SCOPES,
)
