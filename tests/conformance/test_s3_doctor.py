"""``nczfs doctor`` with buckets of a real server, and faults before it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import numpy as np
import pytest
import zarr

from tests.support.examined import examined
from tests.support.ports import free_port, wait_for
from tests.support.sample import upload
from tests.support.servers import TOOLS, Faults, S3Server

PATIENT = ("--request-timeout", "60s")


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("stores") / "data.zarr"
    group = zarr.open_group(path, mode="w", zarr_format=2)
    array = group.create_array(
        "t", shape=(400_000,), chunks=(400_000,), dtype="u1", compressors=None
    )
    array[...] = np.random.default_rng(1).integers(0, 256, 400_000, "u1")
    return path


@pytest.fixture(scope="module")
def bucket(swift: S3Server, local: Path) -> str:
    """A bucket with one dataset, whose metadata are not consolidated."""
    bucket = swift.new_bucket()
    client = swift.client()
    for path in sorted(local.rglob("*")):
        if path.is_file():
            key = path.relative_to(local.parent).as_posix()
            client.put_object(Bucket=bucket, Key=key, Body=path.read_bytes())
    client.close()
    return bucket


@pytest.fixture
def at(swift_with_faults: Faults, bucket: str) -> tuple[Faults, str]:
    """A proxy for faults, and the URL of the dataset through it."""
    return swift_with_faults, swift_with_faults.server.url(bucket, "data.zarr")


def objects(swift: S3Server, bucket: str) -> list[str]:
    client = swift.client()
    listed = client.list_objects_v2(Bucket=bucket)["Contents"]
    client.close()
    return [each["Key"] for each in listed]


def test_a_bucket_is_examined_from_its_name_to_its_largest_chunk(
    swift: S3Server, bucket: str
) -> None:
    before = objects(swift, bucket)
    found = examined(swift.url(bucket, "data.zarr"), "--write", *PATIENT)
    assert found.status == 0, found.text
    assert "the credentials file, profile swift" in found.line("credentials")
    assert swift.access_key not in found.text
    assert swift.secret_key not in found.text
    assert "400000" not in found.line("reading")
    assert "391KiB" in found.line("reading")
    assert "ms for a request" in found.line("latency")
    assert "/s over one connection" in found.line("throughput")
    assert "well: zarr2 with 1 variable" in found.line("dataset")
    assert "391KiB (/t), of" in found.line("largest chunk")
    assert "written, read and removed" in found.line("writing")
    # Swift honours no conditions.
    assert "doubtful: the store has no conditional writes" in found.line("conditions")
    assert "doubtful: no: all of 1 node" in found.line("consolidated")
    assert objects(swift, bucket) == before


def test_a_sound_bucket_with_conditions_is_well(ceph: S3Server, local: Path) -> None:
    bucket, client = ceph.new_bucket(), ceph.client()
    upload(client, bucket, local.name, local)
    client.close()
    found = examined(ceph.url(bucket, local.name), "--write", *PATIENT)
    assert found.status == 0, found.text
    assert "well: conditional writes work" in found.line("conditions")
    assert "well: " in found.line("listing")
    assert objects(ceph, bucket) == sorted(
        path.relative_to(local.parent).as_posix() for path in local.rglob("*") if path.is_file()
    )


def test_a_bucket_that_does_not_exist_is_wrong(swift: S3Server) -> None:
    found = examined(swift.url(f"none-{uuid4().hex}", "data.zarr"))
    assert (found.status, found.grade("listing")) == (1, "wrong")
    assert "no such bucket" in found.line("listing")


def test_a_place_without_objects_is_wrong(swift: S3Server, bucket: str) -> None:
    found = examined(swift.url(bucket, "dta.zarr"))
    assert (found.status, found.grade("listing")) == (1, "wrong")
    assert "nothing is there; check the name" in found.line("listing")


def test_a_region_that_is_not_the_buckets_is_doubtful(swift: S3Server, bucket: str) -> None:
    found = examined(swift.url(bucket, "data.zarr"), "--region", "eu-central-1", *PATIENT)
    assert found.status == 0, found.text
    assert "doubtful: the bucket is in us-east-1, but settings say eu-central-1" in (
        found.line("region")
    )
    assert "--region us-east-1" in found.line("region")


def test_credentials_that_are_missing_or_wrong_are_named(
    swift: S3Server, bucket: str, aws_files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = f"{swift.endpoint_url}/{bucket}/data.zarr#mode=nczarr,s3"
    found = examined(place)
    assert (found.status, found.grade("credentials")) == (1, "wrong")
    assert "set AWS_PROFILE or" in found.line("credentials")
    assert "listing" not in found.findings
    found = examined(place, "--profile", "nobody")
    assert "known profiles" in found.line("store")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", swift.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush-hush")
    found = examined(place)
    assert found.status == 1
    assert "variables of the environment" in found.line("credentials")
    assert "SignatureDoesNotMatch" in found.line("listing")
    assert "hush-hush" not in found.text
    found = examined(place, "--no-sign-request")
    assert "well: none: requests are not signed" in found.line("credentials")
    assert found.status == 1


@pytest.mark.parametrize(
    ("rule", "subject", "line"),
    [
        ("status:403 GET query=list-type", "listing", "give s3:ListBucket"),
        ("status:403 GET path=/data", "reading", "give s3:GetObject"),
        ("status:403 PUT path=nczfs-probe", "writing", "give s3:PutObject"),
        ("status:403 DELETE path=nczfs-probe", "writing", "give s3:DeleteObject"),
        ("status:204 DELETE path=nczfs-probe", "writing", "is still there after its removal"),
        ("status:403 GET path=nczfs-probe", "writing", "what was written cannot be read"),
        ("delay:300 GET path=/t/0", "latency", "come nearer"),
    ],
)
def test_what_a_server_refuses_or_does_slowly_is_named(
    at: tuple[Faults, str], swift: S3Server, bucket: str, rule: str, subject: str, line: str
) -> None:
    faults, url = at
    faults.set(rule)
    found = examined(url, "--write", *PATIENT)
    faults.set()
    assert found.grade(subject) != "well"
    assert line in found.line(subject)
    client = swift.client()
    for key in objects(swift, bucket):
        if "probe" in key:
            client.delete_object(Bucket=bucket, Key=key)
    client.close()


def test_a_server_that_is_broken_is_wrong_within_the_time_of_its_requests(
    at: tuple[Faults, str],
) -> None:
    faults, url = at
    faults.set("status:503 GET")
    found = examined(url, "--request-timeout", "1s")
    assert found.status == 1
    assert "listing" not in found.findings


def test_a_slow_line_is_doubtful(swift: S3Server, bucket: str) -> None:
    port = free_port()
    command = ["delay", "0", "--mbps", "4", "--to", swift.endpoint_url, "--port", str(port)]
    with subprocess.Popen(
        [sys.executable, TOOLS / "s3-faults", *command], stdout=subprocess.DEVNULL
    ) as relay:
        try:
            wait_for(port, relay)
            slow = swift.at(f"http://127.0.0.1:{port}")
            found = examined(slow.url(bucket, "data.zarr"), *PATIENT)
        finally:
            relay.terminate()
    assert found.grade("throughput") == "doubtful"
    assert "a proxy, a limit, a long line" in found.line("throughput")
