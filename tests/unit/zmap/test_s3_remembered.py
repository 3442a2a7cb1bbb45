"""What a probe found out about a bucket is known to the next process, for a day."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from nczfs.zmap.keys import Key
from nczfs.zmap.registry import StoreOptions
from nczfs.zmap.s3 import S3ZMap, store
from nczfs.zmap.s3.conditions import Conditions, Memory, SourceCheck, Traits
from nczfs.zmap.s3.remembered import KEPT_S, Remembered, default_directory
from tests.support.s3_bucket import Bucket
from tests.support.s3_script import Serve
from tests.support.settime import SetTime

FAR = ("http://s3.invalid", "bucket")
TRAITS = Traits(
    puts=Conditions(creates=True, replaces=True, quoted=False),
    completions=Conditions(),
    sources=SourceCheck("x-amz-copy-if-match", quoted=False),
)


def remembered(directory: Path, clock: Callable[[], float]) -> Remembered:
    return Remembered(lambda: directory, clock)


def test_it_is_known_for_a_day_from_the_first_probe(tmp_path: Path) -> None:
    clock = SetTime(1_000_000.0)
    kept = remembered(tmp_path / "a/b", clock)
    assert kept.read(FAR) == Traits()
    kept.write(FAR, Traits(puts=TRAITS.puts))
    clock.now += KEPT_S / 2
    kept.write(FAR, TRAITS)
    assert kept.read(FAR) == TRAITS
    assert kept.read((FAR[0], "another")) == kept.read(("http://x.invalid", FAR[1])) == Traits()
    clock.now += KEPT_S / 2
    assert kept.read(FAR) == Traits()
    clock.now -= KEPT_S + 1
    assert kept.read(FAR) == Traits()  # the clock was set back


def test_nobody_else_reads_or_writes_it(tmp_path: Path) -> None:
    kept = remembered(tmp_path / "d", SetTime(1_000_000.0))
    kept.write(FAR, TRAITS)
    (file,) = (tmp_path / "d").iterdir()
    assert (file.stat().st_mode & 0o777, (tmp_path / "d").stat().st_mode & 0o777) == (0o600, 0o700)
    for path, mode in ((file, 0o620), (tmp_path / "d", 0o777)):
        before = path.stat().st_mode
        path.chmod(mode)
        assert kept.read(FAR) == Traits()
        path.chmod(before)
    assert kept.read(FAR) == TRAITS
    target = file.rename(tmp_path / "elsewhere")
    file.symlink_to(target)
    assert kept.read(FAR) == Traits()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff",
        b"[]",
        b"{}",
        b"[" * 100_000,
        {"puts": {"creates": 1, "replaces": True, "quoted": True}},
        {"puts": []},
        {"sources": {"header": "x-other", "quoted": True}},
        {"endpoint": "http://other.invalid"},
        {"probed": "NaN"},
        {"probed": 1e300},
    ],
)
def test_a_broken_file_counts_as_missing_and_is_replaced(
    tmp_path: Path, content: bytes | dict[str, object]
) -> None:
    kept = remembered(tmp_path, SetTime(1_000_000.0))
    kept.write(FAR, TRAITS)
    (file,) = tmp_path.iterdir()
    if isinstance(content, dict):
        content = json.dumps({**json.loads(file.read_bytes()), **content}).encode()
    file.write_bytes(content)
    assert kept.read(FAR) == Traits()
    kept.write(FAR, TRAITS)
    assert kept.read(FAR) == TRAITS


@pytest.mark.parametrize(
    "endpoint",
    ["http://localhost:80", "http://127.0.0.1:80", "http://[::1]:80", "http://a.localhost"],
)
def test_a_server_on_this_machine_is_probed_by_each_process(tmp_path: Path, endpoint: str) -> None:
    kept = remembered(tmp_path, SetTime(1_000_000.0))
    kept.write((endpoint, "bucket"), TRAITS)
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_cannot_be_made_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    kept = remembered(tmp_path / "file/d", SetTime(1_000_000.0))
    kept.write(FAR, TRAITS)
    assert kept.read(FAR) == Traits()


def test_it_lies_in_the_cache_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert default_directory() == Path("/cache/nczfs/buckets")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/u")
    assert default_directory() == Path("/home/u/.cache/nczfs/buckets")
    monkeypatch.delenv("HOME")
    assert default_directory() == Path(f"/var/tmp/nczfs-{os.getuid()}/nczfs/buckets")


@pytest.mark.parametrize("if_match", ["quoted", "unquoted", "501"])
def test_the_next_process_sends_no_probe(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, if_match: str
) -> None:
    bucket = Bucket(if_match=if_match)
    server, _ = serve(bucket)
    monkeypatch.setenv("HTTP_PROXY", server.endpoint_url)
    found = []
    for number in range(2):
        monkeypatch.setattr(
            store, "_conditions", Memory(remembered(tmp_path, SetTime(1_000_000.0)))
        )
        before = len(server.asked)
        zmap = S3ZMap("bucket", StoreOptions(endpoint_url=FAR[0]))
        assert not zmap.features.conditional_writes  # until somebody wants to write
        found.append(zmap.prepare_writing().conditional_writes)
        version = zmap.write(Key(f"key{number}"), b"data")
        zmap.write(Key(f"key{number}"), b"more", replaces=version)
        zmap.close()
        probes = [asked for asked in server.asked[before:] if "probe" in asked.path]
        assert bool(probes) == (number == 0)
    assert found == [if_match != "501"] * 2
