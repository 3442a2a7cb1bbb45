"""An object as a file."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from nczfs.errors import NoSuchPath, StaleHandle
from nczfs.vfs import effects
from nczfs.vfs.base import AttributeChanges
from nczfs.vfs.nodes import File, NodeStat, TreeNode
from nczfs.vfs.objects.handles import OpenObject
from nczfs.vfs.objects.linking import link_file
from nczfs.vfs.objects.live import LiveFile
from nczfs.vfs.objects.names import parent_of
from nczfs.vfs.objects.tree import ObjectsTree
from nczfs.zmap import keys
from nczfs.zmap.base import Stat
from nczfs.zmap.keys import Key


class ObjectFile(File):
    """An object, in the version of a listing or a stat, or as it is being written.

    Parameters
    ----------
    known : None for a file that is not stored yet.
    renames : `LiveFiles.renames` from before it was found there.
    """

    pages_token_is_version = True

    def __init__(self, tree: ObjectsTree, key: Key, known: Stat | None, renames: int) -> None:
        self._tree = tree
        self._at = key, renames
        self._known = known
        self._opened = tree.files.get(key)

    @property
    def _key(self) -> Key:
        return self._at[0]

    @property
    def content(self) -> LiveFile | None:
        opened = self._opened
        return opened if opened is not None and opened.handles and opened.linked else None

    def has_left(self, found: TreeNode) -> bool:
        live = self.content
        return live is not None and isinstance(found, ObjectFile) and live.key != found._key

    @property
    def writable(self) -> bool:  # type: ignore[override]
        return not self._tree.read_only

    def stat(self) -> NodeStat:
        """Return the present state of the store, since stat may come long after a look-up."""
        store = self._tree.store
        while self._unsaved() is None:
            base = self._opened.base if self._opened is not None else None
            key, renames = self._at
            try:
                self._known = store.with_time(self._listed() or store.stat(key))
            except NoSuchPath:
                if base is not None and self._has_moved(base):
                    continue
                if not self._is_elsewhere(key, renames):
                    raise
            else:
                break
        return self.listing_stat()

    def stat_if_cached(self) -> NodeStat | None:
        if self._unsaved() is None:
            if (listed := self._listed()) is None or not self._tree.store.knows_time(listed):
                return None
            self._known = listed
        return self.listing_stat()

    def listing_stat(self) -> NodeStat:
        tree, known = self._tree, self._known
        exact = linked = True
        if (live := self._unsaved()) is not None:
            size, mtime_ns, linked = live.size, live.mtime_ns, live.linked
        elif known is not None:
            size, mtime_ns = known.size, tree.store.mtime_of(known, tree.mtime_ns)
            exact = tree.store.knows_time(known)
        else:
            size, mtime_ns = 0, tree.mtime_ns
        kept = tree.store.kept.get(self._key)
        return NodeStat(size, mtime_ns, exact, kept.mode, kept.uid, kept.gid, linked, kept.atime_ns)

    def change(self, changes: AttributeChanges) -> None:
        if self._unsaved() is None:
            self.stat()
        key, renames = self._at
        with self._tree.files.staying(parent_of(key), renames):
            self._follow()
            if changes.mtime_ns is not None:
                self._set_mtime(changes.mtime_ns)
            opened = self._opened
            if opened is None or opened.linked:
                self._follow()
                self._tree.store.kept.change(self._key, replace(changes, mtime_ns=None))

    def open(self, *, writing: bool = False, truncate: bool = False) -> OpenObject:
        """Open the version that is there now (a far store is asked once in a longer TTL)."""
        tree = self._tree
        writing = writing or truncate  # what O_RDONLY truncated is stored when it is closed, too
        live = None
        while live is None:
            self._follow(wait=True)
            key, renames = self._at
            mark = tree.store.mark()
            try:
                if tree.files.unsaved(key) is None:
                    self._look(anew=writing or tree.store.metadata.is_prompt)
            except NoSuchPath:
                if not self._is_elsewhere(key, renames):
                    raise
                continue
            live = tree.files.open(key, self._known, writing=writing, mark=mark, since=renames)
        self._opened = live
        handle = OpenObject(tree.store, tree.files, tree.engine, live, writing=writing)
        if truncate:
            try:
                effects.begin()
                live.truncate(0, opening=True)
            except BaseException:
                handle.close()
                raise
        return handle

    def truncate(self, size: int) -> None:
        handle = self.open(writing=True)
        try:
            handle.truncate_at_once(size)
        finally:
            handle.close()

    def copy_to(self, goal: Key) -> File:
        """Make another object with the present bytes of the file. Raises PathExists."""
        self._unsaved()
        link_file(self._tree.store, self._tree.files, self._key, goal)
        return ObjectFile(self._tree, goal, None, self._tree.files.renames)

    @property
    def pages_token(self) -> object:
        if self._known is None or self._unsaved() is not None:
            return None
        return self._known.version

    def _look(self, *, anew: bool) -> None:
        """Find the version to open. Raises NoSuchPath.

        StaleHandle : the kernel knows another size. It then looks the path up again, and neither
        reads nor appends at the end that the file had before.
        """
        if not anew:
            self.stat()
            return
        known = self._known
        if known is None and self._opened is not None:  # it was made here
            known = self._opened.base
        store = self._tree.store
        self._known = found = store.stat(self._key)
        is_other = known is not None and known.size != found.size
        if is_other and not store.is_ours(found):
            store.metadata.stored(found)
            raise StaleHandle(f"{self._key}: another client changed it since it was looked up")

    def _set_mtime(self, mtime_ns: int) -> None:
        """Set the time of the stored object; open files continue with its new version."""
        store = self._tree.store
        if self._opened is not None and not self._opened.linked:
            self._opened.set_mtime(mtime_ns)
            return
        with self._tree.files.held(self._key) as found:
            opened = self._opened if self._opened is not None and self._opened.handles else None
            live = found or opened
            with self._tree.files.turns(live):
                known = self._known
                if live is not None and (live.dirty or _is_told_of(known, live)):
                    with suppress(StaleHandle):  # of another client's object
                        self._known = live.set_mtime(mtime_ns) or known
                        return
        self._follow()
        try:
            self._known = store.set_mtime(known or store.stat(self._key), mtime_ns)
        except StaleHandle:  # of a listing, perhaps
            self._known = store.set_mtime(store.stat(self._key), mtime_ns)

    def _has_moved(self, base: Stat) -> bool:
        """Return whether the open file has another version, after changes have ended."""
        opened = self._opened
        return opened is not None and bool(opened.handles) and opened.is_past(base)

    def _follow(self, *, wait: bool = False) -> None:
        """Become the file that is open, also after a rename of it or of a directory above it.

        With `wait`, wait for the end of renames.
        """
        key, renames = self._at
        prefix, renames = self._tree.files.place(parent_of(key), renames, wait=wait)
        opened = self._opened
        if opened is not None and opened.handles and opened.linked:
            self._at = opened.key, renames
        else:
            self._at = keys.join(prefix, key.rpartition("/")[2]), renames

    def _is_elsewhere(self, key: Key, renames: int) -> bool:
        """Return whether a directory above has been renamed since, after renames have ended."""
        self._follow(wait=True)
        return self._tree.files.has_moved(parent_of(key), renames)

    def _unsaved(self) -> LiveFile | None:
        """Return the open file if it differs from the stored object: written, or removed."""
        opened = self._opened
        if opened is not None and not opened.linked:
            if opened.handles:
                return opened
            raise NoSuchPath(f"{self._key}: was removed")
        self._follow()
        return self._tree.files.unsaved(self._key)

    def _listed(self) -> Stat | None:
        """Return what a fresh listing has."""
        name = self._key.rpartition("/")[2]
        _, entry = self._tree.store.metadata.known_entry(parent_of(self._key), name)
        return entry.stat if entry is not None else None


def new_file(tree: ObjectsTree, key: Key) -> tuple[ObjectFile, OpenObject]:
    """Make a file that is not in the store yet, open for writing."""
    live = tree.files.open(key, None, writing=True)
    assert live is not None
    handle = OpenObject(tree.store, tree.files, tree.engine, live, writing=True)
    return ObjectFile(tree, key, None, tree.files.renames), handle


def _is_told_of(known: Stat | None, live: LiveFile) -> bool:
    """Whether what is known of an object is of the version that is open, here or elsewhere."""
    return known is None or known == live.base or known.key != live.key
