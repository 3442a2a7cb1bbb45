"""Changes of mounted datasets: their editors, and incomplete records."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from math import prod
from weakref import WeakKeyDictionary, WeakValueDictionary

import numpy as np

from nczfs.engine.chunks.chunkio import fill_element
from nczfs.engine.chunks.storedarray import StoredArray
from nczfs.engine.dataset import Dataset, Engine
from nczfs.engine.metadata.documents import MetadataCache
from nczfs.engine.structure.editor import Editor
from nczfs.errors import BadArgument, NczfsError, NotPermitted, PathError, ReadOnlyMount
from nczfs.formats.base import FormatOptions
from nczfs.formats.names import parent_of
from nczfs.library.opening import new_format
from nczfs.model.hierarchy import Variable
from nczfs.vfs.base import Buffer
from nczfs.vfs.datasets.removing import Removing
from nczfs.views.elements import ArrayElements
from nczfs.views.layout import Layout, native_run
from nczfs.views.writer import write_at
from nczfs.zmap.keys import Prefix

SEPARATOR = "."


class Editing:
    """The changes of a tree's datasets. `_lock` guards the dicts.

    Parameters
    ----------
    written : called when values of the node at a prefix were stored, or dropped.
    removed : called when something at a path of the store disappears, or reappears.
    may_remove : whether non-empty nodes may be removed.
    """

    def __init__(
        self,
        engine: Engine,
        metadata: MetadataCache,
        options: FormatOptions,
        written: Callable[[Prefix, StoredArray], None],
        removed: Callable[[Prefix], None],
        *,
        may_remove: bool,
    ) -> None:
        self.removing = Removing(
            is_allowed=may_remove, editor=self.editor, metadata=metadata, removed=removed
        )
        self._engine = engine
        self._written = written
        self._metadata = metadata
        self._options = options
        self._lock = threading.Lock()
        self._growing: WeakValueDictionary[StoredArray, Growing] = WeakValueDictionary()
        self._shown: WeakKeyDictionary[StoredArray, int] = WeakKeyDictionary()

    def editor(self, dataset: Dataset) -> Editor:
        """Return an editor of a dataset with its lease held. Changes wait for `Editor.sync`."""
        dataset.lease.require()
        if dataset.reads_consolidated:
            dataset.read_single_documents()
        return Editor(dataset, SEPARATOR)

    def create_root(self, prefix: Prefix) -> None:
        """Make a dataset with an empty root group, in the layout of new datasets."""
        layout = new_format(None, self._options)
        dataset = Dataset(self._engine, self._metadata, prefix, layout, self._options)
        editor = self.editor(dataset)
        editor.create_root()
        editor.sync()

    def create_group(self, dataset: Dataset, path: str) -> None:
        """Make a group in a dataset."""
        editor = self.editor(dataset)
        editor.create_group(path)
        editor.sync(path, parent_of(path))

    def store(
        self, dataset: Dataset, variables: Sequence[Variable], arrays: Sequence[StoredArray]
    ) -> None:
        """Store everything that was written to variables, and their new lengths."""
        wanted = set(arrays)
        self._engine.writeback.flush(lambda known: known in wanted)
        if dataset.has_changes:
            groups = {each.group for variable in variables for each in variable.dimensions}
            dataset.store({variable.path for variable in variables} | groups)
        for variable, array in zip(variables, arrays, strict=True):
            self.show(dataset, variable.key, array)

    def show(self, dataset: Dataset, path: str, array: StoredArray) -> None:
        """Refresh every file of a variable, if it was written to since the last time."""
        revision = array.revision
        if self._shown.get(array, 0) != revision:
            self._shown[array] = revision
            self._written(dataset.prefix(path), array)

    def growing(self, dataset: Dataset, variable: Variable) -> Growing | None:
        """Return the end of a variable to which records can be added; None: they cannot."""
        array = variable.array
        if not variable.dimensions or not variable.dimensions[0].unlimited:
            return None
        if array.dtype.vlen is not None or 0 in array.shape[1:]:
            return None
        stored = dataset.array(variable).stored
        with self._lock:
            found = self._growing.get(stored)
            if found is None:
                found = self._growing[stored] = Growing(self, dataset, variable, stored)
            return found

    def held_bytes(self, array: StoredArray) -> int:
        """Return the bytes of an incomplete record at the end of an array."""
        growing = self._growing.get(array)
        return growing.held_bytes if growing is not None else 0

    def close(self) -> None:
        """Store pending changes."""
        self.removing.close()

    def sync(self) -> None:
        """Store every pending change. Raises the first error after trying all."""
        errors: list[NczfsError] = []
        for dataset in self._engine.changed():
            try:
                dataset.store()
            except NczfsError as error:
                errors.append(error)
        if errors:
            raise errors[0]


class Growing:
    """The end of a variable with an unlimited first dimension.

    Whole records are added to the variable at once; an incomplete last record is held here, for all
    open files together. `_lock` is held while records are added.
    """

    def __init__(
        self, editing: Editing, dataset: Dataset, variable: Variable, array: StoredArray
    ) -> None:
        self._editing = editing
        self._dataset = dataset
        self._variable = variable
        self._array = array
        self._lock = threading.Lock()
        self._users = 0
        self._tail = bytearray()
        self._begins = 0  # the offset of the tail
        self._parts: dict[object, bytes] = {}  # of records that are appended, by who does

    @property
    def held_bytes(self) -> int:
        """The bytes of incomplete records."""
        return len(self._tail) + sum(map(len, list(self._parts.values())))

    @property
    def record_bytes(self) -> int:
        """The bytes of one record."""
        array = self._variable.array
        return prod(array.shape[1:]) * array.dtype.item_size

    def write(self, offset: int, data: memoryview) -> None:
        """Write bytes beyond the end; a gap before them is fill."""
        with self._lock:
            layout = self._layout()
            if self._tail and self._begins != layout.size:
                self._overtaken(layout)
            if offset + len(data) > layout.size and self._dataset.appends.is_any:
                self._claim()  # what follows has its place
                layout = self._layout()
            inside = max(0, min(len(data), layout.size - offset))
            if inside:
                write_at(layout, offset, data[:inside])
            if inside < len(data):
                self._begins = layout.size
                self._hold(offset + inside - layout.size, data[inside:])

    def append(self, writer: object, offset: int, data: Buffer) -> int:
        """Append bytes; what they lack of a whole record waits for the next ones of the writer.

        Other clients may append at the same time: when the records are stored, they go after what
        these have stored before (`engine/arrays/appending.py`).

        Returns
        -------
        the offset of the bytes, as it is for now; `offset` while none of their records is whole.
        """
        part = self._parts.get(writer, b"")
        given = part + bytes(data)
        whole = len(given) // self.record_bytes * self.record_bytes
        if whole:
            offset = self._append(given[:whole]) + len(part)
        self._parts[writer] = given[whole:]
        return offset

    def show(self) -> None:
        """Refresh every file of the variable."""
        self._array.note_changed()
        self._editing.show(self._dataset, self._variable.key, self._array)

    def resize(self, size: int) -> None:
        """Make the variable longer, to whole records."""
        with self._lock:
            if size % self.record_bytes:
                raise BadArgument(
                    f"{size} bytes are not a multiple of the record size {self.record_bytes}"
                )
            self._claim()
            self._grow(size // self.record_bytes)

    def check_whole(self, writer: object) -> None:
        """Raise BadArgument while a record that the writer appends, or any other, is incomplete."""
        held = len(self._parts.get(writer, b"")) or len(self._tail)
        if held:
            raise BadArgument(
                f"/{self._variable.path}: the last {held} bytes are not a whole record of "
                f"{self.record_bytes} bytes, and are not stored"
            )

    def opened(self) -> None:
        """Count one more writable file."""
        with self._lock:
            self._users += 1

    def closed(self, writer: object) -> None:
        """Count one writable file less: its held bytes go, and those of all with the last one."""
        with self._lock:
            self._users -= 1
            dropped = bool(self._parts.pop(writer, b""))
            if self._tail and not self._users:
                dropped = True
                self._tail.clear()
        if dropped:
            self.show()

    def _append(self, records: bytes) -> int:
        """Append whole records. Returns their offset, as it is for now."""
        with self._dataset.edits.naming:  # the variable keeps its path meanwhile
            variable = self._latest()
            array = variable.array
            values = np.frombuffer(records, array.dtype.native).reshape(-1, *array.shape[1:])
            first = self._dataset.append(variable.path, self._array, values, self._grow)
        return first * self.record_bytes

    def _claim(self) -> None:
        """Claim a place for what was appended before."""
        with self._dataset.edits.naming:
            self._dataset.appends.claim_for(self._latest().path)

    def _hold(self, place: int, data: memoryview) -> None:
        """Put bytes `place` after the end of the array, and add the records that they complete."""
        size = self.record_bytes
        if place > len(self._tail):
            if self._tail and place >= size:
                self._tail += self._fill(size - len(self._tail))
                self._add(1)
                place -= size
            skipped = place // size * size
            if skipped:
                self._begins += skipped
                self._grow(self._begins // size)
                place -= skipped
            self._tail += self._fill(place - len(self._tail))
        self._tail[place : place + len(data)] = data
        if len(self._tail) >= size:
            self._add(len(self._tail) // size)

    def _add(self, records: int) -> None:
        size = self.record_bytes
        self._grow(self._begins // size + records)
        write_at(self._layout(), self._begins, bytes(self._tail[: records * size]))
        del self._tail[: records * size]
        self._begins += records * size

    def _grow(self, length: int) -> None:
        variable = self._latest()
        if length > variable.array.shape[0]:
            shape = (length, *variable.array.shape[1:])
            self._editing.editor(self._dataset).grow(variable, shape)
            self._latest()

    def _overtaken(self, layout: Layout) -> None:
        """Write held bytes over elements that another writer has added meanwhile."""
        inside = min(len(self._tail), max(0, layout.size - self._begins))
        write_at(layout, self._begins, bytes(self._tail[:inside]))
        del self._tail[:inside]
        self._begins = layout.size

    def _fill(self, count: int) -> bytes:
        """Return bytes of fill for the end of the held bytes."""
        item = np.asarray(fill_element(self._variable.array)).tobytes()
        start = len(self._tail) % len(item)
        return (item * ((start + count) // len(item) + 1))[start : start + count]

    def _latest(self) -> Variable:
        node = self._dataset.node(self._dataset.path_of(self._array))
        assert isinstance(node, Variable)
        self._dataset.array(node)
        self._variable = node
        return node

    def _layout(self) -> Layout:
        variable = self._latest()
        elements = ArrayElements(self._dataset.array(variable), variable)
        return Layout([native_run(elements, variable.array.dtype, variable.array.size)])


def refusal(editing: Editing | None, name: str) -> PathError:
    """Return the error for making or removing what a dataset does not allow.

    Parameters
    ----------
    editing : None if nothing can be changed at all.
    """
    if editing is None:
        return ReadOnlyMount(f"{name}: the dataset can only be read")
    return NotPermitted(
        f"{name}: in datasets/ directories (mkdir), attributes and values can be written, with "
        "-o allow_delete removed, and groups and variables renamed, nothing else; objects/ holds "
        "what is stored"
    )
