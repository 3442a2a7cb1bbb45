"""Cached documents and listings of a store."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import Final, NamedTuple, TypeVar, cast

from nczfs.engine.metadata.knownversions import Inquiry, KnownVersion, KnownVersions
from nczfs.engine.metadata.ledger import Ledger, Shelf
from nczfs.engine.metadata.listings import Listings
from nczfs.engine.metadata.recent import RecentNode, RecentNodes
from nczfs.engine.metadata.turns import FETCHING, PARSING, take
from nczfs.engine.options import EngineOptions
from nczfs.engine.pools import Pools
from nczfs.errors import (
    BadMetadata,
    CorruptStore,
    KeyTooLong,
    NczfsError,
    NoSuchObject,
    StoreError,
)
from nczfs.formats.base import FormatOptions, MetadataFormat, Node
from nczfs.formats.problems import Problems
from nczfs.formats.registry import FORMATS
from nczfs.model.hierarchy import Variable
from nczfs.zmap.base import ABSENT, Entry, Stat, Version, ZMap
from nczfs.zmap.keys import Key, Prefix, is_key, join, relative

NEAR_TTL_S: Final = 1.0  # asking a local disk again costs microseconds
PROMPT_TTL_S: Final = 1.0  # with no longer TTL, opening a file shows what was stored before
USUAL_DOCUMENT_BYTES: Final = 1 << 20  # a larger document is measured before it is read whole
GROUP_BYTES_LEAST: Final = 64 << 20  # of all nodes of a group that is read whole
BROKEN_KEYS_MAX: Final = 10_000  # looked at below one node
LEDGER_SHARE: Final = 4  # metadata may take up to a quarter of the memory

T = TypeVar("T")


class Document(NamedTuple):
    """The answer to one request: the bytes of an object, or that it is absent."""

    data: bytes | None
    version: Version
    mtime_ns: int | None
    checked_at: float


class MetadataCache:
    """Documents and one-level listings of one store.

    Only answers are cached, never failures, and only as the ledger has room for them. An answer is
    not cached if the document was changed here while it was on its way.

    Parameters
    ----------
    ledger : of the engine; None: a new one.

    Attributes
    ----------
    recent : the nodes that were read last, whose documents are compared before they are used again.
    changes : how often something was forgotten, or changed otherwise than by edits of datasets.
    """

    def __init__(
        self,
        zmap: ZMap,
        options: EngineOptions,
        pools: Pools,
        clock: Callable[[], float] = time.monotonic,
        ledger: Ledger | None = None,
    ) -> None:
        self.zmap = zmap
        self.far = not zmap.features.near
        self.ttl_s = options.metadata_ttl_s if self.far else min(options.metadata_ttl_s, NEAR_TTL_S)
        self.is_prompt = self.ttl_s <= PROMPT_TTL_S
        self.group_bytes_max = max(GROUP_BYTES_LEAST, options.memory_limit_bytes)
        self.ledger = ledger or Ledger(options.memory_limit_bytes // LEDGER_SHARE)
        self._pools = pools
        self._clock = clock
        self._listings = Listings(zmap, self.ledger, self.ttl_s, clock)
        self._answers = KnownVersions(self.ledger)
        self._bodies: Shelf[Key, tuple[Version, bytes]] = Shelf(self.ledger)
        self.recent = RecentNodes()
        self.changes = 0
        self._derived: Shelf[tuple[Prefix, str], tuple[object, object]] = Shelf(self.ledger)
        # A listing takes a request or two and shows what is missing, so one listing replaces
        # requests for each document that might exist.
        self.lists_ahead = self.far and zmap.features.lists_sizes

    def get(self, key: Key, bytes_max: int, name: str | None = None) -> Document:
        """Return a document, which is requested if it is unknown or too old.

        Parameters
        ----------
        name : for messages; None: the name of the store and the key.

        Raises
        ------
        BadMetadata : the document is larger than `bytes_max`, or the store has it, but not its
            bytes.
        StoreError : the store could not be reached.
        """
        answer = self._fresh_answer(key) or self._confirmed(key)
        if answer is not None:
            if answer.version == ABSENT:
                return Document(None, ABSENT, None, answer.checked_at)
            body = self._bodies.get(key)
            if body is not None and body[0] == answer.version:
                take(len(body[1]))
                return Document(body[1], answer.version, answer.mtime_ns, answer.checked_at)
        inquiry = self._answers.begin(key)
        try:
            return self._requested(inquiry, bytes_max, name)
        finally:
            self._answers.end(inquiry)

    def stamp(self, key: Key, bytes_max: int, name: str | None = None) -> Document:
        """Return the version of a document as `get` does, without a request for evicted bytes."""
        answer = self._fresh_answer(key) or self._confirmed(key)
        if answer is None:
            document = self.get(key, bytes_max, name)
            return Document(None, document.version, document.mtime_ns, document.checked_at)
        return Document(None, answer.version, answer.mtime_ns, answer.checked_at)

    def with_broken(self, node: Node | None, prefix: Prefix) -> Node | None:
        """Return a node whose problems name the objects of it that the store cannot read.

        Of a group these are only its own, not those of its members.
        """
        if node is None:
            return None
        problems = Problems()
        start = len(prefix) + 1 if prefix else 0
        for key, why in islice(self.zmap.broken(prefix), BROKEN_KEYS_MAX):
            if isinstance(node, Variable) or "/" not in key[start:]:
                problems.add(f"{key}: {why}")
        found = problems.as_tuple()
        return replace(node, problems=(*node.problems, *found)) if found else node

    def fetch(self, bytes_max: Mapping[Key, int], level: Prefix | None = None) -> None:
        """Request several documents of a far store at once.

        A failure is left to the `get` that needs the document.

        Parameters
        ----------
        bytes_max : by the keys of the documents.
        level : a prefix whose names are needed as well, as far as they come with one request.
        """

        def ask(key: Key) -> None:
            with FETCHING.visit(), suppress(NczfsError):
                self.get(key, bytes_max[key])

        wanted = [key for key in bytes_max if not self._is_here(key)]
        look = level is not None and self.lists_ahead
        if len(wanted) + look < 2:
            if look and level is not None:
                self._listings.glance(level)
            return
        asked: list[Future[None]] = []
        if look and level is not None:
            asked.append(self._pools.ask.submit(self._listings.glance, level))
        asked += [self._pools.ask.submit(ask, key) for key in wanted]
        for future in asked:
            future.result()

    def fetch_names(self, prefixes: Iterable[Prefix]) -> None:
        """List several prefixes at once, if a request is a round trip."""
        if not self.lists_ahead:
            return
        for future in [self._pools.ask.submit(self._listings.glance, p) for p in prefixes]:
            future.result()

    def lacks(self, key: Key) -> bool:
        """Return whether it is known that there is no such document. Makes no request."""
        answer = self._fresh_answer(key)
        return answer is not None and answer.version == ABSENT

    def version(self, key: Key) -> Version | None:
        """Return the known version of a document; None if nothing is known."""
        answer = self._answers.get(key)
        return answer.version if answer is not None else None

    def write(self, key: Key, data: bytes, replaces: Version) -> Version:
        """Replace a version of a document, if the store can. Later `get`s make no request.

        Returns
        -------
        the new version.

        Raises
        ------
        Conflict, ObjectExists : there is another version. StoreError.
        """
        inquiry = self._answers.begin(key)
        try:
            version = self.zmap.write(key, data, replaces=replaces)
            self._bodies.put(key, (version, data), len(data))
            self._answers.written(inquiry, KnownVersion(version, time.time_ns(), self._clock()))
        finally:
            self._answers.end(inquiry)
            if replaces == ABSENT:  # also if only the answer was lost
                self._listings.forget_above(key)
        return version

    def remove(self, key: Key, version: Version) -> None:
        """Remove a version of a document, as part of an edit. Raises Conflict, StoreError."""
        try:
            with suppress(NoSuchObject):
                self.zmap.delete(key, version=version)
        finally:
            self.changed(key, is_edit=True)

    def changed(self, key: Key, *, is_edit: bool = False) -> None:
        """Forget an object that may have changed, or a prefix that may have appeared or gone.

        Use `stored` and `deleted` for known changes; they cause no requests.

        Parameters
        ----------
        is_edit : it is part of an edit of a dataset, which knows of it.
        """
        self.changes += not is_edit
        self._answers.outdate(key)
        self._listings.forget_above(key)

    def stored(self, stat: Stat) -> None:
        """Note that an object was stored, and what it is."""
        self.changes += 1
        self._answers.outdate(stat.key)
        self._listings.stored(stat)

    def deleted(self, key: Key) -> None:
        """Note that an object was deleted."""
        self.changes += 1
        self._answers.outdate(key)
        self._listings.deleted(key)

    def ask_again(self, keys: Iterable[Key]) -> None:
        """Forget what is known of some documents."""
        for key in keys:
            self._answers.outdate(key)
            if self.lists_ahead:  # a listing may say that there is none
                self._listings.forget_level(key)

    def is_fresh(self, key: Key, version: Version) -> bool:
        """Return whether it is known that a document has that version. Makes no request."""
        answer = self._fresh_answer(key)
        return answer is not None and answer.version == version

    def entries(self, prefix: Prefix) -> Iterator[Entry]:
        """Yield the names below a prefix, from memory or page by page from the store."""
        return self._listings.entries(prefix)

    def known_entry(self, prefix: Prefix, name: str) -> tuple[bool, Entry | None]:
        """Return whether it is known what `name` is below `prefix`, and what. Makes no request."""
        return self._listings.known_entry(prefix, name)

    def shows(self, key: Key) -> bool:
        """Return whether there is an object, as far as no round trip is needed to know."""
        prefix, _, name = key.rpartition("/")
        is_known, entry = self.known_entry(Prefix(prefix), name)
        if is_known or self.far:
            return entry is not None and entry.stat is not None
        try:
            self.zmap.stat(key)
        except StoreError:
            return False
        return True

    def names_at_hand(self, prefix: Prefix) -> list[str]:
        """Return the names of the prefixes below one; of a far store, as far as they are known."""
        return self.known_names(prefix) if self.far else self.prefix_names(prefix)

    def prefix_names(self, prefix: Prefix) -> list[str]:
        """Return the names of the prefixes below one."""
        return [entry.name for entry in self.entries(prefix) if entry.is_prefix]

    def possible_names(self, prefix: Prefix) -> list[str]:
        """Return the names of the prefixes below one, and perhaps of some without keys."""
        is_known = self.far or self._listings.is_known(prefix)
        return self.prefix_names(prefix) if is_known else list(self.zmap.prefixes(prefix))

    def known_names(self, prefix: Prefix) -> list[str]:
        """Return the known names of the prefixes below one. Makes no request."""
        return self._listings.known_names(prefix)

    def list_again(self, prefix: Prefix) -> None:
        """List a prefix again if its listing is too old and that takes one request."""
        if self.far:
            self._listings.list_again(prefix)

    def has_keys(self, prefix: Prefix) -> bool:
        """Return whether a prefix has a key below it, or a marker. Lists one page at most."""
        return self._listings.has_keys(prefix)

    def forget(self, prefix: Prefix) -> None:
        """Forget everything at or below a prefix, and its own entry."""
        self.changes += 1
        self._answers.outdate_within(prefix)
        self._listings.forget(prefix)

    def derived(
        self, root: Prefix, name: str, made_of: object, make: Callable[[], tuple[T, int]]
    ) -> T:
        """Return the result of `make`, cached as long as its sources are the same.

        Parameters
        ----------
        root : of the dataset that the result belongs to.
        name : of the result, unique within the dataset.
        make : returns the result and its approximate size in bytes.
        """
        known = self._derived.get((root, name))
        if known is not None and known[0] == made_of:
            return cast(T, known[1])
        value, nbytes = make()
        self._derived.put((root, name), (made_of, value), nbytes)
        return value

    def _requested(self, inquiry: Inquiry, bytes_max: int, name: str | None) -> Document:
        """Return a document as the store has it. Parameters and errors are those of `get`."""
        key, asked_at = inquiry.key, self._clock()
        place = f"{self.zmap.name}/{key}"
        try:
            usual = min(bytes_max, USUAL_DOCUMENT_BYTES)
            blob = self.zmap.read(key, 0, usual)
            if usual < blob.object_size <= bytes_max:
                take(blob.object_size)
                blob = self.zmap.read(key, 0, bytes_max + 1)
        except NoSuchObject:
            self._keep(inquiry, KnownVersion(ABSENT, None, asked_at), None)
            return Document(None, ABSENT, None, asked_at)
        except CorruptStore as error:
            raise BadMetadata(
                f"{name or place}: {str(error).removeprefix(f'{place}: ')}"
            ) from error
        if blob.object_size > bytes_max:
            raise BadMetadata(
                f"{name or place}: a document of {blob.object_size} bytes "
                f"is not read (limit {bytes_max})"
            )
        data = bytes(blob.data)
        self._keep(inquiry, KnownVersion(blob.version, blob.mtime_ns, asked_at, len(data)), data)
        return Document(data, blob.version, blob.mtime_ns, asked_at)

    def _is_here(self, key: Key) -> bool:
        """Return whether `get` would make no request."""
        answer = self._fresh_answer(key)
        if answer is None or answer.version == ABSENT:
            return answer is not None
        body = self._bodies.get(key)
        return body is not None and body[0] == answer.version

    def _fresh_answer(self, key: Key) -> KnownVersion | None:
        """Return what is known of a document; None if it must be requested."""
        answer = self._answers.get(key)
        if answer is not None and self._clock() - answer.checked_at < self.ttl_s:
            return answer
        since = self._listings.absent_since(key) if self.lists_ahead else None
        return None if since is None else KnownVersion(ABSENT, None, since)

    def _confirmed(self, key: Key) -> KnownVersion | None:
        """Confirm an old answer, if comparing the document takes less time than reading it."""
        answer = self._answers.get(key)
        if answer is None or answer.size <= USUAL_DOCUMENT_BYTES:
            return None
        inquiry, asked_at = self._answers.begin(key), self._clock()
        try:
            if self.zmap.stat(key).version != answer.version:
                return None
            confirmed = answer._replace(checked_at=asked_at)
            self._answers.take(inquiry, confirmed)
        except NoSuchObject:
            return None
        finally:
            self._answers.end(inquiry)
        return confirmed

    def _keep(self, inquiry: Inquiry, answer: KnownVersion, data: bytes | None) -> None:
        key = inquiry.key
        self._answers.take(inquiry, answer)
        if data is not None:
            self._bodies.put(key, (answer.version, data), len(data))
        elif not inquiry.is_outdated:
            self._bodies.pop(key)


class StoreDocuments:
    """The documents of one dataset, as formats see them, with a record of what was read.

    Attributes
    ----------
    used : every key that was requested, with its version, so that a node can be cached while none
        of its documents changes.
    mtime_ns : of the newest of them; None if the store has no times.
    nbytes : of those that were read whole.
    """

    def __init__(self, cache: MetadataCache, root: Prefix, options: FormatOptions) -> None:
        self._cache = cache
        self._root = root
        self._options = options
        self.used: dict[Key, Version] = {}
        self.mtime_ns: int | None = None
        self.nbytes = 0

    @property
    def place(self) -> str:
        """The URL of the dataset, for messages."""
        return "/".join(filter(None, (self._cache.zmap.name, self._root)))

    def get(self, key: str) -> bytes | None:
        full = join(self._root, key)
        document = self._cache.get(full, FORMATS.bytes_max(self._options, key), key)
        self._note(full, document)
        self.nbytes += len(document.data or b"")
        return document.data

    def possible(self, key: str) -> bytes | None:
        """Return the document with a name that another one gives; None if no store can have it."""
        try:
            return self.get(key) if is_key(key) else None
        except KeyTooLong:
            return None

    def is_unknown_or_absent(self, key: str) -> bool:
        """Return whether no version of a document was ever seen, or it was missing last."""
        return self._cache.version(join(self._root, key)) in (None, ABSENT)

    def derived(self, name: str, keys: Iterable[str], make: Callable[[], tuple[T, int]]) -> T:
        versions = [self.version(join(self._root, key)) for key in keys]
        return self._cache.derived(self._root, name, versions, make)

    def node(self, metadata_format: MetadataFormat, path: str) -> Node | None:
        """Return the node at a path; None also for a root without any document.

        Raises
        ------
        MetadataError : its documents cannot be read.
        """
        recent = self._cache.recent
        known = recent.get(self._root, path, metadata_format)
        if known is not None and all(self.version(key) == at for key, at in known.used.items()):
            return known.node
        own = StoreDocuments(self._cache, self._root, self._options)
        try:
            with PARSING.visit():
                node = metadata_format.read_node(path, own)
        finally:
            self._include(own)
        if all(version == ABSENT for version in own.used.values()):
            node = None
        recent.note(self._root, path, RecentNode(node, metadata_format, own.used), own.nbytes)
        return node

    def fetch(self, keys: Iterable[str], *, level: bool = False) -> None:
        """Request several documents at once, if a request is a round trip, for a later `get`.

        Parameters
        ----------
        level : request the names at the root, too, if they come with one request.
        """
        if not self._cache.far:
            return
        bytes_max = {join(self._root, key): FORMATS.bytes_max(self._options, key) for key in keys}
        self._cache.fetch(bytes_max, self._root if level else None)

    def lacks(self, key: str) -> bool:
        """Return whether it is known that there is no such document. Makes no request."""
        return self._cache.lacks(join(self._root, key))

    def version(self, key: Key) -> Version:
        """Return the version of a document, given its whole key. Raises as `get`."""
        name = relative(key, self._root)
        document = self._cache.stamp(key, FORMATS.bytes_max(self._options, name), name)
        self._note(key, document)
        return document.version

    def _include(self, other: StoreDocuments) -> None:
        self.used |= other.used
        self._see(other.mtime_ns)

    def _note(self, key: Key, document: Document) -> None:
        self.used[key] = document.version
        self._see(document.mtime_ns)

    def _see(self, mtime_ns: int | None) -> None:
        if mtime_ns is not None and (self.mtime_ns is None or mtime_ns > self.mtime_ns):
            self.mtime_ns = mtime_ns
