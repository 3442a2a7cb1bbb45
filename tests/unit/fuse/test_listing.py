"""Directories that take longer to list than a request may take."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

from nczfs.fuse.listing import Listing
from nczfs.vfs.effects import TimedRequest
from nczfs.vfs.tree import VfsOptions
from nczfs.zmap.base import Entry
from nczfs.zmap.keys import Key, Prefix
from nczfs.zmap.memory import MemoryZMap
from tests.support.trees import find, tree_over

LONG_S = 1000.0


def test_a_request_waits_for_a_listing_as_long_as_names_are_found() -> None:
    """SEMANTICS A12."""
    store = MemoryZMap()
    for number in range(3):
        store.write(Key(f"d.zarr/v{number}/.zarray"), b"{}")
    store.write(Key("d.zarr/.zgroup"), b'{"zarr_format": 2}')
    found, release = threading.Event(), threading.Event()
    search = store.search

    def slow(prefix: Prefix) -> Iterator[Entry]:
        for entry in search(prefix):
            yield entry
            if prefix == "d.zarr":
                found.set()
                release.wait()

    request = TimedRequest()
    fs = tree_over(store, VfsOptions())
    ino = find(fs, "datasets/d.zarr").ino
    listing = Listing(fs, fs.opendir(ino), 0)

    def load() -> None:
        with request.under_way():
            listing.load()

    with mock.patch.object(store, "search", slow), ThreadPoolExecutor(1) as threads:
        loading = threads.submit(load)
        try:
            assert found.wait(60)
            assert request.time_left_s(LONG_S) > 0
        finally:
            release.set()
        loading.result()
    assert request.time_left_s(LONG_S) == 0
    fs.close()
