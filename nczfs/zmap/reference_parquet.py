"""Directories of references as kerchunk writes them in parquet.

One document holds all others and says how many references a file has; the reference of a chunk is a
row of ``VARIABLE/refs.N.parq``. The files are read on demand with pyarrow, which nczfs
does not install by default.
"""

from __future__ import annotations

import json
import logging
import posixpath
import re
import threading
from collections import OrderedDict
from collections.abc import Iterator
from math import prod
from typing import Any

from nczfs.buffers import Buffer
from nczfs.errors import (
    BadKey,
    BadMetadata,
    CorruptStore,
    NoSuchObject,
    Unsupported,
    UsageError,
)
from nczfs.messages import installing, size_text
from nczfs.plaindata import frozen
from nczfs.zmap.base import Blob, ZMap
from nczfs.zmap.documents import ParquetDocuments
from nczfs.zmap.jsonparts import JsonParts
from nczfs.zmap.keys import Key, Prefix, join, parse_key
from nczfs.zmap.reference_pages import expanded_bytes
from nczfs.zmap.reference_table import WHOLE, ExpansionLimit, Reference, Table, TableBuilder

DOCUMENT_BYTES_MAX = 256 << 20
PARTS_KEPT = 8
PARTS_SHARE = 4  # of the memory limit, the largest for a file and for all cached files: a quarter
RECORD_SIZE_MAX = 10_000_000
SMALL_PART_BYTES = 1 << 20  # of a file; the rest is read while no other one is parsed
PARTS_MAX = 100_000  # limit for an array
ARRAY_BYTES_MAX = 4 << 20  # limit for the document of an array
DIMENSIONS_MAX = 64

_log = logging.getLogger(__name__)
_COLUMNS = ("path", "offset", "size", "raw")
# Other encodings expand beyond what a file states, such as prefixes shared with the text before.
_ENCODINGS = frozenset(
    {"PLAIN", "RLE", "BIT_PACKED", "PLAIN_DICTIONARY", "RLE_DICTIONARY", "DELTA_BINARY_PACKED"}
)
_ROW_BYTES = 24  # two integers, and two positions of texts
_NUMBER = re.compile(r"0|[1-9][0-9]{0,17}")
_CHUNK = re.compile(r"[0-9]+(?:[./][0-9]+)*")
_UNKNOWN = object()
_HAS_PROTOCOL = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*:")


@frozen
class _Grid:
    """The grid of an array: the number of chunks along each dimension."""

    counts: tuple[int, ...]
    separator: str

    def index(self, name: str) -> int | None:
        """Return the position of a chunk in the order of rows; None: not a chunk of this array."""
        words = name.split(self.separator) if self.counts else []
        if not self.counts:
            return 0 if name == "0" else None
        if len(words) != len(self.counts) or not all(map(_NUMBER.fullmatch, words)):
            return None
        index = 0
        for word, count in zip(words, self.counts, strict=True):
            if int(word) >= count:
                return None
            index = index * count + int(word)
        return index

    def name(self, index: int) -> str:
        """Return the name of the chunk at a position."""
        words: list[str] = []
        for count in reversed(self.counts):
            index, number = divmod(index, count)
            words.append(str(number))
        return self.separator.join(reversed(words)) if words else "0"


class ParquetReferences:
    """References by key. `_lock` guards the cached files; `_parsing` lets one be parsed at a time.

    An array whose chunks cannot be counted is refused alone: reading any of its chunks is an error.

    Parameters
    ----------
    store : contains the directory.
    document : the contents of the one that holds all others.
    where : the place of the directory, for messages.
    form : of the documents.
    limit_bytes : of the document and what it expands to; a quarter of it is the limit of the cached
        files.

    Raises
    ------
    UsageError : pyarrow is not installed.
    BadMetadata : the document does not describe references.
    """

    def __init__(
        self,
        store: ZMap,
        document: Buffer,
        where: str,
        form: ParquetDocuments,
        limit_bytes: int,
    ) -> None:
        self._store = store
        self._where = where
        self._arrow = _pyarrow(where)
        described = _described(document, where, form, limit_bytes)
        self._documents = described.documents
        self._grids = described.grids
        self._refused = described.refused
        self._record_size = described.record_size
        self._array = form.array
        self._parts_bytes_max = limit_bytes // PARTS_SHARE
        self._lock = threading.Lock()
        self._parsing = threading.Lock()
        self._parts: OrderedDict[Key, Any] = OrderedDict()

    def find(self, key: str) -> Reference | None:
        """Return the reference of a key."""
        found = self._documents.find(key)
        if found is not None:
            return found
        parent, slash, name = key.partition("/")
        while slash:
            grid = self._grids.get(parent)
            if grid is not None:
                index = grid.index(name)
                return self._row(parent, index) if index is not None else None
            if parent in self._refused and _CHUNK.fullmatch(name):
                return Reference(0, None, problem=self._refused[parent])
            word, slash, name = name.partition("/")
            parent = f"{parent}/{word}"
        return None

    def below(self, prefix: Prefix) -> Iterator[tuple[Key, Reference]]:
        """Yield all references below a prefix."""
        yield from self._documents.below(prefix)
        for path, grid in self._grids.items():
            if not prefix or path == prefix or path.startswith(f"{prefix}/"):
                for name, found in self._chunks(path, grid):
                    yield join(path, name), found

    def children(self, prefix: Prefix) -> Iterator[tuple[str, Reference | None, bool]]:
        """Yield names of the next level with their references, and whether others are below."""
        yield from self._documents.children(prefix)
        grid = self._grids.get(prefix)
        if grid is None:
            return
        seen: set[str] = set()
        for name, found in self._chunks(prefix, grid):
            head, slash, _ = name.partition("/")
            if not slash:
                yield head, found, False
            elif head not in seen:
                seen.add(head)
                yield head, None, True

    def broken_below(self, prefix: Prefix) -> Iterator[tuple[Key, str]]:
        """Yield the documents of arrays that are refused. Files are read only when needed."""
        for path, problem in self._refused.items():
            key = join(path, self._array)
            if not prefix or key.startswith(f"{prefix}/"):
                yield key, problem

    @property
    def memory_bytes(self) -> int:
        """About what the documents take, and at most what the cached files take."""
        return self._documents.memory_bytes + self._parts_bytes_max

    def _chunks(self, path: str, grid: _Grid) -> Iterator[tuple[str, Reference]]:
        """Yield the chunks of an array that have a reference, by name."""
        count = prod(grid.counts)
        for start in range(0, count, self._record_size):
            part = self._part(_file(path, start // self._record_size))
            rows = 0 if part is None else self._record_size
            if part is not None and not isinstance(part, str):
                rows = part.num_rows
            for index in range(start, min(start + rows, count)):
                found = self._row(path, index)
                if found is not None:
                    yield grid.name(index), found

    def _row(self, path: str, index: int) -> Reference | None:
        """Return the reference of a chunk; None if it was never written."""
        number, row = divmod(index, self._record_size)
        key = _file(path, number)
        part = self._part(key)
        if isinstance(part, str):
            return Reference(index, None, problem=part)
        if part is None or row >= part.num_rows:
            return None
        url, offset, size, data = (part.column(name)[row].as_py() for name in _COLUMNS)
        if data is not None:
            return Reference(index, bytes(data), size=len(data))
        if not url:
            return None
        if not _HAS_PROTOCOL.match(url):
            url = posixpath.join(path, url)  # relative to the file that names it
        if not offset and not size:
            return Reference(index, None, url, 0, WHOLE)
        if offset is None or size is None or offset < 0 or size < 0:
            return Reference(index, None, problem=f"row {row} of {key} has an impossible range")
        return Reference(index, None, url, offset, size)

    def _part(self, key: Key) -> Any:
        """Return the rows of a file, or why they cannot be read; None if there is no such file."""
        if (known := self._cached(key)) is not _UNKNOWN:
            return known
        part: Any = None
        try:
            small = self._store.read(key, 0, SMALL_PART_BYTES)
        except NoSuchObject:
            small = None
        with self._parsing:
            if (known := self._cached(key)) is not _UNKNOWN:
                return known
            if small is not None:
                part = self._read(key, small)
            with self._lock:
                self._parts[key] = part
                while len(self._parts) > 1 and not self._fit():
                    self._parts.popitem(last=False)
        return part

    def _cached(self, key: Key) -> Any:
        """Return the known rows of a file, or `_UNKNOWN`."""
        with self._lock:
            if key not in self._parts:
                return _UNKNOWN
            self._parts.move_to_end(key)
            return self._parts[key]

    def _read(self, key: Key, begin: Blob) -> Any:
        """Read the beginning of a file. Returns its rows, or why they cannot be read."""
        try:
            if begin.object_size > len(begin.data):
                begin = read_bounded(self._store, key, self._parts_bytes_max)
            return self._parsed(key, begin.data)
        except NoSuchObject:
            return None
        except (BadMetadata, CorruptStore) as error:
            return str(error).removeprefix(f"{self._where}/")

    def _fit(self) -> bool:
        """Return whether the cached files are few and small enough."""
        sizes = [part.nbytes for part in self._parts.values() if hasattr(part, "nbytes")]
        return len(self._parts) <= PARTS_KEPT and sum(sizes) <= self._parts_bytes_max

    def _parsed(self, key: Key, body: Buffer) -> Any:
        arrow = self._arrow
        where = f"{self._where}/{key}"
        try:
            file = arrow.parquet.ParquetFile(arrow.BufferReader(body))
            if file.metadata.num_rows > self._record_size:
                raise CorruptStore(
                    f"{where}: has {file.metadata.num_rows} rows, and should have at most "
                    f"{self._record_size}"
                )
            columns = {file.schema.column(i).path for i in range(len(file.schema.names))}
            if missing := [name for name in _COLUMNS if name not in columns]:
                raise CorruptStore(f"{where}: has no column {missing[0]!r}")
            _check_size(file.metadata, body, where, self._parts_bytes_max)
            # Equal texts of many rows are in memory once, since in the file, too, a million rows
            # may take a few bytes.
            file = arrow.parquet.ParquetFile(
                arrow.BufferReader(body), metadata=file.metadata, read_dictionary=["path", "raw"]
            )
            part = file.read(columns=list(_COLUMNS)).select(_COLUMNS)
            if part.nbytes > self._parts_bytes_max:
                raise _too_much(where, self._parts_bytes_max)
            return part.cast(self._schema(part)).combine_chunks()
        except (arrow.ArrowException, OSError) as error:
            raise CorruptStore(f"{where}: cannot be read as parquet: {error}") from error

    def _schema(self, part: Any) -> Any:
        """Return the required types of the columns."""
        arrow = self._arrow
        types = {
            "path": arrow.string(),
            "offset": arrow.int64(),
            "size": arrow.int64(),
            "raw": arrow.binary(),
        }
        for name in ("path", "raw"):
            if arrow.types.is_dictionary(part.schema.field(name).type):
                types[name] = arrow.dictionary(arrow.int32(), types[name])
        return arrow.schema([(name, types[name]) for name in _COLUMNS])


def _check_size(metadata: Any, body: Buffer, where: str, bytes_max: int) -> None:
    """Raise if the columns are too large according to the file itself: its footer, and its pages.

    The footer counts the rows several times, too, and the library believes each number.
    """
    size = metadata.num_rows * _ROW_BYTES
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    if sum(group.num_rows for group in groups) != metadata.num_rows:
        raise CorruptStore(f"{where}: has other rows than its groups")
    for group in groups:
        for column in map(group.column, range(group.num_columns)):
            if column.path_in_schema not in _COLUMNS:
                continue
            if not _ENCODINGS.issuperset(column.encodings):
                raise CorruptStore(f"{where}: has an encoding that is not supported")
            if column.num_values != group.num_rows:
                raise CorruptStore(f"{where}: has other rows than its columns")
            start = column.data_page_offset
            if column.dictionary_page_offset is not None:
                start = min(start, column.dictionary_page_offset)
            try:
                pages = expanded_bytes(body, start, start + column.total_compressed_size)
            except ValueError as error:
                raise CorruptStore(f"{where}: {error}") from error
            size += max(column.total_uncompressed_size, pages)
    if size > bytes_max:
        raise _too_much(where, bytes_max)


def _too_much(where: str, bytes_max: int) -> CorruptStore:
    return CorruptStore(
        f"{where}: its references come to more than a quarter of the memory limit "
        f"({size_text(bytes_max)})"
    )


def _file(path: str, number: int) -> Key:
    return join(path, f"refs.{number}.parq")


def read_bounded(store: ZMap, key: Key, limit_bytes: int) -> Blob:
    """Read a whole object, unless it is too large for references."""
    limit_bytes = min(limit_bytes, DOCUMENT_BYTES_MAX)
    blob = store.read(key, 0, limit_bytes)
    if blob.object_size > limit_bytes:
        raise BadMetadata(
            f"{store.name}/{key}: {blob.object_size} bytes of references are not read (limit "
            f"{limit_bytes})"
        )
    return blob


def _pyarrow(where: str) -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise UsageError(
            f"{where}: references in parquet need pyarrow: {installing('parquet')}"
        ) from error
    return pyarrow


@frozen
class _Described:
    """The contents of the document that holds all others.

    Attributes
    ----------
    grids : of the arrays.
    refused : why the chunks of other arrays cannot be counted.
    record_size : rows of a file.
    """

    documents: Table
    grids: dict[str, _Grid]
    refused: dict[str, str]
    record_size: int


def _described(
    document: Buffer, where: str, form: ParquetDocuments, limit_bytes: int
) -> _Described:
    budget = ExpansionLimit(limit_bytes)
    builder = TableBuilder(budget)
    grids: dict[str, _Grid] = {}
    refused: dict[str, str] = {}
    metadata: list[bytes] = []
    dropped = 0
    record_size: Any = None
    parts = JsonParts(document)

    def add(name: str, at: int) -> int:
        nonlocal dropped
        try:
            key = parse_key(name)
        except BadKey:
            dropped += 1
            return parts.end_of(at)
        path, _, last = key.rpartition("/")
        if last in form.unreferenced:
            raise Unsupported(f"{key}: only arrays with a {form.array} have references in parquet")
        if last == form.array:
            try:
                grids[path] = _grid(*form.lengths_of(parts.value(at, ARRAY_BYTES_MAX)[0]))
            except (LookupError, AttributeError, TypeError, ValueError, RecursionError) as error:
                refused[path] = f"its chunks have no references: {error}"
        data, at = parts.raw(at)
        builder.add_bytes(key, data)
        metadata.append(b"%s:%s" % (json.dumps(key).encode(), data))
        return at

    def member(name: str, at: int) -> int:
        nonlocal record_size
        if name == "metadata":
            return parts.members(at, add)
        if name == "record_size":
            record_size, at = parts.value(at, 20)
            return at
        return parts.end_of(at)

    try:
        budget.spend(2 * len(document))  # the text, and the consolidated copy
        parts.check_end(parts.members(parts.begin(), member))
        if type(record_size) is not int or not 0 < record_size <= RECORD_SIZE_MAX:
            raise ValueError(f"a record_size of {record_size!r}"[:80])
        for path, grid in list(grids.items()):
            if prod(grid.counts) > record_size * PARTS_MAX:
                refused[path] = "its chunks have no references: more chunks than there can be"
                del grids[path]
        builder.add_bytes(Key(form.key), form.copy_of(metadata))
    except (LookupError, AttributeError, TypeError, ValueError, RecursionError) as error:
        raise BadMetadata(
            f"{where}/{form.key}: does not describe references in parquet: {error}"
        ) from error
    except Unsupported as error:
        raise Unsupported(f"{where}/{form.key}: {error}") from error
    if dropped:
        _log.warning("%s: left out %d documents whose keys are not valid", where, dropped)
    return _Described(builder.build(), grids, refused, record_size)


def _grid(shape: Any, chunks: Any, separator: str) -> _Grid:
    if not len(shape) == len(chunks) <= DIMENSIONS_MAX or not all(
        type(number) is int and number >= least
        for numbers, least in ((shape, 0), (chunks, 1))
        for number in numbers
    ):
        raise ValueError("an array has no shape with chunks")
    counts = tuple(-(-size // chunk) for size, chunk in zip(shape, chunks, strict=True))
    return _Grid(counts, separator)
