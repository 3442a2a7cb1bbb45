"""Documents of references in which something is wrong, on real mounts."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.support.enduring import enduring
from tests.support.looking import failing_with, store_served

ARRAY = {
    "zarr_format": 2,
    "shape": [8],
    "chunks": [2],
    "dtype": "|u1",
    "compressor": None,
    "filters": None,
    "fill_value": 255,
    "order": "C",
}
ENTRIES: dict[str, Any] = {
    "range": ["data.bin", -1, 2],
    "base64": "base64:%%%",
    "kind": 7,
    "list": ["data.bin", 1],
    "digits": ["data.bin", 10**19, 1],
    "absent": ["gone.bin"],
    "refused": ["/etc/hostname"],
    "template": ["{{unknown}}", 0, 2],
}


@pytest.mark.parametrize("name", ENTRIES)
def test_a_reference_that_cannot_be_read_is_refused_alone(tmp_path: Path, name: str) -> None:
    """SEMANTICS A4, A7."""
    (tmp_path / "data.bin").write_bytes(bytes(range(8)))
    refs = {
        ".zgroup": {"zarr_format": 2},
        "v/.zarray": ARRAY,
        "v/0": ["data.bin", 0, 2],
        "v/1": ENTRIES[name],
        "v/3": ["data.bin", 6, 2],
        "w/.zarray": ARRAY,
    }
    document = tmp_path / "refs.json"
    document.write_text(json.dumps({"version": 1, "refs": refs}))
    is_known = name not in ("absent", "refused")
    with store_served(document, "--memory-limit", "64MiB", expect=r"v/1") as mount:
        place = mount.path / "datasets/refs.json"
        with enduring(mount, place / "w/values.raw"):
            assert (place / "v/chunks/0").read_bytes() == b"\0\1"
            assert (place / "v/chunks/2").read_bytes() == b"\xff\xff"
            assert (place / "v/chunks/3").read_bytes() == b"\6\7"
            assert sorted(os.listdir(mount.path / "objects/v")) == [".zarray", "0", "1", "3"]
            for path in (
                place / "v/chunks/1",
                place / "v/values.raw",
                mount.path / "objects/v/1",
            ):
                with failing_with(errno.EIO, errno.EACCES):
                    path.read_bytes()
        problems = json.loads((place / "v/info.json").read_text())["problems"]
        assert any("v/1" in problem for problem in problems) == is_known
        assert json.loads((place / "info.json").read_text())["problems"] == []
        log = mount.log.read_text()
        assert log.count("such as that of") + log.count("cannot be read: ") == is_known


def test_a_document_in_a_document_that_cannot_be_read_breaks_its_node_alone(
    tmp_path: Path,
) -> None:
    """SEMANTICS A4."""
    refs = {
        ".zgroup": {"zarr_format": 2},
        "v/.zarray": ["x", -1, 2],
        "w/.zarray": ARRAY,
        "w/.zattrs": "base64:%",
        "x/.zarray": ARRAY,
    }
    document = tmp_path / "refs.json"
    document.write_text(json.dumps({"version": 1, "refs": refs}))
    with store_served(document, expect=r"v/\.zarray|w/\.zattrs") as mount:
        place = mount.path / "datasets/refs.json"
        assert set(os.listdir(place)) >= {*"vwx", "info.json"}
        for name in "vw":
            problems = json.loads((place / name / "info.json").read_text())["problems"]
            assert any(f"{name}/.za" in problem for problem in problems)
        assert (place / "x/values.raw").read_bytes() == b"\xff" * 8
