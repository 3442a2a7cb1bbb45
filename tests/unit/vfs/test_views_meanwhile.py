"""Views that one thread finds outdated while another one reads them."""

from __future__ import annotations

import os

import numpy as np
import pytest

import nczfs
from nczfs.engine.readahead.prefetch import ReadAhead
from nczfs.testing.datasets import put_array, put_group
from nczfs.vfs.datasets.viewfile import OpenView
from nczfs.vfs.datasets.writing import WritingView
from nczfs.vfs.tree import VfsOptions, mount_tree
from nczfs.zmap.registry import open_store
from tests.support.copies import new_url
from tests.support.stopping import Work
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


def test_nothing_is_read_ahead_for_a_thread_that_goes_on_with_a_file_that_has_grown() -> None:
    """SEMANTICS A7: another thread has opened it anew."""
    fs = mount_tree(_with_records(), options=VfsOptions(read_only=False))
    writer = open_file(fs, RAW)
    fs.write(writer, 0, bytes(1 << 20))
    fs.read(writer, 0, 8)
    stale = fs._files.get(writer).file
    assert isinstance(stale, WritingView)
    before = stale._reader
    fs.write(writer, 1 << 20, bytes(8))
    fs.read(writer, 0, 8)
    assert stale._reader is not before
    assert bytes(before.read(0, READ_BYTES)) == bytes(READ_BYTES)
    assert before._ahead.is_closed
    close(fs, writer)
    fs.close()


def test_a_file_that_has_grown_is_opened_anew_once_for_two_threads_that_read_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """SEMANTICS A2, W2: both read what was appended, and the account of open files is right."""
    fs = mount_tree(_with_records(), options=VfsOptions(read_only=False))
    writer = open_file(fs, RAW)
    stale = fs._files.get(writer).file
    assert isinstance(stale, WritingView)
    one, more = b"\1" * 8, list[bytes]()
    fs.write(writer, 0, one)
    new_reader = stale._new_reader

    def read_before() -> OpenView:
        reader = new_reader()
        if not more:
            more.append(b"")
            other = Work(lambda: more.append(bytes(fs.read(writer, 0, 64))))
            other.wait(BLOCKED_S)
            others.append(other)
        return reader

    others = list[Work]()
    monkeypatch.setattr(stale, "_new_reader", read_before)
    assert bytes(fs.read(writer, 0, 64)) == one
    others[0].end()
    assert more[1:] == [one]
    close(fs, writer)
    assert not fs.open_files
    fs.close()
