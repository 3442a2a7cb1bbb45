"""Putting back into the store what the spool has of it."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote

import numpy as np

from nczfs.engine.dataset import Dataset, Engine, open_dataset
from nczfs.engine.editor import Editor
from nczfs.engine.metadata import MetadataCache
from nczfs.engine.options import format_options
from nczfs.engine.spool import renames, staged
from nczfs.engine.spool.basis import BLOCK_BYTES
from nczfs.engine.spool.chunks import (
    ENCODED,
    ChunkDetails,
    basis_of,
    read_flags,
    read_values,
)
from nczfs.engine.spool.entries import (
    SUFFIX,
    Entry,
    Kind,
    Section,
    check_section,
    read_entry,
    read_section,
)
from nczfs.engine.spool.objects import CONTENT, KeptObject, content_of
from nczfs.engine.spool.overlay import Overlay
from nczfs.engine.spool.salvage import salvage
from nczfs.engine.spool.space import LOCK, disk, sync_directory
from nczfs.engine.storedarray import codecs_digest
from nczfs.errors import (
    MetadataError,
    NczfsError,
    NoSuchNode,
    SpoolError,
)
from nczfs.formats.base import FormatOptions
from nczfs.formats.zarr2.types import data_type
from nczfs.model.boxes import Box
from nczfs.model.hierarchy import Variable
from nczfs.zmap.base import ZMap
from nczfs.zmap.keys import Prefix, parse_prefix
from nczfs.zmap.url import StoreUrl

_UNCLOSED: Final = "the program was killed before it closed the file"


@dataclass(frozen=True, slots=True)
class Leftover:
    """A file that was being written when a mount without a journal was killed.

    Nobody was promised its bytes: neither close nor fsync had answered for all of them.

    Attributes
    ----------
    url : of what was mounted; without secrets.
    key : what it was to become.
    """

    url: str
    key: str
    size: int


@dataclass(frozen=True, slots=True)
class Found:
    """A file of the spool.

    Attributes
    ----------
    entry : what it says of itself; None: it is torn, or no entry.
    problem : why there is no entry.
    in_use : its mount lives.
    leftover : of what is no entry since it was never to be one.
    """

    path: Path
    entry: Entry | None
    problem: str = ""
    in_use: bool = False
    leftover: Leftover | None = None

    @property
    def url(self) -> str:
        """Of what was mounted, where that is known."""
        named = self.entry or self.leftover
        return named.url if named is not None else ""

    @property
    def name(self) -> str:
        """What tells it from the others of a spool."""
        return f"{self.path.parent.name}/{self.path.name.removesuffix(SUFFIX)}"

    @property
    def is_foreign(self) -> bool:
        """Whether another user owns it, or the directory that it is in."""
        return _is_foreign(self.path) or _is_foreign(self.path.parent)

    @property
    def is_owned(self) -> bool:
        """Whether a living mount has it in memory too."""
        if self.entry is None:
            return False
        return self.in_use and self.entry.kind in (Kind.CHUNK, Kind.RENAME)


def left_of(spool_dir: Path, url: str) -> list[Found]:
    """What mounts of a URL have left that are gone."""
    return [found for found in entries(spool_dir) if found.url == url and not found.in_use]


def entries(spool_dir: Path, *, force: bool = False) -> list[Found]:
    """All files in a spool, the oldest first. What killed mounts left is made entries of first.

    Parameters
    ----------
    force : do so with what mounts of other users left, too.
    """
    found = []
    problems: dict[Path, str] = {}
    for directory in spool_dir.glob("*"):
        if _is_foreign(directory) and not force:
            continue
        try:
            salvage(directory)
        except NczfsError as error:
            problems[directory] = str(error)
    for path in sorted(spool_dir.glob("*/*")):
        if path.name == LOCK:
            continue
        in_use = _is_locked(path.parent / LOCK)
        try:
            if path.name.endswith(SUFFIX):
                found.append(Found(path, read_entry(path), in_use=in_use))
            elif not in_use:
                found.append(_unfinished(path, problems.get(path.parent)))
        except SpoolError as error:
            found.append(Found(path, None, str(error), in_use))
    return sorted(found, key=lambda each: written_ns(each.entry))


def _unfinished(path: Path, problem: str | None) -> Found:
    """A file that was not made an entry; `problem`: why nothing in its directory could be."""
    log = path.with_name(staged.BEFORE + path.name)
    if problem or path.name.startswith(staged.BEFORE) or log.exists():
        return Found(path, None, problem or _UNCLOSED)
    try:
        size = path.stat().st_size
        url = (path.parent / LOCK).read_text("utf-8", "replace")
    except OSError as error:
        raise SpoolError(f"{path}: cannot be read: {error}") from error
    leftover = Leftover(url, unquote(path.name.partition("-")[2], errors="surrogateescape"), size)
    return Found(path, None, f"{_UNCLOSED}, and no write was acknowledged", leftover=leftover)


def remove(found: Found) -> None:
    """Delete a file of the spool, and its directory with the last one of a mount that is gone.

    Raises
    ------
    SpoolError : a living mount has it; Unavailable : it cannot be deleted.
    """
    if found.is_owned:
        raise SpoolError(f"{found.path}: its mount is running and keeps trying to store it")
    directory = found.path.parent
    with disk(found.path):
        found.path.unlink(missing_ok=True)
        if directory.exists():
            sync_directory(directory)
    with contextlib.suppress(OSError):
        if not found.in_use and os.listdir(directory) in ([], [LOCK]):
            (directory / LOCK).unlink(missing_ok=True)
            directory.rmdir()
            sync_directory(directory.parent)


class Store:
    """A store that entries are of, open for writing."""

    def __init__(self, zmap: ZMap, place: StoreUrl) -> None:
        self._zmap = zmap
        self._engine = Engine()
        self._metadata = MetadataCache(
            zmap, self._engine.options, self._engine.pools, ledger=self._engine.ledger
        )
        self._options: FormatOptions = format_options(place.modes, self._engine.options)
        self._datasets: dict[Prefix, Dataset | None] = {}
        self._overlay = Overlay(zmap)
        zmap.prepare_writing()

    def close(self) -> None:
        """Close the store."""
        self._engine.close()
        self._zmap.close()

    def put_back(self, found: Found, *, force: bool = False) -> None:
        """Store what an entry has.

        The elements of a chunk that were written are put over those of the version that they were
        written upon, or of one that is older than they are. An object replaces the version that it
        was made from. A rename is ended, as far as nothing is overwritten. `force`: whatever is
        there.

        Raises
        ------
        SpoolError : the entry is damaged, or what it belongs to is not as it was. StoreError,
        MetadataError, CodecError, DatasetError.
        """
        entry = _entry(found)
        if entry.kind is Kind.OBJECT:
            KeptObject.parsed(found.path, entry).put(self._zmap, force=force)
        elif entry.kind is Kind.RENAME:
            renames.end(self._zmap, entry, force=force)
        else:
            self._put_chunk(found.path, entry, force=force)
        self._zmap.flush()

    def _put_chunk(self, path: Path, entry: Entry, *, force: bool) -> None:
        details = ChunkDetails.parsed(entry)
        dataset, variable = self._variable(entry.key)
        array = variable.array
        if (array.chunk_shape, array.dtype.typestr, codecs_digest(array)) != (
            details.chunk_shape,
            details.typestr,
            details.codecs,
        ):
            raise SpoolError(
                f"{dataset.url(variable.path)}: now has another type, chunk shape or codecs; "
                "--export DIR gives you the values"
            )
        basis = basis_of(entry)
        flags = read_flags(path, entry, details)
        io = dataset.array(variable).chunkio
        written = flags.any()
        values = read_values(path, entry, details, array.dtype.native, io) if written else None
        self._grow(dataset, variable, details)
        if values is None:
            return
        longer = dataset.array(dataset.latest(variable))
        self._overlay.put(longer.chunkio, details.index, flags, values, basis, force=force)

    def _variable(self, key: str) -> tuple[Dataset, Variable]:
        """The array at a prefix, in the topmost dataset that has it."""
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
        """The dataset at a prefix, the same one each time; None: there is none that is read."""
        if root not in self._datasets:
            with contextlib.suppress(MetadataError):
                self._datasets[root] = open_dataset(
                    self._engine, self._metadata, root, self._options, writable=True
                )
        return self._datasets.get(root)

    def _grow(self, dataset: Dataset, variable: Variable, details: ChunkDetails) -> None:
        """Make a variable as long as it was, where its dimensions are unlimited."""
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
        if wanted != shape:
            editor = Editor(dataset, ".")
            editor.grow(variable, wanted)
            editor.sync()
            node = dataset.node(variable.path)
            assert isinstance(node, Variable)
            dataset.array(node)


def written_ns(entry: Entry | None) -> int:
    """When the first of what an entry has was written, since 1970."""
    if entry is None:
        return 0
    with contextlib.suppress(SpoolError):
        return basis_of(entry).written_ns
    return int(entry.saved_at * 1e9)


def describe(found: Found) -> str:
    """Which elements of which variable, or which bytes of which object, a file has."""
    if (left := found.leftover) is not None:
        return f"{left.url} {left.key}: {left.size} bytes; {found.problem}"
    entry = _entry(found)
    place = f"{entry.url} {entry.key}"
    if entry.kind is Kind.OBJECT:
        section = entry.section(CONTENT)
        return f"{place}: {section.size if section is not None else 0} bytes"
    if entry.kind is Kind.RENAME:
        return f"{place} was to be {renames.goal_of(entry)}"
    details = ChunkDetails.parsed(entry)
    flags = read_flags(found.path, entry, details)
    count = int(flags.sum())
    if not count:
        return f"{place}: its shape, {details.shape}"
    if not flags.ndim:
        return f"{place}: {count} elements"
    origin = [i * n for i, n in zip(details.index, details.chunk_shape, strict=True)]
    places = np.nonzero(flags)
    start = tuple(int(axis.min()) + at for axis, at in zip(places, origin, strict=True))
    stop = tuple(int(axis.max()) + 1 + at for axis, at in zip(places, origin, strict=True))
    ranges = ", ".join(f"{a}:{b}" for a, b in zip(start, stop, strict=True))
    whole = Box(start, stop).size
    return f"{place}[{ranges}]" + ("" if count == whole else f": {count} of {whole} elements")


def export(found: Found, directory: Path) -> Path:
    """Write what an entry has to a new file, whatever the store has by now.

    Of an object these are its bytes, those that were never fetched as zeros; of a chunk a ``.npy``
    file of records: a value, and whether it was written. A chunk of elements of variable length is
    a ``.chunk`` file, as the codecs of the variable have it. What never became an entry is copied
    as it is.

    Parameters
    ----------
    directory : is made where it is missing.
    """
    name = found.name.replace("/", "-")
    if found.leftover is not None:
        return _copied(found.path, _made(directory) / name)
    entry = _entry(found)
    if entry.kind is Kind.RENAME:
        raise SpoolError(f"{entry.key}: a rename has no bytes to export")
    _made(directory)
    if entry.kind is Kind.OBJECT:
        section = content_of(found.path, entry)
        check_section(found.path, section)
        return _copied(found.path, directory / name, section)
    if (encoded := entry.section(ENCODED)) is not None:
        chunk = read_section(found.path, encoded)
        return _exported(directory / f"{name}.chunk", chunk.data)
    details = ChunkDetails.parsed(entry)
    spelled = details.typestr
    stored = data_type(json.loads(spelled) if spelled.startswith("[") else spelled, (), entry.key)
    values = read_values(found.path, entry, details, stored.native, None)
    record = np.empty(values.shape, [("value", values.dtype), ("written", bool)])
    record["value"] = values
    record["written"] = read_flags(found.path, entry, details)
    target = directory / f"{name}.npy"
    with open(target, "xb") as file:
        np.save(file, record)
    return target


def _made(directory: Path) -> Path:
    directory.mkdir(0o700, parents=True, exist_ok=True)
    return directory


def _copied(path: Path, target: Path, section: Section | None = None) -> Path:
    """Copy a file, or a section of it, block by block."""
    with open(path, "rb") as source, open(target, "xb") as file:
        at, stop = 0, os.fstat(source.fileno()).st_size
        if section is not None:
            at, stop = section.offset, section.offset + section.size
        while data := os.pread(source.fileno(), min(BLOCK_BYTES, stop - at), at):
            file.write(data)
            at += len(data)
    return target


def _exported(target: Path, data: memoryview) -> Path:
    with open(target, "xb") as file:
        file.write(data)
    return target


def _entry(found: Found) -> Entry:
    if found.entry is None:
        raise SpoolError(found.problem)
    return found.entry


def _is_foreign(path: Path) -> bool:
    try:
        return os.lstat(path).st_uid != os.geteuid()
    except OSError:
        return False  # it is gone


def _is_locked(lock: Path) -> bool:
    """Whether the mount that a directory of the spool is of lives."""
    try:
        fd = os.open(lock, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False
