"""Documents of references in which something is wrong, on real mounts."""

from __future__ import annotations

import errno
import json
import os
import resource
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.enduring import enduring
from tests.support.looking import failing_with, store_served
from tests.support.mounts import NCZFS

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


def test_references_beyond_the_memory_limit_are_refused(tmp_path: Path) -> None:
    """SEMANTICS A7."""
    refs = {f"v/{number}": ["data.bin", number, 1] for number in range(400_000)}
    document = tmp_path / "refs.json"
    document.write_text(json.dumps({".zgroup": {"zarr_format": 2}, "v/.zarray": ARRAY} | refs))
    refused = subprocess.run(
        [*NCZFS, "cp", "--memory-limit", "64MiB", str(document), str(tmp_path / "copy.zarr")],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30)),
    )
    assert refused.returncode == 1
    assert "refs.json: its references come to more than the memory limit (64MiB)" in refused.stderr
    with store_served(document, "--memory-limit", "128MiB") as mount:
        status = json.loads((mount.path / ".nczfs/status.json").read_text())
        assert status["memory_used_bytes"] > 400_000 * 30


def test_an_array_in_parquet_whose_chunks_cannot_be_counted_is_refused_alone(
    tmp_path: Path,
) -> None:
    """SEMANTICS A4, A7."""
    directory = tmp_path / "refs.parq"
    directory.mkdir()
    metadata = {
        ".zgroup": {"zarr_format": 2},
        "bad/.zarray": ARRAY | {"shape": [1 << 60]},
        "w/.zarray": ARRAY,
    }
    (directory / ".zmetadata").write_text(json.dumps({"metadata": metadata, "record_size": 2}))
    with store_served(directory, "--memory-limit", "64MiB", expect=r"bad/") as mount:
        place = mount.path / "datasets/refs.parq"
        with enduring(mount, place / "w/values.raw"):
            with failing_with(errno.EIO):
                (place / "bad/chunks/0").read_bytes()
            with failing_with(errno.EIO), (place / "bad/values.raw").open("rb") as file:
                file.read(8)
        problems = json.loads((place / "bad/info.json").read_text())["problems"]
        assert any("more chunks than there can be" in problem for problem in problems)
        assert (place / "w/values.raw").read_bytes() == b"\xff" * 8
