"""``nczfs warm`` and ``nczfs evict`` with a real mount."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from nczfs.cli.activity import counted
from tests.support.mounts import mounted, nczfs
from tests.support.refusing import small_disk
from tests.support.settled import settled

ROWS = 8
MIB = 1 << 20


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("store") / "data.zarr"
    group = zarr.open_group(path, mode="w", zarr_format=2)
    rows = group.create_array("t", shape=(ROWS, 1 << 18), chunks=(1, 1 << 18), dtype="f4")
    rows[...] = 1 + np.arange(ROWS, dtype="f4")[:, None]
    group.create_array("u", shape=(ROWS, 1 << 18), chunks=(1, 1 << 18), dtype="f4")[...] = 9
    group.create_group("g").create_array("one", shape=(), dtype="f8")[...] = 1.0
    return path


@pytest.fixture(scope="module")
def mount(store: Path) -> Iterator[Path]:
    with mounted(store, "--memory-limit", "256MiB", expect="Blosc header|EINVAL") as path:
        yield path


def decoded(mount: Path) -> float:
    found = counted((mount / ".nczfs/metrics").read_text())
    return found.get(("nczfs_chunks_decoded", ""), 0.0)


def status(mount: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((mount / ".nczfs/status.json").read_text())
    return found


def read(path: Path) -> bytes:
    """All bytes, past those that the kernel may have kept from before."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT)
    try:
        return b"".join(iter(lambda: os.read(descriptor, MIB), b""))
    finally:
        os.close(descriptor)


def test_what_is_warm_is_not_loaded_again_until_it_is_evicted(mount: Path, store: Path) -> None:
    """SEMANTICS N7."""
    before = decoded(mount)
    done = nczfs("warm", store / "t", "--box", "2:5, 0")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "3 chunks loaded: 3MiB on disk\n"
    assert decoded(mount) - before == 3
    directory = mount / "datasets/data.zarr/t"
    assert read(directory / "chunks/3.0")[:4] == np.float32(4).tobytes()
    assert decoded(mount) - before == 3
    # By its path in the mount, and without a box.
    assert nczfs("warm", directory).stdout == f"{ROWS} chunks loaded: 8MiB on disk\n"
    assert decoded(mount) - before == ROWS
    assert len(read(directory / "values.raw")) == ROWS << 20
    assert decoded(mount) - before == ROWS
    done = nczfs("evict", store / "t")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "8 chunks forgotten: 8MiB in memory and 8MiB on disk are free\n"
    nczfs("warm", store / "t", "--box", "0, 0")
    assert decoded(mount) - before == ROWS + 1


def test_a_group_is_warmed_with_everything_below(mount: Path, store: Path) -> None:
    assert nczfs("evict", store).returncode == 0
    before = decoded(mount)
    assert nczfs("warm", store).stdout == "17 chunks loaded: 16MiB on disk\n"
    assert decoded(mount) - before == 2 * ROWS + 1


def test_what_memory_cannot_hold_is_kept_on_the_disk(store: Path, tmp_path: Path) -> None:
    """SEMANTICS N7."""
    options = ("--memory-limit", "4MiB", "--max-cache-size", "64MiB", "--cache-dir", str(tmp_path))
    with mounted(store, *options) as path:
        done = nczfs("warm", path / "datasets/data.zarr/t")
        assert (done.returncode, done.stdout) == (0, "8 chunks loaded: 8MiB on disk\n")
        for _ in range(2):
            for number in range(ROWS):
                data = read(path / f"datasets/data.zarr/t/chunks/{number}.0")
                assert data == np.full(1 << 18, 1 + number, "f4").tobytes()
        assert decoded(path) == ROWS


def test_what_is_evicted_takes_no_room_on_the_disk(store: Path, tmp_path: Path) -> None:
    """SEMANTICS N7."""
    options = ("--memory-limit", "4MiB", "--max-cache-size", "256MiB")
    with small_disk(tmp_path / "disk", 64):
        empty = shutil.disk_usage(tmp_path / "disk").used
        with mounted(store, *options, "--cache-dir", str(tmp_path / "disk")) as path:
            place = path / "datasets/data.zarr"
            assert nczfs("warm", place).returncode == 0
            assert shutil.disk_usage(tmp_path / "disk").used - empty >= 16 * MIB
            freed = nczfs("evict", place / "t").stdout
            assert freed.startswith("8 chunks forgotten: ")
            assert " and 8MiB on disk are free" in freed
            left = shutil.disk_usage(tmp_path / "disk").used - empty
            # What is written next has its room already.
            assert 8 * MIB <= left == status(path)["disk_used_bytes"] <= 24 * MIB
            before = decoded(path)
            read(place / "u/values.raw")
            assert decoded(path) == before
            assert nczfs("evict", place).returncode == 0
            assert shutil.disk_usage(tmp_path / "disk").used == empty
            assert status(path)["disk_used_bytes"] == 0


def test_a_full_disk_keeps_what_it_has(store: Path, tmp_path: Path) -> None:
    """SEMANTICS N11."""
    options = ("--memory-limit", "4MiB", "--max-cache-size", "256MiB")
    told = "No space left on device: no more than .* of chunks are cached there from now on"
    with (
        small_disk(tmp_path / "disk", 64),
        mounted(store, *options, "--cache-dir", str(tmp_path / "disk"), expect=told) as path,
    ):
        place = path / "datasets/data.zarr"
        assert nczfs("warm", place / "t").returncode == 0
        free = shutil.disk_usage(tmp_path / "disk").free
        (tmp_path / "disk/others").write_bytes(bytes(free - 2 * MIB))
        done = nczfs("warm", place)
        assert done.returncode == 1
        assert "of 17 chunks: mount with a larger --max-cache-size" in done.stderr
        assert 6 * MIB <= status(path)["disk_used_bytes"] <= 10 * MIB
        for name, value in (("t", 3.0), ("u", 9.0)):
            assert read(place / name / "chunks/2.0")[:4] == np.float32(value).tobytes()
        assert status(path)["disk_used_bytes"] >= 6 * MIB


def test_two_that_warm_at_once_share_the_disk(store: Path, tmp_path: Path) -> None:
    """SEMANTICS N11."""
    options = ("--memory-limit", "4MiB", "--max-cache-size", "64MiB", "--cache-dir", str(tmp_path))
    with mounted(store, *options) as path:
        found: dict[str, tuple[int, str, str]] = {}

        def warm(name: str) -> None:
            done = nczfs("warm", path / "datasets/data.zarr" / name)
            found[name] = (done.returncode, done.stderr, done.stdout)

        threads = [threading.Thread(target=warm, args=(name,)) for name in ("t", "u", "")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found["t"] == found["u"] == (0, "", "8 chunks loaded: 8MiB on disk\n")
        assert found[""] == (0, "", "17 chunks loaded: 16MiB on disk\n")
        assert decoded(path) == 17
        assert status(path)["warming"] == []


@pytest.mark.parametrize("size", ["0", "4MiB"])
def test_what_the_cache_cannot_hold_is_said(store: Path, size: str) -> None:
    """SEMANTICS N9."""
    with mounted(store, "--memory-limit", "4MiB", "--max-cache-size", size) as path:
        done = nczfs("warm", path / "datasets/data.zarr")
    assert done.returncode == 1
    assert "of 17 chunks: mount with a larger --max-cache-size" in done.stderr


def test_the_file_of_a_dataset_is_warmed_and_variables_in_it(store: Path, tmp_path: Path) -> None:
    """SEMANTICS N7."""
    shutil.copytree(store, tmp_path / "store/2026/data.zarr")
    with settled(tmp_path / "store", tmp_path / "spool", "--layout", "flat") as served:
        path = served.path
        place = path / "2026/data.nc"
        for words in ((place / "t",), (tmp_path / "store/2026/data.zarr/t", "-b", "...")):
            assert nczfs("warm", *words).stdout == "8 chunks loaded: 8MiB on disk\n"
        assert nczfs("warm", place).stdout == "17 chunks loaded: 16MiB on disk\n"
        assert nczfs("warm", path / "2026").stdout == "17 chunks loaded: 16MiB on disk\n"
        before = decoded(path)
        assert len(read(place)) > 16 * MIB
        assert decoded(path) == before == 17
        assert nczfs("evict", place / "t").stdout.startswith("8 chunks forgotten")
        assert "no group or variable is there" in nczfs("warm", path / "2025").stderr


def test_an_archive_is_warmed_and_evicted(store: Path, tmp_path: Path) -> None:
    shutil.make_archive(str(tmp_path / "store/data"), "zip", store)
    with mounted(tmp_path / "store", "--memory-limit", "64MiB") as path:
        place = path / "datasets/data.zip"
        assert nczfs("warm", place / "t").stdout == "8 chunks loaded: 8MiB on disk\n"
        freed = nczfs("evict", place).stdout
        assert freed == "8 chunks forgotten: 8MiB in memory and 8MiB on disk are free\n"


def test_places_that_cannot_be_warmed_are_refused(mount: Path, store: Path, tmp_path: Path) -> None:
    done = nczfs("warm", tmp_path)
    assert (done.returncode, "no mount shows it" in done.stderr) == (2, True)
    assert nczfs("evict", tmp_path).returncode == 2
    done = nczfs("warm", store, "--box", "0")
    assert (done.returncode, "only a variable has a box" in done.stderr) == (1, True)
    assert "out of range" in nczfs("warm", store / "t", "--box", "99").stderr
    assert nczfs("warm", store / "t", "--box", "x").returncode == 2
    with pytest.raises(OSError, match="Invalid argument"):
        (mount / ".nczfs/warm").write_text("t\n")


def test_a_chunk_that_cannot_be_loaded_is_named_and_the_others_are_loaded(
    mount: Path, store: Path
) -> None:
    """SEMANTICS N10."""
    chunk = store / "t/7.0"
    whole = chunk.read_bytes()
    chunk.write_bytes(b"broken")
    nczfs("evict", store / "t")
    done = nczfs("warm", store / "t")
    chunk.write_bytes(whole)
    assert done.returncode == 1
    assert "1 cannot be read: " in done.stderr
    assert "t/7.0: " in done.stderr
    assert done.stdout == "8 chunks loaded: 7MiB on disk\n"


def test_a_shell_reads_the_answer_behind_what_it_wrote(mount: Path) -> None:
    """SEMANTICS N2, N8."""
    with open(mount / ".nczfs/warm", "rb+", buffering=0) as file:
        file.write(b'{"path": "datasets/data.zarr/t", "box": "0:2, 0"}\n')
        lines = file.readall().splitlines()
    assert json.loads(lines[-1])["state"] == "done"
    assert json.loads(lines[-1])["kept"] == 2
    with open(mount / ".nczfs/refresh", "rb+", buffering=0) as file:
        file.write(b"datasets/data.zarr/t\ndatasets/data.zarr/t\n")
        first, second = map(json.loads, file.readall().splitlines())
    assert (first["chunks"] >= 2, second["chunks"]) == (True, 0)
