"""``nczfs rm``: removes a group, a variable, or a whole dataset from its store."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from nczfs.cli import logs
from nczfs.cli.command import STORE_SCOPES, Command, CommandLine
from nczfs.cli.sources import Settings
from nczfs.cli.store import engine_options, place, store_options
from nczfs.errors import (
    ForeignObjects,
    MetadataError,
    NczfsError,
    NoContent,
    NoSuchNode,
    NotADataset,
    UsageError,
)
from nczfs.model.printing import printable
from nczfs.zmap.parenturl import parent
from nczfs.zmap.url import parse_url

if TYPE_CHECKING:
    from nczfs.engine.dataset import Dataset
    from nczfs.tools.transfer.unfinished import MarkedPlace
    from nczfs.zmap.keys import Key

LEVELS_ABOVE = 3  # what an interrupted removal left is not a node itself


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", metavar="URL", help="a variable, group or dataset")
    parser.add_argument("paths", metavar="PATH", nargs="*", help="remove only these, below the URL")
    parser.add_argument(
        "-r", "--recursive", action="store_true", help="remove datasets, and groups with members"
    )
    parser.add_argument(
        "--force",
        action="store_true",
        help="remove the dataset's objects even if other files lie among them; those stay",
    )
    parser.add_argument("--dry-run", action="store_true", help="print what would be removed")


def run(request: CommandLine) -> int:
    """Remove the named nodes one after the other; stop at the first that cannot be removed."""
    arguments, settings = request.arguments, request.settings
    logs.configure_command(settings)
    from nczfs.engine.structure.removal import planned  # imports NumPy and boto3

    url = place(arguments.url, settings)
    status = 0
    for target in [_below(url, path) for path in arguments.paths] or [url]:
        with _unfinished(target, settings) as left:
            if left is not None:
                status |= _remove_unfinished(left, printable(parse_url(target).text), arguments)
        if left is not None:
            _remove_directory(target, arguments)
            continue
        root, path = root_of(target, settings)
        with _opened(root, settings) as dataset:
            if not arguments.recursive:
                _check_small(dataset, path)
            where = printable(parse_url(target).text)
            if arguments.dry_run:
                gone = planned(dataset, path)
                store = dataset.zmap.name
                status |= _preview(store, gone.foreign, gone.count, where, force=arguments.force)
            else:
                _remove(dataset, path, where, force=arguments.force)
        if not path:
            _remove_directory(root, arguments)
    return status


def _remove_directory(url: str, arguments: argparse.Namespace) -> None:
    """Remove the directory of a dataset that is gone, unless something is left in it."""
    from nczfs.zmap.registry import remove_emptied

    place = parse_url(url)
    if place.kind == "file" and not arguments.dry_run:
        remove_emptied(place.path)


@contextmanager
def _unfinished(url: str, settings: Settings) -> Iterator[MarkedPlace | None]:
    """Find what an interrupted import or copy has left; None: there is nothing of that.

    Raises
    ------
    ObjectExists : it is being written.
    """
    from nczfs.engine.stores import open_store
    from nczfs.tools.transfer.unfinished import MarkedPlace  # imports NumPy
    from nczfs.zmap.keys import ROOT

    try:
        zmap = open_store(parse_url(url), store_options(settings))
    except NczfsError:
        yield None  # the search for a dataset reports what is wrong
        return
    try:
        found = MarkedPlace(zmap, ROOT)
        is_there = found.look() is not None
        found.check_left()
        yield found if is_there else None
    finally:
        zmap.close()


def _remove_unfinished(place: MarkedPlace, where: str, arguments: argparse.Namespace) -> int:
    if not arguments.recursive:
        raise UsageError(f"{where}: is unfinished; -r removes it")
    left = place.left()
    count = len(left.nodes) + len(left.rest)
    if arguments.dry_run:
        return _preview(place.zmap.name, left.foreign, count, where, force=arguments.force)
    place.zmap.prepare_writing()
    with _remedy_named():
        place.clear(force=arguments.force)
    place.zmap.flush()
    print(f"{where}: {_objects(count)} removed")
    return 0


def _preview(store: str, foreign: Sequence[Key], count: int, where: str, *, force: bool) -> int:
    """Print what would be removed. Returns 1 if foreign objects would stop the removal."""
    for key in foreign:
        print(printable(f"{store}/{key}: belongs to no dataset and stays"))
    if foreign and not force:
        print(f"{where}: nothing would be removed; --force removes the dataset's own objects")
        return 1
    print(f"{where}: {_objects(count)} would be removed")
    return 0


def _remove(dataset: Dataset, path: str, where: str, *, force: bool) -> None:
    from nczfs.engine.structure.removal import remove  # imports NumPy and boto3

    dataset.zmap.prepare_writing()
    with _remedy_named():
        count = remove(dataset, path, force=force)
    print(f"{where}: {_objects(count)} removed")


@contextmanager
def _remedy_named() -> Iterator[None]:
    try:
        yield
    except ForeignObjects as error:
        raise ForeignObjects(
            f"{error}; --force removes the dataset's own objects, --dry-run names all others"
        ) from error


def _objects(count: int) -> str:
    return f"{count} {'object' if count == 1 else 'objects'}"


def _check_small(dataset: Dataset, path: str) -> None:
    """Raise UsageError for a dataset or a group with members."""
    if not path:
        raise UsageError(f"{dataset.url('')}: is a dataset; -r removes it")
    from nczfs.model.hierarchy import Variable

    try:
        is_variable = isinstance(dataset.node(path), Variable)
        names = [] if is_variable else dataset.names(path)
    except (MetadataError, NoSuchNode):
        return
    if names:
        raise UsageError(f"{dataset.url(path)}: is a group with members; -r removes it")


def root_of(url: str, settings: Settings) -> tuple[str, str]:
    """Return the URL of the outermost group that leads to a node, and the node's path from there.

    Raises
    ------
    NotADataset : no dataset is at or above it.
    """
    from nczfs.model.hierarchy import GroupHeader

    found: tuple[str, str] | None = None
    missing: NczfsError | None = None
    is_array, misses = False, 0
    above, path = url, ""
    while misses <= LEVELS_ABOVE:
        try:
            with _opened(above, settings) as dataset:
                root = dataset.node("")
                name = path.partition("/")[0]
                # No document lists what an interrupted removal left of an array.
                if found is not None and not (is_array or dataset.has_member("", name)):
                    break
                is_array = not isinstance(root, GroupHeader)
                found = above, path
        except NczfsError as error:
            if found is not None:
                break
            if not isinstance(error, NotADataset | NoContent | MetadataError):
                raise
            missing, misses = missing or error, misses + 1
        step = parent(above)
        if step is None:
            break
        above, path = step[0], f"{step[1]}/{path}".rstrip("/")
    if found is None:
        assert missing is not None
        raise missing
    return found


def _below(url: str, path: str) -> str:
    """Return the URL of what lies below another URL."""
    if not path.strip("/"):
        raise UsageError(
            f"PATH {path!r} is not below the URL; -r without a PATH removes everything"
        )
    front, hash_sign, fragment = url.partition("#")
    return f"{front.rstrip('/')}/{path.strip('/')}{hash_sign}{fragment}"


@contextmanager
def _opened(url: str, settings: Settings) -> Iterator[Dataset]:
    """Open a dataset by its single documents. Raises NotADataset, NoContent, StoreError."""
    from nczfs.engine.dataset import Engine, open_dataset
    from nczfs.engine.metadata.documents import MetadataCache
    from nczfs.engine.options import format_options
    from nczfs.engine.stores import open_store
    from nczfs.engine.structure.ownership import left_text
    from nczfs.zmap.keys import ROOT

    parsed = parse_url(url)
    zmap = open_store(parsed, store_options(settings))
    try:
        engine = Engine(engine_options(settings))
        try:
            options = format_options(parsed.modes, engine.options)
            metadata = MetadataCache(zmap, engine.options, engine.pools, ledger=engine.ledger)
            dataset = open_dataset(engine, metadata, ROOT, options, writable=True)
            if dataset is None:
                no_dataset = f"{zmap.name}: no Zarr or NCZarr group or array"
                raise NotADataset(left_text(zmap) or no_dataset)
            yield dataset
        finally:
            engine.close()
    finally:
        zmap.close()


COMMAND = Command(
    "rm",
    "remove variables, groups or datasets",
    _arguments,
    run,
    (
        "nczfs rm era5.zarr/t2m --dry-run",
        "nczfs rm -r s3://bucket/old.zarr",
    ),
    scopes=STORE_SCOPES,
)
