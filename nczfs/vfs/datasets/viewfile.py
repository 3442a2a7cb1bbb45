"""Views of data as files: opening, reading in order or at random, and the access log."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

from nczfs.buffers import Buffer
from nczfs.engine.arrays.array import now
from nczfs.engine.chunks.storedarray import StoredArray
from nczfs.engine.dataset import Dataset, Engine
from nczfs.engine.metadata.hierarchy import LoadedNode
from nczfs.engine.options import Tally
from nczfs.engine.readahead.backwards import BackwardPages, PageCache
from nczfs.engine.readahead.prefetch import ReadAhead
from nczfs.errors import NczfsError, NotPermitted
from nczfs.model.hierarchy import Variable
from nczfs.plaindata import frozen
from nczfs.vfs.base import AttributeChanges
from nczfs.vfs.datasets.access import Access, AccessLog
from nczfs.vfs.datasets.arrivals import Arrivals
from nczfs.vfs.datasets.editing import TreeEditing
from nczfs.vfs.datasets.hierarchies import Hierarchies
from nczfs.vfs.datasets.netcdfversions import NetcdfVersions
from nczfs.vfs.datasets.refusals import Refusals
from nczfs.vfs.nodes import File, FixedContent, NodeStat, OpenFile, TreeNode
from nczfs.views.base import View
from nczfs.views.layout import Layout
from nczfs.views.reader import read_at, read_if_cached, request


@frozen
class ViewContext:
    """The shared state of all virtual files of a tree.

    Attributes
    ----------
    ttl_s : for how long texts and chunks stay valid without asking the store.
    is_prompt : whether opening a file always shows what others have stored before.
    mtime_ns : of files whose store has no times.
    opened : called when a file with values of a variable is opened.
    refusals : of the last writes.
    netcdf : the netCDF files.
    hierarchies : the texts of the Zarr Object Model.
    editing : of datasets; None if nothing may be changed.
    arrivals : files that come into new directories; None if nothing can be copied into datasets.
    replacement : opens a file that takes new content of the group at a path of a dataset, by the
        name of the group's file, or raises NotPermitted; None: no content is ever replaced.
    has_previews : whether pictures can be made.
    """

    engine: Engine
    ttl_s: float
    is_prompt: bool
    mtime_ns: int
    access_log: AccessLog
    opened: Callable[[Dataset, Variable], None]
    refusals: Refusals
    netcdf: NetcdfVersions
    hierarchies: Hierarchies
    editing: TreeEditing | None = None
    arrivals: Arrivals | None = None
    replacement: Callable[[Dataset, str, str], OpenFile] | None = None
    has_previews: bool = False

    def mtime_ns_of(self, loaded: LoadedNode) -> int:
        """Return the time of the files of a node."""
        return self.mtime_ns if loaded.mtime_ns is None else loaded.mtime_ns

    def check_changes(self, changes: AttributeChanges) -> None:
        """Accept and ignore times; modes and owners only during copies.

        Raises
        ------
        NotPermitted.
        """
        if self.arrivals is None and (changes.mode, changes.uid, changes.gid) != (None,) * 3:
            raise NotPermitted("modes and owners cannot be changed here")

    def load(self, dataset: Dataset, path: str) -> LoadedNode | None:
        """Load a node for a file that is being opened."""
        return dataset.load_now(path) if self.is_prompt else dataset.load(path)

    @property
    def fresh_since(self) -> float:
        """The time since which chunks must have been confirmed for a file that is opened now."""
        return now() if self.is_prompt else now() - self.ttl_s

    def editing_of(self, dataset: Dataset) -> TreeEditing | None:
        """Return the editing of a dataset; None if it is read-only."""
        return self.editing if dataset.zmap.features.writable else None


@frozen
class MadeText:
    """A text that was made.

    Attributes
    ----------
    size : in bytes.
    revision : of the file, from before.
    at : when it was done.
    """

    size: int
    revision: int
    at: float


class ViewFile(File):
    """A computed text as a file.

    `_lock` is held while the text is made, which may block. The text itself is kept as long as the
    ledger of the engine has room for it.

    Parameters
    ----------
    token : equal as long as the text is the same.
    revision : changes with everything that the text depends on.
    synced : called at fsync.
    """

    def __init__(
        self,
        context: ViewContext,
        view: View,
        token: object,
        mtime_ns: int,
        revision: Callable[[], int] = lambda: 0,
        synced: Callable[[], None] = lambda: None,
    ) -> None:
        self._context = context
        self._view = view
        self._synced = synced
        self._token = token
        self._mtime_ns = mtime_ns
        self._lock = threading.Lock()
        self._key = object()
        self._last_made: MadeText | None = None
        self._revision = revision
        self._replacement: Callable[[], OpenFile] | None = None

    @property
    def token(self) -> object:
        return self._token

    def stat(self) -> NodeStat:
        return NodeStat(self._current_size(), self._mtime_ns)

    def stat_if_cached(self) -> NodeStat | None:
        return self.listing_stat() if self._is_current() else None  # making a text takes time

    def listing_stat(self) -> NodeStat:
        if self._view.is_arithmetic or self._is_current():
            return NodeStat(self._current_size(), self._mtime_ns)
        return NodeStat(0, self._mtime_ns, exact=False)

    def succeeds(self, old: TreeNode) -> None:
        """Take over the text of the same file, which each listing of its directory finds anew.

        Where opening a file shows what others have stored, this holds only for texts that follow
        from the documents, whose versions are in the token.
        """
        if not isinstance(old, ViewFile) or old.token != self.token:
            return
        if self._view.is_arithmetic or not self._context.is_prompt:
            self._key, self._last_made = old._key, old._last_made

    def change(self, changes: AttributeChanges) -> None:
        self._context.check_changes(changes)

    def is_replaced_by(self, replacement: Callable[[], OpenFile]) -> None:
        """Let programs truncate the file: `replacement` opens what takes its new content."""
        self._replacement = replacement
        self.writable = self.is_replaceable = True

    def open(self, *, writing: bool = False, truncate: bool = False) -> OpenFile:
        if truncate and self._replacement is not None:
            return self._replacement()
        if writing:
            raise NotPermitted("can only be replaced as a whole")
        return FixedContent(self._current_text(), self._synced)

    def _is_current(self) -> bool:
        return self._current() is not None

    def _current(self) -> MadeText | None:
        """Return what is known of the text; None: it has to be made."""
        made = self._last_made
        if made is None or made.revision != self._revision():
            return None
        is_current = self._view.is_arithmetic or now() - made.at < self._context.ttl_s
        return made if is_current else None

    def _current_size(self) -> int:
        made = self._current()
        return made.size if made is not None else len(self._current_text())

    def _current_text(self) -> bytes:
        """Return the text, made once if it follows from the description, else after its TTL.

        If there was no room to keep the text, it is made again.
        """
        texts = self._context.engine.texts
        with self._lock:
            text = texts.get(self._key) if self._is_current() else None
            if text is None:
                revision = self._revision()
                text = self._view.layout().text()
                texts.put(self._key, text, len(text))
                self._last_made = MadeText(len(text), revision, now())
            return text


class _AccountedPages(PageCache):
    """The kernel's pages of a file; what is put there counts as read."""

    def __init__(self, pages: PageCache, access: Access) -> None:
        self._pages = pages
        self._access = access

    @property
    def fresh_since(self) -> float:
        return self._pages.fresh_since

    @property
    def takes_pages(self) -> bool:
        return self._pages.takes_pages

    def begin(self) -> object | None:
        return self._pages.begin()

    def put(self, ticket: object, offset: int, data: Buffer) -> bool:
        is_put = self._pages.put(ticket, offset, data)
        if is_put:
            self._access.answered(offset, len(data))
        return is_put


class OpenView(OpenFile):
    """An open layout. It becomes longer with the file, and is the same otherwise until the close.

    The kernel takes the end of what is read for the end of the file: no answer is shorter than it
    because of records that were added since the open (Linux, fs/fuse/file.c: fuse_short_read).

    `_lock` is held while the layout or what is read ahead is replaced, and while the file is
    closed.

    Parameters
    ----------
    fresh_since : chunks that were last confirmed before that time are confirmed again.
    store : stores everything that was written to the shown arrays.
    present : returns the layout that the file has if it is opened now.

    Attributes
    ----------
    layout : what is open.
    """

    def __init__(
        self,
        engine: Engine,
        layout: Layout,
        access: Access,
        fresh_since: float,
        store: Callable[[], None],
        present: Callable[[], Layout],
    ) -> None:
        self._engine = engine
        self.layout = layout
        self._present = present
        self._access = access
        self._fresh_since = fresh_since
        self._store = store
        self._tally: Tally = access.tally
        self._pages: PageCache | None = None
        self._lock = threading.Lock()
        self._looked_at = StoredArray.last_revision
        self._ahead_of = layout.revision
        self._ahead = self._new_ahead()

    def puts_pages(self, pages: PageCache) -> None:
        self._pages = _AccountedPages(pages, self._access)
        self._ahead = self._new_ahead()

    def follow(self, present: Callable[[], Layout]) -> None:
        """Let the layout be the present one."""
        with self._lock:
            layout = present()
            if layout is not self.layout and not self._ahead.is_closed:
                self.layout, old = layout, self._ahead
                self._ahead, self._ahead_of = self._new_ahead(), layout.revision
                old.close()

    def read_if_cached(self, offset: int, size: int) -> Buffer | None:
        ahead = self._ahead_of_now()
        ahead.note(offset, size)
        if offset + size > self.layout.size and self._longer() is not self.layout:
            return None
        found = ahead.if_ready(offset, size)
        if found is None:
            found = read_if_cached(self.layout, offset, size, self._fresh_since)
        if found is not None:
            self._access.answered(offset, len(found))
        return found

    def read(self, offset: int, size: int) -> Buffer:
        if offset + size > self.layout.size:
            self.follow(self._longer)
            size = max(0, min(size, self.layout.size - offset))
        if not size:
            return b""
        found = self._ahead_of_now().wait(offset, size)
        if found is None:
            found = self._read(offset, size)
        self._access.answered(offset, len(found))
        return found

    def fsync(self) -> None:
        self._store()

    def close(self) -> None:
        with self._lock:
            self._ahead.close()
        self._access.closed()

    def _longer(self) -> Layout:
        """Return the layout with what was added to the file, as far as nothing else has changed."""
        with suppress(NczfsError):
            present = self._present()
            if present.size > self.layout.size and present.continues(self.layout):
                return present
        return self.layout

    def _ahead_of_now(self) -> ReadAhead:
        """Return what was read ahead, unless there was a write meanwhile."""
        looked_at = StoredArray.last_revision
        if looked_at != self._looked_at:
            revision = self.layout.revision
            if revision > self._ahead_of:
                self._renew(self._new_ahead(), revision)
            self._looked_at = looked_at  # last: other threads that see it take what is ahead
        return self._ahead

    def _renew(self, ahead: ReadAhead, revision: int) -> None:
        """Let `ahead` be what is read ahead since a revision.

        Not if another thread has seen a later one, or the file was closed: nobody would close it.
        """
        with self._lock:
            old = self._ahead
            if not old.is_closed and revision > self._ahead_of:
                self._ahead, self._ahead_of = ahead, revision
                old.close()

    def _new_ahead(self) -> ReadAhead:
        engine = self._engine
        return ReadAhead(
            self._read,
            self._request,
            self.layout.size,
            lambda: engine.pools.assemble,
            engine.windows,
            self.layout.ahead(engine.cache.limit_bytes // 4),
            None if self._pages is None else BackwardPages(self._pages, self._read_for_pages),
        )

    def _read(self, offset: int, size: int) -> Buffer:
        return read_at(self.layout, offset, size, self._tally, self._fresh_since)

    def _read_for_pages(self, offset: int, size: int) -> Buffer:
        assert self._pages is not None
        fresh_since = max(self._fresh_since, self._pages.fresh_since)
        return read_at(self.layout, offset, size, self._tally, fresh_since)

    def _request(self, start: int, stop: int) -> None:
        request(self.layout, start, stop, self._tally, self._fresh_since)
