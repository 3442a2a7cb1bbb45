"""Datasets that programs declare in a mount by copying a zom.json, over all kinds of stores."""

from __future__ import annotations

import subprocess
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Barrier
from typing import Any

import numpy as np
import pytest
import zarr
from zarr.storage import LocalStore, ZipStore

from nczfs.zom import ArrayV2, GroupV2, Node, dumps, from_store, to_v3
from tests.support.mounts import mounted
from tests.support.zarrs3 import of_zarr_python

NEW = "new.zarr"
VALUES = np.arange(6, dtype="i4")
X = ArrayV2((6,), (4,), "<i4", 0, attributes={"_ARRAY_DIMENSIONS": ["x"], "units": "m"})
REFUSAL = "zom.json: ./members/g.: only attributes"
TAKEN = "zom.json:"
ROUNDS = 6
COUNTS = [
    ("directory", 8),
    ("zip", 3),
    ("swift", 3),
    *(pytest.param(store, 1000, marks=pytest.mark.long) for store in ("directory", "zip", "ceph")),
]


def tree(count: int) -> Node:
    members = {f"x{i}": X for i in range(count)}
    return to_v3(GroupV2({"g": GroupV2(members)}, {"title": "t"}))


def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False)


def new_store(
    kind: str, place: Path, request: pytest.FixtureRequest
) -> tuple[str, Callable[[], Any]]:
    """Return the URL of a new store, and what zarr-python reads it by."""
    if kind == "directory":
        place.mkdir()
        return str(place), lambda: LocalStore(place)
    if kind == "zip":
        archive = place.with_suffix(".zip")
        zipfile.ZipFile(archive, "w").close()
        return str(archive), lambda: ZipStore(archive, mode="r")
    server = request.getfixturevalue(kind)
    bucket = server.new_bucket()
    return server.url(bucket), lambda: of_zarr_python(server, bucket)


@pytest.mark.parametrize(("kind", "count"), COUNTS)
def test_a_copied_zom_json_declares_arrays_that_programs_write_and_read(
    tmp_path: Path, request: pytest.FixtureRequest, kind: str, count: int
) -> None:
    """SEMANTICS D33."""
    document = tmp_path / "tree.json"
    document.write_text(f"{dumps(tree(count))}\n")
    one_url, of_zarr = new_store(kind, tmp_path / "one", request)
    two_url, _ = new_store("directory", tmp_path / "two", request)
    with mounted(one_url, expect=REFUSAL) as one, mounted(two_url) as two:
        files = [mount / "datasets" / NEW / "zom.json" for mount in (one, two)]
        for file in files:
            file.parent.mkdir()
            copied = run("cp", document, file)
            assert copied.returncode == 0, copied.stderr
            assert file.stat().st_size == document.stat().st_size
        assert run("diff", *files).stdout == ""
        for i in range(count):
            (files[0].parent / f"g/x{i}/values.raw").write_bytes((VALUES + i).tobytes())
        (files[0].parent / "g/x2/attributes/units").write_text("km")
        found = run("diff", *files).stdout.splitlines()
        assert [line.split() for line in found if line[0] in "<>"] == [
            ["<", '"units":', '"km"'],
            [">", '"units":', '"m"'],
        ]
        document.write_text('{"zarr_format": 3, "node_type": "group", "members": {}}')
        refused = run("cp", document, files[0])
        assert refused.returncode == 1
        assert "Operation not permitted" in refused.stderr
        assert "'/members/g': only attributes" in (files[0].parent / "info.json").read_text()
    stored: Any = zarr.open_group(of_zarr(), path=NEW, mode="r")
    assert {name: np.asarray(each).tolist() for name, each in stored["g"].arrays()} == {
        f"x{i}": (VALUES + i).tolist() for i in range(count)
    }


@pytest.mark.parametrize("kind", ["directory", "ceph"])
@pytest.mark.parametrize("other", [X, replace(X, shape=(3,))], ids=["the same", "another one"])
def test_two_mounts_that_declare_a_dataset_at_the_same_time_make_one(
    tmp_path: Path, request: pytest.FixtureRequest, kind: str, other: ArrayV2
) -> None:
    """SEMANTICS D33: what `cp` returned 0 for is there, whole, and nothing of the other one."""
    wanted = [to_v3(GroupV2({"g": GroupV2({"x": each})})) for each in (X, other)]
    documents = [tmp_path / f"{number}.json" for number in range(2)]
    for document, node in zip(documents, wanted, strict=True):
        document.write_text(f"{dumps(node)}\n")
    url, _ = new_store(kind, tmp_path / "store", request)
    place, sign, fragment = url.partition("#")
    with (
        mounted(url, expect=TAKEN) as one,
        mounted(url, expect=TAKEN) as two,
        ThreadPoolExecutor(2) as pool,
    ):
        together = Barrier(2, timeout=60)

        def declare(mount: Path, name: str, document: Path) -> int:
            (mount / "datasets" / name).mkdir(exist_ok=True)
            together.wait()
            return run("cp", document, mount / "datasets" / name / "zom.json").returncode

        for number in range(ROUNDS):
            name = f"{number}.zarr"
            statuses = list(pool.map(declare, (one, two), (name, name), documents))
            assert 0 in statuses
            found = from_store(f"{place}/{name}{sign}{fragment}").node
            assert [found == node for node in wanted] == [
                not status or node == found for status, node in zip(statuses, wanted, strict=True)
            ]
            if other == X:
                for mount, document in zip((one, two), documents, strict=True):
                    (mount / ".nczfs/refresh").write_text("\n")
                    again = run("cp", document, mount / "datasets" / name / "zom.json")
                    assert again.returncode == 0, again.stderr
