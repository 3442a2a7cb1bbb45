"""What the files of a mount say of what is not stored: the one place where they are read."""

from __future__ import annotations

import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from nczfs.engine.chunks.base import UnitIndex
from nczfs.engine.process import ProcessIdentity
from nczfs.engine.spool.basis import Basis
from nczfs.engine.spool.chunks import (
    CHUNK,
    RECORDS,
    ChunkDetails,
    KeptChunk,
    RetractedPart,
    WrittenPart,
)
from nczfs.engine.spool.entries import KILLED, SpoolEntry, read_records
from nczfs.engine.spool.log import BEFORE, FORMAT
from nczfs.engine.spool.moves import number_of
from nczfs.engine.spool.records import Record, is_followed, read_log
from nczfs.engine.spool.renames import RENAME, UnfinishedRename
from nczfs.engine.spool.space import quoted
from nczfs.engine.spool.staged import Staged
from nczfs.errors import BadKey, MetadataError, SpoolError
from nczfs.model.boxes import Box, whole
from nczfs.zmap.keys import Prefix, after_rename, is_within, parse_prefix

_SENSELESS: Final = (KeyError, TypeError, ValueError, OverflowError, BadKey, MetadataError)
_Place = tuple[str, tuple[int, ...]]


def read_entry(path: Path) -> SpoolEntry:
    """Read the entry in a separate file. Raises SpoolError: it is torn, or not an entry."""
    records = read_records(path, 1)
    try:
        match records[0].document["is"]:
            case kind if kind == CHUNK:
                is_less = len(records) < RECORDS  # of which none may be torn
                return KeptChunk.parsed(path, read_records(path) if is_less else records)
            case kind if kind == RENAME:
                return UnfinishedRename.parsed(path, [each.document for each in records])
            case kind:
                raise ValueError(f"{kind!r} is no entry")
    except _SENSELESS as error:
        raise SpoolError(f"{path}: the entry cannot be understood: {error!r}") from error


@dataclass(slots=True)
class Logged:
    """What was written to a chunk and is not stored, as the log has it.

    Attributes
    ----------
    name : what tells it from the others.
    item_size : of an element.
    pieces : in order, each with the revision of the chunk since which that has it.
    written_ns : when the first piece was written, since 1970; 0: the basis says it.
    """

    name: str
    details: ChunkDetails
    item_size: int
    pieces: list[tuple[int, WrittenPart | RetractedPart]] = field(default_factory=list)
    written_ns: int = 0

    def add(self, record: Record) -> None:
        """Add a piece. Raises KeyError, TypeError, ValueError: it is not of this chunk."""
        box, data = self._box(record), record.data
        if not data.size or data.size != box.size * self.item_size:
            raise ValueError(f"{data.size} bytes for {box.size} elements")
        if not self.pieces:
            self.written_ns = int(record.document.get("written_ns", 0))
        self._append(WrittenPart(box, data), record)

    def retract(self, record: Record) -> None:
        """Void elements. Raises KeyError, TypeError, ValueError: they are not of this chunk."""
        self._append(RetractedPart(self._box(record)), record)
        if "shape" in record.document:  # the array does not grow for them
            self.details = replace(self.details, shape=_numbers(record.document["shape"]))

    def keep_after(self, revision: int) -> bool:
        """Forget the pieces of a revision and older ones. Returns whether any others are there."""
        kept = [each for each in self.pieces if each[0] > revision]
        if len(kept) < len(self.pieces):
            self.pieces, self.written_ns = kept, 0
        return bool(kept)

    def _append(self, piece: WrittenPart | RetractedPart, record: Record) -> None:
        self.pieces.append((int(record.document.get("revision", 0)), piece))

    def _box(self, record: Record) -> Box:
        """Return the elements of a record, which are counted from the first one of the chunk."""
        box = Box(*(_numbers(record.document[name]) for name in ("start", "stop")))
        if not whole(self.details.chunk_shape).contains(box):
            raise ValueError(f"{box} is not in a chunk of {self.details.chunk_shape}")
        return box


class LogContents:
    """What the files of a log, in order, say up to where they are torn.

    Attributes
    ----------
    url : of what was mounted.
    process : of the mount.
    staged : by the name of the file.
    chunks : by the prefix of the array, and the index.
    grown : arrays that became longer, by their prefix.
    renaming : nodes whose rename may have ended or not: their prefixes, and the new ones.
    moves : of nodes, by their numbers: entries in files of their own with smaller ones follow.
    placed : arrays whose appended records all have a certain place since then.
    problems : why not all of a file could be understood; what follows there is not known.
    is_whole : whether there are any, and they were read to their ends.
    written_at : when they were written last, in seconds since 1970.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self.url = ""
        self.process: ProcessIdentity | None = None
        self.staged: dict[str, Staged] = {}
        self.chunks: dict[_Place, Logged] = {}
        self.grown: dict[str, ChunkDetails] = {}
        self.renaming: dict[Prefix, Prefix] = {}
        self.moves: dict[int, tuple[Prefix, Prefix]] = {}
        self.placed: set[str] = set()
        self.problems: dict[Path, str] = {}
        self.is_whole = bool(paths)
        self.written_at = 0.0
        self._bases: dict[_Place, Basis] = {}
        self._numbers: dict[int, tuple[_Place, Logged]] = {}
        for path in paths:
            self._read(path)

    @property
    def problem(self) -> str:
        """One of the problems; "": there is none."""
        return next(iter(self.problems.values()), "")

    def basis(self, key: str, unit: UnitIndex) -> Basis:
        """Return what the chunks of a unit are based on."""
        return self._bases.get((key, unit)) or Basis(int(self.written_at * 1e9))

    def followed(self, entry: KeptChunk) -> KeptChunk:
        """Return an entry in a file of its own with the place that its array has moved to."""
        number, key = number_of(entry.files[0]), entry.key
        for at, move in sorted(self.moves.items()):
            if number is not None and number < at:
                key = after_rename(key, *move)
        return replace(entry, key=key)

    def completed(self, entry: KeptChunk) -> KeptChunk:
        """Return an entry with what the log says of its array."""
        if entry.key in self.placed:
            entry = entry.placed()
        begun = (each for each in self.renaming.items() if is_within(entry.key, each[0]))
        return replace(entry, renaming=next(begun, None))

    def _read(self, path: Path) -> None:
        self._numbers.clear()
        stop = 0
        try:
            self.written_at = path.stat().st_mtime
            for record in read_log(path):
                self._take(record)
                stop = record.stop
            if stop < path.stat().st_size:
                self.is_whole = False
                if is_followed(path, stop):
                    self.problems[path] = (
                        f"{path}: damaged at byte {stop}, and not read from there on"
                    )
        except _SENSELESS as error:
            self.problems[path] = f"{path}: cannot be understood from byte {stop} on: {error!r}"
        except (OSError, SpoolError) as error:
            self.problems[path] = str(error)

    def _take(self, record: Record) -> None:
        document = record.document
        match document["is"]:
            case "log":
                if document["format"] != FORMAT:
                    raise ValueError(f"format {document['format']!r} instead of {FORMAT}")
                self.url = str(document.get("url", self.url))
                if "process" in document:
                    self.process = ProcessIdentity(**document["process"])
            case "chunk":
                name = f"log-{int(document['number'])}-{quoted(str(document['name']))}"
                details = ChunkDetails.parsed(document)
                logged = Logged(name, details, details.dtype.itemsize)
                place = (str(document["key"]), details.index)
                self._numbers[document["number"]] = (place, logged)
            case "basis":
                place = str(document["key"]), _numbers(document["unit"])
                self._bases[place] = Basis.parsed(document, 0)
            case "wrote":
                place, described = self._numbers[document["number"]]
                self._logged(place, described).add(record)
            case "retracted":
                place = str(document["key"]), _numbers(document["index"])
                if (known := self.chunks.get(place)) is not None:
                    known.retract(record)
            case "stored":
                place = str(document["key"]), _numbers(document["index"])
                known = self.chunks.get(place)
                if "revision" not in document or known is None:
                    self.chunks.pop(place, None)
                elif not known.keep_after(int(document["revision"])):
                    del self.chunks[place]
            case "grown":
                self.grown[str(document["key"])] = ChunkDetails.parsed(document)
            case "placed":
                self.placed.add(str(document["key"]))
            case "settled":
                self.grown.pop(str(document["key"]), None)
            case "renaming":
                self.renaming[parse_prefix(str(document["from"]))] = parse_prefix(
                    str(document["to"])
                )
            case "stays":
                self.renaming.pop(parse_prefix(str(document["from"])), None)
            case "moved" | "follow" as kind:
                move = parse_prefix(str(document["from"])), parse_prefix(str(document["to"]))
                if "number" in document:
                    self.moves[int(document["number"])] = move
                if kind == "moved":
                    self._move(*move)
            case "file":
                self.staged[str(document["file"])] = Staged.parsed(document)
            case "filled" | "cut" | "sending":
                if (staged := self.staged.get(document["file"])) is not None:
                    staged.take(document)
            case "done":
                self.staged.pop(str(document["file"]), None)
            case kind:
                raise ValueError(f"{kind!r} is no record of a log")

    def _move(self, prefix: Prefix, goal: Prefix) -> None:
        """Have what is at or below a prefix at another one."""

        def new(key: str) -> Prefix:
            return after_rename(key, prefix, goal)

        self.renaming.pop(prefix, None)
        self.chunks = {(new(key), index): each for (key, index), each in self.chunks.items()}
        self._bases = {(new(key), unit): each for (key, unit), each in self._bases.items()}
        self.grown = {new(key): each for key, each in self.grown.items()}

    def _logged(self, place: _Place, described: Logged) -> Logged:
        known = self.chunks.get(place)
        if known is None or not known.details.is_like(described.details):
            known = self.chunks[place] = replace(described, pieces=[])
        known.details = known.details.grown(described.details)
        return known


def chunks_of(
    contents: LogContents, saved: dict[Path, KeptChunk], url: str
) -> Iterator[tuple[str, KeptChunk]]:
    """Return the chunks and lengths of a log, merged with older entries: names, and entries.

    Where the unit was stored in between, an entry stays by itself: the store has it, and newer
    elements over it perhaps, or another client has replaced that.

    Parameters
    ----------
    saved : entries by their own files, the oldest first; those that are merged are taken out.
    url : of what was mounted.
    """
    known = [(key, chunk.details) for (key, _), chunk in contents.chunks.items()]
    logged = [(*place, "stored", chunk) for place, chunk in contents.chunks.items()]
    for number, (key, details) in enumerate(contents.grown.items()):
        if not any(at == key and each.grown(details) == each for at, each in known):
            longer = Logged(f"length-{number}-{quoted(key)}", details, 0)
            logged.append((key, details.index, "settled", longer))
    at: dict[_Place, list[KeptChunk]] = {}
    for each in saved.values():
        at.setdefault((each.key, each.details.index), []).append(each)
    for key, index, voided, chunk in logged:
        details = chunk.details
        basis = contents.basis(key, details.unit)
        there = at.get((key, index), []) if chunk.pieces else []
        older = [
            each
            for each in there
            if each.details.is_like(details) and each.written_ns >= basis.written_ns
        ]
        for each in older:
            del saved[each.files[0]]
            details = details.grown(each.details)
        yield (
            chunk.name,
            KeptChunk(
                url=url,
                key=key,
                reason=older[-1].reason if older else KILLED,
                saved_at=contents.written_at,
                files=tuple(path for each in older for path in each.files),
                voiding={"is": voided, "key": key, "index": index},
                details=details,
                basis=basis.since(min([chunk.written_ns, *(each.written_ns for each in older)])),
                pieces=(
                    *(piece for each in older for piece in each.pieces),
                    *(piece for _, piece in chunk.pieces),
                ),
            ),
        )


def logs_in(directory: Path) -> list[Path]:
    """Return the files of the log of a mount, in order; it makes no links and pipes."""
    numbered = [
        path
        for path in directory.glob(f"{BEFORE}*")
        if path.suffix[1:].isdecimal() and stat.S_ISREG(path.lstat().st_mode)
    ]
    return sorted(numbered, key=lambda path: int(path.suffix[1:]))


def _numbers(given: Any) -> tuple[int, ...]:
    return tuple(map(int, given))
