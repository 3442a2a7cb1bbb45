"""``nczfs diff``: what differs between two datasets, groups, variables or netCDF files."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from nczfs.cli import logs
from nczfs.cli.clusters import add_cluster_arguments, check_no_cluster, cluster_of
from nczfs.cli.command import Command, CommandLine, settings_for
from nczfs.cli.netcdf_files import is_cdl, is_netcdf_file, source_of
from nczfs.cli.parser import typed
from nczfs.cli.progress import progress_bar, tell
from nczfs.cli.sources import Settings
from nczfs.cli.store import engine_options, shown, store_options
from nczfs.cli.transfers import TRANSFER_SCOPES, memory_limit
from nczfs.errors import UsageError
from nczfs.model.printing import printable

if TYPE_CHECKING:
    from nczfs.tools.cluster.opening import OpenedBy
    from nczfs.tools.diff.comparison import Uncomparable
    from nczfs.tools.diff.differences import DatasetDifference
    from nczfs.tools.diff.side import Side

SAME, DIFFERENT, TROUBLE = 0, 1, 2


def _arguments(parser: argparse.ArgumentParser) -> None:
    what = "URL of a dataset, group or variable, or a netCDF or CDL file"
    parser.add_argument("url", metavar="A", help=what)
    parser.add_argument("other", metavar="B", help="what to compare it with")
    parser.add_argument("--metadata-only", action="store_true", help="do not compare values")
    parser.add_argument(
        "--storage", action="store_true", help="compare chunks, codecs and byte order too"
    )
    parser.add_argument(
        "--atol",
        type=typed(tolerance),
        default=0.0,
        metavar="X",
        help="ignore differences of numbers up to X",
    )
    parser.add_argument(
        "--rtol",
        type=typed(tolerance),
        default=0.0,
        metavar="X",
        help="ignore differences up to X times the value in B; added to --atol",
    )
    parser.add_argument(
        "--skip-unsupported", action="store_true", help="leave out members that cannot be read"
    )
    parser.add_argument(
        "-q", "--quiet", action="store_true", help="print nothing; stop at the first difference"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    add_cluster_arguments(parser)


def tolerance(text: str) -> float:
    """Parse a number that is not negative. Raises UsageError."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise UsageError(f"{text!r} is not a tolerance; write a number like 0.001 or 1e-6")
    return number


def run(request: CommandLine) -> int:
    """Print what differs. Returns 0: nothing; 1: something; 2: a part could not be compared."""
    arguments, settings = request.arguments, request.settings
    logs.configure_command(settings)
    from nczfs.cli.memory import share_one_heap
    from nczfs.tools.diff.comparison import Extent, Uncomparable, compare  # imports NumPy
    from nczfs.tools.diff.values import Tolerance

    share_one_heap()
    extent = Extent(
        not arguments.metadata_only,
        arguments.storage,
        Tolerance(arguments.atol, arguments.rtol),
    )
    for url in (arguments.url, arguments.other):
        if is_netcdf_file(url) or is_cdl(url):
            check_no_cluster(arguments, f"{url}: is a file, which one process reads")
    differences: list[DatasetDifference] = []
    troubles: list[Uncomparable] = []
    with ExitStack() as stack:
        cluster = stack.enter_context(cluster_of(arguments))
        a, a_root = stack.enter_context(_side(arguments.url, settings, arguments))
        of_other = settings_for(request, arguments.other)
        b, b_root = stack.enter_context(_side(arguments.other, of_other, arguments))
        limit, elsewhere = memory_limit(settings) // 2, None
        if cluster is not None:
            from nczfs.tools.cluster.comparing import CompareRun

            limit //= cluster.threads_per_worker
            elsewhere = CompareRun(
                cluster,
                _opened_by(a_root, settings, limit),
                _opened_by(b_root, of_other, limit),
                extent.tolerance,
                tell,
            )
        total = a.source.nbytes if extent.values else 0
        progress = stack.enter_context(progress_bar(total, "B"))
        for found in compare(a, b, extent, limit, progress, elsewhere):
            if isinstance(found, Uncomparable):
                troubles.append(found)
                tell(printable(f"{found.path}: {found.message}"))
                continue
            differences.append(found)
            if arguments.quiet:
                break
            if not arguments.json:
                _say(found.line)
    if arguments.json:
        _print_document(arguments, request, differences, troubles)
    if troubles:
        return TROUBLE
    return DIFFERENT if differences else SAME


@contextmanager
def _side(
    url: str, settings: Settings, arguments: argparse.Namespace
) -> Iterator[tuple[Side, str]]:
    """Open a side. Yields it, and the URL of its root."""
    from nczfs.cli.nodes import opened_in_root
    from nczfs.tools.diff.side import Side, dataset_side

    skip = arguments.skip_unsupported
    limit = memory_limit(settings)
    if is_netcdf_file(url) or is_cdl(url):
        with source_of(url, limit, skip_unsupported=skip) as source:
            yield Side(source), ""
        return
    options = replace(engine_options(settings), memory_limit_bytes=limit // 4, cache_bytes_max=0)
    with opened_in_root(url, settings, options) as (node, root):
        yield dataset_side(node, shown(url, settings), tell, skip_unsupported=skip), root


def _opened_by(root: str, settings: Settings, limit: int) -> OpenedBy:
    """Return how workers open a side, of which the cache takes a quarter of the memory."""
    from nczfs.tools.cluster.opening import OpenedBy

    options = replace(engine_options(settings), memory_limit_bytes=limit // 2)
    return OpenedBy(root, store_options(settings), options)


def _print_document(
    arguments: argparse.Namespace,
    request: CommandLine,
    differences: list[DatasetDifference],
    troubles: list[Uncomparable],
) -> None:
    document = {
        "a": shown(arguments.url, request.settings),
        "b": shown(arguments.other, settings_for(request, arguments.other)),
        "same": not differences and not troubles,
        "differences": [found.members for found in differences],
        "errors": [{"path": found.path, "message": found.message} for found in troubles],
    }
    json.dump(document, sys.stdout, indent=1)
    print()


def _say(line: str) -> None:
    from tqdm import tqdm

    tqdm.write(line, file=sys.stdout)  # a progress bar may be on the terminal
    sys.stdout.flush()


COMMAND = Command(
    "diff",
    "print what differs between two datasets",
    _arguments,
    run,
    (
        "nczfs diff /data/era5.zarr s3://bucket/era5.zarr",
        "nczfs diff era5.nc era5.zarr --rtol 1e-6",
    ),
    scopes=TRANSFER_SCOPES,
    trouble_status=TROUBLE,
)
