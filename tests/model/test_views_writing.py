"""Writing and reading the views of a variable does what it does to one numpy array, byte for byte.

Another client changes the store behind the mount, elements of chunks that are half written here
among them.
"""

from __future__ import annotations

import itertools
import os
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from nczfs.engine.options import EngineOptions
from nczfs.errors import BadValue
from nczfs.library.opening import open_zmap
from nczfs.model.boxes import Box
from nczfs.model.dtypes import DataType
from nczfs.testing import indexing
from nczfs.vfs.base import HandleNo
from nczfs.vfs.filesystem import TreeFileSystem
from nczfs.vfs.tree import VfsOptions, mount_tree
from nczfs.views.text import TextForm, text_form
from nczfs.zmap.keys import parse_prefix
from nczfs.zmap.registry import open_store
from nczfs.zmap.wrappers import Prefixed
from tests.support.trees import find, read

DTYPES = ("<i2", ">f4", "<f8", "?", "S3", "<c8", "M8[s]", "U2")
BUDGETS = (0, 1, 3000, 1 << 20)
VALUES = ("values.raw", "values.npy", "values.txt")

_stores = itertools.count()

Values = np.ndarray[Any, np.dtype[Any]]


def any_values(data: st.DataObject, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Values:
    if dtype.kind == "U":
        return np.resize(
            np.array(data.draw(st.sampled_from([["a", "é"], ["", "x€"]])), dtype), shape
        )
    if dtype.kind == "S":
        return np.resize(
            np.array([b"ab", b"", data.draw(st.sampled_from([b"c", b"x z"]))], dtype), shape
        )
    return np.array(data.draw(indexing.values_of(shape, dtype)), dtype)


class OneVariable(RuleBasedStateMachine):
    """One variable in a mount, its files open for long, and another client of the store."""

    model: Values
    fs: TreeFileSystem

    @initialize(
        data=st.data(),
        shape=st.lists(st.integers(1, 6), min_size=1, max_size=3).map(tuple),
        dtype=st.sampled_from(DTYPES),
        budget=st.sampled_from(BUDGETS),
    )
    def create(self, data: st.DataObject, shape: tuple[int, ...], dtype: str, budget: int) -> None:
        url = f"memory://views{next(_stores)}"
        self.store = open_store(url)
        self.chunks = tuple(data.draw(st.integers(1, n + 1), "chunk") for n in shape)
        with self.another_client("w") as root:
            root.create_variable(
                "v", tuple(shape), np.dtype(dtype), fillvalue=None, chunks=self.chunks
            )
        self.model = np.zeros(shape, np.dtype(dtype).newbyteorder("="))
        engine = EngineOptions(memory_limit_bytes=budget, metadata_ttl_s=0.0, cache_bytes_max=0)
        self.fs = mount_tree(url, options=VfsOptions(engine=engine, read_only=False))
        self.writers: dict[str, HandleNo] = {}
        self.pending = np.zeros(shape, bool)
        self.open_readers()

    def another_client(self, mode: str) -> Any:
        return open_zmap(Prefixed(self.store, parse_prefix("d.zarr")), mode, format="zarr2")

    def open_readers(self) -> None:
        """Files that stay open while others write."""
        self.readers = {
            name: self.fs.open(find(self.fs, self.path(name)).ino, os.O_RDONLY).handle
            for name in VALUES
        }

    def path(self, name: str) -> str:
        return f"datasets/d.zarr/v/{name}"

    def writer(self, name: str) -> HandleNo:
        if name not in self.writers:
            ino = find(self.fs, self.path(name)).ino
            self.writers[name] = self.fs.open(ino, os.O_RDWR).handle
        return self.writers[name]

    @property
    def form(self) -> TextForm:
        stored = self.model.dtype
        form = text_form(DataType(stored.str, stored))
        assert form is not None
        return form

    def lines(self, values: Values) -> bytes:
        return bytes(self.form.render(np.ascontiguousarray(values).reshape(-1)))

    def wrote(self, new: Values, where: Any) -> None:
        self.model = new
        self.pending[where] = True

    @rule(data=st.data(), name=st.sampled_from(["values.raw", "values.npy"]))
    def write_bytes(self, data: st.DataObject, name: str) -> None:
        size, item = self.model.nbytes, self.model.itemsize
        start = data.draw(st.integers(0, size - 1), "start")
        stop = data.draw(st.integers(start + 1, size), "stop")
        given = any_values(data, self.model.shape, self.model.dtype).tobytes()[start:stop]
        handle = self.writer(name)
        header = self.fs.getattr(find(self.fs, self.path(name)).ino).size - size
        assert self.fs.write(handle, header + start, given) == len(given)
        content = bytearray(self.model.tobytes())
        content[start:stop] = given
        new = np.frombuffer(bytes(content), self.model.dtype).reshape(self.model.shape)
        touched = np.zeros(self.model.size, bool)
        touched[start // item : -(-stop // item)] = True
        self.wrote(new.copy(), touched.reshape(self.model.shape))

    @rule(data=st.data())
    def write_lines(self, data: st.DataObject) -> None:
        """A line that does not show all of its element changes nothing, and cannot be changed."""
        start = data.draw(st.integers(0, self.model.size - 1), "start")
        stop = data.draw(st.integers(start + 1, self.model.size), "stop")
        values = any_values(data, (stop - start,), self.model.dtype)
        if values.dtype.kind in "fc":
            parts = values.view(values.real.dtype)
            parts[np.isnan(parts)] = np.nan  # text knows one
        text = self.lines(values)
        width = len(text) // (stop - start)
        old = self.model.reshape(-1)[start:stop]
        shown = self.form.restorable(old)
        differing = np.frombuffer(text, f"V{width}") != np.frombuffer(self.lines(old), f"V{width}")
        handle = self.writer("values.txt")
        if (differing & ~shown).any():
            with pytest.raises(BadValue, match="cannot be written here; write values"):
                self.fs.write(handle, start * width, text)
            return
        cut = data.draw(st.integers(0, len(text)), "cut")
        self.fs.write(handle, start * width, text[:cut])
        self.fs.write(handle, start * width + cut, text[cut:])
        new = self.model.copy()
        new.reshape(-1)[start:stop][shown] = values[shown]
        touched = np.zeros(self.model.size, bool)
        touched[start:stop] = shown
        self.wrote(new, touched.reshape(self.model.shape))

    @rule(data=st.data())
    def write_chunk(self, data: st.DataObject) -> None:
        counts = [-(-n // c) for n, c in zip(self.model.shape, self.chunks, strict=True)]
        index = tuple(data.draw(st.integers(0, count - 1), "chunk") for count in counts)
        values = any_values(data, self.chunks, self.model.dtype)
        name = f"chunks/{'.'.join(map(str, index))}"
        handle = self.fs.open(find(self.fs, self.path(name)).ino, os.O_WRONLY).handle
        self.fs.write(handle, 0, values.tobytes())
        self.fs.release(handle)
        box = tuple(
            slice(i * c, min(i * c + c, n))
            for i, c, n in zip(index, self.chunks, self.model.shape, strict=True)
        )
        new = self.model.copy()
        new[box] = values[tuple(slice(0, s.stop - s.start) for s in box)]
        self.wrote(new, box)

    @rule(data=st.data())
    def rewrite(self, data: st.DataObject) -> None:
        values = any_values(data, self.model.shape, self.model.dtype)
        ino = find(self.fs, self.path("values.raw")).ino
        handle = self.fs.open(ino, os.O_WRONLY | os.O_TRUNC).handle
        cut = data.draw(st.integers(0, values.nbytes), "cut")
        self.fs.write(handle, 0, values.tobytes()[:cut])
        self.fs.write(handle, cut, values.tobytes()[cut:])
        self.fs.flush(handle)
        self.fs.release(handle)
        self.wrote(values.copy(), ...)
        self.pending[...] = False

    @rule()
    def flush(self) -> None:
        for handle in self.writers.values():
            self.fs.flush(handle)
        self.fs.sync()
        self.pending[...] = False

    @precondition(lambda self: self.writers)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.writers)), "file")
        handle = self.writers.pop(name)
        self.fs.flush(handle)
        self.fs.release(handle)
        self.pending[...] = False

    @rule(data=st.data())
    def somebody_else_writes(self, data: st.DataObject) -> None:
        """Other elements than those that wait here, of the same chunks or of others."""
        start = tuple(data.draw(st.integers(0, n - 1), "start") for n in self.model.shape)
        stop = tuple(
            data.draw(st.integers(a + 1, n), "stop")
            for a, n in zip(start, self.model.shape, strict=True)
        )
        box = Box(start, stop).slices()
        if self.pending[box].any():
            return
        values = any_values(data, Box(start, stop).shape, self.model.dtype)
        with self.another_client("r+") as root:
            root["v"][box] = values
        self.flush()
        self.model = self.model.copy()
        self.model[box] = values
        for handle in self.readers.values():
            self.fs.release(handle)
        self.open_readers()

    @rule(data=st.data(), name=st.sampled_from(VALUES))
    def read_range(self, data: st.DataObject, name: str) -> None:
        content = self.content(name)
        start = data.draw(st.integers(0, len(content)), "start")
        size = data.draw(st.integers(0, len(content)), "size")
        assert read(self.fs, self.path(name), start, size) == content[start : start + size]
        found = self.fs.read_if_cached(self.readers[name], start, size)
        assert found is None or bytes(found) == content[start : start + size]

    @invariant()
    def every_view_shows_what_was_written(self) -> None:
        if not hasattr(self, "model"):
            return
        for name, handle in self.readers.items():
            assert bytes(self.fs.read(handle, 0, 1 << 20)) == self.content(name)

    def content(self, name: str) -> bytes:
        if name == "values.txt":
            return self.lines(self.model)
        raw = self.model.tobytes()
        if name == "values.raw":
            return raw
        header = read(self.fs, self.path(name))[: -len(raw)]
        return header + raw

    def teardown(self) -> None:
        if not hasattr(self, "fs"):
            return
        for handle in (*self.writers.values(), *self.readers.values()):
            self.fs.release(handle)
        self.fs.sync()
        self.fs.close()
        with self.another_client("r") as root:
            assert np.array(root["v"][...]).tobytes() == self.model.tobytes()


OneVariable.TestCase.settings = settings(max_examples=25, stateful_step_count=12, deadline=None)
TestViewsOfOneVariable = OneVariable.TestCase
