"""Metadata that promise the impossible: their own files say so, and all others are served."""

from __future__ import annotations

import errno
import json
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nczfs.testing.datasets import put_array, put_group, put_json
from nczfs.zmap.base import ZMap
from nczfs.zmap.registry import open_store
from tests.support.enduring import enduring
from tests.support.looking import failing_with, peak_bytes, store_served
from tests.support.neighbour import cpu_s

MANY_CPU_S = 20.0  # a sixth of it, measured; one look after the other at all took a minute
FIELD = np.arange(24, dtype="<f4").reshape(4, 6)


def described(**members: object) -> dict[str, Any]:
    return {
        "zarr_format": 2,
        "shape": [6],
        "chunks": [6],
        "dtype": "<f4",
        "compressor": None,
        "filters": None,
        "fill_value": 0,
        "order": "C",
        **members,
    }


def store_with_neighbour(path: Path) -> ZMap:
    store = open_store(str(path))
    put_group(store, "d.zarr", {})
    put_array(store, "d.zarr/good", FIELD, (2, 4))
    return store


@pytest.mark.parametrize(
    ("shape", "dtype", "shown"),
    [
        ([10**18], "<f4", {"values.raw", "values.npy", "chunks", "vast.nc"}),
        ([2**62], "|u1", {"values.raw", "values.npy", "chunks"}),
        ([2**60], "<f8", {"chunks"}),
        ([2**30, 2**30], "<f8", {"chunks"}),
        ([2**63 - 1], "|u1", set()),
        ([2**32, 2**32], "|u1", set()),
    ],
)
def test_files_that_no_system_can_have_are_left_out_and_the_others_are_listed(
    tmp_path: Path, shape: list[int], dtype: str, shown: set[str]
) -> None:
    """SEMANTICS A4, A7."""
    store = store_with_neighbour(tmp_path)
    put_json(
        store, "d.zarr/vast/.zarray", described(shape=shape, chunks=[1] * len(shape), dtype=dtype)
    )
    all_names = {"values.raw", "values.npy", "values.txt", "chunks", "vast.nc"}
    with store_served(tmp_path, "--memory-limit", "64MiB") as mount:
        place = mount.path / "datasets/d.zarr"
        with enduring(mount, place / "good/values.raw"):
            assert set(os.listdir(place / "vast")) == shown | {"info.json", "attributes"}
            for name in shown - {"chunks"}:
                (place / "vast" / name).stat()
            assert (place / "d.nc").stat().st_size > 0
            problems = json.loads((place / "vast/info.json").read_text())["problems"]
            if "chunks" in shown:
                with os.scandir(place / "vast/chunks") as entries:
                    assert len(list(islice(entries, 2000))) == 2000
        told = dict(problem.split(": ", 1) for problem in problems)
        assert set(told) == all_names - shown
        for name, problem in told.items():
            if name == "chunks":
                assert problem.endswith(" files are more than a directory can have")
            elif name.startswith("values."):
                assert problem.endswith(" bytes are more than a file can have")


@pytest.mark.parametrize("rank", [65, 1024])
def test_values_of_too_many_dimensions_are_refused_by_name(tmp_path: Path, rank: int) -> None:
    """SEMANTICS A5, A7."""
    store = store_with_neighbour(tmp_path)
    ones = [1] * rank
    put_json(store, "d.zarr/deep/.zarray", described(shape=ones, chunks=ones))
    expect = rf"d\.zarr/deep: {rank} dimensions"
    with store_served(tmp_path, expect=expect) as mount:
        place = mount.path / "datasets/d.zarr"
        for name in ("values.raw", "values.npy", "values.txt"):
            with failing_with(errno.EIO):
                (place / "deep" / name).read_bytes()
        assert (place / "good/values.raw").read_bytes() == FIELD.tobytes()


def test_fields_of_any_name_have_a_npy_header(tmp_path: Path) -> None:
    """SEMANTICS D5."""
    store = store_with_neighbour(tmp_path)
    fields = [["海面", "<f4"], ["\x1b[2J", "<i2"], ["é", "<i2"]]
    put_json(store, "d.zarr/odd/.zarray", described(dtype=fields, fill_value=None))
    with store_served(tmp_path) as mount:
        values = np.load(mount.path / "datasets/d.zarr/odd/values.npy")
    assert values.shape == (6,)
    assert values.dtype.names == ("海面", "\x1b[2J", "é")


def test_documents_that_take_much_memory_are_all_shown_within_the_budget(tmp_path: Path) -> None:
    """SEMANTICS A7."""
    store = store_with_neighbour(tmp_path)
    numbers = [f"numbers{n}" for n in range(2)]
    texts = [f"texts{n}" for n in range(8)]
    for name in (*numbers, *texts):
        put_json(store, f"d.zarr/{name}/.zarray", described())
        value = list(range(10, 250_000)) if name in numbers else "x" * (12 << 20)
        put_json(store, f"d.zarr/{name}/.zattrs", {"a": value})

    def looked_at(place: Path) -> int:
        for entry in place.iterdir():
            entry.stat()
        return len((place / "info.json").read_bytes()) + len((place / "attributes/a").read_bytes())

    with store_served(tmp_path, "--memory-limit", "64MiB", "--request-timeout", "3m") as mount:
        place = mount.path / "datasets/d.zarr"
        with enduring(mount, place / "good/values.raw"):
            with ThreadPoolExecutor(2) as pool:
                sizes = list(pool.map(looked_at, [place / name for name in (*texts, *numbers)]))
            text = (place / "d.cdl").read_text()
        assert min(sizes) > 1 << 20
        assert "float good(" in text
        problems = json.loads((place / "info.json").read_text())["problems"]
        left_out = sum("--memory-limit" in problem for problem in problems)
        assert 0 < left_out < len(numbers) + len(texts)


def test_a_directory_of_many_attributes_takes_a_moment(tmp_path: Path) -> None:
    """SEMANTICS A7."""
    store = store_with_neighbour(tmp_path)
    put_json(store, "d.zarr/many/.zarray", described())
    put_json(store, "d.zarr/many/.zattrs", {f"a{n}": n for n in range(60_000)})
    with store_served(tmp_path, "--memory-limit", "64MiB") as mount:
        place = mount.path / "datasets/d.zarr"
        with enduring(mount, place / "good/values.raw"):
            before = cpu_s(mount.process.pid)
            assert len(os.listdir(place / "many/attributes")) == 60_000
            for n in range(0, 60_000, 600):
                assert (place / f"many/attributes/a{n}").read_text() == f"{n}\n"
            assert cpu_s(mount.process.pid) - before < MANY_CPU_S


def test_huge_grids_of_chunks_are_listed_in_little_memory(tmp_path: Path) -> None:
    """Each listed name of a chunk stayed in the daemon: 870 MB for two such directories."""
    store = open_store(str(tmp_path))
    put_group(store, "")
    names = ("one", "two")
    for name in names:
        put_array(store, name, np.empty(0, "u1"), (1,))
        document = json.loads((tmp_path / name / ".zarray").read_bytes())
        put_json(store, f"{name}/.zarray", document | {"shape": [10**9]})
    with store_served(tmp_path) as mount:
        places = [mount.path / "datasets" / tmp_path.name / name / "chunks" for name in names]
        before = peak_bytes(mount.process.pid)
        with ExitStack() as stack:
            listings = [stack.enter_context(os.scandir(place)) for place in places]
            for _ in range(40_000):
                for listing in listings:
                    next(listing)
        grown = peak_bytes(mount.process.pid) - before
    assert grown < 16 << 20
