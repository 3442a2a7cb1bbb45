"""``nczfs convert-metadata``: describes a dataset of Zarr v2 in Zarr v3, too, in place."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from nczfs.cli import logs
from nczfs.cli.clusters import add_cluster_arguments, cluster_of
from nczfs.cli.command import STORE_SCOPES, Command, CommandLine
from nczfs.cli.progress import progress_bar
from nczfs.cli.sources import Settings
from nczfs.cli.store import engine_options, place, store_options
from nczfs.cli.terminal import complain
from nczfs.errors import UsageError
from nczfs.model.printing import printable
from nczfs.zmap.url import parse_url

if TYPE_CHECKING:
    from nczfs.tools.cluster.dask import Cluster
    from nczfs.tools.cluster.writing import WriteRun
    from nczfs.tools.verify.subject import Subject


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", metavar="URL", help="a dataset of Zarr v2 or NCZarr")
    parser.add_argument(
        "--dry-run", action="store_true", help="check everything, and print what would be written"
    )
    parser.add_argument(
        "--remove-old", action="store_true", help="then remove the documents of Zarr v2"
    )
    parser.add_argument(
        "--overwrite", action="store_true", help="replace documents of Zarr v3 that differ"
    )
    parser.add_argument(
        "--add-fill-values",
        action="store_true",
        help="give arrays the attribute _FillValue, by which xarray knows missing values in v3",
    )
    add_cluster_arguments(parser)


def run(request: CommandLine) -> int:
    """Convert a dataset, or print what would be written."""
    arguments, settings = request.arguments, request.settings
    logs.configure_command(settings)
    from nczfs.tools.metadata_conversion import MetadataConversion  # imports NumPy

    url = place(arguments.url, settings)
    where = printable(parse_url(url).text)
    with cluster_of(arguments) as cluster, _opened(url, settings) as subject:
        conversion = MetadataConversion(
            subject,
            lambda line: complain("nczfs", line),
            overwrite=arguments.overwrite,
            adds_fill_values=arguments.add_fill_values,
        )
        if conversion.is_done and not arguments.remove_old:
            raise UsageError(
                f"{where}: has documents of Zarr v3; --remove-old removes those of Zarr v2 beside "
                "them"
            )
        conversion.check()
        if arguments.dry_run:
            count = 0
            for document in conversion.documents():
                if not document.is_there:
                    count += 1
                    print(printable(document.key))
            print(f"{where}: {_documents(count)} would be written")
            return 0
        subject.zmap.prepare_writing()
        if not conversion.is_done:
            elsewhere = None if cluster is None else _run_on(cluster, subject, url, settings)
            with progress_bar(None, " documents") as progress:
                count = conversion.run(progress, elsewhere)
            print(f"{where}: {_documents(count)} written")
        if arguments.remove_old:
            nodes = conversion.remove_old()
            print(f"{where}: the documents of Zarr v2 of {nodes} nodes removed")
    return 0


def _run_on(cluster: Cluster, subject: Subject, url: str, settings: Settings) -> WriteRun:
    from nczfs.tools.cluster.opening import OpenedBy
    from nczfs.tools.cluster.writing import WriteRun

    if subject.zmap.features.gathers_writes:
        raise UsageError(
            f"{printable(parse_url(url).text)}: an archive is written by one process alone, so not "
            "on a cluster"
        )
    opened_by = OpenedBy(url, store_options(settings), engine_options(settings))
    return WriteRun(cluster, opened_by, lambda line: complain("nczfs", line))


@contextmanager
def _opened(url: str, settings: Settings) -> Iterator[Subject]:
    from nczfs.tools.verify.subject import subject_at

    with subject_at(url, store_options(settings), engine_options(settings)) as subject:
        yield subject


def _documents(count: int) -> str:
    return f"{count} {'document' if count == 1 else 'documents'}"


COMMAND = Command(
    "convert-metadata",
    "describe a Zarr v2 dataset in Zarr v3, too",
    _arguments,
    run,
    (
        "nczfs convert-metadata era5.zarr --dry-run",
        "nczfs convert-metadata s3://bucket/era5.zarr --remove-old",
    ),
    scopes=STORE_SCOPES,
)
