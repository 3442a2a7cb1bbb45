"""What a store said of its documents and prefixes, believed for a while."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from nczfs.engine.options import EngineOptions
from nczfs.engine.pools import Pools
from nczfs.errors import BadMetadata, NczfsError, NoSuchObject
from nczfs.formats.base import MetadataFormat, Node
from nczfs.zmap.base import ABSENT, Entry, Stat, Version, ZMap
from nczfs.zmap.keys import Key, Prefix, join

NEAR_TTL_S = 1.0  # asking a local disk again costs microseconds
LISTED_ENTRIES_MAX = 300_000  # names kept of all listings together; about 400 bytes each
DOCUMENT_BYTES_KEPT_MAX = 64 << 20
USUAL_DOCUMENT_BYTES = 8 << 20  # a larger one is measured before it is read whole
SHORT_LISTING = 1000  # names that come with one request


@dataclass(frozen=True, slots=True)
class Document:
    """The answer to one question: the bytes of an object, or that it is absent."""

    data: bytes | None
    version: Version
    mtime_ns: int | None
    checked_at: float


@dataclass(frozen=True, slots=True)
class _Listing:
    entries: dict[str, Entry]
    checked_at: float


class MetadataCache:
    """Documents and one-level listings of one store.

    Only answers are kept, never failures to answer. `_lock` guards the two dicts and is not held
    while the store is asked.
    """

    def __init__(
        self,
        zmap: ZMap,
        options: EngineOptions,
        pools: Pools,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.zmap = zmap
        self.far = not zmap.features.near
        self.ttl_s = options.metadata_ttl_s if self.far else min(options.metadata_ttl_s, NEAR_TTL_S)
        self._pools = pools
        self._clock = clock
        self._lock = threading.Lock()
        self._documents: dict[Key, Document] = {}
        self._listings: dict[Prefix, _Listing] = {}
        self._listed = 0
        self._changes = 0
        self._document_bytes = 0

    def get(self, key: Key, bytes_max: int, name: str | None = None) -> Document:
        """A document, asked for when it is not known or was not asked for lately.

        Parameters
        ----------
        name : what messages call it; None: by the name of the store and its key.

        Raises
        ------
        BadMetadata : it is larger than `bytes_max`.
        StoreError : the store could not be asked.
        """
        found = self._documents.get(key)
        if found is not None and self._fresh(found.checked_at):
            return found
        try:
            usual = min(bytes_max, USUAL_DOCUMENT_BYTES)
            blob = self.zmap.read(key, 0, usual)
            if usual < blob.object_size <= bytes_max:
                blob = self.zmap.read(key, 0, bytes_max + 1)
        except NoSuchObject:
            document = Document(None, ABSENT, None, self._clock())
        else:
            if blob.object_size > bytes_max:
                raise BadMetadata(
                    f"{name or f'{self.zmap.name}/{key}'}: a document of {blob.object_size} bytes "
                    f"is not read (limit {bytes_max})"
                )
            document = Document(bytes(blob.data), blob.version, blob.mtime_ns, self._clock())
        self._keep(key, document)
        return document

    def fetch(self, keys: Iterable[Key], bytes_max: int) -> None:
        """Ask for several documents at once, where a request is a round trip.

        A failure is left to the `get` that needs the document.
        """
        if not self.far:
            return
        wanted = [
            key
            for key in dict.fromkeys(keys)
            if (found := self._documents.get(key)) is None or not self._fresh(found.checked_at)
        ]
        if len(wanted) < 2:
            return

        def ask(key: Key) -> None:
            try:
                self.get(key, bytes_max)
            except NczfsError:
                return

        for future in [self._pools.fetch.submit(ask, key) for key in wanted]:
            future.result()

    def version(self, key: Key) -> Version | None:
        """The version of what is known of a document, None when nothing is."""
        found = self._documents.get(key)
        return found.version if found is not None else None

    def write(self, key: Key, data: bytes, replaces: Version) -> None:
        """Replace a version of a document, where the store can; nobody asks for it then.

        Raises
        ------
        Conflict, ObjectExists : there is another version. StoreError.
        """
        version = self.zmap.write(key, data, replaces=replaces)
        known = self._documents.get(key)
        self._keep(key, Document(data, version, time.time_ns(), self._clock()))
        if known is None or known.data is None:
            self._forget_listings_of(key)

    def changed(self, key: Key) -> None:
        """Ask anew for an object that may have changed, or for a prefix that may have come or gone.

        Of what is known to have happened, `stored` and `deleted` tell; they ask for nothing.
        """
        with self._lock:
            self._changes += 1
            self._drop_document(key)
        self._forget_listings_of(key)

    def stored(self, stat: Stat) -> None:
        """Note that an object was stored, and what it is."""
        prefix, _, name = stat.key.rpartition("/")
        with self._lock:
            self._changes += 1
            self._drop_document(stat.key)
            self._list(Prefix(prefix), name, stat)
            while prefix:
                prefix, _, name = prefix.rpartition("/")
                self._list(Prefix(prefix), name, None)

    def deleted(self, key: Key) -> None:
        """Note that an object was deleted."""
        prefix, _, name = key.rpartition("/")
        with self._lock:
            self._changes += 1
            self._drop_document(key)
            listing = self._listings.get(Prefix(prefix))
            if listing is not None and (entry := listing.entries.pop(name, None)) is not None:
                if entry.is_prefix:
                    listing.entries[name] = Entry(name, None, is_prefix=True)
                else:
                    self._listed -= 1
            is_left = listing is not None and listing.entries
        if not is_left:
            self._forget_listings_of(Key(prefix))

    def ask_again(self, keys: Iterable[Key]) -> None:
        """Forget some documents."""
        with self._lock:
            for key in keys:
                self._drop_document(key)

    def is_fresh(self, key: Key, version: Version) -> bool:
        """Whether `get` would answer from memory, and with that version."""
        found = self._documents.get(key)
        return found is not None and found.version == version and self._fresh(found.checked_at)

    def entries(self, prefix: Prefix) -> Iterator[Entry]:
        """The names below a prefix, from memory or page by page from the store."""
        if (listing := self._fresh_listing(prefix)) is not None:
            with self._lock:
                known = list(listing.entries.values())
            yield from known
            return
        started_at, changes = self._clock(), self._changes
        entries: dict[str, Entry] = {}
        for entry in self.zmap.search(prefix):
            if len(entries) < LISTED_ENTRIES_MAX:
                entries[entry.name] = entry
            yield entry
        if len(entries) < LISTED_ENTRIES_MAX and changes == self._changes:
            self._keep_listing(prefix, _Listing(entries, started_at))

    def known_entry(self, prefix: Prefix, name: str) -> tuple[bool, Entry | None]:
        """Whether a fresh listing of `prefix` is in memory, and what it says of `name`."""
        listing = self._fresh_listing(prefix)
        if listing is None:
            return False, None
        return True, listing.entries.get(name)

    def list_again(self, prefix: Prefix) -> None:
        """List a prefix whose listing is too old, where that is one request."""
        listing = self._listings.get(prefix)
        if self.far and listing is not None and len(listing.entries) < SHORT_LISTING:
            for _ in self.entries(prefix):
                pass

    def has_keys(self, prefix: Prefix) -> bool:
        """Whether there is any key below a prefix, or its marker; one page of a listing at most."""
        parent, _, name = prefix.rpartition("/")
        known, entry = self.known_entry(Prefix(parent), name) if prefix else (False, None)
        if known and (entry is None or entry.is_prefix):
            return entry is not None
        if not self.zmap.features.markers:
            return next(iter(self.entries(prefix)), None) is not None
        listing = self._fresh_listing(prefix)
        if listing is not None and listing.entries:
            return True
        started_at, changes = self._clock(), self._changes
        exists = self.zmap.exists(prefix)
        if not exists and changes == self._changes:
            self._keep_listing(prefix, _Listing({}, started_at))
        return exists

    def forget(self, prefix: Prefix) -> None:
        """Ask anew for everything at or below a prefix, and for its own entry."""
        below = f"{prefix}/" if prefix else ""
        parent = prefix.rpartition("/")[0]
        with self._lock:
            for key in [k for k in self._documents if k == Key(prefix) or k.startswith(below)]:
                self._drop_document(key)
            for listed in [p for p in self._listings if p == prefix or p.startswith(below)]:
                self._drop_listing(listed)
            if prefix:
                self._drop_listing(Prefix(parent))

    def _forget_listings_of(self, key: Key) -> None:
        """Forget the listings in which a new key, or a prefix of it, appears."""
        above = str(key)
        with self._lock:
            while above:
                above = above.rpartition("/")[0]
                self._drop_listing(Prefix(above))

    def _list(self, prefix: Prefix, name: str, stat: Stat | None) -> None:
        """Have the listing of a prefix, if it is known, name an object (None: a prefix)."""
        listing = self._listings.get(prefix)
        if listing is None:
            return
        known = listing.entries.get(name)
        if known is None:
            self._listed += 1
            listing.entries[name] = Entry(name, stat, is_prefix=stat is None)
        elif stat is not None:
            listing.entries[name] = Entry(name, stat, is_prefix=known.is_prefix)
        elif not known.is_prefix:
            listing.entries[name] = Entry(name, known.stat, is_prefix=True)

    def _fresh(self, checked_at: float) -> bool:
        return self._clock() - checked_at < self.ttl_s

    def _fresh_listing(self, prefix: Prefix) -> _Listing | None:
        listing = self._listings.get(prefix)
        return listing if listing is not None and self._fresh(listing.checked_at) else None

    def _keep(self, key: Key, document: Document) -> None:
        with self._lock:
            self._drop_document(key)
            self._documents[key] = document
            self._document_bytes += len(document.data or b"")
            while self._document_bytes > DOCUMENT_BYTES_KEPT_MAX and len(self._documents) > 1:
                self._drop_document(next(iter(self._documents)))

    def _drop_document(self, key: Key) -> None:
        dropped = self._documents.pop(key, None)
        if dropped is not None:
            self._document_bytes -= len(dropped.data or b"")

    def _keep_listing(self, prefix: Prefix, listing: _Listing) -> None:
        with self._lock:
            self._drop_listing(prefix)
            self._listings[prefix] = listing
            self._listed += len(listing.entries)
            while self._listed > LISTED_ENTRIES_MAX and len(self._listings) > 1:
                self._drop_listing(next(iter(self._listings)))

    def _drop_listing(self, prefix: Prefix) -> None:
        dropped = self._listings.pop(prefix, None)
        if dropped is not None:
            self._listed -= len(dropped.entries)


class StoreDocuments:
    """The documents of one dataset, as the formats see them, with a record of what was read.

    `used` lists every key that `get` was asked for, so that a node can be kept while none of the
    documents that it was made of has changed.
    """

    def __init__(self, cache: MetadataCache, root: Prefix, bytes_max: int) -> None:
        self._cache = cache
        self._root = root
        self._bytes_max = bytes_max
        self.used: dict[Key, Version] = {}
        self.mtime_ns: int | None = None
        self.place = "/".join(part for part in (cache.zmap.name, root) if part)

    def get(self, key: str) -> bytes | None:
        full = join(self._root, key)
        document = self._cache.get(full, self._bytes_max, key)
        self.used[full] = document.version
        times = [time for time in (self.mtime_ns, document.mtime_ns) if time is not None]
        self.mtime_ns = max(times, default=None)
        return document.data

    def node(self, metadata_format: MetadataFormat, path: str) -> Node | None:
        """The node at a path; None also for a root of which there is no document at all.

        Raises
        ------
        MetadataError : its documents cannot be read.
        """
        node = metadata_format.read_node(path, self)
        return None if all(version == ABSENT for version in self.used.values()) else node

    def fetch(self, keys: Iterable[str]) -> None:
        self._cache.fetch((join(self._root, key) for key in keys), self._bytes_max)
