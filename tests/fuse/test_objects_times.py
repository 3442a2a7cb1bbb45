"""Times and empty directories that a bucket keeps, with the programs that need them."""

from __future__ import annotations

import contextlib
import os
import shutil
import tarfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tests.support.mounts import mounted
from tests.support.sample import output
from tests.support.servers import Faults, S3Server
from tests.support.watching import requests_of

OPTIONS = ("--keep-times", "--directory-markers", "--metadata-ttl", "0.2s")
TIME_NS = 1_354_040_105_123_123_123


@pytest.fixture
def bucket(ceph: S3Server) -> str:
    return ceph.new_bucket()


@pytest.fixture
def client(ceph: S3Server) -> Iterator[Any]:
    with contextlib.closing(ceph.client()) as client:
        yield client


@contextlib.contextmanager
def mounted_objects(url: str) -> Iterator[Path]:
    """`objects/` of a mount that has forgotten what it listed when it began."""
    with mounted(url, *OPTIONS) as path:
        (path / ".nczfs/refresh").write_text("\n")
        yield path / "objects"


@pytest.fixture
def objects(ceph: S3Server, bucket: str) -> Iterator[Path]:
    with mounted_objects(ceph.url(bucket)) as path:
        yield path


@pytest.fixture
def other(ceph: S3Server, bucket: str) -> Iterator[Path]:
    """The same bucket in another mount."""
    with mounted_objects(ceph.url(bucket)) as path:
        yield path


@pytest.fixture
def source(tmp_path: Path) -> Path:
    root = tmp_path / "source"
    for number, size in enumerate((0, 1, 70_000)):
        path = root / f"d{number % 2}/deep" / f"file {number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(size))
        os.utime(path, ns=(TIME_NS + number, TIME_NS + number))
    (root / "empty").mkdir()
    return root


def times(root: Path) -> dict[str, int]:
    return {
        str(path.relative_to(root)): path.stat().st_mtime_ns
        for path in root.rglob("*")
        if path.is_file()
    }


def kept(client: Any, bucket: str, key: str) -> str | None:
    found: str | None = client.head_object(Bucket=bucket, Key=key)["Metadata"].get("mtime")
    return found


def keys(client: Any, bucket: str) -> set[str]:
    return {found["Key"] for found in client.list_objects_v2(Bucket=bucket).get("Contents", [])}


def test_touch_and_cp_keep_times_as_other_programs_read_them(
    objects: Path, other: Path, client: Any, bucket: str, source: Path
) -> None:
    """SEMANTICS O15."""
    output("cp", "-p", source / "d1/deep/file 1", objects / "copied")
    assert kept(client, bucket, "copied") == "1354040105.123123124"
    output("touch", "-d", "@1000000000", objects / "copied")
    assert kept(client, bucket, "copied") == "1000000000"
    output("touch", "-d", "@7.5", objects / "touched")
    assert kept(client, bucket, "touched") == "7.500000000"
    for mount in (objects, other):
        assert (mount / "copied").stat().st_mtime_ns == 10**18
        assert (mount / "touched").stat().st_mtime_ns == 7_500_000_000
    assert (other / "copied").read_bytes() == (source / "d1/deep/file 1").read_bytes()


def test_what_others_wrote_is_read_and_nonsense_is_not(
    other: Path, client: Any, bucket: str
) -> None:
    """SEMANTICS O15."""
    told = {
        "rclone": ("1354040105.5", 1_354_040_105_500_000_000),
        "s3fs": ("1354040105", 1_354_040_105_000_000_000),
        "words": ("yesterday", None),
        "absurd": ("9" * 10, None),
        "exponent": ("1e9", None),
    }
    for key, (text, _) in told.items():
        client.put_object(Bucket=bucket, Key=key, Body=b"data", Metadata={"mtime": text})
    for key, (_, time_ns) in told.items():
        stored = client.head_object(Bucket=bucket, Key=key)["LastModified"].timestamp()
        assert (other / key).stat().st_mtime_ns == (time_ns or int(stored) * 10**9)


def test_a_time_that_is_set_changes_nothing_else(objects: Path, client: Any, bucket: str) -> None:
    """SEMANTICS O15."""
    client.put_object(
        Bucket=bucket, Key="k", Body=b"data", ContentType="text/x-own", Metadata={"mine": "yes"}
    )
    with (objects / "k").open("rb") as reader:
        os.utime(objects / "k", ns=(TIME_NS, TIME_NS))
        assert reader.read() == b"data"
    found = client.head_object(Bucket=bucket, Key="k")
    assert found["ContentType"] == "text/x-own"
    assert (found["Metadata"]["mine"], found["Metadata"]["mtime"]) == (
        "yes",
        "1354040105.123123123",
    )
    (objects / "k").rename(objects / "moved")
    found = client.head_object(Bucket=bucket, Key="moved")
    assert (found["ContentType"], found["Metadata"]["mtime"]) == (
        "text/x-own",
        "1354040105.123123123",
    )


def test_writing_after_a_time_was_set_works_on(objects: Path, client: Any, bucket: str) -> None:
    path = objects / "file"
    with path.open("wb", buffering=0) as file:
        file.write(b"one")
        os.fsync(file.fileno())
        os.utime(file.fileno(), ns=(TIME_NS, TIME_NS))
        assert kept(client, bucket, "file") == "1354040105.123123123"
        file.write(b"two")
        os.utime(file.fileno(), ns=(10**18, 10**18))
    assert kept(client, bucket, "file") == "1000000000"
    assert path.read_bytes() == b"onetwo"


def test_rsync_over_another_mount_transfers_nothing(
    ceph: S3Server, bucket: str, source: Path
) -> None:
    """SEMANTICS O15, O16."""
    command = ("rsync", "-a", "--omit-dir-times", "--itemize-changes", f"{source}/")
    with mounted(ceph.url(bucket), *OPTIONS) as path:
        assert output(*command, path / "objects/copy/")
        assert times(path / "objects/copy") == times(source)
    with mounted(ceph.url(bucket), *OPTIONS) as path:
        assert output(*command, path / "objects/copy/") == b""
        assert times(path / "objects/copy") == times(source)
        output("mv", path / "objects/copy", path / "objects/moved")
        assert times(path / "objects/moved") == times(source)
    with mounted(ceph.url(bucket), *OPTIONS) as path:
        assert output(*command, path / "objects/moved/") == b""
        assert (path / "objects/moved/empty").is_dir()


def test_tar_unpacks_with_times(objects: Path, other: Path, source: Path, tmp_path: Path) -> None:
    """SEMANTICS O15, O16."""
    with tarfile.open(tmp_path / "all.tar", "w") as archive:
        archive.add(source, "all")
    output("tar", "-xf", tmp_path / "all.tar", "-C", objects)
    whole_seconds = {name: int(found / 1e9) for name, found in times(source).items()}
    assert {n: int(found / 1e9) for n, found in times(other / "all").items()} == whole_seconds
    assert (other / "all/empty").is_dir()


def test_ls_asks_for_each_object_once_and_only_for_times(
    ceph_with_faults: Faults, bucket: str, client: Any
) -> None:
    """SEMANTICS O15."""
    names = [f"f{number:03}" for number in range(100)]
    for name in names:
        client.put_object(Bucket=bucket, Key=f"d/{name}", Body=b"", Metadata={"mtime": "7"})
    url = ceph_with_faults.server.url(bucket)
    with mounted(url, "--keep-times", "--objects-only") as path:
        plain = requests_of(ceph_with_faults, lambda: os.listdir(path / "objects/d"))
        assert not [asked for asked in plain if asked.startswith("HEAD d/f")]
        long = requests_of(ceph_with_faults, lambda: times(path / "objects/d"))
        assert [long[f"HEAD d/{name}"] for name in names] == [1] * len(names)
        assert set(times(path / "objects/d").values()) == {7 * 10**9}


def test_ls_of_many_pages_asks_for_several_objects_at_a_time(
    ceph_with_faults: Faults, bucket: str, client: Any
) -> None:
    """SEMANTICS O15."""
    looked_at = 20
    with ThreadPoolExecutor(16) as threads:
        keys = [f"d/f{number:04}" for number in range(1200)]
        list(threads.map(lambda key: client.put_object(Bucket=bucket, Key=key), keys))
    url = ceph_with_faults.server.url(bucket)
    with mounted(url, "--keep-times", "--objects-only") as path:

        def begin() -> None:
            with os.scandir(path / "objects/d") as entries:
                for entry in islice(entries, looked_at):
                    entry.stat()

        asked = requests_of(ceph_with_faults, begin)
    assert sum(count for what, count in asked.items() if what.startswith("HEAD d/f")) > looked_at


def test_an_empty_directory_is_in_the_bucket_until_it_is_removed(
    objects: Path, other: Path, client: Any, bucket: str
) -> None:
    """SEMANTICS O16."""
    (objects / "a/b").mkdir(parents=True)
    assert keys(client, bucket) == {"a/", "a/b/"}
    assert os.listdir(other / "a") == ["b"]
    (objects / "a/b").rename(objects / "a/c")
    assert keys(client, bucket) == {"a/", "a/c/"}
    (objects / "a").rename(objects / "z")
    assert keys(client, bucket) == {"z/", "z/c/"}
    (objects / "z/c").rmdir()
    assert keys(client, bucket) == {"z/"}
    (objects / "z/file").write_bytes(b"data")
    (objects / "z/deep/er").mkdir(parents=True)
    output("rm", "-r", objects / "z")
    assert keys(client, bucket) == set()
    time.sleep(0.3)
    for mount in (objects, other):
        assert os.listdir(mount) == []
        assert not (mount / "z").exists()


def test_directories_that_others_marked_are_removed_and_renamed_without_the_option(
    ceph: S3Server, bucket: str, client: Any
) -> None:
    """SEMANTICS O5."""
    for key in ("empty/", "full/", "full/below/", "full/below/deep/"):
        client.put_object(Bucket=bucket, Key=key)
    client.put_object(Bucket=bucket, Key="full/object", Body=b"data")
    client.put_object(Bucket=bucket, Key="bytes/", Body=b"not a marker")
    with mounted(ceph.url(bucket), "--metadata-ttl", "0.2s") as path:
        root = path / "objects"
        assert (root / "empty").is_dir()  # before anything was listed
        assert set(os.listdir(root)) == {"empty", "full", "bytes"}
        assert set(os.listdir(root / "full")) == {"below", "object"}
        (root / "full").rename(root / "moved")
        assert keys(client, bucket) == {
            "empty/",
            "bytes/",
            "moved/",
            "moved/below/",
            "moved/below/deep/",
            "moved/object",
        }
        (root / "empty").rmdir()
        shutil.rmtree(root / "moved")
        with pytest.raises(OSError, match="not empty"):
            (root / "bytes").rmdir()
        assert keys(client, bucket) == {"bytes/"}
        (root / "own").mkdir()
        assert keys(client, bucket) == {"bytes/"}
        time.sleep(0.3)
        assert set(os.listdir(root)) == {"bytes", "own"}


def test_the_log_says_where_the_options_have_no_effect(tmp_path: Path) -> None:
    """SEMANTICS O15, O16."""
    (tmp_path / "store").mkdir()
    with mounted(
        tmp_path / "store", *OPTIONS, expect="--keep-times has no|--directory-markers has no"
    ) as path:
        (path / "objects/d").mkdir()
        (path / "objects/d/file").write_bytes(b"data")
        os.utime(path / "objects/d/file", ns=(TIME_NS, TIME_NS))
        assert (path / "objects/d/file").stat().st_mtime_ns == TIME_NS
