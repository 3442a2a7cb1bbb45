"""Hostile documents and shards of Zarr v3: each is refused alone, by name, in little memory."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.enduring import Cost, costing, enduring
from tests.support.hostile_zarr3 import DOCUMENTS, READABLE, VALUES, write_hostile
from tests.support.httpd import WebServer
from tests.support.looking import failing_with, store_served
from tests.support.sample import upload, zip_up
from tests.support.servers import S3Server


def in_a_directory(written: Path, _: pytest.FixtureRequest) -> str:
    return str(written)


def in_a_zip(written: Path, _: pytest.FixtureRequest) -> str:
    place = written.with_name("zip")
    place.mkdir()
    for name in os.listdir(written):
        zip_up(written / name, place / f"{name}.zip")
    return str(place)


def on_the_web(written: Path, request: pytest.FixtureRequest) -> str:
    server: WebServer = request.getfixturevalue("nginx")
    directory = server.new_directory()
    shutil.copytree(written, directory, dirs_exist_ok=True)
    for path in directory.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return f"{server.url}/json/{directory.name}/"


def on_s3(written: Path, request: pytest.FixtureRequest) -> str:
    server: S3Server = request.getfixturevalue("swift")
    bucket = server.new_bucket()
    client = server.client()
    for name in os.listdir(written):
        upload(client, bucket, name, written / name)
    client.close()
    return server.url(bucket)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a dataset of hostile arrays, and one with a hostile copy."""
    directory = tmp_path_factory.mktemp("hostile") / "store"
    write_hostile(directory)
    return directory


def hostile_view(name: str) -> str:
    """The file of values that cannot be read."""
    return "values.txt" if VALUES[name][0]["data_type"] == "string" else "values.raw"


@pytest.mark.parametrize(
    "stored",
    [
        in_a_directory,
        on_the_web,
        pytest.param(in_a_zip, marks=pytest.mark.long),
        pytest.param(on_s3, marks=pytest.mark.long),
    ],
)
def test_each_of_many_hostile_documents_is_refused_alone_and_by_its_name(
    written: Path, request: pytest.FixtureRequest, stored: Callable[..., str]
) -> None:
    """SEMANTICS A5, A7."""
    store = stored(written, request)
    expect = r"d\.zarr|copy\.zarr"
    with store_served(store, "--memory-limit", "64MiB", expect=expect) as mount:
        datasets = mount.path / "datasets"
        names = {name.removesuffix(".zip"): datasets / name for name in os.listdir(datasets)}
        place, beside = names["d.zarr"], names["copy.zarr"]
        with enduring(mount, place / "good/values.raw"):
            told = {name: (place / name / "info.json").read_bytes() for name in DOCUMENTS}
            large = {name: (place / name / "info.json").read_bytes() for name in READABLE}
            for name in VALUES:
                with failing_with(errno.EIO):
                    (place / name / hostile_view(name)).read_bytes()
            copied = json.loads((beside / "info.json").read_bytes())
            hierarchy = json.loads((beside / "zom.json").read_bytes())
            assert (beside / "good/values.raw").read_bytes() == bytes(range(24))
        assert (place / "good/values.raw").read_bytes() == bytes(range(24))
        lines = mount.log.read_text().splitlines()
    wanted = {name: (f"{name}/zarr.json", message) for name, (_, message) in DOCUMENTS.items()}
    found = {name: " ".join(json.loads(text)["problems"]) for name, text in told.items()}
    assert {
        n: found[n] for n, words in wanted.items() if not all(w in found[n] for w in words)
    } == {}
    assert [name for name, (_, part) in READABLE.items() if part not in large[name]] == []
    logged = {name: [line for line in lines if f"/{name}" in line] for name in VALUES}
    said = {name: message for name, (_, _, message) in VALUES.items()}
    assert {n: logged[n] for n, m in said.items() if m not in " ".join(logged[n])} == {}
    refused = "has more than 262144 members"
    assert f"{refused}: the single documents are shown instead" in copied["problems"][0]
    assert len(copied["problems"]) == 1
    assert "good" in hierarchy["members"]
    assert any(refused in line for line in lines)


CPU_MAX_S = 3.0  # about one on a machine that does nothing else
MEMORY_MAX_BYTES = 256 << 20


def test_each_hostile_document_costs_seconds_and_256_mib_at_most(written: Path) -> None:
    costs: dict[str, Cost] = {}
    with store_served(written, "--memory-limit", "64MiB", expect=r"d\.zarr|copy\.zarr") as mount:
        place, beside = (mount.path / f"datasets/{name}.zarr" for name in ("d", "copy"))
        for name in ("good", *DOCUMENTS, *READABLE):
            with costing(mount) as costs[name]:
                (place / name / "info.json").read_bytes()
        for name in VALUES:
            (place / name / "info.json").read_bytes()
            with costing(mount) as costs[f"values of {name}"], failing_with(errno.EIO):
                (place / name / hostile_view(name)).read_bytes()
        with costing(mount) as costs["copy"]:
            (beside / "info.json").read_bytes()
        with costing(mount) as costs["hierarchy"]:
            (beside / "zom.json").read_bytes()
    assert {
        name: cost
        for name, cost in costs.items()
        if cost.cpu_s >= CPU_MAX_S or cost.memory_bytes >= MEMORY_MAX_BYTES
    } == {}
