"""Archives that are made to take memory, on real mounts."""

from __future__ import annotations

import json
import os
import struct
import zlib
from pathlib import Path

import numpy as np

from nczfs.testing.datasets import put_array, put_group
from nczfs.zmap.registry import open_store
from tests.support.enduring import enduring
from tests.support.looking import store_served

FIELD = np.arange(24, dtype="<f4").reshape(4, 6)
ENTRIES = 40_000
NAME_BYTES = 900
ARCHIVES = 14


def vast_archive(path: Path) -> None:
    """Write an array, and a central directory of long names that takes most of the archive."""
    array = json.dumps(
        {
            "zarr_format": 2,
            "shape": [2],
            "chunks": [2],
            "dtype": "|u1",
            "compressor": None,
            "filters": None,
            "fill_value": 7,
            "order": "C",
        }
    ).encode()
    members = {b".zgroup": b'{"zarr_format": 2}', b"v/.zarray": array}
    with path.open("wb") as out:
        entries = []
        for name, data in members.items():
            about = struct.pack("<HIII", 33, zlib.crc32(data), len(data), len(data))
            sizes = struct.pack("<HH", len(name), 0)
            at = out.tell()
            out.write(struct.pack("<4sHHHH", b"PK\3\4", 20, 0, 0, 0) + about + sizes + name + data)
            head = struct.pack("<4sHHHHH", b"PK\1\2", 20, 20, 0, 0, 0)
            entries.append(head + about + sizes + struct.pack("<HHHII", 0, 0, 0, 0, at) + name)
        start = out.tell()
        out.writelines(entries)
        head = struct.pack(
            "<4sHHHHHHIIIHHHHHII",
            b"PK\1\2",
            20,
            20,
            *(0,) * 3,
            33,
            *(0,) * 3,
            NAME_BYTES,
            *(0,) * 6,
        )
        for number in range(ENTRIES):
            out.write(head + f"v/{number:06d}/".encode().ljust(NAME_BYTES, b"n"))
        count, end = ENTRIES + len(members), out.tell()
        out.write(
            struct.pack(
                "<4sQHHIIQQQQ", b"PK\6\6", 44, 45, 45, 0, 0, count, count, end - start, start
            )
        )
        out.write(struct.pack("<4sIQI", b"PK\6\7", 0, end, 1))
        out.write(struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, *(65_535,) * 2, *(2**32 - 1,) * 2, 0))


def test_indexes_of_many_archives_are_kept_within_the_budget(tmp_path: Path) -> None:
    """SEMANTICS A7."""
    store = open_store(str(tmp_path))
    put_group(store, "d.zarr", {})
    put_array(store, "d.zarr/good", FIELD, (2, 4))
    vast_archive(tmp_path / "0.zip")
    for number in range(1, ARCHIVES):
        os.link(tmp_path / "0.zip", tmp_path / f"{number}.zip")
    with store_served(tmp_path, "--memory-limit", "64MiB", "--request-timeout", "60s") as mount:
        place = mount.path / "datasets"
        with enduring(mount, place / "d.zarr/good/values.raw"):
            for _ in range(2):
                for number in range(ARCHIVES):
                    assert (place / f"{number}.zip/v/values.raw").read_bytes() == b"\7\7"
