"""``nczfs warm`` and ``nczfs evict`` with a real mount."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import zarr

from nczfs.cli.activity import counted
from tests.support.mounts import mounted, nczfs

ROWS = 8


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("store") / "data.zarr"
    group = zarr.open_group(path, mode="w", zarr_format=2)
    rows = group.create_array("t", shape=(ROWS, 1 << 18), chunks=(1, 1 << 18), dtype="f4")
    rows[...] = 1 + np.arange(ROWS, dtype="f4")[:, None]
    group.create_group("g").create_array("one", shape=(), dtype="f8")[...] = 1.0
    return path


@pytest.fixture(scope="module")
def mount(store: Path) -> Iterator[Path]:
    with mounted(store, "--memory-limit", "256MiB", expect="Blosc header") as path:
        yield path


def decoded(mount: Path) -> float:
    found = counted((mount / ".nczfs/metrics").read_text())
    return found.get(("nczfs_chunks_decoded", ""), 0.0)


def read(path: Path) -> bytes:
    """All bytes, which the kernel may have kept from before."""
    return path.read_bytes()


def test_what_is_warm_is_not_loaded_again_until_it_is_evicted(mount: Path, store: Path) -> None:
    before = decoded(mount)
    done = nczfs("warm", store / "t", "--box", "2:5, 0")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("3 chunks (3MiB) loaded; the cache has ")
    assert decoded(mount) - before == 3
    directory = mount / "datasets/data.zarr/t"
    assert read(directory / "chunks/3.0")[:4] == np.float32(4).tobytes()
    assert decoded(mount) - before == 3
    # By its path in the mount, and without a box.
    assert nczfs("warm", directory).stdout.startswith(f"{ROWS} chunks (8MiB) loaded")
    assert decoded(mount) - before == ROWS
    assert len(read(directory / "values.raw")) == ROWS << 20
    assert decoded(mount) - before == ROWS
    done = nczfs("evict", store / "t")
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "")
    nczfs("warm", store / "t", "--box", "0, 0")
    assert decoded(mount) - before == ROWS + 1


def test_a_group_is_warmed_with_everything_below(mount: Path, store: Path) -> None:
    assert nczfs("evict", store).returncode == 0
    before = decoded(mount)
    assert nczfs("warm", store).stdout.startswith(f"{ROWS + 1} chunks")
    assert decoded(mount) - before == ROWS + 1


def test_what_the_cache_cannot_hold_is_said(store: Path) -> None:
    with mounted(store, "--memory-limit", "4MiB", "--max-cache-size", "0") as path:
        done = nczfs("warm", path / "datasets/data.zarr/t")
    assert done.returncode == 1
    assert "mount with a larger --memory-limit" in done.stderr


def test_places_that_cannot_be_warmed_are_refused(mount: Path, store: Path, tmp_path: Path) -> None:
    done = nczfs("warm", tmp_path)
    assert (done.returncode, "no mount shows it" in done.stderr) == (2, True)
    assert nczfs("evict", tmp_path).returncode == 2
    done = nczfs("warm", store, "--box", "0")
    assert (done.returncode, "is a group; name one of its variables (t)" in done.stderr) == (
        2,
        True,
    )
    assert "out of range" in nczfs("warm", store / "t", "--box", "99").stderr


def test_a_chunk_that_cannot_be_loaded_is_named(mount: Path, store: Path) -> None:
    chunk = store / "t/7.0"
    whole = chunk.read_bytes()
    chunk.write_bytes(b"broken")
    nczfs("evict", store / "t")
    done = nczfs("warm", store / "t", "--box", "7, 0")
    chunk.write_bytes(whole)
    assert done.returncode == 1
    assert "chunks/7.0: Input/output error" in done.stderr
