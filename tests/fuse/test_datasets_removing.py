"""rm, rmdir and find on a mount whose datasets may be removed."""

from __future__ import annotations

import errno
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import netCDF4
import numpy as np
import pytest

import nczfs
from tests.support.sample import output
from tests.support.settled import settled

REFUSED = r"Operation not permitted|EPERM|ENOTEMPTY|not stored at its last close|ESTALE"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    directory = tmp_path / "store"
    directory.mkdir()
    for name in ("n.zarr", "o.zarr"):
        with nczfs.open(str(directory / name), "w", consolidated=True) as root:
            root.create_dimension("x", 500)
            for variable in ("v", "w"):
                values = np.arange(500, dtype="f4")
                attributes = {"units": "K", "long_name": variable}
                root.create_variable(
                    variable, ("x",), "<f4", values, chunks=(1,), attributes=attributes
                )
            root.create_group("g").create_variable("a", ("x",), "<i4")
    return directory


@pytest.fixture
def mount(store: Path, tmp_path: Path) -> Iterator[Path]:
    with settled(store, tmp_path / "spool", "-o", "allow_delete", expect=REFUSED) as mount:
        yield mount.path


def test_rm_r_removes_nothing_without_the_option(store: Path, tmp_path: Path) -> None:
    """SEMANTICS W11."""
    before = sorted(store.rglob("*"))
    with settled(store, tmp_path / "spool", expect=REFUSED) as mount:
        failed = subprocess.run(
            ["rm", "-r", mount.path / "datasets/n.zarr"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert failed.returncode == 1
        assert "Operation not permitted" in failed.stderr
        assert (mount.path / "datasets/n.zarr/v/values.raw").stat().st_size == 2000
    assert sorted(store.rglob("*")) == before


def test_rm_r_of_a_variable(mount: Path, store: Path) -> None:
    """SEMANTICS W16."""
    variable = mount / "datasets/n.zarr/v"
    objects = mount / "objects/n.zarr"
    assert sorted(p.name for p in objects.iterdir() if p.is_dir()) == ["g", "v", "w"]
    assert (objects / "v/3").exists()
    assert "v(x)" in (mount / "datasets/n.zarr/n.cdl").read_text()
    output("rm", "-r", variable)
    assert not variable.exists()
    assert not (objects / "v/3").exists()
    assert not (objects / "v").exists()
    assert sorted(p.name for p in objects.iterdir() if p.is_dir()) == ["g", "w"]
    assert "v(x)" not in (mount / "datasets/n.zarr/n.cdl").read_text()
    assert not (store / "n.zarr/v").exists()
    with netCDF4.Dataset(f"file://{store}/n.zarr#mode=nczarr,file") as dataset:
        assert list(dataset.variables) == ["w"]
        assert dataset.dimensions["x"].size == 500
    assert '"v/' not in (store / "n.zarr/.zmetadata").read_text()


def test_rm_of_chunks_one_by_one_hides_them(mount: Path, store: Path) -> None:
    """SEMANTICS W14."""
    chunks = mount / "datasets/n.zarr/v/chunks"
    output("find", chunks, "-name", "1*", "-delete")
    assert len(list(chunks.iterdir())) == 500 - 111
    assert not (chunks / "1").exists()
    (chunks / "2").unlink()
    output("rm", "-r", chunks)
    assert not chunks.exists()
    assert len(list((store / "n.zarr/v").glob("[0-9]*"))) == 500
    (mount / ".nczfs/refresh").write_text("datasets/n.zarr/v\n")
    assert len(list(chunks.iterdir())) == 500


@pytest.mark.parametrize("name", ["values.raw", "chunks/3"])
def test_a_file_that_is_removed_to_be_replaced_is_written(
    mount: Path, store: Path, tmp_path: Path, name: str
) -> None:
    """SEMANTICS W14."""
    target = mount / "datasets/n.zarr/v" / name
    (tmp_path / "new").write_bytes(b"\0" * target.stat().st_size)
    output("cp", "--remove-destination", tmp_path / "new", target)
    assert target.read_bytes() == (tmp_path / "new").read_bytes()
    with netCDF4.Dataset(f"file://{store}/n.zarr#mode=nczarr,file") as dataset:
        assert not dataset["v"][3].any()


def test_an_attribute_is_soon_in_the_store(mount: Path, store: Path) -> None:
    """SEMANTICS W15, W23."""
    units = mount / "datasets/n.zarr/v/attributes/units"
    texts = (mount / "datasets/n.zarr/v/info.json", mount / "datasets/n.zarr/n.cdl")
    assert [text.read_text().count("units") for text in texts] == [2, 2]
    units.unlink()
    assert not units.exists()
    assert [text.read_text().count("units") for text in texts] == [0, 1]
    limit = time.monotonic() + 30
    while "units" in (store / "n.zarr/v/.zattrs").read_text():
        assert time.monotonic() < limit
        time.sleep(0.05)
    assert "long_name" in (store / "n.zarr/v/.zattrs").read_text()


def test_rmtree_of_a_dataset_while_a_file_of_it_is_open(mount: Path, store: Path) -> None:
    """SEMANTICS W17, W40."""
    raw = mount / "datasets/n.zarr/w/values.raw"
    with raw.open("rb", buffering=0) as reader, raw.open("r+b", buffering=0) as writer:
        reader.read(4)
        writer.write(b"\1")
        shutil.rmtree(mount / "datasets/n.zarr")
        with pytest.raises(OSError, match="Stale") as refused:
            writer.write(b"\1")
        assert refused.value.errno == errno.ESTALE
        with pytest.raises(OSError, match="Stale"):
            writer.close()
        reader.seek(0)
        with pytest.raises(OSError, match="Stale"):
            reader.read(4096)
    assert [p.name for p in (mount / "datasets").iterdir()] == ["o.zarr"]
    assert [p.name for p in (mount / "objects").iterdir()] == ["o.zarr"]
    assert not (store / "n.zarr").exists() or list((store / "n.zarr").iterdir()) == []


def test_rmdir_of_what_is_not_empty_removes_nothing(mount: Path, store: Path) -> None:
    """SEMANTICS W16."""
    with pytest.raises(OSError, match="not empty") as refused:
        (mount / "datasets/n.zarr/v").rmdir()
    assert refused.value.errno == errno.ENOTEMPTY
    assert len(list((store / "n.zarr/v").iterdir())) == 502


def test_files_of_others_in_a_group_keep_it(mount: Path, store: Path) -> None:
    """SEMANTICS W39."""
    (store / "n.zarr/g/notes.txt").write_text("precious")
    (mount / ".nczfs/refresh").write_text("datasets/n.zarr\n")
    failed = subprocess.run(
        ["rm", "-r", mount / "datasets/n.zarr"], capture_output=True, text=True, check=False
    )
    assert failed.returncode == 1
    assert "Directory not empty" in failed.stderr
    assert (store / "n.zarr/g/notes.txt").read_text() == "precious"
    assert (mount / "datasets/n.zarr/g").exists()
    assert not (store / "n.zarr/v").exists()


def test_in_a_zip_archive(tmp_path: Path) -> None:
    """SEMANTICS W16."""
    archive = tmp_path / "a.zip"
    with nczfs.open(str(archive), "w") as root:
        for name in ("v", "w"):
            root.create_variable(name, (4,), "<f4", np.ones(4, "f4"))
    with settled(archive, tmp_path / "spool", "-o", "allow_delete", expect=REFUSED) as mount:
        output("rm", "-r", mount.path / "datasets/a.zip/v")
    with nczfs.open(str(archive)) as root:
        assert list(root.variables) == ["w"]
        assert root.problems == ()
