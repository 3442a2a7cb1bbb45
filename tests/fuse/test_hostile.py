"""What was made to stop a mount takes little memory, and its neighbours are served meanwhile."""

from __future__ import annotations

import errno
import os
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nczfs.testing.datasets import put_array, put_group, put_json
from nczfs.zmap.keys import parse_key
from nczfs.zmap.registry import open_store
from tests.support.enduring import enduring
from tests.support.looking import failing_with, store_served

FIELD = np.arange(24, dtype="<f4").reshape(4, 6)
LINE_LENGTH_MAX = 600


def filtered(codec: str, **settings: Any) -> dict[str, Any]:
    return {
        "zarr_format": 2,
        "shape": [6],
        "chunks": [6],
        "dtype": "|O",
        "compressor": {"id": "zlib", "level": 1},
        "filters": [{"id": codec, **settings}],
        "fill_value": None,
        "order": "C",
    }


NUMBER = b"9" * 4300  # Python reads no longer ones

CHUNKS: dict[str, tuple[dict[str, Any], Callable[[], bytes]]] = {
    "huge_lengths": (
        filtered("json2"),
        lambda: b'["|O",[' + b",".join([NUMBER] * 3700) + b"]]",
    ),
    "one_huge_length": (filtered("json2"), lambda: b'["a","|O",[' + NUMBER + b"]]"),
    "many_lengths": (
        filtered("json2"),
        lambda: b'["a","|O",[' + b"1," * 8_000_000 + b"1]]",
    ),
    "many_members": (filtered("json2"), lambda: b"[" + b"[]," * 20_000_000 + b'"|O",[6]]'),
    "deep": (filtered("json2"), lambda: b"[" * 30_000_000),
    "packed_lists": (filtered("msgpack2"), lambda: b"\xdd\x00\x40\x00\x00" * 1_000_000),
    "packed_members": (
        filtered("msgpack2"),
        lambda: b"\xdd\x03\x00\x00\x00" + b"\x90" * (3 << 24),
    ),
    "many_texts": (
        filtered("vlen-utf8"),
        lambda: struct.pack("<I", 15_000_000) + bytes(60_000_000),
    ),
    "long_text": (
        filtered("vlen-utf8"),
        lambda: struct.pack("<II", 6, 1 << 31) + bytes(60_000_000),
    ),
}
"""Documents of arrays, and what makes their chunk, which is large."""


@pytest.mark.parametrize("name", CHUNKS)
def test_a_hostile_chunk_is_refused_while_its_neighbour_is_read(tmp_path: Path, name: str) -> None:
    """SEMANTICS A5, A7."""
    store = open_store(str(tmp_path))
    put_group(store, "d.zarr", {})
    put_array(store, "d.zarr/good", FIELD, (2, 4))
    document, data = CHUNKS[name]
    put_json(store, "d.zarr/bad/.zarray", document)
    store.write(parse_key("d.zarr/bad/0"), zlib.compress(data(), 9))
    expect = r"d\.zarr/bad/0"
    with store_served(tmp_path, "--memory-limit", "64MiB", expect=expect) as mount:
        place = mount.path / "datasets/d.zarr"
        with enduring(mount, place / "good/values.raw"):
            for path in ("chunks/0", "values.txt"):
                with failing_with(errno.EIO):
                    (place / "bad" / path).read_bytes()
        lines = mount.log.read_text().splitlines()
        assert any("d.zarr/bad/0" in line for line in lines)
        assert max(map(len, lines)) < LINE_LENGTH_MAX


def lengths(*texts: bytes) -> bytes:
    """A chunk of texts as ``vlen-utf8`` and ``vlen-bytes`` store them."""
    return struct.pack("<I", len(texts)) + b"".join(struct.pack("<I", len(t)) + t for t in texts)


ELEMENTS: dict[str, tuple[dict[str, Any], Callable[[], bytes]]] = {
    "fill_value": (
        filtered("vlen-utf8")
        | {"shape": [10**6], "chunks": [10**6], "fill_value": "x" * (10 << 20)},
        lambda: b"",
    ),
    "escapes": (filtered("vlen-utf8"), lambda: lengths(*[b"\x01" * (9 << 20)] * 6)),
    "numbers": (
        filtered("vlen-array", dtype="|u1"),
        lambda: lengths(*[b"\xff" * (9 << 20)] * 6),
    ),
    "row_of_chunks": (
        filtered("vlen-utf8") | {"shape": [1, 40], "chunks": [1, 1]},
        lambda: lengths(b"x" * (50 << 20)),
    ),
}


@pytest.mark.parametrize("name", ["fill_value", "escapes", "numbers", "row_of_chunks"])
def test_elements_that_are_too_long_as_text_are_refused_while_their_neighbour_is_read(
    tmp_path: Path, name: str
) -> None:
    """SEMANTICS A5, A7, D16."""
    store = open_store(str(tmp_path))
    put_group(store, "d.zarr", {})
    put_array(store, "d.zarr/good", FIELD, (2, 4))
    document, make = ELEMENTS[name]
    data = make()
    put_json(store, "d.zarr/bad/.zarray", document)
    compressed = zlib.compress(data, 1)
    is_row = len(document["shape"]) == 2
    for key in [f"0.{n}" for n in range(40)] if is_row else ["0"] if data else []:
        store.write(parse_key(f"d.zarr/bad/{key}"), compressed)
    expect = r"d\.zarr/bad/(chunks|values\.txt): (as text, the values|a row of chunks) takes? more"
    options = ("--memory-limit", "64MiB", "--request-timeout", "2m")
    with store_served(tmp_path, *options, expect=expect) as mount:
        place = mount.path / "datasets/d.zarr"
        with enduring(mount, place / "good/values.raw"):
            for path in ("values.txt",) if is_row else ("chunks/0", "values.txt"):
                with failing_with(errno.EIO):
                    (place / "bad" / path).read_bytes()


def test_ls_of_all_directories_ends_where_links_make_loops_and_a_million_million_ways(
    tmp_path: Path,
) -> None:
    """SEMANTICS L5, A7."""
    for level in range(40):
        directory = tmp_path / f"{level:02}"
        directory.mkdir()
        (directory / "file").write_bytes(b"x")
        (directory / "loop").symlink_to(f"../{level:02}")
        (directory / "up").symlink_to("..")
        for link in "ab" if level < 39 else "":
            (directory / link).symlink_to(f"../{level + 1:02}")
    with store_served(tmp_path, "--memory-limit", "64MiB") as mount:
        for tree in ("objects", "datasets"):
            found = list(os.walk(mount.path / tree, onerror=_raise))
            assert len(found) < 2000
        assert (mount.path / "objects/30/a/b/a/file").read_bytes() == b"x"


def _raise(error: OSError) -> None:
    raise error
