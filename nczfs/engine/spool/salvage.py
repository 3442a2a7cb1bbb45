"""Entries out of the logs that a killed mount left in its directory of the spool."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path
from typing import Any, Final

import numpy as np

from nczfs.engine.spool import journal, staged
from nczfs.engine.spool.basis import Basis
from nczfs.engine.spool.chunks import FLAGS, VALUES, ChunkDetails, read_flags, read_values
from nczfs.engine.spool.entries import SUFFIX, Entry, Kind, read_entry, seal, write_entry
from nczfs.engine.spool.records import Bytes, Record, packed, read_log
from nczfs.engine.spool.space import LOCK, disk, quoted
from nczfs.errors import SpoolError
from nczfs.model.boxes import Box
from nczfs.model.ranges import Ranges

REASON: Final = "the mount was killed before it was stored"
_TEMPORARY: Final = "salvaged-"

_Place = tuple[str, tuple[int, ...]]


def salvage(directory: Path) -> None:
    """Turn what the logs in the directory of a dead mount say into entries, and remove the logs.

    A directory in which nothing is left goes too.
    Ended at any time, it can be done again. Does nothing while the mount lives.

    Raises
    ------
    NoSpace, Unavailable, SpoolError : the logs are kept.
    """
    segments = sorted(directory.glob(f"{journal.BEFORE}*"), key=_number)
    logs = sorted(directory.glob(f"{staged.BEFORE}*"))
    if not segments and not logs and not _is_bare(directory):
        return
    with _locked(directory) as is_ours:
        if not is_ours:
            return
        for torn in directory.glob(f"{_TEMPORARY}*"):
            if not torn.name.endswith(SUFFIX):
                torn.unlink(missing_ok=True)
        with disk(directory):
            _salvage_values(directory, segments)
            for log in logs:
                with contextlib.suppress(SpoolError):
                    _salvage_file(log)
            if _is_bare(directory):
                (directory / LOCK).unlink()
                directory.rmdir()


def _is_bare(directory: Path) -> bool:
    """Whether nothing but the lock of a mount is in its directory."""
    try:
        return os.listdir(directory) == [LOCK]
    except OSError:
        return False


@dataclass(slots=True)
class _Chunk:
    """What was written to a chunk and is not stored: boxes and their bytes, in order."""

    details: ChunkDetails
    item_size: int
    name: str
    writes: list[tuple[Box, Bytes]] = field(default_factory=list)

    @property
    def kind(self) -> np.dtype[Any]:
        return np.dtype((np.void, self.item_size))

    def add(self, box: Box, data: Bytes) -> None:
        """One more box. Raises ValueError: it is none of this chunk."""
        if not Box((0,) * len(box.start), self.details.chunk_shape).contains(box):
            raise ValueError(f"{box} is not in a chunk of {self.details.chunk_shape}")
        if not data.size or data.size != box.size * self.item_size:
            raise ValueError(f"{data.size} bytes for {box.size} elements")
        self.writes.append((box, data))


class _Replay:
    """What the segments of a journal say together."""

    def __init__(self) -> None:
        self.url = ""
        self.written_ns = 0
        self.chunks: dict[_Place, _Chunk] = {}
        self.bases: dict[_Place, Basis] = {}
        self.grown: dict[str, ChunkDetails] = {}

    def read(self, segment: Path) -> None:
        """Go through a segment, up to the first record that is not understood."""
        numbers: dict[int, tuple[_Place, ChunkDetails, Mapping[str, Any]]] = {}
        self.written_ns = segment.stat().st_mtime_ns
        for record in read_log(segment):
            try:
                self._take(record, numbers)
            except (KeyError, TypeError, ValueError, OverflowError, SpoolError):
                return

    def _take(
        self,
        record: Record,
        numbers: dict[int, tuple[_Place, ChunkDetails, Mapping[str, Any]]],
    ) -> None:
        document = record.document
        match document["is"]:
            case "journal":
                if document["format"] != journal.FORMAT:
                    raise ValueError(f"format {document['format']!r}")
                self.url = str(document["url"])
            case "chunk":
                details = _details(document)
                place = (str(document["key"]), details.index)
                numbers[document["number"]] = (place, details, document)
            case "basis":
                place = (str(document["key"]), tuple(document["index"]))
                self.bases[place] = Basis.parsed(document, 0)
            case "wrote":
                place, details, described = numbers[document["number"]]
                box = Box(tuple(map(int, document["start"])), tuple(map(int, document["stop"])))
                self._chunk(place, details, described).add(box, record.data)
            case "stored":
                place = (str(document["key"]), tuple(document["index"]))
                self.chunks.pop(place, None)
                self.bases.pop(place, None)
            case "grown":
                self.grown[str(document["key"])] = _details(document)
            case "settled":
                self.grown.pop(str(document["key"]), None)

    def _chunk(self, place: _Place, details: ChunkDetails, described: Mapping[str, Any]) -> _Chunk:
        known = self.chunks.get(place)
        if known is None or not _is_same_kind(known.details, details):
            known = self.chunks[place] = _Chunk(
                details, int(described["item_size"]), str(described["name"])
            )
        known.details = _longer(known.details, details)
        return known


def _salvage_values(directory: Path, segments: list[Path]) -> None:
    replay = _Replay()
    for segment in segments:
        replay.read(segment)
    known = _chunk_entries(directory)
    for (key, index), chunk in replay.chunks.items():
        if chunk.writes:
            basis = replay.bases.get((key, index)) or Basis(replay.written_ns)
            _write_chunk(directory, replay.url, key, chunk, basis, known.get((key, index), []))
    for key, details in replay.grown.items():
        if not any(
            at == key and _longer(chunk.details, details) == chunk.details
            for (at, _), chunk in replay.chunks.items()
        ):
            entry = Entry(Kind.CHUNK, replay.url, key, REASON, details.document())
            nothing = np.zeros(-(-prod(details.chunk_shape) // 8), np.uint8)
            write_entry(_new_path(directory, key), entry, [(FLAGS, nothing)])
    for segment in segments:
        segment.unlink()


def _write_chunk(
    directory: Path,
    url: str,
    key: str,
    chunk: _Chunk,
    basis: Basis,
    known: list[tuple[Path, Entry]],
) -> None:
    """Make one entry of what the journal has of a chunk and what older entries have."""
    shape = chunk.details.chunk_shape
    values = np.zeros(shape, chunk.kind)
    flags = np.zeros(shape, bool)
    reason, replaced = REASON, []
    for path, entry in known:
        with contextlib.suppress(SpoolError):
            older = ChunkDetails.parsed(entry)
            if not _is_same_kind(older, chunk.details):
                continue
            written = read_flags(path, entry, older)
            if written.any():
                values[written] = read_values(path, entry, older, chunk.kind, None)[written]
            flags |= written
            chunk.details = _longer(chunk.details, older)
            reason = entry.reason
            replaced.append(path)
    for box, data in chunk.writes:
        values[box.slices()] = data.view(chunk.kind).reshape(box.shape)
        flags[box.slices()] = True
    sections = [(VALUES, values)]
    if not flags.all():
        sections.append((FLAGS, np.packbits(flags.reshape(-1))))
    details = chunk.details.document() | basis.document()
    entry = Entry(Kind.CHUNK, url, key, reason, details)
    write_entry(_new_path(directory, chunk.name), entry, sections)
    for path in replaced:
        path.unlink()


def _chunk_entries(directory: Path) -> dict[_Place, list[tuple[Path, Entry]]]:
    """The entries of chunks that are there already, the oldest first."""
    found: list[tuple[Path, Entry]] = []
    for path in directory.glob(f"*{SUFFIX}"):
        with contextlib.suppress(SpoolError):
            found.append((path, read_entry(path)))
    places: dict[_Place, list[tuple[Path, Entry]]] = {}
    for path, entry in sorted(found, key=lambda each: each[1].saved_at):
        if entry.kind is Kind.CHUNK:
            with contextlib.suppress(SpoolError):
                place = (entry.key, ChunkDetails.parsed(entry).index)
                places.setdefault(place, []).append((path, entry))
    return places


def _salvage_file(log: Path) -> None:
    """Make an entry of a staged file, or remove it where it holds nothing unsaved."""
    path = log.with_name(log.name.removeprefix(staged.BEFORE))
    if path.exists():
        records = list(read_log(log))
        if records:
            _seal(path, log, records)
        elif not log.stat().st_size:
            path.unlink()
    log.unlink()


def _seal(path: Path, log: Path, records: list[Record]) -> None:
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        sealed, entry = _read_staged(path, records, os.fstat(fd).st_size)
        if sealed is None:
            # What an entry ends in comes behind the bytes: who is killed meanwhile leaves that.
            os.truncate(log, records[-1].stop)
            sealed = os.fstat(fd).st_size
            _append(log, packed({"is": "sealed", "size": sealed}))
        os.ftruncate(fd, sealed)
        seal(path, fd, entry)
    finally:
        os.close(fd)


def _read_staged(path: Path, records: list[Record], size: int) -> tuple[int | None, Entry]:
    """The size with which it was begun to be made an entry, and the entry."""
    try:
        sealed = None
        base_stop, there, unsaved = 0, Ranges(), records[0].document
        attempts: list[Any] = []
        for record in records:
            document = record.document
            match document["is"]:
                case "unsaved":
                    unsaved, base_stop, there, at = document, 0, Ranges(), 0
                    attempts = []
                    for start, stop in document["missing"]:
                        there.add(at, int(start))
                        at = base_stop = int(stop)
                case "wrote":
                    for start, stop in document["ranges"]:
                        there.add(int(start), int(stop))
                case "cut":
                    base_stop = min(base_stop, int(document["size"]))
                    there.cut(base_stop)
                case "sending":
                    attempts = [*attempts, document["sent"]]
                case "sealed":
                    sealed = size = int(document["size"])
        left = list(there.gaps(0, min(base_stop, size)))
        details = {"replaces": str(unsaved["replaces"]), "missing": left, "sent": attempts}
        return sealed, Entry(Kind.OBJECT, str(unsaved["url"]), str(unsaved["key"]), REASON, details)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise SpoolError(f"{path}: its log cannot be understood: {error!r}") from error


def _append(log: Path, record: list[bytes | memoryview]) -> None:
    with open(log, "ab") as file:
        file.write(b"".join(record))
        file.flush()
        os.fsync(file.fileno())


def _details(document: Mapping[str, Any]) -> ChunkDetails:
    details = ChunkDetails.parsed(Entry(Kind.CHUNK, "", str(document["key"]), "", document))
    if min(details.chunk_shape, default=0) < 0:
        raise ValueError(f"no chunk has the shape {details.chunk_shape}")
    return details


def _is_same_kind(one: ChunkDetails, other: ChunkDetails) -> bool:
    return replace(one, shape=other.shape) == other and len(one.shape) == len(other.shape)


def _longer(one: ChunkDetails, other: ChunkDetails) -> ChunkDetails:
    return replace(one, shape=tuple(map(max, one.shape, other.shape)))


def _new_path(directory: Path, name: str) -> Path:
    return directory / f"{_TEMPORARY}{secrets.token_hex(4)}-{quoted(name)}"


def _number(segment: Path) -> int:
    number = segment.name.removeprefix(journal.BEFORE).partition("-")[0]
    return int(number) if number.isdecimal() else 0


@contextlib.contextmanager
def _locked(directory: Path) -> Iterator[bool]:
    """Whether the mount of a directory is dead; nobody else salvages there meanwhile."""
    with disk(directory):
        fd = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        yield False
    else:
        yield True
    finally:
        os.close(fd)
