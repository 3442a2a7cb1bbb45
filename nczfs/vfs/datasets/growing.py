"""The end of a variable to which records are added, and incomplete records."""

from __future__ import annotations

import threading
from contextlib import suppress
from functools import partial
from math import prod

import numpy as np

from nczfs.buffers import Buffer
from nczfs.codecs.fillelement import fill_element
from nczfs.engine.arrays.array import Array
from nczfs.engine.chunks.storedarray import StoredArray
from nczfs.engine.dataset import Dataset
from nczfs.errors import BadArgument, NczfsError, UsageError
from nczfs.library.editing import Editing
from nczfs.model.hierarchy import Variable
from nczfs.views.elements import ArrayElements
from nczfs.views.layout import Layout, native_run
from nczfs.views.writer import write_at


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
        self._node = dataset.open_node(variable.path)
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
            if offset + len(data) > self._layout().size and self._dataset.appends.is_any:
                self._claim()  # what follows has its place
            layout = self._overtaken()
            inside = max(0, min(len(data), layout.size - offset))
            if inside:
                write_at(layout, offset, data[:inside])
            if inside < len(data):
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
        """Make the variable longer, to whole records; held bytes are in the first of them."""
        with self._lock:
            if size % self.record_bytes:
                raise BadArgument(
                    f"{size} bytes are not a multiple of the record size {self.record_bytes}"
                )
            self._claim()
            self._grow(size // self.record_bytes)
            self._overtaken()

    def incomplete(self, writer: object) -> int:
        """Return the bytes of a record that the writer appends, or any other, has not completed."""
        return len(self._parts.get(writer, b"")) or len(self._tail)

    def check_whole(self, writer: object) -> None:
        """Raise BadArgument while a record is incomplete."""
        if held := self.incomplete(writer):
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
        dataset = self._dataset
        with dataset.edits.names.changing(lambda: dataset.path_of(self._array)):
            array = self._latest()[0].array
        values = np.frombuffer(records, array.dtype.native).reshape(-1, *array.shape[1:])
        return dataset.append(self._array, values, self._grow) * self.record_bytes

    def _claim(self) -> None:
        """Claim a place for what was appended before."""
        self._dataset.claim(self._array)

    def _hold(self, place: int, data: memoryview) -> None:
        """Put bytes `place` after the end of the array, and add the records that they complete."""
        size, held = self.record_bytes, bytes(self._tail)
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
            try:
                self._add(len(self._tail) // size)
            except UsageError:  # no such length is possible, so the bytes wait for nothing
                self._tail[:] = held
                raise

    def _add(self, records: int) -> None:
        size = self.record_bytes
        self._grow(self._begins // size + records)
        write_at(self._layout(), self._begins, bytes(self._tail[: records * size]))
        del self._tail[: records * size]
        self._begins += records * size

    def _grow(self, length: int) -> None:
        self._node.follow(partial(self._grow_at, length))

    def _grow_at(self, length: int, path: str) -> None:
        variable, _ = self._latest_at(path)
        if length > variable.array.shape[0]:
            shape = (length, *variable.array.shape[1:])
            self._editing.editor(self._dataset).grow(variable, shape)
            with suppress(NczfsError):  # it is longer all the same
                self._latest_at(path)

    def _overtaken(self) -> Layout:
        """Write held bytes over a record that was added meanwhile. Returns the present layout."""
        layout = self._layout()
        if self._tail and self._begins < layout.size:
            write_at(layout, self._begins, bytes(self._tail))
            self._tail.clear()
        self._begins = layout.size
        return layout

    def _fill(self, count: int) -> bytes:
        """Return bytes of fill for the end of the held bytes."""
        item = np.asarray(fill_element(self._variable.array)).tobytes()
        start = len(self._tail) % len(item)
        return (item * ((start + count) // len(item) + 1))[start : start + count]

    def _latest(self) -> tuple[Variable, Array]:
        return self._node.follow(self._latest_at)

    def _latest_at(self, path: str) -> tuple[Variable, Array]:
        node = self._dataset.node(path)
        assert isinstance(node, Variable)
        self._variable = node
        return node, self._dataset.array(node)

    def _layout(self) -> Layout:
        variable, array = self._latest()
        elements = ArrayElements(array, variable)
        return Layout([native_run(elements, variable.array.dtype, variable.array.size)])
