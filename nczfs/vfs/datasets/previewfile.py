"""The `preview.png` of a variable or group, made when it is first read."""

from __future__ import annotations

import threading
from dataclasses import replace

from nczfs.engine.arrays.array import now
from nczfs.engine.chunks.storedarray import StoredArray
from nczfs.engine.dataset import Dataset
from nczfs.library.resolved import At
from nczfs.model.hierarchy import Variable
from nczfs.pictures.limits import PREVIEW, PictureLimits
from nczfs.pictures.picture import PREVIEW_BYTES, group_picture, preview, variable_picture
from nczfs.vfs.base import AttributeChanges, Buffer
from nczfs.vfs.datasets.viewfile import ViewContext
from nczfs.vfs.nodes import File, NodeStat, OpenFile, TreeNode
from nczfs.views import catalog


class PreviewFile(File):
    """A picture as a file, whose size is the same for all, so that a listing makes no picture.

    A picture is made again when it is read after a change by this mount, or after `ttl_s` of the
    context. It is kept as long as the ledger of the engine has room for it. `_lock` guards its age;
    it is held while the picture is made, which blocks.
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
        self._lock = threading.Lock()
        self._key = object()
        self._made_of: object = None
        self._made_at = 0.0

    @property
    def token(self) -> object:
        return catalog.PREVIEW, self._array or self._node.prefix

    @property
    def pages_token(self) -> object:
        return self.token, self._revision()

    def stat(self) -> NodeStat:
        return self.listing_stat()

    def listing_stat(self) -> NodeStat:
        written_ns = 0 if self._array is None else self._array.written_ns
        return NodeStat(PREVIEW_BYTES, max(self._mtime_ns, written_ns))

    def succeeds(self, old: TreeNode) -> None:
        """Take over the picture of the same file, which each lookup finds anew."""
        if isinstance(old, PreviewFile) and old.token == self.token:
            self._key, self._made_of, self._made_at = old._key, old._made_of, old._made_at

    def change(self, changes: AttributeChanges) -> None:
        self._context.check_changes(changes)

    def open(self, *, writing: bool = False, truncate: bool = False) -> OpenFile:
        return _OpenPreview(self)

    def content_now(self) -> bytes:
        """Return the bytes of the file. May block.

        Raises
        ------
        CodecError, MissingChunk, MetadataError, StoreError, NoSuchNode.
        """
        kept = self._context.engine.texts
        with self._lock:
            revision, begun = self._revision(), now()
            is_current = revision == self._made_of and begun - self._made_at < self._context.ttl_s
            png = kept.get(self._key) if is_current else None
            if png is None:
                png = self._node.follow(self._picture)
                kept.put(self._key, png, len(png))
                self._made_of, self._made_at = revision, begun
        return preview(png)

    def _picture(self, path: str) -> bytes:
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


class _OpenPreview(OpenFile):
    """An open picture, which is made at the first read. `_lock` guards that it is made once."""

    def __init__(self, file: PreviewFile) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._data: memoryview | None = None

    def read_if_cached(self, offset: int, size: int) -> Buffer | None:
        data = self._data
        return None if data is None else data[offset : offset + size]

    def read(self, offset: int, size: int) -> Buffer:
        with self._lock:
            if self._data is None:
                self._data = memoryview(self._file.content_now())
            return self._data[offset : offset + size]

    def close(self) -> None:
        """Do nothing: there is nothing to release."""
