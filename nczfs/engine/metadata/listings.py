"""Cached listings of the names below prefixes of a store."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain, islice
from typing import Final

from nczfs.engine import headway
from nczfs.engine.metadata.ledger import Ledger, Shelf
from nczfs.errors import NczfsError, StoreError
from nczfs.plaindata import frozen
from nczfs.zmap.base import Entry, Stat, ZMap
from nczfs.zmap.keys import Key, Prefix, is_within, join, relative

log = logging.getLogger(__name__)

LISTED_ENTRIES_MAX: Final = 300_000  # cached names of one prefix
SHORT_LISTING: Final = 1000  # names that come with one request
_ENTRY_BYTES: Final = 400
_RECENT_MAX: Final = 4096


@frozen
class _Listing:
    """Names below a prefix.

    Attributes
    ----------
    checked_at : when the search for them began.
    changes : how many changes had been noted then.
    kept : how many listings with names had been kept then.
    rest : searches for the other names; None: these are all.
    """

    entries: dict[str, Entry]
    checked_at: float
    changes: int
    kept: int
    rest: Callable[[], Iterator[Entry]] | None = None

    @property
    def is_whole(self) -> bool:
        """Whether these are all names."""
        return self.rest is None


class Listings:
    """One-level listings of one store.

    Only answers are cached, never failures. No listing lacks a prefix of which a newer one shows
    names. `_lock` guards the entries of the listings and the counts, and is not held during
    requests to the store; who looks up a name takes no lock.

    Parameters
    ----------
    ttl_s : for how long an answer stays valid.
    """

    def __init__(
        self, zmap: ZMap, ledger: Ledger, ttl_s: float, clock: Callable[[], float]
    ) -> None:
        self._zmap = zmap
        self._ttl_s = ttl_s
        self._clock = clock
        self._lock = threading.Lock()
        self._listings: Shelf[Prefix, _Listing] = Shelf(ledger)
        self._changes = self._kept = 0
        self._recent: deque[Prefix] = deque(maxlen=_RECENT_MAX)  # kept last, with names

    def entries(self, prefix: Prefix) -> Iterator[Entry]:
        """Yield the names below a prefix, from memory or page by page from the store."""
        listing, found = self._fresh(prefix), None
        known: dict[str, Entry] = {}
        if listing is not None:
            with self._lock:
                known = dict(listing.entries)
            yield from known.values()
            if listing.rest is None:
                return
            if listing.changes == self._changes:  # or what is left may lack what was changed
                found = self._others(listing.rest)
        if listing is not None and found is not None:
            begun = replace(listing, entries=dict(known), rest=None)
        else:
            begun, found = self._begun(), self._zmap.search(prefix)
        names = begun.entries
        is_kept = len(names) < LISTED_ENTRIES_MAX
        for entry in found:
            seen = names.get(entry.name)
            if seen is None and entry.name not in known:
                yield entry
            if is_kept:
                names[entry.name] = entry if seen is None else _merged(seen, entry)
                headway.make()
                if not (is_kept := len(names) < LISTED_ENTRIES_MAX):
                    names.clear()
        if is_kept:
            self._keep(prefix, begun)

    def _others(self, rest: Callable[[], Iterator[Entry]]) -> Iterator[Entry] | None:
        """Search for names where a glance has ended; None: the store cannot go on there."""
        found = rest()
        try:
            first = next(found, None)
        except StoreError as error:
            if error.transient:
                raise
            log.info("%s: a listing begins again: %s", self._zmap.name, error)
            return None
        return iter(()) if first is None else chain([first], found)

    def glance(self, prefix: Prefix) -> None:
        """List the names below a prefix with one request, unless they are known.

        A failure is left to those who need the names.
        """
        if self._fresh(prefix) is not None:
            return
        begun = self._begun()
        try:
            found, rest = self._zmap.glance(prefix)
        except NczfsError:
            return
        begun.entries.update((entry.name, entry) for entry in found)
        self._keep(prefix, replace(begun, rest=rest))

    def known_entry(self, prefix: Prefix, name: str) -> tuple[bool, Entry | None]:
        """Return whether it is known what `name` is below `prefix`, and what it is."""
        listing = self._fresh(prefix)
        if listing is None:
            return False, None
        entry = listing.entries.get(name)
        return listing.is_whole or entry is not None, entry

    def is_known(self, prefix: Prefix) -> bool:
        """Return whether all names below a prefix are known. Makes no request."""
        listing = self._fresh(prefix)
        return listing is not None and listing.is_whole

    def known_names(self, prefix: Prefix) -> list[str]:
        """Return the known names of the prefixes below one. Makes no request."""
        listing = self._fresh(prefix)
        if listing is None:
            return []
        with self._lock:
            return [entry.name for entry in listing.entries.values() if entry.is_prefix]

    def absent_since(self, key: Key) -> float | None:
        """Return when a listing showed that a key has no object; None: it may have one."""
        prefix, _, name = key.rpartition("/")
        listing = self._fresh(Prefix(prefix))
        if listing is None or not listing.is_whole:
            return None
        entry = listing.entries.get(name)
        return listing.checked_at if entry is None or entry.stat is None else None

    def list_again(self, prefix: Prefix) -> None:
        """List a prefix again if its listing is too old and that takes one request."""
        listing = self._listings.get(prefix)
        if listing is not None and listing.is_whole and len(listing.entries) < SHORT_LISTING:
            for _ in self.entries(prefix):
                pass

    def has_keys(self, prefix: Prefix) -> bool:
        """Return whether a prefix has a key below it, or a marker. Lists one page at most."""
        begun = self._begun()
        parent, _, name = prefix.rpartition("/")
        known, entry = self.known_entry(Prefix(parent), name) if prefix else (False, None)
        if known and (entry is None or entry.is_prefix):
            return entry is not None
        listing = self._fresh(prefix)
        if listing is not None and listing.entries:
            return True
        if not self._zmap.features.markers:
            return next(iter(self.entries(prefix)), None) is not None
        exists = self._zmap.exists(prefix)
        if not exists:
            self._keep(prefix, begun)
        return exists

    def stored(self, stat: Stat) -> None:
        """Note that an object was stored, and what it is."""
        *above, last = stat.key.split("/")
        with self._lock:
            self._changes += 1
            at = Prefix("")
            for name in above:
                below = Prefix(join(at, name))
                if (known := self._nothing_below(below)) is not None:
                    self._listings.put(below, known, 0)  # the listing now has everything there is
                self._name(at, name, None)
                at = below
            self._name(at, last, stat)

    def deleted(self, key: Key) -> None:
        """Note that an object was deleted."""
        prefix, _, name = key.rpartition("/")
        with self._lock:
            self._changes += 1
            listing = self._listings.get(Prefix(prefix))
            if listing is not None and (entry := listing.entries.get(name)) is not None:
                if entry.is_prefix:
                    listing.entries[name] = Entry(name, None, is_prefix=True)
                else:
                    del listing.entries[name]
                    self._listings.grow(Prefix(prefix), -_ENTRY_BYTES)
            is_left = listing is not None and listing.entries
        if not is_left:
            self.forget_above(Key(prefix))

    def forget(self, prefix: Prefix) -> None:
        """Forget the names below a prefix, and its own."""
        self._note_change()
        self._listings.discard([each for each in self._listings if is_within(each, prefix)])
        if prefix:
            self.forget_level(Key(prefix))

    def forget_level(self, key: Key) -> None:
        """Forget the listing that contains a key, and those above that show nothing there."""
        self._note_change()
        level = above = Prefix(key.rpartition("/")[0])
        self._listings.pop(level)
        while above and self._nothing_below(level) is not None:
            above = Prefix(above.rpartition("/")[0])
            self._listings.pop(above)

    def forget_above(self, key: Key) -> None:
        """Forget the listings in which a new key, or a prefix of it, appears."""
        self._note_change()
        above = str(key)
        while above:
            above = above.rpartition("/")[0]
            self._listings.pop(Prefix(above))

    def _name(self, prefix: Prefix, name: str, stat: Stat | None) -> None:
        """Add an object (None: a prefix) to the listing of a prefix, if that is known."""
        listing = self._listings.get(prefix)
        if listing is None:
            return
        known = listing.entries.get(name)
        if known is None:
            listing.entries[name] = Entry(name, stat, is_prefix=stat is None)
            self._listings.grow(prefix, _ENTRY_BYTES)
        elif stat is not None:
            listing.entries[name] = Entry(name, stat, is_prefix=known.is_prefix)
        elif not known.is_prefix:
            listing.entries[name] = Entry(name, known.stat, is_prefix=True)

    def _fresh(self, prefix: Prefix) -> _Listing | None:
        listing = self._listings.get(prefix)
        if listing is not None and self._clock() - listing.checked_at < self._ttl_s:
            return listing
        return self._nothing_below(prefix)

    def _nothing_below(self, prefix: Prefix) -> _Listing | None:
        """Return an empty listing if a parent's listing lacks the prefix; None: it does not."""
        if not prefix:
            return None
        above, _, name = prefix.rpartition("/")
        listing = self._fresh(Prefix(above))
        if listing is None or not listing.is_whole:
            return None
        entry = listing.entries.get(name)
        is_there = entry is not None and entry.is_prefix
        return None if is_there else replace(listing, entries={})

    def _note_change(self) -> None:
        """Note a change, so that listings under way, which may lack it, are not cached."""
        with self._lock:
            self._changes += 1

    def _begun(self) -> _Listing:
        """Return an empty listing, of what is searched from now on."""
        return _Listing({}, self._clock(), self._changes, self._kept)

    def _keep(self, prefix: Prefix, listing: _Listing) -> None:
        """Keep a listing, unless it lacks changes, or a newer one is there."""
        with self._lock:  # or a change comes in between, and is in neither
            known = self._listings.get(prefix)
            is_older = known is not None and known.checked_at > listing.checked_at
            if is_older or listing.changes != self._changes:
                return
            if known is not None and known.checked_at == listing.checked_at:
                # Two have gone on from one glance: what either has found stays known.
                listing = replace(listing, entries={**known.entries, **listing.entries})
            self._add_newer(prefix, listing)
            self._listings.put(prefix, listing, _ENTRY_BYTES * len(listing.entries))
            if listing.entries:
                self._name_above(prefix, listing.checked_at)
                self._kept += 1
                self._recent.append(prefix)

    def _add_newer(self, prefix: Prefix, listing: _Listing) -> None:
        """Add the prefixes to a listing of which newer ones show names."""
        since = self._kept - listing.kept
        is_short = since <= _RECENT_MAX
        others = islice(reversed(self._recent), since) if is_short else iter([*self._listings])
        for other in others:
            if other == prefix or not is_within(other, prefix):
                continue
            newer = self._listings.get(other)
            if newer is not None and newer.entries and newer.checked_at > listing.checked_at:
                name = relative(other, prefix).partition("/")[0]
                found = Entry(name, None, is_prefix=True)
                listing.entries[name] = _merged(listing.entries.get(name, found), found)

    def _name_above(self, prefix: Prefix, as_of: float) -> None:
        """Add a prefix, which has names, to older listings of those that it lies below."""
        while prefix:
            above, _, name = prefix.rpartition("/")
            prefix = Prefix(above)
            listing = self._listings.get(prefix)
            if listing is not None and listing.checked_at < as_of:
                self._name(prefix, name, None)


def _merged(first: Entry, second: Entry) -> Entry:
    """Return the entry of a name that is both, such as an object beside a prefix."""
    is_prefix = first.is_prefix or second.is_prefix
    return Entry(first.name, second.stat or first.stat, is_prefix=is_prefix)
