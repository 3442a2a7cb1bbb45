"""Directories of references as kerchunk writes them in parquet.

``.zmetadata`` holds the documents and says how many references a file has; the reference of a
chunk is a row of ``VARIABLE/refs.N.parq``. The files are read when they are needed, with pyarrow,
which is not installed with nczfs by itself.
"""

from __future__ import annotations

import json
import posixpath
import re
import threading
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

from nczfs.errors import BadKey, BadMetadata, CorruptStore, NoSuchObject, UsageError
from nczfs.zmap.base import Blob, ZMap
from nczfs.zmap.keys import Key, Prefix, join, parse_key
from nczfs.zmap.reference_table import WHOLE, Reference, Table, TableBuilder

METADATA = Key(".zmetadata")
DOCUMENT_BYTES_MAX = 256 << 20
PARTS_KEPT = 8
RECORD_SIZE_MAX = 10_000_000
PARTS_MAX = 100_000  # of an array

_COLUMNS = ("path", "offset", "size", "raw")
_NUMBER = re.compile(r"0|[1-9][0-9]{0,17}")
_HAS_PROTOCOL = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*:")


@dataclass(frozen=True, slots=True)
class _Grid:
    """The chunks of an array: how many there are along each dimension."""

    counts: tuple[int, ...]
    separator: str

    def index(self, name: str) -> int | None:
        """The position of a chunk in the order of rows; None: it is no chunk of this array."""
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
        """The name of the chunk at a position."""
        words: list[str] = []
        for count in reversed(self.counts):
            index, number = divmod(index, count)
            words.append(str(number))
        return self.separator.join(reversed(words)) if words else "0"


class ParquetReferences:
    """References by key. `_lock` guards the files that are kept, not the reading of one.

    Parameters
    ----------
    store : holds the directory.
    document : the content of its ``.zmetadata``.
    where : the directory is, for messages.

    Raises
    ------
    UsageError : pyarrow is not installed.
    BadMetadata : ``.zmetadata`` does not describe references.
    """

    def __init__(self, store: ZMap, document: bytes, where: str) -> None:
        self._store = store
        self._where = where
        self._arrow = _pyarrow(where)
        self._documents, self._grids, self._record_size = _described(document, where)
        self._lock = threading.Lock()
        self._parts: OrderedDict[Key, Any] = OrderedDict()

    def find(self, key: str) -> Reference | None:
        """The reference of a key."""
        found = self._documents.find(key)
        if found is not None:
            return found
        parent, slash, name = key.partition("/")
        while slash:
            grid = self._grids.get(parent)
            if grid is not None:
                index = grid.index(name)
                return self._row(parent, index) if index is not None else None
            word, slash, name = name.partition("/")
            parent = f"{parent}/{word}"
        return None

    def below(self, prefix: Prefix) -> Iterator[tuple[Key, Reference]]:
        """All references below a prefix."""
        yield from self._documents.below(prefix)
        for path, grid in self._grids.items():
            if not prefix or path == prefix or path.startswith(f"{prefix}/"):
                for name, found in self._chunks(path, grid):
                    yield join(path, name), found

    def children(self, prefix: Prefix) -> Iterator[tuple[str, Reference | None, bool]]:
        """Names of the next level: the reference of that name, and whether others are below it."""
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

    def _chunks(self, path: str, grid: _Grid) -> Iterator[tuple[str, Reference]]:
        """The chunks of an array that have a reference, by name."""
        for start in range(0, prod(grid.counts), self._record_size):
            part = self._part(_file(path, start // self._record_size))
            for index in range(start, start + (part.num_rows if part is not None else 0)):
                found = self._row(path, index)
                if found is not None:
                    yield grid.name(index), found

    def _row(self, path: str, index: int) -> Reference | None:
        """The reference of a chunk; None where it was never written."""
        number, row = divmod(index, self._record_size)
        key = _file(path, number)
        part = self._part(key)
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
            raise CorruptStore(f"{self._where}/{key}: row {row} has an absurd range")
        return Reference(index, None, url, offset, size)

    def _part(self, key: Key) -> Any:
        """The rows of a file; None where there is no such file."""
        with self._lock:
            if key in self._parts:
                self._parts.move_to_end(key)
                return self._parts[key]
        try:
            part = self._parsed(key, bytes(read_bounded(self._store, key).data))
        except NoSuchObject:
            part = None
        with self._lock:
            self._parts[key] = part
            while len(self._parts) > PARTS_KEPT:
                self._parts.popitem(last=False)
        return part

    def _parsed(self, key: Key, body: bytes) -> Any:
        arrow = self._arrow
        where = f"{self._where}/{key}"
        try:
            file = arrow.parquet.ParquetFile(arrow.BufferReader(body))
            if file.metadata.num_rows > self._record_size:
                raise CorruptStore(
                    f"{where}: has {file.metadata.num_rows} rows, and should have at most "
                    f"{self._record_size}"
                )
            if missing := [name for name in _COLUMNS if name not in file.schema_arrow.names]:
                raise CorruptStore(f"{where}: has no column {missing[0]!r}")
            part = file.read(columns=list(_COLUMNS))
            types = (arrow.string(), arrow.int64(), arrow.int64(), arrow.binary())
            return (
                part.select(_COLUMNS)
                .cast(arrow.schema(list(zip(_COLUMNS, types, strict=True))))
                .combine_chunks()
            )
        except (arrow.ArrowException, OSError) as error:
            raise CorruptStore(f"{where}: cannot be read as parquet: {error}") from error


def _file(path: str, number: int) -> Key:
    return join(path, f"refs.{number}.parq")


def read_bounded(store: ZMap, key: Key) -> Blob:
    """An object that is read whole, when it is not too large for that."""
    blob = store.read(key, 0, DOCUMENT_BYTES_MAX)
    if blob.object_size > DOCUMENT_BYTES_MAX:
        raise BadMetadata(
            f"{store.name}/{key}: {blob.object_size} bytes of references are not read (limit "
            f"{DOCUMENT_BYTES_MAX})"
        )
    return blob


def _pyarrow(where: str) -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise UsageError(
            f"{where}: references in parquet need pyarrow: pip install 'nczfs[parquet]'"
        ) from error
    return pyarrow


def _described(document: bytes, where: str) -> tuple[Table, dict[str, _Grid], int]:
    """The documents that ``.zmetadata`` holds, the grids of the arrays, rows in a file."""
    try:
        content = json.loads(document)
        metadata, record_size = content["metadata"], content["record_size"]
        if type(record_size) is not int or not 0 < record_size <= RECORD_SIZE_MAX:
            raise ValueError(f"a record_size of {record_size!r}"[:80])
        builder = TableBuilder()
        grids: dict[str, _Grid] = {}
        for name, value in metadata.items():
            key = parse_key(name)
            builder.add_bytes(key, json.dumps(value, separators=(",", ":")).encode())
            path, _, last = key.rpartition("/")
            if last == ".zarray":
                grids[path] = _grid(value, record_size * PARTS_MAX)
        builder.add_bytes(
            METADATA, json.dumps({"metadata": metadata, "zarr_consolidated_format": 1}).encode()
        )
    except (LookupError, AttributeError, TypeError, ValueError, RecursionError, BadKey) as error:
        raise BadMetadata(
            f"{where}/{METADATA}: does not describe references in parquet: {error}"
        ) from error
    return builder.build(), grids, record_size


def _grid(array: Any, chunks_max: int) -> _Grid:
    shape, chunks = array["shape"], array["chunks"]
    if len(shape) != len(chunks) or not all(
        type(number) is int and number >= least
        for numbers, least in ((shape, 0), (chunks, 1))
        for number in numbers
    ):
        raise ValueError("an array has no shape with chunks")
    counts = tuple(-(-size // chunk) for size, chunk in zip(shape, chunks, strict=True))
    if prod(counts) > chunks_max:
        raise ValueError("an array has an absurd number of chunks")
    return _Grid(counts, "/" if array.get("dimension_separator") == "/" else ".")
