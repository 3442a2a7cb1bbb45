"""The `preview.png` of a variable or group, made when it is first read."""

from __future__ import annotations

import threading
from dataclasses import replace

from nczfs.buffers import Buffer
from nczfs.engine.arrays.array import now
from nczfs.engine.chunks.storedarray import StoredArray
from nczfs.engine.dataset import Dataset
from nczfs.library.resolved import At
from nczfs.model.hierarchy import Variable
from nczfs.pictures.limits import PREVIEW, PictureLimits
from nczfs.pictures.picture import PREVIEW_BYTES, group_picture, preview, variable_picture
from nczfs.vfs.base import AttributeChanges
from nczfs.vfs.datasets.viewfile import ViewContext
from nczfs.vfs.nodes import File, NodeStat, OpenFile, TreeNode
from nczfs.views import catalog


class PreviewFile(File):
    """A picture as a file, whose size is the same for all, so that a listing makes no picture.

    A picture is made again for who opens it after a change by this mount, or after `ttl_s` of the
    context. It is kept while it is open, and then as long as the ledger of the engine has room.
    """

    def __init__(self, context: ViewContext, at: At) -> None:
        self._context = context
        self._dataset: Dataset = at.dataset
        self._node = at.dataset.open_node(at.path)
        self._mtime_ns = context.mtime_ns_of(at.loaded)
        node = at.loaded.node
        self._array = at.dataset.array(node).stored if isinstance(node, Variable) else None
        if self._array is not None:
            self.arrays = (self._array,)
        self._shared = _Shared()

    @property
    def token(self) -> object:
        return catalog.PREVIEW, self._array or self._node.prefix

    @property
    def pages_token(self) -> object:
        return self.token, self._shared.in_pages

    def stat(self) -> NodeStat:
        return self.listing_stat()

    def listing_stat(self) -> NodeStat:
        written_ns = 0 if self._array is None else self._array.written_ns
        return NodeStat(PREVIEW_BYTES, max(self._mtime_ns, written_ns))

    def succeeds(self, old: TreeNode) -> None:
        """Take over the pictures of the same file, which each lookup finds anew."""
        if isinstance(old, PreviewFile) and old.token == self.token:
            self._shared = old._shared

    def change(self, changes: AttributeChanges) -> None:
        self._context.check_changes(changes)

    def open(self, *, writing: bool = False, truncate: bool = False) -> OpenFile:
        shared, kept = self._shared, self._context.engine.texts
        with shared.lock:
            if not self._is_current(shared.newest):
                kept.pop(shared.newest)
                shared.newest = _Picture()
            if shared.in_pages.open_files == 0:
                shared.in_pages = shared.newest
            picture = shared.newest
            picture.open_files += 1
            picture.png = picture.png or kept.get(picture)
        return _OpenPreview(self, picture, direct_io=picture is not shared.in_pages)

    def closed(self, picture: _Picture) -> None:
        """Note that one of those who have a picture open has closed it."""
        with self._shared.lock:
            picture.open_files -= 1
            if not picture.open_files:
                picture.png = picture.data = None

    def picture_data(self, picture: _Picture) -> memoryview:
        """Return the bytes of a picture that is open. May block.

        Raises
        ------
        CodecError, MissingChunk, MetadataError, StoreError, NoSuchNode.
        """
        with picture.lock:
            if picture.png is None:
                revision, begun = self._revision(), now()
                png = self._node.follow(self._drawn)
                self._context.engine.texts.put(picture, png, len(png))
                picture.made_at, picture.png, picture.made_of = begun, png, revision
            if picture.data is None:
                picture.data = memoryview(preview(picture.png))
            return picture.data

    def _is_current(self, picture: _Picture) -> bool:
        """Return whether who opens the file now may get a picture: also one that is not made."""
        if picture.made_of is None:
            return True
        is_kept = picture.png is not None or self._context.engine.texts.get(picture) is not None
        is_young = now() - picture.made_at < self._context.ttl_s
        return is_kept and is_young and picture.made_of == self._revision()

    def _drawn(self, path: str) -> bytes:
        dataset, limits = self._dataset, self._limits()
        fresh_since = self._context.fresh_since
        node = dataset.node(path)
        if isinstance(node, Variable):
            return variable_picture(dataset, node, limits, None, fresh_since)
        return group_picture(dataset, path, limits, fresh_since)

    def _limits(self) -> PictureLimits:
        room = self._context.engine.options.memory_limit_bytes // 2
        return replace(PREVIEW, chunk_bytes=min(PREVIEW.chunk_bytes, room))

    def _revision(self) -> object:
        """Return what changes with everything that this mount changes of the node.

        What a group shows is not known before it is drawn, so every change counts.
        """
        array = StoredArray.last_revision if self._array is None else self._array.revision
        return array, self._dataset.edits.revision


class _Picture:
    """A picture of the file. It never changes: a program may read it in parts, at any time.

    Attributes
    ----------
    lock : held while it is made, at the first read.
    open_files : of those who read it.
    made_of, made_at : the revision and the time of what it shows; None, 0: it is not made.
    png, data : without and with padding; None: it is not made, or nobody has it open.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.open_files = 0
        self.made_of: object = None
        self.made_at = 0.0
        self.png: bytes | None = None
        self.data: memoryview | None = None


class _Shared:
    """What all lookups of a file share.

    The kernel has pages of a file and not of an open file, so they are of one picture only: while
    some program has that open, others get a newer one past the pages.

    Attributes
    ----------
    lock : guards the others, and the open files of pictures.
    in_pages : the picture of the kernel's pages.
    newest : the picture for who opens the file next.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.in_pages = self.newest = _Picture()


class _OpenPreview(OpenFile):
    """An open picture."""

    is_slow = True

    def __init__(self, file: PreviewFile, picture: _Picture, *, direct_io: bool) -> None:
        self._file = file
        self._picture = picture
        self.direct_io = direct_io

    def read_if_cached(self, offset: int, size: int) -> Buffer | None:
        data = self._picture.data
        return None if data is None else data[offset : offset + size]

    def read(self, offset: int, size: int) -> Buffer:
        return self._file.picture_data(self._picture)[offset : offset + size]

    def close(self) -> None:
        """Close it: who opens the file next may get another picture."""
        self._file.closed(self._picture)
