"""``nczfs cp``: copies a dataset, a group or a variable without a mount."""

from __future__ import annotations

import argparse
import os
from dataclasses import replace
from typing import TYPE_CHECKING

from nczfs.cli import interrupts, logs
from nczfs.cli.clusters import add_cluster_arguments, cluster_of
from nczfs.cli.codecs import positive
from nczfs.cli.command import Command, CommandLine, settings_for
from nczfs.cli.netcdf_files import is_netcdf_file
from nczfs.cli.parser import typed
from nczfs.cli.progress import progress_bar, tell
from nczfs.cli.sources import Settings
from nczfs.cli.store import engine_options, place, shown, store_options
from nczfs.cli.transfers import (
    TRANSFER_SCOPES,
    add_format_arguments,
    add_layout_arguments,
    add_shards_argument,
    memory_limit,
    new_node,
)
from nczfs.errors import ObjectExists, UsageError
from nczfs.zmap.url import StoreUrl, parse_url

if TYPE_CHECKING:
    from nczfs.formats.base import MetadataFormat
    from nczfs.library.api import Group
    from nczfs.library.variable import Variable
    from nczfs.tools.cluster.dask import Cluster
    from nczfs.tools.progress import Progress
    from nczfs.tools.transfer.intermediate import Between, IntermediatePlace
    from nczfs.tools.transfer.target import NewNode

_PURE_WORDS = frozenset({"zarr", "xarray", "noxarray"})


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", metavar="SRC", help="URL of a dataset, a group or a variable")
    parser.add_argument("target", metavar="DST", help="URL of the copy")
    add_format_arguments(parser, default="that of SRC", there="dataset, group or variable")
    add_layout_arguments(
        parser,
        chunks_help="default: as in SRC",
        codecs_help="as for `nczfs import` (default: as in SRC)",
    )
    add_shards_argument(parser, default="as in SRC")
    parser.add_argument(
        "--string-bytes",
        type=typed(positive),
        metavar="N",
        help="bytes per string, where strings are stored in cells",
    )
    parser.add_argument("--fixed", action="store_true", help="make unlimited dimensions fixed")
    parser.add_argument(
        "--skip-unsupported", action="store_true", help="leave out members that cannot be read"
    )
    parser.add_argument(
        "--intermediate",
        metavar="URL",
        help="where an intermediate dataset may be made, if memory is short for other chunks",
    )
    add_cluster_arguments(parser)


def run(request: CommandLine) -> int:
    """Copy, or continue an interrupted copy."""
    arguments, settings = request.arguments, request.settings
    logs.configure_command(settings)
    from nczfs.cli.memory import share_one_heap
    from nczfs.cli.nodes import opened_in_root  # imports NumPy and boto3

    share_one_heap()
    if is_netcdf_file(arguments.url):
        raise UsageError(f"{arguments.url}: is a netCDF file; `nczfs import` makes a dataset of it")
    if arguments.target.endswith(".nc"):
        raise UsageError(f"{arguments.target}: `nczfs export` makes netCDF files")
    arguments.target = _within(arguments.target, shown(arguments.url, settings))
    target_settings = settings_for(request, arguments.target)
    _check_apart(arguments.url, settings, arguments.target, target_settings)
    if (middle := arguments.intermediate) is not None:
        for url in (arguments.url, arguments.target):
            _check_outside(middle, settings_for(request, middle), url, settings_for(request, url))
    limit = memory_limit(settings)
    options = replace(engine_options(settings), memory_limit_bytes=limit // 2, cache_bytes_max=0)
    with (
        cluster_of(arguments) as cluster,
        opened_in_root(arguments.url, settings, options) as (node, root),
    ):
        _copy(node, root, request, target_settings, cluster)
    return 0


def _within(target: str, source: str) -> str:
    """Return where a copy goes: below a local directory, as cp(1), unless that is a dataset itself.

    An empty directory without a slash behind it becomes the dataset.
    """
    from nczfs.formats.registry import FORMATS  # imports NumPy

    front, hash_sign, fragment = target.partition("#")
    directory = os.path.expanduser(front)
    if "://" in front or not os.path.isdir(directory):
        return target
    names = os.listdir(directory)
    is_free = not names and not front.endswith("/")
    is_dataset = any(name in FORMATS.at_root or name.startswith(".nczfs_") for name in names)
    if is_free or is_dataset:
        return target
    name = source.partition("#")[0].rstrip("/").rpartition("/")[2]
    return f"{os.path.join(front, name)}{hash_sign}{fragment}"


def _copy(
    node: Group | Variable,
    root: str,
    request: CommandLine,
    settings: Settings,
    cluster: Cluster | None,
) -> None:
    from nczfs.tools.transfer.choices import Choices
    from nczfs.tools.transfer.dataset_copy import planned_copy, run_copy

    arguments = request.arguments
    new, metadata_format = _target(node, request, settings)
    if cluster is not None:
        share = new.memory_limit_bytes // cluster.threads_per_worker
        new = replace(new, memory_limit_bytes=share)
    copy = planned_copy(
        node,
        shown(arguments.url, request.settings),
        new,
        metadata_format,
        Choices(
            arguments.chunks,
            arguments.codecs,
            arguments.fixed,
            arguments.string_bytes,
            arguments.shards,
        ),
        tell,
        skip_unsupported=arguments.skip_unsupported,
    )

    def tell_how_to_go_on() -> None:
        tell(f"{new.name}: stopped; run the same command again to continue")

    with (
        progress_bar(copy.source.nbytes, "B") as progress,
        interrupts.deferred(tell_how_to_go_on),
    ):
        between = _between(cluster, root, request.settings)
        threads = 1 if cluster is None else cluster.threads
        spread = None
        if between is not None:
            spread = between(None, copy.new, metadata_format.name, progress)
        middle = None
        if arguments.intermediate is not None:
            limit = new.memory_limit_bytes
            middle = _intermediate(arguments.intermediate, request, limit, between, threads)
        try:
            run_copy(copy, tell, progress, spread, middle, threads)
        except ObjectExists as error:
            raise ObjectExists(f"{error}; --overwrite replaces it") from error


def _between(cluster: Cluster | None, root: str, settings: Settings) -> Between | None:
    """Return what makes the runs of a copy on a cluster; None: there is no cluster.

    Parameters
    ----------
    root : URL of the source.
    """
    if cluster is None:
        return None
    from nczfs.tools.cluster.copying import CopyRun
    from nczfs.tools.cluster.opening import OpenedBy

    own = OpenedBy(root, store_options(settings), engine_options(settings))

    def between(
        source: NewNode | None, new: NewNode, format_name: str, progress: Progress
    ) -> CopyRun:
        by = own
        if source is not None:
            by = OpenedBy(source.url, source.store_options, source.engine_options)
        return CopyRun(cluster, by, new, format_name, progress, tell)

    return between


def _intermediate(
    url: str,
    request: CommandLine,
    memory_limit_bytes: int,
    between: Between | None,
    threads: int,
) -> IntermediatePlace:
    """Return where intermediate datasets are made."""
    from nczfs.tools.transfer.intermediate import IntermediatePlace
    from nczfs.tools.transfer.target import NewNode

    settings = settings_for(request, url)
    new = NewNode(
        place(url, settings),
        memory_limit_bytes=memory_limit_bytes,
        store_options=store_options(settings),
        engine_options=engine_options(settings),
    )
    return IntermediatePlace(new, between, threads)


def _target(
    node: Group | Variable, request: CommandLine, settings: Settings
) -> tuple[NewNode, MetadataFormat]:
    """Return the new node and the format of its metadata."""
    from nczfs.cli.nodes import opened_above

    arguments = request.arguments
    new = new_node(arguments.target, arguments, settings)
    with opened_above(arguments.target, settings) as above:
        if above is not None:
            dataset, url, path = above
            metadata_format = dataset.engine_dataset.format.single
            wanted = new.metadata_format.name if new.format is not None else metadata_format.name
            if wanted != metadata_format.name:
                raise UsageError(
                    f"--format {new.format}: {new.name} becomes a part of {parse_url(url).text}, "
                    f"whose format is {metadata_format.name}"
                )
            return replace(new, url=url, path=path), metadata_format
    if new.format is None and not new.place.modes & (_PURE_WORDS | {"nczarr"}):
        new = replace(new, format=node.engine_dataset.format.single.name)
    return new, new.metadata_format


def _check_apart(source: str, of_source: Settings, target: str, of_target: Settings) -> None:
    """Raise UsageError where two places are the same, or one contains the other."""
    one, other = (
        _identity(parse_url(place(url, settings)))
        for url, settings in ((source, of_source), (target, of_target))
    )
    if one[0] != other[0]:
        return
    if f"{one[1]}/".startswith(f"{other[1]}/") or f"{other[1]}/".startswith(f"{one[1]}/"):
        raise UsageError(f"{source} and {target}: they are the same, or one contains the other")


def _check_outside(middle: str, of_middle: Settings, url: str, settings: Settings) -> None:
    """Raise UsageError if intermediate datasets would lie in the source or the target."""
    (store, path), (other, above) = (
        _identity(parse_url(place(each, its)))
        for each, its in ((middle, of_middle), (url, settings))
    )
    if store == other and f"{path}/".startswith(f"{above}/"):
        raise UsageError(f"--intermediate {middle}: is in {url}; name a place beside it")


def _identity(url: StoreUrl) -> tuple[tuple[str, ...], str]:
    """Return the store and the path that a URL names."""
    if url.path:
        return ("file",), os.path.realpath(url.path)
    if url.bucket:
        return (url.endpoint_url or "", url.bucket), url.prefix
    return (url.kind,), url.text


COMMAND = Command(
    "cp",
    "copy a dataset, a group or a variable",
    _arguments,
    run,
    (
        "nczfs cp s3://bucket/era5.zarr /data/era5.zarr",
        "nczfs cp a.zarr/t2m b.zarr/t2m --chunks time=1000,lat=10,lon=10 --codecs shuffle,zstd:3",
        "nczfs cp s3://bucket/maps.zarr s3://bucket/series.zarr --chunks time=8760 --workers 4",
    ),
    scopes=TRANSFER_SCOPES,
    aliases=("copy",),
)
