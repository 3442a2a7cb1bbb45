"""What is broken breaks alone: bad documents, bad chunks, bad archives, bad stores."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nczfs
from nczfs.testing.archives import SIZE, patched, u32, zipped
from nczfs.testing.datasets import put_array, put_group, put_json
from nczfs.zmap.base import ZMap
from nczfs.zmap.keys import parse_key
from nczfs.zmap.registry import open_store
from nczfs.zmap.web.attempts import ATTEMPTS
from tests.support.looking import failing_with, peak_bytes, pread_direct, store_served
from tests.support.sample import output, upload
from tests.support.servers import Faults

FIELD = np.arange(24, dtype="<f4").reshape(4, 6)
GOOD: dict[str, Any] = {
    "zarr_format": 2,
    "shape": [4, 6],
    "chunks": [2, 4],
    "dtype": "<f4",
    "compressor": None,
    "filters": None,
    "fill_value": 0,
    "order": "C",
}

MEMORY_BYTES = 200 << 20  # no limit of ours reaches it

# The document of a node, and a word of what is said about it.
DOCUMENTS: dict[str, tuple[bytes, str]] = {
    "not_json": (b"{not json", "not JSON"),
    "empty": (b"", "not JSON"),
    "binary": (bytes(range(256)), "not"),
    "cut_off": (json.dumps(GOOD).encode()[:-20], "not JSON"),
    "a_list": (b"[]", ""),
    "nested": (b"[" * 100_000, ""),
    "text_as_shape": (json.dumps(GOOD | {"shape": "abc"}).encode(), "shape"),
    "fractions": (json.dumps(GOOD | {"shape": [1.5, 6]}).encode(), "shape"),
    "negative": (json.dumps(GOOD | {"shape": [-4, 6]}).encode(), "shape"),
    "absurd": (json.dumps(GOOD | {"shape": [2**70, 6]}).encode(), "shape"),
    "no_shape": (json.dumps({k: v for k, v in GOOD.items() if k != "shape"}).encode(), "shape"),
    "other_rank": (json.dumps(GOOD | {"chunks": [2]}).encode(), "chunks"),
    "no_chunk": (json.dumps(GOOD | {"chunks": [0, 4]}).encode(), "chunks"),
    "giant_chunks": (
        json.dumps(GOOD | {"shape": [2**40, 6], "chunks": [2**40, 6]}).encode(),
        "chunks",
    ),
    "grid_without_end": (
        json.dumps(GOOD | {"shape": [2**62, 2**62], "chunks": [1, 1]}).encode(),
        "chunks",
    ),
    "no_type": (json.dumps(GOOD | {"dtype": "<q9"}).encode(), "dtype"),
    "number_as_type": (json.dumps(GOOD | {"dtype": 5}).encode(), "dtype"),
    "wide_type": (json.dumps(GOOD | {"dtype": "|S99999999999"}).encode(), ""),
    "bad_codec": (json.dumps(GOOD | {"compressor": "zlib"}).encode(), "compressor"),
    "version_9": (json.dumps(GOOD | {"zarr_format": 9}).encode(), "zarr_format"),
}


def put_good(store: ZMap) -> None:
    put_group(store, "d.zarr", {"title": "a test"})
    put_array(store, "d.zarr/good", FIELD, (2, 4), dimensions=("y", "x"))


def assert_good(mount: Path, name: str = "d.zarr") -> None:
    """The siblings of what is broken work."""
    place = mount / "datasets" / name / "good"
    assert (place / "values.raw").read_bytes() == FIELD.tobytes()
    assert (place / "info.json").stat().st_size
    assert json.loads((mount / ".nczfs/status.json").read_text())["pid"] > 0


def test_documents_that_cannot_be_read_break_their_node_alone(tmp_path: Path) -> None:
    """SEMANTICS A4, A6."""
    store = open_store(str(tmp_path))
    put_good(store)
    for name, (document, _) in DOCUMENTS.items():
        store.write(parse_key(f"d.zarr/{name}/.zarray"), document)
        store.write(parse_key(f"d.zarr/{name}/0.0"), b"x")
    with store_served(tmp_path, expect=r"d\.zarr/\w+/\.zarray") as mount:
        place = mount.path / "datasets/d.zarr"
        assert set(DOCUMENTS) < set(os.listdir(place))
        for name, (_, word) in DOCUMENTS.items():
            assert os.listdir(place / name) == ["info.json"], name
            (problem,) = json.loads((place / name / "info.json").read_text())["problems"]
            assert f"d.zarr/{name}/.zarray" in problem
            assert word in problem, (word, problem)
            assert len(problem) < 400
            with pytest.raises(FileNotFoundError):
                (place / name / "values.raw").read_bytes()
            assert problem in mount.log.read_text()
            assert (mount.path / f"objects/d.zarr/{name}/.zarray").stat().st_size >= 0
        problems = json.loads((place / "info.json").read_text())["problems"]
        named = {p.partition(":")[0] for p in problems if not p.startswith("zom.json")}
        assert named == set(DOCUMENTS)
        assert "float good(y, x) ;" in (place / "d.cdl").read_text()
        assert_good(mount.path)


def test_attributes_that_cannot_be_read_are_told_and_leave_the_values(tmp_path: Path) -> None:
    """SEMANTICS A4."""
    store = open_store(str(tmp_path))
    put_good(store)
    put_array(store, "d.zarr/v", FIELD, (2, 4))
    store.write(parse_key("d.zarr/v/.zattrs"), b'{"units": ')
    with store_served(tmp_path, expect=r"d\.zarr/v/\.zattrs") as mount:
        place = mount.path / "datasets/d.zarr"
        (problem,) = json.loads((place / "v/info.json").read_text())["problems"]
        assert "v/.zattrs: not JSON" in problem
        assert (place / "v/values.raw").read_bytes() == FIELD.tobytes()
        assert f"d.zarr/{problem}" in mount.log.read_text()
        assert_good(mount.path)


def test_what_fails_at_each_look_has_one_line_in_the_log_for_each_change(tmp_path: Path) -> None:
    with nczfs.open(str(tmp_path / "d.zarr"), "w", format="zarr2") as root:
        for name in ("node", "chunk"):
            root.create_variable(name, (4,), "i4", data=np.arange(4, dtype="i4"))
    (tmp_path / "d.zarr/chunk/0").write_bytes(b"junk")
    document = tmp_path / "d.zarr/node/.zarray"
    sound = document.read_bytes()
    with store_served(tmp_path, expect="shape is|codec") as mount:
        dataset = mount.path / "datasets/d.zarr"

        def look() -> None:
            for _ in range(5):
                (mount.path / ".nczfs/refresh").write_text("/")
                subprocess.run(["ls", "-lR", dataset], check=True, capture_output=True)
                with failing_with(errno.EIO):
                    (dataset / "chunk/values.raw").read_bytes()

        for content in (b'{"shape": 1}', sound, b'{"shape": 1}'):
            document.write_bytes(content)
            look()
        lines = [line for line in mount.log.read_text().splitlines() if " WARNING " in line]
    assert ["/node/" in line for line in lines].count(True) == 2
    assert ["/chunk/0" in line for line in lines].count(True) == 1


def test_a_broken_root_is_a_directory_that_says_so_and_its_neighbours_work(tmp_path: Path) -> None:
    """SEMANTICS A4."""
    store = open_store(str(tmp_path))
    put_good(store)
    store.write(parse_key("bad.zarr/.zgroup"), b"{")
    store.write(parse_key("worse.zarr/.zarray"), b"\xff\xfe")
    with store_served(tmp_path, expect=r"(bad|worse)\.zarr/\.z") as mount:
        assert set(os.listdir(mount.path / "datasets")) == {"d.zarr", "bad.zarr", "worse.zarr"}
        for name, key in [("bad.zarr", ".zgroup"), ("worse.zarr", ".zarray")]:
            about = json.loads((mount.path / f"datasets/{name}/info.json").read_text())
            assert f"{key}: not JSON" in about["problems"][0]
            assert f"{name}/{key}: not JSON" in mount.log.read_text()
        assert_good(mount.path)


# -- chunks


def test_chunks_that_do_not_decode_give_eio_and_the_rest_can_be_read(tmp_path: Path) -> None:
    """SEMANTICS A2, A5."""
    store = open_store(str(tmp_path))
    put_good(store)
    zlib_codec = {"id": "zlib", "level": 1}
    chunk = np.full((2, 4), 3, "<f4").tobytes()
    whole = zlib.compress(chunk)
    bomb = zlib.compress(bytes(256 << 20), 9)
    bad = {
        "torn": whole[:-5],
        "nothing": b"",
        "noise": np.random.default_rng(1).bytes(100),
        "too_short": zlib.compress(chunk[:-4]),
        "bomb": bomb,
    }
    for name, data in bad.items():
        put_json(store, f"d.zarr/{name}/.zarray", GOOD | {"compressor": zlib_codec})
        for index in ("0.1", "1.0", "1.1"):
            store.write(parse_key(f"d.zarr/{name}/{index}"), whole)
        store.write(parse_key(f"d.zarr/{name}/0.0"), data)
    put_json(store, "d.zarr/plain/.zarray", GOOD)
    store.write(parse_key("d.zarr/plain/0.0"), chunk[:-1])
    with store_served(tmp_path, "--memory-limit", "64MiB", expect=r"d\.zarr/\w+/0\.0") as mount:
        for name in (*bad, "plain"):
            place = mount.path / "datasets/d.zarr" / name
            assert (place / "values.raw").stat().st_size == FIELD.nbytes
            for path in ("values.raw", "values.npy", "values.txt", "chunks/0.0"):
                with open(place / path, "rb", buffering=0) as file, failing_with(errno.EIO):
                    file.read(200)
            if name != "plain":
                assert (place / "chunks/1.1").read_bytes() == chunk
                assert pread_direct(place / "values.raw", 8, 16) == chunk[:8]
                with open(place / "values.raw", "rb") as file, failing_with(errno.EIO):
                    os.pread(file.fileno(), 8, 16)
            assert f"d.zarr/{name}/0.0" in mount.log.read_text()
        assert peak_bytes(mount.process.pid) < MEMORY_BYTES
        assert_good(mount.path)


def test_a_chunk_that_is_absurdly_large_in_the_store_is_not_read(tmp_path: Path) -> None:
    """SEMANTICS A5."""
    store = open_store(str(tmp_path))
    put_good(store)
    put_array(store, "d.zarr/v", FIELD, (2, 4))
    with open(tmp_path / "d.zarr/v/0.0", "r+b") as file:
        file.truncate(1 << 40)
    with store_served(tmp_path, expect=r"d\.zarr/v/0\.0") as mount:
        with failing_with(errno.EIO):
            (mount.path / "datasets/d.zarr/v/values.raw").read_bytes()
        assert (mount.path / "objects/d.zarr/v/0.0").stat().st_size == 1 << 40
        assert output("tail", "-c", "5", mount.path / "objects/d.zarr/v/0.0") == bytes(5)
        assert peak_bytes(mount.process.pid) < MEMORY_BYTES
        assert_good(mount.path)


def test_an_unknown_codec_is_named_and_refuses_the_values_alone(tmp_path: Path) -> None:
    """SEMANTICS A4, A5."""
    store = open_store(str(tmp_path))
    put_good(store)
    put_json(store, "d.zarr/v/.zarray", GOOD | {"compressor": {"id": "nobody", "level": 1}})
    store.write(parse_key("d.zarr/v/0.0"), b"x")
    with store_served(tmp_path, expect="nobody") as mount:
        place = mount.path / "datasets/d.zarr/v"
        about = json.loads((place / "info.json").read_text())
        assert about["shape"] == [4, 6]
        assert any("nobody" in problem for problem in about["problems"])
        for path in ("values.raw", "values.txt", "chunks/0.0"):
            assert (place / path).stat().st_size > 0
            with failing_with(errno.EIO):
                (place / path).read_bytes()
        assert "nobody" in mount.log.read_text()
        assert_good(mount.path)


# -- archives


def archive_of(*members: tuple[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """A zip of a dataset with a good variable, and what else is asked for before it."""
    piece = [(f"good/{i}.{j}", box_of(i, j)) for i in range(2) for j in range(2)]
    return zipped(
        *members,
        (".zgroup", b'{"zarr_format": 2}'),
        ("good/.zarray", json.dumps(GOOD).encode()),
        *piece,
        method=method,
    )


def box_of(i: int, j: int) -> bytes:
    chunk = np.zeros((2, 4), "<f4")
    part = FIELD[2 * i : 2 * i + 2, 4 * j : 4 * j + 4]
    chunk[: part.shape[0], : part.shape[1]] = part
    return chunk.tobytes()


def test_members_of_an_archive_whose_names_lead_out_of_it_are_left_out(tmp_path: Path) -> None:
    """SEMANTICS L3, A4."""
    names = ("../evil", "/etc/evil", "good/../../evil", "a//evil", "./evil", "x/..", "nul\0evil")
    data = archive_of(*((name, b"evil") for name in names))
    (tmp_path / "d.zarr.zip").write_bytes(data)
    with store_served(tmp_path / "d.zarr.zip", expect="left out 6 members") as mount:
        assert_good(mount.path, "d.zarr.zip")
        seen = output("find", mount.path / "objects", mount.path / "datasets").decode()
        assert "evil" not in seen
        assert ".." not in seen
        assert "left out 6 members" in mount.log.read_text()
    assert os.listdir(tmp_path) == ["d.zarr.zip"]


def test_bombs_in_an_archive_break_their_nodes_alone(tmp_path: Path) -> None:
    """SEMANTICS A4, A5."""
    data = archive_of(
        ("bomb/0.0", bytes(300 << 20)),
        ("bomb/.zarray", json.dumps(GOOD).encode()),
        ("words/.zarray", b" " * (100 << 20)),
    )
    (tmp_path / "d.zarr.zip").write_bytes(data)
    assert len(data) < 1 << 20
    expect = r"bomb/0\.0|words/\.zarray"
    with store_served(tmp_path / "d.zarr.zip", "--memory-limit", "64MiB", expect=expect) as mount:
        place = mount.path / "datasets/d.zarr.zip"
        with failing_with(errno.EIO):
            (place / "bomb/values.raw").read_bytes()
        (problem,) = json.loads((place / "words/info.json").read_text())["problems"]
        assert "words/.zarray" in problem
        assert_good(mount.path, "d.zarr.zip")
        assert peak_bytes(mount.process.pid) < MEMORY_BYTES


def test_an_archive_that_lies_about_a_size_gives_eio_there_alone(tmp_path: Path) -> None:
    """SEMANTICS A2, A5."""
    data = archive_of(("liar/0.0", bytes(1 << 20)), ("liar/.zarray", json.dumps(GOOD).encode()))
    (tmp_path / "d.zarr.zip").write_bytes(patched(data, {SIZE: u32(32)}))
    with store_served(tmp_path / "d.zarr.zip", expect=r"liar/0\.0") as mount:
        with failing_with(errno.EIO):
            (mount.path / "datasets/d.zarr.zip/liar/values.raw").read_bytes()
        with failing_with(errno.EIO):
            (mount.path / "objects/liar/0.0").read_bytes()
        assert_good(mount.path, "d.zarr.zip")


# -- stores


@pytest.fixture(scope="module")
def bucket(swift_with_faults: Faults, tmp_path_factory: pytest.TempPathFactory) -> str:
    directory = tmp_path_factory.mktemp("bucket")
    store = open_store(str(directory))
    put_good(store)
    put_array(store, "d.zarr/v", FIELD, (2, 4))
    server = swift_with_faults.server
    name = server.new_bucket()
    client = server.client()
    upload(client, name, "d.zarr", directory / "d.zarr")
    client.close()
    return name


@pytest.fixture
def faults(swift_with_faults: Faults) -> Iterator[Faults]:
    swift_with_faults.set()
    yield swift_with_faults
    swift_with_faults.set()


BAD_CHUNK = r"path=/d\.zarr/v/0\.0$"


@pytest.mark.parametrize(
    ("rules", "options", "expected"),
    [
        ([f"status:403 GET {BAD_CHUNK}"], [], {errno.EACCES}),
        ([f"status:503 GET {BAD_CHUNK}"], [], {errno.EIO}),
        ([f"truncate:7 GET {BAD_CHUNK}"], [], {errno.EIO}),
        (
            [f"stall:7 GET {BAD_CHUNK}"],
            ["--request-timeout", "5s"],
            {errno.ETIMEDOUT, errno.EIO},
        ),
        ([f"delay:60000 GET {BAD_CHUNK}"], ["--request-timeout", "5s"], {errno.ETIMEDOUT}),
    ],
    ids=["403", "503", "truncates", "stalls", "silent"],
)
def test_a_store_that_cannot_be_asked_gives_its_errno_and_is_asked_again(
    faults: Faults,
    bucket: str,
    rules: list[str],
    options: list[str],
    expected: set[int],
) -> None:
    """SEMANTICS A1, A2, A3, A6."""
    url = faults.server.url(bucket)
    with store_served(url, *options, expect=r"v/0\.0|no answer") as mount:
        place = mount.path / "datasets/d.zarr/v"
        assert (place / "values.raw").stat().st_size == FIELD.nbytes
        faults.set(*rules)
        with failing_with(*expected):
            pread_direct(place / "values.raw", 8, 0)  # else the kernel asks twice
        assert 1 <= len(faults.log()) <= ATTEMPTS
        # Others are served meanwhile, and nothing of it was remembered.
        assert pread_direct(place / "values.raw", 8, 88) == FIELD.tobytes()[88:]
        assert_good(mount.path)
        faults.set()
        assert (place / "values.raw").read_bytes() == FIELD.tobytes()


def test_a_listing_that_the_store_refuses_or_cannot_give_is_an_error_and_not_empty(
    faults: Faults, bucket: str
) -> None:
    """SEMANTICS A3, A6."""
    with store_served(faults.server.url(bucket), expect="d.zarr|list|no answer") as mount:
        for rule, number in [("status:403", errno.EACCES), ("status:503", errno.EIO)]:
            faults.set(f"{rule} GET query=list-type")
            with failing_with(number):
                os.listdir(mount.path / "objects/d.zarr")
            faults.set()
            (mount.path / ".nczfs/refresh").write_text("\n")
            assert set(os.listdir(mount.path / "objects/d.zarr")) == {
                ".zgroup",
                ".zattrs",
                "good",
                "v",
            }
            (mount.path / ".nczfs/refresh").write_text("\n")
        assert_good(mount.path)


def test_trouble_that_passes_is_not_seen(faults: Faults, bucket: str) -> None:
    """SEMANTICS A2."""
    faults.set(
        "status:503 GET first=2",
        "truncate:5 GET path=/0\\.1$ first=1",
        "close GET path=/1\\.0$ first=2",
        "delay:300 GET path=/1\\.1$",
    )
    with store_served(faults.server.url(bucket)) as mount:
        assert (mount.path / "datasets/d.zarr/v/values.raw").read_bytes() == FIELD.tobytes()
        assert (mount.path / "objects/d.zarr/v/0.1").stat().st_size == 32
        assert len(faults.log()) >= 5
