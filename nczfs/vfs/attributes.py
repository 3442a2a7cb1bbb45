"""The directory ``attributes/`` of a group or variable: a file for each attribute."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from nczfs import metrics
from nczfs.engine.dataset import Dataset
from nczfs.engine.fillvalues import FILL_VALUE
from nczfs.engine.hierarchy import Loaded
from nczfs.errors import (
    CrossesTrees,
    NoSuchPath,
    NotPermitted,
    PathError,
    PathExists,
    StaleHandle,
)
from nczfs.formats.attributes import attribute_text, is_hidden
from nczfs.formats.base import Node as StoredNode
from nczfs.formats.names import checked_name
from nczfs.model.dtypes import NcType
from nczfs.model.hierarchy import Attribute, Variable
from nczfs.vfs.base import Buffer, Changes
from nczfs.vfs.editing import Editing, refusal
from nczfs.vfs.judged import JudgedText
from nczfs.vfs.leaves import At
from nczfs.vfs.nodes import Directory, File, FixedContent, Node, NodeStat, OpenFile
from nczfs.vfs.refusals import RefusalsOfFile
from nczfs.vfs.viewfile import ViewContext
from nczfs.views.attributes import attribute_from, check_beginning
from nczfs.views.catalog import ATTRIBUTES

ATTRIBUTE_BYTES_MAX = 16 << 20
TEXTS = (NcType.CHAR, NcType.STRING)


class AttributesDirectory(Directory):
    """A file for each attribute of a node, those of the format left out."""

    def __init__(self, context: ViewContext, at: At) -> None:
        self._context = context
        self._dataset = at.dataset
        self._path = at.path
        self._at = at
        self._revision = at.dataset.edits.revision

    def stat(self) -> NodeStat:
        return self.listing_stat()

    def listing_stat(self) -> NodeStat:
        return NodeStat(0, self._context.mtime_ns_of(self._at.loaded))

    def lookup(self, name: str) -> Node:
        loaded = self._loaded()
        return self._file(_attribute_called(loaded.node, name).name, loaded)

    def lookup_if_cached(self, name: str) -> Node | None:
        loaded = self._at.loaded
        if self._dataset.edits.revision != self._revision:
            return None
        for attribute in loaded.node.attributes:
            if attribute_file_name(attribute) == name:
                return self._file(attribute.name, loaded)
        return None

    def listing(self) -> Iterator[tuple[str, Node]]:
        loaded = self._loaded()
        for attribute in loaded.node.attributes:
            name = attribute_file_name(attribute)
            if name is not None:
                yield name, self._file(attribute.name, loaded)
            else:
                metrics.HIDDEN_KEYS.inc()

    def create(self, name: str, mode: int, *, exclusive: bool) -> tuple[File, OpenFile]:
        self._editing(name)
        loaded = self._loaded()
        try:
            known = _attribute_called(loaded.node, name).name
        except NoSuchPath:
            known = None
        if known is not None and exclusive:
            raise PathExists(f"{name}: an attribute of that name exists already")
        file = self._file(known or _new_name(name), loaded)
        return file, file.open(writing=True)

    def rename(self, name: str, target: Directory, new_name: str, *, replace: bool) -> None:
        """Over another one, the text moves and the type of that one stays."""
        editing = self._editing(name)
        if not isinstance(target, AttributesDirectory) or not self._is_same(target):
            raise CrossesTrees(f"{name}: is an attribute of another node; copy it")
        loaded = self._loaded()
        moved = _attribute_called(loaded.node, name)
        try:
            known = _attribute_called(loaded.node, new_name)
        except NoSuchPath:
            renamed = dataclasses.replace(moved, name=_new_name(new_name))
        else:
            if not replace:
                raise PathExists(f"{new_name}: an attribute of that name exists already")
            renamed = attribute_from(known.name, _text_in(loaded, moved.name), known)
        if renamed.name == moved.name:
            return
        editor = editing.editor(self._dataset)
        editor.set_attribute(self._path, renamed)
        editor.delete_attribute(self._path, moved.name)
        editor.sync(self._path)
        for gone in (name, new_name):
            self._refusals(gone).settle()

    def unlink(self, name: str) -> None:
        attribute = _attribute_called(self._loaded().node, name)
        removing = self._editing(name).removing
        if not removing.is_allowed:
            raise self.refusal(name)
        removing.attribute(self._dataset, self._path, attribute.name)
        self._refusals(name).settle()

    def sync(self) -> None:
        if self._context.editing_of(self._dataset) is not None:
            self._dataset.store()

    def refusal(self, name: str) -> PathError:
        return refusal(self._context.editing_of(self._dataset), name)

    def _is_same(self, other: AttributesDirectory) -> bool:
        return self._dataset is other._dataset and self._path == other._path

    def _editing(self, name: str) -> Editing:
        editing = self._context.editing_of(self._dataset)
        if editing is None:
            raise self.refusal(name)
        return editing

    def _loaded(self) -> Loaded:
        loaded = self._dataset.load(self._path)
        if loaded is None:
            raise NoSuchPath(f"/{self._path}: no longer exists")
        return loaded

    def _file(self, name: str, loaded: Loaded) -> AttributeFile:
        mtime_ns = self._context.mtime_ns_of(loaded)
        editing = self._context.editing_of(self._dataset)
        refusals = self._refusals(shown_name(name))
        return AttributeFile(editing, self._dataset, self._path, name, loaded, mtime_ns, refusals)

    def _refusals(self, file_name: str) -> RefusalsOfFile:
        prefix = self._dataset.prefix(self._path)
        return self._context.refusals.file(prefix, f"{ATTRIBUTES}/{file_name}")


class AttributeFile(File):
    """The text of one attribute, as it is by now.

    Parameters
    ----------
    editing : None where it can only be read.
    name : of the attribute.
    loaded : the node as it was when it was looked up.
    """

    def __init__(
        self,
        editing: Editing | None,
        dataset: Dataset,
        path: str,
        name: str,
        loaded: Loaded,
        mtime_ns: int,
        refusals: RefusalsOfFile,
    ) -> None:
        self._dataset = dataset
        self._path = path
        self._name = name
        self._mtime_ns = mtime_ns
        self._revision = dataset.edits.revision
        self._data = _text_in(loaded, name)
        self._editing = editing
        self._refusals = refusals
        self.writable = editing is not None
        self._writer: OpenAttribute | None = None

    @property
    def pages_token(self) -> object:
        return self._data

    def stat(self) -> NodeStat:
        self._ask()
        return self.listing_stat()

    def listing_stat(self) -> NodeStat:
        writer = self._writer
        if writer is not None and writer.is_dirty:
            return NodeStat(writer.size, self._mtime_ns)
        return NodeStat(
            len(self._data), self._mtime_ns, exact=self._revision == self._dataset.edits.revision
        )

    def open(self, *, writing: bool = False, truncate: bool = False) -> OpenFile:
        self._ask()
        if not (writing or truncate):
            return FixedContent(self._data, self._refusals.check)
        if self._editing is None:
            raise NotPermitted(f"{self._name}: can only be read")
        self._writer = OpenAttribute(
            self._editing,
            self._dataset,
            self._path,
            self._name,
            b"" if truncate else self._data,
            self._refusals,
            is_there=_attribute(self._dataset.load(self._path), self._name) is not None,
        )
        return self._writer

    def change(self, changes: Changes) -> None:
        """Times are taken and ignored."""
        if (changes.mode, changes.uid, changes.gid) != (None, None, None):
            super().change(changes)

    def truncate(self, size: int) -> None:
        file = self.open(writing=True)
        file.truncate(size)
        file.flush()

    def _ask(self) -> None:
        revision = self._dataset.edits.revision
        loaded = self._dataset.load(self._path)
        if loaded is not None:
            if loaded.mtime_ns is not None:
                self._mtime_ns = loaded.mtime_ns
            self._data = _text_in(loaded, self._name)
            self._revision = revision


class OpenAttribute(OpenFile):
    """An attribute while it is open for writing: it is set at the flush.

    Nothing happens to one that was only truncated: a shell closes its own descriptor before the
    program writes. What can become no attribute of its type, whatever is written behind it, is
    refused at once.
    """

    judges_writes = True

    def __init__(
        self,
        editing: Editing,
        dataset: Dataset,
        path: str,
        name: str,
        data: bytes,
        refusals: RefusalsOfFile,
        *,
        is_there: bool,
    ) -> None:
        self._editing = editing
        self._dataset = dataset
        self._path = path
        self._name = name
        self._was_there = is_there
        self._text = JudgedText(
            f"attribute {name!r}", data, ATTRIBUTE_BYTES_MAX, refusals, self._check_beginning
        )

    @property
    def is_dirty(self) -> bool:
        """Whether something was written that is not set."""
        return self._text.is_dirty

    @property
    def size(self) -> int:
        """Bytes of the text so far."""
        return len(self._text)

    def read(self, offset: int, size: int) -> Buffer:
        return self._text.read(offset, size)

    def read_if_cached(self, offset: int, size: int) -> Buffer | None:
        return None

    def write(self, offset: int, data: Buffer) -> int:
        self._text.write(offset, data)
        return len(data)

    def truncate(self, size: int) -> None:
        self._text.truncate(size)

    def flush(self) -> None:
        with self._text.taken() as data:
            if data is None:
                return
            loaded = self._dataset.load(self._path)
            known = _attribute(loaded, self._name)
            if loaded is None or (known is None and self._was_there):
                raise StaleHandle(f"/{self._path}: attribute {self._name!r} was removed")
            attribute = attribute_from(self._name, data, known)
            editor = self._editing.editor(self._dataset)
            if attribute != known:
                editor.set_attribute(self._path, attribute)
            editor.sync(self._path)
            self._was_there = True

    def close(self) -> None:
        """What was not set by the last flush is dropped: its writer was told."""
        self._text.is_dirty = False

    def _check_beginning(self, data: bytes) -> None:
        """Raise BadValue when the text can never become the attribute."""
        loaded = self._dataset.load(self._path)
        known = _attribute(loaded, self._name)
        nc_type = None if known is None else known.type
        node = loaded.node if loaded is not None else None
        is_fill = False
        if self._name == FILL_VALUE and isinstance(node, Variable) and nc_type not in TEXTS:
            nc_type, is_fill = node.array.dtype.nc_type, True
        check_beginning(self._name, data, nc_type, is_single=is_fill)


def attribute_file_name(attribute: Attribute) -> str | None:
    """The name of an attribute's file: its own, with "/" percent-encoded; None when too long."""
    name = shown_name(attribute.name)
    return name if name and len(name.encode("utf-8", "surrogateescape")) <= 255 else None


def shown_name(name: str) -> str:
    """The name of an attribute as that of a file, however long."""
    name = name.replace("/", "%2F").replace("\0", "%00")
    return name.replace(".", "%2E") if name in {".", ".."} else name


def _attribute_called(node: StoredNode, file_name: str) -> Attribute:
    for attribute in node.attributes:
        if attribute_file_name(attribute) == file_name:
            return attribute
    raise NoSuchPath(f"{file_name}: no such attribute")


def _attribute(loaded: Loaded | None, name: str) -> Attribute | None:
    """The attribute of a node by its name; None: there is none."""
    attributes = () if loaded is None else loaded.node.attributes
    return next((attribute for attribute in attributes if attribute.name == name), None)


def _new_name(file_name: str) -> str:
    """The name of a new attribute by that of its file."""
    if is_hidden(file_name):
        raise NotPermitted(f"{file_name}: such attributes are reserved by the format")
    return checked_name(file_name)


def _text_in(loaded: Loaded, name: str) -> bytes:
    """The text of an attribute of a node; none while it is not there."""
    known = _attribute(loaded, name)
    return attribute_text(known).encode("utf-8", "surrogateescape") if known is not None else b""
