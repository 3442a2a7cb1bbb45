"""The names below a prefix of a web server, for which HTTP has no request.

Index pages come first: they are reliable, and name chunks. Without them, the consolidated metadata
of the dataset name its groups, arrays and documents.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

from nczfs.buffers import Buffer
from nczfs.errors import (
    AccessDenied,
    BadKey,
    DeadlinePassed,
    NamesUnknown,
    NoSuchObject,
    OutOfDescriptors,
    ServerFailed,
    StoreError,
    Unavailable,
)
from nczfs.plaindata import frozen
from nczfs.zmap.base import Entry, Stat, Version, ZMap
from nczfs.zmap.documents import InlineCopies, KnownDocuments
from nczfs.zmap.http_listing import LISTING_BYTES_MAX, ListedName, parse_listing
from nczfs.zmap.http_transport import HttpRequest, HttpTransport
from nczfs.zmap.jsonparts import JsonParts
from nczfs.zmap.keys import ROOT, Key, Prefix, is_name, join, parse_key, relative
from nczfs.zmap.leaving_out import without_failures
from nczfs.zmap.parallel import in_parallel
from nczfs.zmap.web.headers import version_of

DOCUMENT_BYTES_MAX: Final = 64 << 20
SAMPLES: Final = 3  # files that are requested to see how the server makes its versions


@frozen
class _NoListing:
    """What the server does instead of sending an index page, as a verb."""

    answer: str


@frozen
class _Named:
    """What consolidated metadata name.

    Attributes
    ----------
    root : of the dataset that they are of.
    names : the keys of documents below it.
    arrays : the paths of arrays below it.
    """

    root: Prefix
    names: frozenset[str]
    arrays: frozenset[str]


class NameFinder:
    """A finder of names, and of sizes and versions of objects.

    Parameters
    ----------
    zmap : the store, for documents.
    stat : returns the `Stat` of an object that was listed.
    documents : what is known of the documents of formats.
    """

    def __init__(
        self,
        zmap: ZMap,
        transport: HttpTransport,
        stat: Callable[[Key], Stat],
        documents: KnownDocuments,
    ) -> None:
        self._documents = documents
        self._zmap = zmap
        self._transport = transport
        self._stat = stat
        self._lists: bool | None = None  # whether the server has index pages; None: unknown
        self._shows_dots = False  # whether they show names that begin with a dot

    def search(self, prefix: Prefix) -> Iterator[Entry]:
        """Search as `ZMap.search` does.

        Raises
        ------
        NamesUnknown : the server has no index page, and there are no consolidated metadata, or
            they do not contain the answer.
        """
        return without_failures(self._entries(prefix), self._transport.where(prefix))

    def _entries(self, prefix: Prefix) -> Iterator[Entry | StoreError]:
        listed = self._listing(prefix)
        hides_dots = not isinstance(listed, _NoListing) and not self._shows_dots
        if isinstance(listed, _NoListing):
            listed = self._consolidated(prefix, listed)
        directories = {entry.name for entry in listed if entry.is_directory}
        later = directories & {entry.name for entry in listed if not entry.is_directory}
        yield from (Entry(name, None, True) for name in directories - later)
        for stat in self._stats(prefix, listed):
            if isinstance(stat, StoreError):
                yield stat
                continue
            name = stat.key.rpartition("/")[2]
            yield Entry(name, stat, name in directories)
            later.discard(name)
        yield from (Entry(name, None, True) for name in later)
        if hides_dots:
            for stat in self._unlisted(prefix):
                yield Entry(stat.key.rpartition("/")[2], stat, False)

    def _listing(self, prefix: Prefix) -> list[ListedName] | _NoListing:
        """Return the names of the index page, if there is one."""
        directory = f"{prefix}/" if prefix else ""
        where = self._transport.where(directory)
        answer = self._transport.send(HttpRequest("GET", directory, limit=LISTING_BYTES_MAX))
        if answer.status == 401:
            raise AccessDenied(f"{where}: access denied (401) to the listing")
        if answer.status == 404 and prefix and self._has_listings():
            return []
        if answer.status != 200:
            return _NoListing(f"answers {answer.status}")
        kind = answer.headers.get("content-type", "")
        found = parse_listing(answer.body, kind, f"{self._transport.root_url}/{directory}")
        if found is None:
            what = "an HTML page" if kind.startswith("text/html") else "a file"
            return _NoListing(f"sends {what} that is no listing")
        self._lists = True
        self._shows_dots |= any(entry.name.startswith(".") for entry in found)
        return found

    def _has_listings(self) -> bool:
        if self._lists is None:
            self._lists = not isinstance(self._listing(ROOT), _NoListing)
        return self._lists

    def _unlisted(self, prefix: Prefix) -> Iterator[Stat]:
        """Yield the entries of documents that an index page may omit, if the server has them.

        nginx never lists names that begin with a dot.
        """
        usual, others = (
            [ListedName(name, False) for name in names if name.startswith(".")]
            for names in (self._documents.usual, self._documents.others)
        )
        found = False
        for stat in self._asked(prefix, usual):
            if isinstance(stat, Stat):
                found = True
                yield stat
        if found:
            yield from (s for s in self._asked(prefix, others) if isinstance(s, Stat))

    def _stats(self, prefix: Prefix, listed: list[ListedName]) -> Iterator[Stat | StoreError]:
        """Yield the `Stat` of existing objects."""
        files = [entry for entry in listed if not entry.is_directory]
        exact = {e.name: e for e in files if e.size is not None and e.mtime_s is not None}
        samples = self._asked(prefix, list(islice(exact.values(), SAMPLES)))
        first = next((stat for stat in samples if isinstance(stat, Stat)), None)
        if first is not None:
            form = _form_of(first, exact[first.key.rpartition("/")[2]])
            if form is not None:
                for entry in exact.values():
                    yield _made(join(prefix, entry.name), entry, form)
                files = [entry for entry in files if entry.name not in exact]
        yield from self._asked(prefix, files)

    def _asked(self, prefix: Prefix, files: list[ListedName]) -> Iterator[Stat | StoreError]:
        """Return what the server says about existing files, or its failures.

        Raises
        ------
        Unavailable, DeadlinePassed : the server cannot be reached.
        """

        def ask(entry: ListedName) -> Stat | StoreError | None:
            try:
                return self._stat(join(prefix, entry.name))
            except NoSuchObject:
                return None
            except ServerFailed as error:
                return error
            except (Unavailable, DeadlinePassed, OutOfDescriptors):
                raise
            except StoreError as error:
                return error

        return (stat for stat in in_parallel(ask, files) if stat is not None)

    def _consolidated(self, prefix: Prefix, instead: _NoListing) -> list[ListedName]:
        """Return the names in the metadata of the dataset around a prefix."""
        found = self._metadata_around(prefix)
        if found is None:
            raise NamesUnknown(
                f"{self._transport.where(prefix)}: the names are unknown: the server lists no "
                f"directories (it {instead.answer}), and there are no consolidated metadata; "
                + (
                    self._transport.s3_hint
                    or "is the URL right? If it is, switch listings on in the server (autoindex), "
                    "or give the URL of a dataset"
                )
            )
        names = found.names
        inner = relative(prefix, found.root)
        above = inner
        while above:
            if above in found.arrays:
                raise NamesUnknown(
                    f"{self._transport.where(prefix)}: the chunks cannot be listed: the "
                    "server lists no directories, and consolidated metadata do not name chunks"
                )
            above = above.rpartition("/")[0]
        below = f"{inner}/" if inner else ""
        listed: dict[str, ListedName] = {}
        for name in names:
            if name.startswith(below):
                child, slash, _ = name[len(below) :].partition("/")
                if is_name(child):
                    entry = ListedName(child, bool(slash))
                    listed[f"{child}{slash}"] = entry
        return list(listed.values())

    def _metadata_around(self, prefix: Prefix) -> _Named | None:
        at = prefix
        inline = self._documents.inline
        while True:
            for name in self._documents.copies:
                if (body := self._document(join(at, name))) is not None:
                    keys = _names_in(body, self._transport.where(join(at, name)))
                    return _Named(at, keys | {name}, self._arrays(keys))
            if inline is not None and (body := self._document(join(at, inline.document))):
                nodes = _nodes_in(body, inline)
                if nodes:
                    keys = frozenset(f"{path}/{inline.document}" for path in nodes)
                    arrays = frozenset(path for path, is_array in nodes.items() if is_array)
                    return _Named(at, keys | {inline.document}, arrays)
            if not at:
                return None
            at = Prefix(at.rpartition("/")[0])

    def _arrays(self, keys: frozenset[str]) -> frozenset[str]:
        """Return the paths of the arrays that some keys of documents are of."""
        split = (key.rpartition("/") for key in keys)
        return frozenset(path for path, _, name in split if name in self._documents.arrays)

    def _document(self, key: Key) -> Buffer | None:
        """Return a document; None: there is none."""
        try:
            blob = self._zmap.read(key, 0, DOCUMENT_BYTES_MAX)
        except NoSuchObject:
            return None
        where = self._transport.where(key)
        if blob.object_size > DOCUMENT_BYTES_MAX:
            raise StoreError(f"{where}: over {DOCUMENT_BYTES_MAX} bytes, which is not read")
        return blob.data


def _names_in(body: Buffer, where: str) -> frozenset[str]:
    """Return the keys that a consolidated document names; their values are skipped."""
    names: set[str] = set()
    found = False

    def name(text: str, at: int) -> int:
        if _is_key(text):
            names.add(text)
        return parts.end_of(at)

    def member(text: str, at: int) -> int:
        nonlocal found
        if text != "metadata":
            return parts.end_of(at)
        found = True
        return parts.members(at, name)

    parts = JsonParts(body)
    try:
        parts.check_end(parts.members(parts.begin(), member))
    except ValueError:
        found = False
    if not found:
        raise StoreError(f"{where}: is not a document of Zarr")
    return frozenset(names)


def _nodes_in(body: Buffer, inline: InlineCopies) -> dict[str, bool]:
    """Return the paths of the nodes of which a document has those, and which are arrays.

    There are none in a document of another kind.
    """
    found: dict[str, bool] = {}
    parts = JsonParts(body)

    def node(path: str, at: int) -> int:
        is_array = False

        def mark(name: str, at: int) -> int:
            nonlocal is_array
            if name == inline.array[0] and parts.is_text(at):
                is_array = parts.string(at)[0] == inline.array[1]
            return parts.end_of(at)

        if not parts.is_object(at):
            return parts.end_of(at)
        end = parts.members(at, mark)
        if _is_key(path):
            found[path] = is_array
        return end

    def within(at: int, members: tuple[str, ...]) -> int:
        def member(name: str, at: int) -> int:
            is_wanted = bool(members) and name == members[0] and parts.is_object(at)
            return within(at, members[1:]) if is_wanted else parts.end_of(at)

        return parts.members(at, member if members else node)

    try:
        within(parts.begin(), inline.members)
    except ValueError:
        return {}
    return found


def _is_key(text: str) -> bool:
    try:
        parse_key(text)
    except BadKey:
        return False
    return True


@frozen
class _Form:
    """How a server's versions follow from time and size: nginx's ETag, or only a date."""

    version: Callable[[int, int], Version]


_FORMS = (
    _Form(lambda mtime_s, size: Version(f'"{mtime_s:x}-{size:x}"')),
    _Form(lambda mtime_s, size: version_of("", mtime_s * 1_000_000_000, size)),
)


def _form_of(stat: Stat, entry: ListedName) -> _Form | None:
    """Return the form that a requested object shows."""
    return next((form for form in _FORMS if _made(stat.key, entry, form) == stat), None)


def _made(key: Key, entry: ListedName, form: _Form) -> Stat:
    assert entry.size is not None
    assert entry.mtime_s is not None
    version = form.version(entry.mtime_s, entry.size)
    return Stat(key, entry.size, version, entry.mtime_s * 1_000_000_000)
