"""Views that one thread finds outdated while another one reads them."""

from __future__ import annotations

import os

import numpy as np
import pytest

import nczfs
from nczfs.engine.readahead.prefetch import ReadAhead
from nczfs.testing.datasets import put_array, put_group
from nczfs.vfs.datasets.viewfile import OpenView
from nczfs.vfs.tree import VfsOptions, mount_tree
from nczfs.zmap.registry import open_store
from tests.support.copies import new_url
from tests.support.stopping import Work
from tests.support.trees import find
from tests.support.waiting import until
from tests.support.writing import close, open_file, write

RAW = "datasets/d.zarr/v/values.raw"
READ_BYTES = 128 << 10
FIELD = np.arange(1 << 20, dtype="<f8").reshape(1024, 1024)
BLOCKED_S = 0.05
"""How long a thread may take before it is believed to wait for another one."""


def _with_field() -> str:
    """A store with a variable of 8MiB."""
    url = new_url()
    store = open_store(url)
    put_group(store, "d.zarr")
    put_array(store, "d.zarr/v", FIELD, (64, 64))
    return url


def _with_records() -> str:
    """A store with a variable without records yet."""
    url = new_url()
    with nczfs.open(f"{url}/d.zarr", "w") as root:
        root.create_dimension("t", None)
        root.create_variable("v", ("t",), "<f8", chunks=(1 << 17,), fillvalue=0)
    return url


def test_nobody_reads_what_was_read_ahead_before_a_write_that_another_reader_has_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """SEMANTICS W2: two threads read through one descriptor."""
    fs = mount_tree(_with_field(), options=VfsOptions(read_only=False))
    reader = open_file(fs, RAW, os.O_RDONLY)
    place = FIELD.nbytes // 4
    view = fs._files.get(reader).file
    assert isinstance(view, OpenView)
    for start in range(0, place, READ_BYTES):
        if fs.read_if_cached(reader, start, READ_BYTES) is None:
            fs.read(reader, start, READ_BYTES)
    until(lambda: view._ahead.if_ready(place, READ_BYTES) is not None)
    write(fs, RAW, (-FIELD).tobytes()[place:], place, 0)
    new_ahead, read = OpenView._new_ahead, list[bytes]()
    written = (-FIELD).tobytes()[place : place + READ_BYTES]

    def read_before(view: OpenView) -> ReadAhead:
        if not read:
            read.append(b"")
            read[0] = bytes(fs.read(reader, place, READ_BYTES))  # as another thread does
        return new_ahead(view)

    monkeypatch.setattr(OpenView, "_new_ahead", read_before)
    assert bytes(fs.read(reader, place, READ_BYTES)) == written
    assert read == [written]
    close(fs, reader)
    fs.close()


def test_nothing_is_read_ahead_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """SEMANTICS A7: what two threads that see one write read ahead is given back."""
    fs = mount_tree(_with_field(), options=VfsOptions(read_only=False))
    reader = open_file(fs, RAW, os.O_RDONLY)
    write(fs, RAW, bytes(READ_BYTES), 0, 0)
    new_ahead, made = OpenView._new_ahead, list[ReadAhead]()

    def read_before(view: OpenView) -> ReadAhead:
        ahead = new_ahead(view)
        made.append(ahead)
        if len(made) == 1:
            fs.read_if_cached(reader, 0, READ_BYTES)  # as the event loop does
            until(lambda: bool(made[1]._windows))
        return ahead

    monkeypatch.setattr(OpenView, "_new_ahead", read_before)
    fs.read(reader, 0, READ_BYTES)
    close(fs, reader)
    assert not any(ahead._windows for ahead in made)
    fs.close()


@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_RDWR])
def test_two_threads_read_what_was_added_through_one_descriptor(
    monkeypatch: pytest.MonkeyPatch, flags: int
) -> None:
    """SEMANTICS A7, D8, W2: what one of them read ahead is given back."""
    fs = mount_tree(_with_records(), options=VfsOptions(read_only=False))
    write(fs, RAW, bytes(1 << 20), 0, 0)
    reader = open_file(fs, RAW, flags)
    fs.read(reader, 0, 8)
    write(fs, RAW, b"\1" * 8, 1 << 20, 0)
    new_ahead, made, others, found = OpenView._new_ahead, list[ReadAhead](), list[Work](), []

    def read_before(view: OpenView) -> ReadAhead:
        ahead = new_ahead(view)
        made.append(ahead)
        if not others:
            others.append(Work(lambda: found.append(bytes(fs.read(reader, 1 << 20, 64)))))
            others[0].wait(BLOCKED_S)
        return ahead

    monkeypatch.setattr(OpenView, "_new_ahead", read_before)
    found.append(bytes(fs.read(reader, 1 << 20, 64)))
    others[0].end()
    assert found == [b"\1" * 8] * 2
    close(fs, reader)
    assert not fs.open_files
    assert all(ahead.is_closed for ahead in made)
    fs.close()


def test_a_reader_is_not_followed_to_another_shape() -> None:
    """SEMANTICS D8: neither to a shorter one, nor to one in which elements are at other places."""
    url = new_url()
    values = np.arange(6, dtype="<i4").reshape(2, 3)
    with nczfs.open(f"{url}/d.zarr", "w", format="zarr2") as root:
        root.create_dimension("t", 2)
        root.create_dimension("x", 3)
        root.create_variable("v", ("t", "x"), "<i4", data=values, chunks=(2, 3))
    fs = mount_tree(url)
    reader = open_file(fs, RAW, os.O_RDONLY)
    shown = bytes(fs.read(reader, 0, 1 << 10))
    for dimension, length in (("x", 4), ("x", 3), ("t", 1)):
        with nczfs.open(f"{url}/d.zarr", "r+") as root:
            root.resize_dimension(dimension, length)
        fs.refresh("datasets/d.zarr/v")
        find(fs, RAW)
        assert len(fs.read(reader, 0, 1 << 10)) == len(shown)
    close(fs, reader)
    fs.close()
