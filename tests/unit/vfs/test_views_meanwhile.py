"""Views that one thread finds outdated while another one reads them."""

from __future__ import annotations

import os

import numpy as np
import pytest

from nczfs.engine.readahead.prefetch import ReadAhead
from nczfs.testing.datasets import put_array, put_group
from nczfs.vfs.datasets.viewfile import OpenView
from nczfs.vfs.tree import VfsOptions, mount_tree
from nczfs.zmap.registry import open_store
from tests.support.copies import new_url
from tests.support.waiting import until
from tests.support.writing import close, open_file, write

RAW = "datasets/d.zarr/v/values.raw"
READ_BYTES = 128 << 10


def test_nobody_reads_what_was_read_ahead_before_a_write_that_another_reader_has_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """SEMANTICS W2: two threads read through one descriptor."""
    url = new_url()
    store, field = open_store(url), np.arange(1 << 20, dtype="<f8").reshape(1024, 1024)
    put_group(store, "d.zarr")
    put_array(store, "d.zarr/v", field, (64, 64))
    fs = mount_tree(url, options=VfsOptions(read_only=False))
    reader = open_file(fs, RAW, os.O_RDONLY)
    place = field.nbytes // 4
    view = fs._files.get(reader).file
    assert isinstance(view, OpenView)
    for start in range(0, place, READ_BYTES):
        if fs.read_if_cached(reader, start, READ_BYTES) is None:
            fs.read(reader, start, READ_BYTES)
    until(lambda: view._ahead.if_ready(place, READ_BYTES) is not None)
    write(fs, RAW, (-field).tobytes()[place:], place, 0)
    new_ahead, read = OpenView._new_ahead, list[bytes]()
    written = (-field).tobytes()[place : place + READ_BYTES]

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
