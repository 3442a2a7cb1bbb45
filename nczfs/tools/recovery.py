"""Putting data of the spool back into the store."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import numpy as np

from nczfs.buffers import Values
from nczfs.engine.arrays.array import Array
from nczfs.engine.dataset import Dataset, Engine, open_dataset
from nczfs.engine.metadata.documents import MetadataCache
from nczfs.engine.options import EngineOptions, format_options
from nczfs.engine.spool.chunks import ChunkDetails, KeptChunk
from nczfs.engine.spool.found import Found, Home, is_foreign
from nczfs.engine.spool.objects import KeptObject, put_together
from nczfs.engine.spool.overlay import Written, overlay
from nczfs.engine.spool.renames import UnfinishedRename
from nczfs.engine.structure.editor import Editor
from nczfs.engine.structure.renaming import has_mark, is_listed, is_renamed
from nczfs.errors import MetadataError, NczfsError, NoSuchNode, NoSuchObject, SpoolError, StoreError
from nczfs.formats.base import FormatOptions
from nczfs.model.hierarchy import Variable
from nczfs.zmap.base import ZMap
from nczfs.zmap.keys import Key, Prefix, after_rename, is_within, join, parse_prefix
from nczfs.zmap.securing import secure
from nczfs.zmap.url import StoreUrl

log = logging.getLogger(__name__)


def left_of(spool_dir: Path, url: str) -> list[Found]:
    """Return what earlier mounts of a URL have left."""
    return [found for found in entries(spool_dir) if found.url == url and not found.in_use]


def entries(spool_dir: Path, *, force: bool = False) -> list[Found]:
    """Return everything in a spool, the oldest first. Useless remains of mounts are removed.

    No mount makes links there, and none is followed.

    Parameters
    ----------
    force : also what mounts of other users left.
    """
    found: list[Found] = []
    for directory in spool_dir.glob("*"):
        if directory.is_dir() and not directory.is_symlink():
            found += left_in(directory, force=force)
    return sorted(found, key=lambda each: each.entry.written_ns if each.entry is not None else 0)


def left_in(directory: Path, *, force: bool = False) -> list[Found]:
    """Return what one mount has left in its directory. Parameters are those of `entries`."""
    try:
        return Home(directory, tidies=force or not is_foreign(directory)).found
    except (FileNotFoundError, PermissionError):
        pass  # it is gone, or another user's
    except (OSError, NczfsError) as error:
        log.warning("%s: cannot be read: %s", directory, error)
    return []


@contextlib.contextmanager
def alone(spool_dir: Path) -> Iterator[None]:
    """Wait until no other process puts back what is in a spool, or discards it.

    Two at once would lose nothing, but each would take for another client's what the other stores.
    Where the spool is on a network file system that locks no directories, that can happen.
    """
    try:
        fd = os.open(spool_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        yield  # there is no spool
        return
    try:
        with contextlib.suppress(OSError):
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                log.warning("%s: waiting for another nczfs recover to end", spool_dir)
                fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def together(entries: Iterable[Found]) -> list[list[Found]]:
    """Group entries, in order: those of one unit, or object, are put back together.

    So are renames that did not end, and objects below the old and new prefixes. The renames come
    last: they tell where the objects belong.
    """
    every = list(entries)
    areas = _areas(every)
    groups: dict[tuple[str | int, ...], list[Found]] = {}
    for found in every:
        entry = found.entry
        what: tuple[str | int, ...] = (found.name,)
        if isinstance(entry, KeptChunk) and entry.pieces:
            what = entry.url, entry.key, *entry.details.unit
        elif isinstance(entry, KeptObject | UnfinishedRename):
            numbers = (n for n, area in enumerate(areas) if _is_in(entry.url, entry.key, area))
            number = next(numbers, None)
            what = (entry.kind, entry.url, entry.key) if number is None else ("area", number)
        groups.setdefault(what, []).append(found)
    last = UnfinishedRename
    return [sorted(each, key=lambda f: isinstance(f.entry, last)) for each in groups.values()]


_Area: TypeAlias = set[tuple[str, str]]  # URLs, and prefixes


def _areas(entries: Iterable[Found]) -> list[_Area]:
    """Return where there are renames that did not end, those apart that do not overlap."""
    areas: list[_Area] = []
    for found in entries:
        if isinstance(entry := found.entry, UnfinishedRename):
            area = {(entry.url, entry.key), (entry.url, str(entry.goal))}
            for other in areas.copy():
                if any(_is_in(*each, area) for each in other) or any(
                    _is_in(*each, other) for each in area
                ):
                    areas.remove(other)
                    area |= other
            areas.append(area)
    return areas


def _is_in(url: str, key: str, area: _Area) -> bool:
    return any(url == at and is_within(key, prefix) for at, prefix in area)


def _stop_of(flags: Values, details: ChunkDetails) -> int:
    """Return the index behind the last record of which a chunk has elements; 0: of none."""
    rows = np.nonzero(flags)[0]
    return details.origin[0] + int(rows.max()) + 1 if rows.size else 0


class Store:
    """The store of entries, open for writing."""

    def __init__(self, zmap: ZMap, place: StoreUrl) -> None:
        self._zmap = zmap
        # What was written to a dependent array, the mount that left it was permitted to write.
        self._engine = Engine(EngineOptions(writes_dependents=True))
        self._metadata = MetadataCache(
            zmap, self._engine.options, self._engine.pools, ledger=self._engine.ledger
        )
        self._options: FormatOptions = format_options(place.modes, self._engine.options)
        self._datasets: dict[Prefix, Dataset | None] = {}
        self._places: dict[tuple[Path, str], int | None] = {}
        self._copied: set[Prefix] = set()  # datasets whose consolidated metadata are right
        self._secured: set[tuple[Prefix, tuple[int, ...]]] = set()  # arrays with their lengths
        zmap.prepare_writing()

    def close(self) -> None:
        """Close the store."""
        self._engine.close()
        self._zmap.close()

    def put_back(self, entries: Sequence[Found], *, force: bool = False) -> list[NczfsError | None]:
        """Store what the entries of a unit have, or another one.

        The elements of a chunk that were written are put over those of the version that they were
        written upon, or of one that is older than they are. An object replaces the version that it
        was made from. A rename is ended, as far as nothing is overwritten. `force`: whatever is
        there.

        Parameters
        ----------
        entries : as `together` groups them.

        Returns
        -------
        for each why it is not in the store: SpoolError, it is damaged, or what it belongs to is not
        as it was; StoreError, MetadataError, CodecError, DatasetError. None: it is there for good.
        """
        problems: dict[int, NczfsError] = {}
        try:
            match entries[0].whole:
                case KeptChunk():
                    self._put_unit(entries, problems, force=force)
                case KeptObject() | UnfinishedRename():
                    self._put_objects(entries, problems, force=force)
                case other:
                    raise SpoolError(f"{entries[0].path}: {other.reason}")
            self._zmap.flush()
        except NczfsError as error:
            problems = dict.fromkeys(range(len(entries)), error) | problems
        return [problems.get(number) for number in range(len(entries))]

    def _put_objects(
        self, entries: Sequence[Found], problems: dict[int, NczfsError], *, force: bool
    ) -> None:
        """Put objects where renames that did not end have left them, and end these.

        Sets the problems of some.
        """
        renames = {
            number: (found.home, found.entry)
            for number, found in enumerate(entries)
            if isinstance(found.entry, UnfinishedRename)
        }
        homes: dict[str, list[Home]] = {}
        for found in entries:
            homes.setdefault(found.whole.key, []).append(found.home)
        kept: dict[Key, dict[int, KeptObject]] = {}
        for number, found in enumerate(entries):
            if isinstance(entry := found.entry, KeptObject):
                try:
                    for home, begun in reversed(renames.values()):
                        if home in homes[entry.key] and begun.is_cut_above(entry.key):
                            entry = begun.following(self._zmap, entry)
                            break
                    kept.setdefault(entry.object, {})[number] = entry
                except NczfsError as error:
                    problems[number] = error
        for several in kept.values():
            try:
                outcomes = put_together(self._zmap, list(several.values()), force=force)
            except NczfsError as error:
                outcomes = [error] * len(several)
            found_out = zip(several, outcomes, strict=True)
            problems.update((number, each) for number, each in found_out if each is not None)
        staying = {entries[number].whole.key for number in problems}
        for number, (_, begun) in reversed(renames.items()):
            try:
                begun.end(self._zmap, force=force, without=staying)
            except NczfsError as error:
                problems[number] = error

    def _put_unit(
        self, entries: Sequence[Found], problems: dict[int, NczfsError], *, force: bool
    ) -> None:
        """Put chunks of a unit over one version of it. Sets the problems of some.

        Raises
        ------
        StoreError : nothing is put there, or what is left would seem to be older than that.
        """
        written: dict[int, Written] = {}
        for number, found in enumerate(entries):
            try:
                array, each = self._made_fit(found, force=force)
            except StoreError:
                raise
            except NczfsError as error:
                problems[number] = error
            else:
                if each is not None:
                    written[number] = each
        if written:
            io, values = array.writer(), list(written.values())
            outcomes = overlay(self._zmap, io, io.unit(values[0].index), values, force=force)
            found_out = zip(written, outcomes, strict=True)
            problems.update((number, each) for number, each in found_out if each is not None)

    def _made_fit(self, found: Found, *, force: bool) -> tuple[Array, Written | None]:
        """Make an array as long as a chunk needs. Returns it, and the elements if there are any."""
        entry = found.whole
        assert isinstance(entry, KeptChunk)
        details = entry.details
        dataset, variable = self._variable(self._place(entry))
        source = dataset.array(variable).source
        array = source.array
        if len(array.shape) != len(details.index) or not details.is_like(
            ChunkDetails.of(array, details.index, source.unit(details.index))
        ):
            raise SpoolError(
                f"{dataset.url(variable.path)}: now has another type, chunk shape or codecs; "
                "--export DIR gives you the values"
            )
        flags, values = entry.flags(), None
        if flags.any():
            values = entry.values(array.dtype.native, dataset.array(variable).writer())
        taken = None if force else self._taken(found.home, entry.key, dataset, variable)
        if taken is not None:
            stop = _stop_of(flags, details)
            if stop > taken:
                raise SpoolError(
                    f"{dataset.url(variable.path)}: record {taken} and those behind it were "
                    "appended where another client has appended, too; --force puts them over those "
                    "of the store, --export DIR gives you the values"
                )
            details = replace(details, shape=(min(stop, details.shape[0]), *details.shape[1:]))
        self._grow(dataset, variable, details)
        array_now = dataset.array(dataset.latest(variable))
        if values is None:
            return array_now, None
        return array_now, Written(details.index, flags, values, entry.basis, entry.done_by)

    def _taken(self, home: Home, key: str, dataset: Dataset, variable: Variable) -> int | None:
        """Return the first record of a mount whose place another client has taken; None: none.

        That is claimed, as by a mount that appends. That its records have it is noted before they
        are put there, and the array is as long as that needs.
        """
        place = home.directory, key
        if place not in self._places:
            appended, taken = home.appended(key), None
            if appended is not None:
                if dataset.appends.claim_at(variable.path, *appended, home.process):
                    home.say({"is": "placed", "key": key})
                else:
                    taken = appended[0]
            self._places[place] = taken
        return self._places[place]

    def _place(self, entry: KeptChunk) -> str:
        """Return the prefix of the array of an entry. Raises SpoolError: it is not certain."""
        if entry.renaming is None:
            return entry.key
        prefix, goal = entry.renaming
        if not is_renamed(self._zmap, prefix, goal, self._is_found):
            return entry.key
        if self._is_found(prefix) and not has_mark(self._zmap, prefix):
            raise SpoolError(
                f"{prefix}: was being renamed to {goal} when the mount was killed, and now there "
                "is something under both names; --export DIR gives you the values"
            )
        return after_rename(entry.key, prefix, goal)

    def _is_found(self, place: str) -> bool:
        """Return whether readers find a node at a prefix, in a dataset that begins above it."""
        words = place.split("/")
        for count in range(len(words)):
            dataset = self._dataset(Prefix("/".join(words[:count])))
            if dataset is not None:
                path = "/".join(words[count:])
                with contextlib.suppress(NoSuchNode, MetadataError):
                    dataset.node(path)
                    return is_listed(dataset, path) is not False
        return False

    def _variable(self, key: str) -> tuple[Dataset, Variable]:
        """Return the array at a prefix, in the topmost dataset that has it."""
        words = parse_prefix(key).split("/") if key else []
        for count in range(len(words) + 1):
            dataset = self._dataset(Prefix("/".join(words[:count])))
            if dataset is None:
                continue
            with contextlib.suppress(NoSuchNode, MetadataError):
                node = dataset.node("/".join(words[count:]))
                if isinstance(node, Variable):
                    return dataset, node
        raise SpoolError(
            f"{key or self._zmap.name}: the variable no longer exists; --export DIR gives you the "
            "values"
        )

    def _dataset(self, root: Prefix) -> Dataset | None:
        """Return the dataset at a prefix, always the same object; None: none is readable."""
        if root not in self._datasets:
            with contextlib.suppress(MetadataError):
                self._datasets[root] = open_dataset(
                    self._engine, self._metadata, root, self._options, writable=True
                )
        return self._datasets.get(root)

    def _grow(self, dataset: Dataset, variable: Variable, details: ChunkDetails) -> None:
        """Make a variable as long as it was, along its unlimited dimensions."""
        shape = variable.array.shape
        if len(shape) != len(details.shape) or any(
            now != then and not dimension.unlimited
            for now, then, dimension in zip(shape, details.shape, variable.dimensions, strict=True)
        ):
            raise SpoolError(
                f"{dataset.url(variable.path)}: now has the shape {shape} instead of "
                f"{details.shape}; --export DIR gives you the values"
            )
        wanted = tuple(map(max, shape, details.shape))
        editor = Editor(dataset, None)
        if wanted != shape:
            editor.grow(variable, wanted)
        if dataset.root not in self._copied and any(d.unlimited for d in variable.dimensions):
            # The mount may have ended after it had stored a length, and before the copy of it.
            dataset.copy.distrust()
        if wanted != shape or dataset.copy.is_owed:
            editor.sync()
            self._copied.add(dataset.root)
            node = dataset.node(variable.path)
            assert isinstance(node, Variable)
            dataset.array(node)
        self._secure(dataset, variable, wanted)

    def _secure(self, dataset: Dataset, variable: Variable, shape: Sequence[int]) -> None:
        """Make durable that a variable is so long: the mount need not have waited for the disk."""
        place = dataset.prefix(variable.path), tuple(shape)
        if place in self._secured:
            return
        single, copy = dataset.format.single, dataset.format.copy
        paths = dict.fromkeys([variable.path, *(d.group for d in variable.dimensions)])
        keys = {key for path in paths for key in single.keys(path)}
        for key in keys | ({copy.key} if copy is not None else set()):
            with contextlib.suppress(NoSuchObject):
                secure(self._zmap, join(dataset.root, key))
        self._secured.add(place)
