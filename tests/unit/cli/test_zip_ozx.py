"""``nczfs zip-compact --ozx``: archives as OME-NGFF's RFC-9 wants them."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from zarr.storage import ZipStore

import nczfs
from nczfs.cli.main import main
from nczfs.vfs.tree import mount_tree
from tests.support.trees import exists, listing
from tests.support.trees import read as read_file

VALUES = np.arange(12, dtype="i2").reshape(3, 4)
MARK = {"ome": {"version": "0.5", "zipFile": {"centralDirectory": {"jsonFirst": True}}}}


def run(*words: str | Path) -> int:
    return main(["zip-compact", *map(str, words)])


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / "image.ozx"
    with nczfs.open(str(path), "w", format="zarr3") as root:
        group = root.create_group("b").create_group("c")
        group.create_variable("v", VALUES.shape, "i2", data=VALUES, chunks=(2, 2))
        root.create_variable("a", (2,), "i1", data=[1, 2])
        root.attrs["ome"] = {"version": "0.5"}
    return path


def read(path: Path) -> Any:
    with nczfs.open(str(path)) as root:
        return root.groups["b"].groups["c"].variables["v"][...].tolist()


def names_and_comment(path: Path) -> tuple[list[str], bytes]:
    """Return the names of members in the order of the directory, which is that of the file."""
    with zipfile.ZipFile(path) as found:
        members = found.infolist()
        assert [m.header_offset for m in members] == sorted(m.header_offset for m in members)
        assert all(m.compress_type == zipfile.ZIP_STORED for m in members)
        assert found.testzip() is None
        return [m.filename for m in members], found.comment


def test_documents_come_first_level_by_level(archive: Path) -> None:
    before = names_and_comment(archive)[0]
    assert run("--ozx", archive) == 0
    names, comment = names_and_comment(archive)
    documents = ["zarr.json", "a/zarr.json", "b/zarr.json", "b/c/zarr.json", "b/c/v/zarr.json"]
    assert names[:5] == documents
    assert names[5:] == [name for name in before if name not in documents]
    assert comment.endswith(b"\0")
    assert json.loads(comment.rstrip(b"\0")) == MARK
    assert b"PK\x06\x06" in archive.read_bytes()[-1000:]  # zip64, whatever the size
    assert read(archive) == VALUES.tolist()


def test_zarr_python_reads_an_arranged_archive(archive: Path) -> None:
    run("--ozx", archive)
    with ZipStore(archive, mode="r") as store:
        array: Any = zarr.open_array(store, path="b/c/v", mode="r")
        assert array[...].tolist() == VALUES.tolist()


def test_writing_takes_the_mark_away_and_the_command_puts_it_back(archive: Path) -> None:
    run("--ozx", archive)
    with nczfs.open(str(archive), "r+") as root:
        root.groups["b"].groups["c"].variables["v"][0, 0] = 99
    assert b"ome" not in names_and_comment(archive)[1]
    assert read(archive)[0][0] == 99
    assert run("--ozx", archive) == 0
    names, comment = names_and_comment(archive)
    assert (names[0], json.loads(comment.rstrip(b"\0"))) == ("zarr.json", MARK)
    assert read(archive)[0][0] == 99


def test_compacting_alone_keeps_the_order_and_the_mark(archive: Path) -> None:
    run("--ozx", archive)
    before = archive.read_bytes()
    assert run(archive) == 0
    assert archive.read_bytes() == before


def test_a_dry_run_changes_nothing(archive: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = archive.read_bytes()
    assert run("--ozx", "--dry-run", archive) == 0
    assert "would be" in capsys.readouterr().out
    assert archive.read_bytes() == before


def test_a_mount_shows_an_archive_as_a_dataset(archive: Path) -> None:
    """SEMANTICS D3."""
    fs = mount_tree(str(archive.parent))
    assert set(listing(fs, "datasets")) == {"image.ozx"}
    assert read_file(fs, "datasets/image.ozx/b/c/v/values.raw") == VALUES.tobytes()
    assert exists(fs, "datasets/image.ozx/image.nc")
    fs.close()


@pytest.mark.parametrize("change", ["no version", "zarr2", "compressed", "directory"])
def test_what_cannot_be_single_file_ome_zarr_is_refused(
    change: str, archive: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if change == "no version":
        with nczfs.open(str(archive), "r+") as root:
            root.attrs["ome"] = {"name": "x"}
    elif change == "zarr2":
        archive.unlink()
        with nczfs.open(str(archive), "w", format="zarr2") as root:
            root.attrs["ome"] = {"version": "0.4"}
    else:
        members = {n: zipfile.ZipFile(archive).read(n) for n in names_and_comment(archive)[0]}
        archive.unlink()
        method = zipfile.ZIP_DEFLATED if change == "compressed" else zipfile.ZIP_STORED
        with zipfile.ZipFile(archive, "w", method) as new:
            for name, data in members.items():
                new.writestr(name if change == "compressed" else f"top/{name}", data)
    before = archive.read_bytes()
    assert run("--ozx", archive) == (2 if change in ("no version", "zarr2") else 1)
    words = {"compressed": "is compressed by the archive", "directory": "in the directory 'top'"}
    assert words.get(change, "is no OME-Zarr of Zarr v3") in capsys.readouterr().err
    assert archive.read_bytes() == before
