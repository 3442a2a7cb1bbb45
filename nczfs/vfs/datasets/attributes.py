"""The directory ``attributes/`` of a group or variable, with a file for each attribute."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from hashlib import blake2b

from nczfs import metrics
from nczfs.engine.dataset import Dataset
from nczfs.engine.metadata.changes import AttributeChange, DeleteAttribute, check_same_array
from nczfs.engine.metadata.hierarchy import LoadedNode
from nczfs.engine.metadata.refusedchanges import Listener
from nczfs.engine.opennode import OpenNode
from nczfs.engine.structure.attributechanges import change_as_seen, settings, takings
from nczfs.engine.values.fillvalues import FILL_VALUE
from nczfs.errors import (
    CrossesTrees,
    NoSuchPath,
    NotPermitted,
    ObjectTooLarge,
    PathError,
    PathExists,
    StaleHandle,
    StoreError,
    StructureChanged,
)
from nczfs.formats.attributes import attribute_text, is_hidden
from nczfs.formats.base import Node
from nczfs.formats.naming import checked_name
from nczfs.formats.zarr3.dependents import SPELLINGS
from nczfs.library.resolved import At
from nczfs.model.dtypes import NcType
from nczfs.model.hierarchy import ArrayDescription, Attribute, Variable
from nczfs.vfs.base import AttributeChanges
from nczfs.vfs.datasets.arrivals import attributes_of, goal_of
from nczfs.vfs.datasets.editing import TreeEditing, refusal
from nczfs.vfs.datasets.held import HeldFile
from nczfs.vfs.datasets.judged import JudgedText, OpenJudged
from nczfs.vfs.datasets.refusals import RefusalsOfFile
from nczfs.vfs.datasets.viewfile import ViewContext
from nczfs.vfs.nodes import Directory, File, FixedContent, NodeStat, OpenFile, TreeNode
from nczfs.views.attributes import attribute_from, check_beginning
from nczfs.views.catalog import ATTRIBUTES
from nczfs.zmap.keys import Prefix

ATTRIBUTE_BYTES_MAX = 16 << 20
TEXTS = (NcType.CHAR, NcType.STRING)


class AttributesDirectory(Directory):
    """A directory with a file for each attribute of a node, except those of the format."""

    def __init__(self, context: ViewContext, at: At) -> None:
        self._context = context
        self._dataset = at.dataset
        self._node = at.dataset.open_node(at.path)
        self._at = at
        self._revision = at.dataset.edits.revision

    def stat(self) -> NodeStat:
        return self.listing_stat()

    def listing_stat(self) -> NodeStat:
        return NodeStat(0, self._context.mtime_ns_of(self._at.loaded))

    def change(self, changes: AttributeChanges) -> None:
        self._context.check_changes(changes)

    def lookup(self, name: str) -> TreeNode:
        arrivals = self._context.arrivals
        if arrivals is not None and (held := arrivals.get(self._prefix, name)) is not None:
            return held
        if not self._is_shown(name):
            raise NoSuchPath(f"{name}: no such attribute")
        loaded = self._loaded()
        return self._file(_attribute_called(loaded, name).name, loaded)

    def lookup_if_cached(self, name: str) -> TreeNode | None:
        loaded = self._at.loaded
        if self._dataset.edits.revision != self._revision or not self._is_shown(name):
            return None
        attribute = loaded.attributes.get(name)
        if attribute is None or attribute_file_name(attribute) != name:
            return None
        return self._file(attribute.name, loaded)

    def listing(self) -> Iterator[tuple[str, TreeNode]]:
        loaded = self._loaded()
        for attribute in loaded.node.attributes:
            name = attribute_file_name(attribute)
            if name is None:
                metrics.HIDDEN_KEYS.inc()
            elif self._is_shown(name):
                yield name, self._file(attribute.name, loaded)
        if self._context.arrivals is not None:
            yield from self._context.arrivals.held_in(self._prefix).items()

    def create(self, name: str, mode: int, *, exclusive: bool) -> tuple[File, OpenFile]:
        self._editing(name)
        loaded, arrivals = self._loaded(), self._context.arrivals
        if arrivals is not None and goal_of(name) is not None:
            held = arrivals.hold(self._prefix, name, lambda _: False, exclusive=exclusive)
            return held, held.open(writing=True)
        try:
            known = _attribute_called(loaded, name).name
        except NoSuchPath:
            known = None
        if known is not None and exclusive and self._is_shown(name):
            raise PathExists(f"{name}: an attribute of that name exists already")
        file = self._file(known or self._new_name(name), loaded)
        opened = file.open(writing=True, truncate=not self._is_shown(name))
        self._put(name)
        return file, opened

    def rename(self, name: str, target: Directory, new_name: str, *, replace: bool) -> None:
        """Rename an attribute; over another one, the text moves and the other's type stays."""
        editing = self._editing(name)
        if not isinstance(target, AttributesDirectory) or not self._is_same(target):
            raise CrossesTrees(f"{name}: is an attribute of another node; copy it")
        arrivals = self._context.arrivals
        if arrivals is not None and (held := arrivals.get(self._prefix, name)) is not None:
            self._take(new_name, held, replace=replace)
            arrivals.let_go(self._prefix, name)
            return

        def renamed(path: str, loaded: LoadedNode | None) -> list[AttributeChange]:
            return self._renamed(path, loaded, name, new_name, replace=replace)

        _change(editing, self._dataset, self._node, renamed)
        self._put(new_name)
        for gone in (name, new_name):
            self._refusals(gone).settle()

    def _renamed(
        self, path: str, loaded: LoadedNode | None, name: str, new_name: str, *, replace: bool
    ) -> list[AttributeChange]:
        """Return the changes that rename an attribute of a node."""
        if loaded is None:
            raise NoSuchPath(f"/{path}: no longer exists")
        moved = _attribute_called(loaded, name)
        try:
            known = _attribute_called(loaded, new_name)
        except NoSuchPath:
            renamed = dataclasses.replace(moved, name=self._new_name(new_name))
        else:
            if not replace:
                raise PathExists(f"{new_name}: an attribute of that name exists already")
            renamed = attribute_from(known.name, _text_in(loaded, moved.name), known)
        if renamed.name == moved.name:
            return []
        array = _array_of(loaded)
        gone = DeleteAttribute(moved.name, array=array)
        return [*settings(self._dataset, path, [renamed], array), gone]

    def unlink(self, name: str) -> None:
        arrivals = self._context.arrivals
        if arrivals is not None and arrivals.let_go(self._prefix, name):
            return
        loaded = self._loaded()
        attribute = _attribute_called(loaded, name)
        removing = self._editing(name).removing
        if not removing.is_allowed:
            raise self.refusal(name)
        if _belongs_to_arrays(loaded.node, attribute.name):
            removing.hidden.hide(self._prefix, name)
            removing.hidden.lose(self._node.prefix)
        else:
            removing.attribute(self._dataset, self._node, attribute.name, _array_of(loaded))
        self._refusals(name).settle()

    def sync(self) -> None:
        if self._context.editing_of(self._dataset) is not None:
            self._dataset.store()

    def refusal(self, name: str) -> PathError:
        return refusal(self._context.editing_of(self._dataset), name)

    def _take(self, name: str, held: HeldFile, *, replace: bool) -> None:
        """Make an attribute from the contents of a held file that gets its name."""
        exclusive = not replace
        if held.size > ATTRIBUTE_BYTES_MAX:
            raise ObjectTooLarge(f"attribute {name!r}: at most {ATTRIBUTE_BYTES_MAX} bytes")
        _, opened = self.create(name, 0, exclusive=exclusive)
        opened.truncate(0)
        opened.write(0, held.read(0, held.size))
        opened.flush()
        opened.close()

    @property
    def _prefix(self) -> Prefix:
        return attributes_of(self._node.prefix)

    def _is_shown(self, name: str) -> bool:
        """Return whether an attribute is shown; a directory that began empty shows new ones."""
        editing = self._context.editing
        return editing is None or not editing.removing.hidden.is_hidden(self._prefix, name)

    def _put(self, name: str) -> None:
        if self._context.editing is not None:
            self._context.editing.removing.hidden.put(self._prefix, name)

    def _new_name(self, file_name: str) -> str:
        """Return the name of a new attribute from that of its file, which may be encoded."""
        name = name_shown_as(file_name)
        if is_hidden(name):
            raise NotPermitted(f"{file_name}: such attributes are reserved by the format")
        return checked_name(name) if self._context.arrivals is None else name

    def _is_same(self, other: AttributesDirectory) -> bool:
        return self._dataset is other._dataset and self._node.is_same(other._node)

    def _editing(self, name: str) -> TreeEditing:
        editing = self._context.editing_of(self._dataset)
        if editing is None:
            raise self.refusal(name)
        return editing

    def _loaded(self) -> LoadedNode:
        return self._node.follow(self._loaded_at)

    def _loaded_at(self, path: str) -> LoadedNode:
        loaded = self._dataset.load(path)
        if loaded is None:
            raise NoSuchPath(f"/{path}: no longer exists")
        return loaded

    def _file(self, name: str, loaded: LoadedNode) -> AttributeFile:
        refusals = self._refusals(shown_name(name))
        return AttributeFile(self._context, self._dataset, self._node, name, loaded, refusals)

    def _refusals(self, file_name: str) -> RefusalsOfFile:
        node = self._node
        return self._context.refusals.file(lambda: node.prefix, f"{ATTRIBUTES}/{file_name}")


class AttributeFile(File):
    """A file with the current text of an attribute.

    Parameters
    ----------
    name : of the attribute.
    loaded : the node as it was when it was looked up.
    """

    def __init__(
        self,
        context: ViewContext,
        dataset: Dataset,
        node: OpenNode,
        name: str,
        loaded: LoadedNode,
        refusals: RefusalsOfFile,
    ) -> None:
        self._context = context
        self._dataset = dataset
        self._node = node
        self._name = name
        self._mtime_ns = context.mtime_ns_of(loaded)
        self._revision = dataset.edits.revision
        self._note(_text_in(loaded, name))
        self._editing = context.editing_of(dataset)
        self._refusals = refusals
        self.writable = self._editing is not None
        self._writer: OpenAttribute | None = None

    @property
    def pages_token(self) -> object:
        return self._digest

    def stat(self) -> NodeStat:
        with suppress(StructureChanged):  # it was removed while it was open
            self._ask(self._node.follow(self._dataset.load))
        return self.listing_stat()

    def listing_stat(self) -> NodeStat:
        writer = self._writer
        if writer is not None and writer.is_dirty:
            return NodeStat(writer.size, self._mtime_ns)
        return NodeStat(
            self._size, self._mtime_ns, exact=self._revision == self._dataset.edits.revision
        )

    def open(self, *, writing: bool = False, truncate: bool = False) -> OpenFile:
        loaded = self._node.follow(lambda path: self._context.load(self._dataset, path))
        data = self._ask(loaded)
        if not (writing or truncate):
            return FixedContent(data, self._refusals.check)
        if self._editing is None:
            raise NotPermitted(f"{self._name}: can only be read")
        self._writer = OpenAttribute(
            self._editing,
            self._dataset,
            self._node,
            self._name,
            b"" if truncate else data,
            self._refusals,
            array=_array_of(loaded),
            is_there=_attribute(loaded, self._name) is not None,
            takes_any_name=self._context.arrivals is not None,
        )
        return self._writer

    def succeeds(self, old: TreeNode) -> None:
        if isinstance(old, AttributeFile):
            self._writer = old._writer

    def change(self, changes: AttributeChanges) -> None:
        self._context.check_changes(changes)

    def truncate(self, size: int) -> None:
        file = self.open(writing=True)
        file.truncate(size)
        file.flush()

    def _ask(self, loaded: LoadedNode | None) -> bytes:
        """Take over what the attribute is by now, and return its text."""
        revision = self._dataset.edits.revision
        if loaded is None:
            raise StaleHandle(f"/{self._node.path}: no longer exists")
        if loaded.mtime_ns is not None:
            self._mtime_ns = loaded.mtime_ns
        data = _text_in(loaded, self._name)
        self._note(data)
        self._revision = revision
        return data

    def _note(self, data: bytes) -> None:
        """Keep what tells the text from another one: the text itself may take much memory."""
        self._size, self._digest = len(data), blake2b(data, digest_size=16).digest()


class OpenAttribute(OpenJudged):
    """An attribute that is open for writing: it is set at the flush.

    An attribute that was only truncated does not change, because a shell closes its own descriptor
    before the program writes. A text that can never become an attribute of its type is refused at
    once.

    Parameters
    ----------
    array : of the variable whose attribute it is; None: it is that of a group.
    is_there : whether it exists already.
    """

    def __init__(
        self,
        editing: TreeEditing,
        dataset: Dataset,
        node: OpenNode,
        name: str,
        data: bytes,
        refusals: RefusalsOfFile,
        *,
        array: ArrayDescription | None,
        is_there: bool,
        takes_any_name: bool,
    ) -> None:
        self._editing = editing
        self._dataset = dataset
        self._node = node
        self._name = name
        self._array = array
        self._was_there = is_there
        self._takes_any_name = takes_any_name
        super().__init__(
            JudgedText(
                f"attribute {name!r}", data, ATTRIBUTE_BYTES_MAX, refusals, self._check_beginning
            )
        )

    @property
    def is_dirty(self) -> bool:
        """Whether something was written that is not set yet."""
        return self._text.is_dirty

    def flush(self) -> None:
        with self._text.taken() as data:
            if data is not None:
                text = data
                try:
                    _change(
                        self._editing,
                        self._dataset,
                        self._node,
                        lambda path, loaded: self._changes(path, loaded, text),
                    )
                except StoreError as error:
                    self._editing.lose_attribute(self._dataset, self._node.path, self._name, error)
                    raise
                self._was_there = True

    def close(self) -> None:
        """Drop what the last flush did not set; its writer got the error."""
        self._text.is_dirty = False

    def _changes(
        self, path: str, loaded: LoadedNode | None, data: bytes
    ) -> Sequence[AttributeChange]:
        """Return the changes that set the attribute of a node to a text."""
        known = _attribute(loaded, self._name)
        if loaded is None or (known is None and self._was_there):
            raise StaleHandle(f"/{path}: attribute {self._name!r} was removed")
        check_same_array(loaded.node, self._array)
        if known is not None and data == _text_in(loaded, self._name):
            return []
        attribute = attribute_from(self._name, data, known)
        takes = self._takes_any_name and attribute.name != FILL_VALUE
        return (takings if takes else settings)(self._dataset, path, [attribute], self._array)

    def _check_beginning(self, data: bytes) -> None:
        """Raise BadValue if the text can never become the attribute."""
        loaded = self._node.follow(self._dataset.load)
        known = _attribute(loaded, self._name)
        nc_type = None if known is None else known.type
        node = loaded.node if loaded is not None else None
        is_fill = False
        if self._name == FILL_VALUE and isinstance(node, Variable) and nc_type not in TEXTS:
            nc_type, is_fill = node.array.dtype.nc_type, True
        check_beginning(self._name, data, nc_type, is_single=is_fill)


def _change(
    editing: TreeEditing,
    dataset: Dataset,
    node: OpenNode,
    make: Callable[[str, LoadedNode | None], Sequence[AttributeChange]],
) -> None:
    """Change attributes by what they are, and store that. See `change_as_seen`."""
    editing.editor(dataset)  # which has the lease then
    before = dataset.edits.refusals.listener().since
    change_as_seen(dataset, node, make)
    # Each attempt listens anew: what one heard before a rename has reached nobody.
    node.follow(lambda path: dataset.store((path,), Listener(before)))


def attribute_file_name(attribute: Attribute) -> str | None:
    """Return the name of an attribute's file, with "/" percent-encoded; None if too long."""
    name = shown_name(attribute.name)
    return name if name and len(name.encode("utf-8", "surrogateescape")) <= 255 else None


def shown_name(name: str) -> str:
    """Return the name of an attribute as that of a file, of any length."""
    name = name.replace("/", "%2F").replace("\0", "%00")
    return name.replace(".", "%2E") if name in {".", ".."} else name


def name_shown_as(file_name: str) -> str:
    """Return the name of an attribute from that of its file: the inverse of `shown_name`."""
    if file_name in {"%2E", "%2E%2E"}:
        return file_name.replace("%2E", ".")
    return file_name.replace("%2F", "/").replace("%00", "\0")


def _attribute_called(loaded: LoadedNode, file_name: str) -> Attribute:
    # A name with a percent sign may stand for another one.
    known = loaded.attributes.get(file_name)
    candidates = loaded.node.attributes if "%" in file_name else () if known is None else (known,)
    for attribute in candidates:
        if attribute_file_name(attribute) == file_name:
            return attribute
    raise NoSuchPath(f"{file_name}: no such attribute")


def _belongs_to_arrays(node: Node, name: str) -> bool:
    """Return whether an attribute is of a dependent array, or declares such arrays.

    Without the declaration the arrays would be gone while a program removes them with their
    primary, and nobody would know their chunks.
    """
    if not isinstance(node, Variable):
        return False
    return node.is_dependent or (bool(node.dependents) and name in SPELLINGS)


def _array_of(loaded: LoadedNode | None) -> ArrayDescription | None:
    """Return the array of a node; None: it has none, because it is a group."""
    node = None if loaded is None else loaded.node
    return node.array if isinstance(node, Variable) else None


def _attribute(loaded: LoadedNode | None, name: str) -> Attribute | None:
    """Return the attribute of a node by its name; None: there is none."""
    return None if loaded is None else loaded.attributes.get(name)


def _text_in(loaded: LoadedNode, name: str) -> bytes:
    """Return the text of an attribute of a node; empty if it does not exist."""
    known = _attribute(loaded, name)
    return attribute_text(known).encode("utf-8", "surrogateescape") if known is not None else b""
