"""``nczfs verify``: its lines, its documents, its exit status; runs cut short."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from nczfs.testing.datasets import put_array, put_group
from nczfs.zmap.directory import DirectoryZMap
from tests.support.mounts import nczfs
from tests.support.sample import upload
from tests.support.servers import S3Server
from tests.support.verifying import FIELD, fill

CHUNKS = 23  # of `fill`


@pytest.fixture
def place(tmp_path: Path) -> Path:
    place = tmp_path / "data.zarr"
    place.mkdir()
    store = DirectoryZMap(place)
    fill(store)
    store.close()
    return place


def test_a_sound_dataset_is_silent_and_counted(place: Path) -> None:
    done = nczfs("verify", place)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "nczfs: 8 variables, 23 chunks (50.7KiB): 0 errors, 0 notes\n"


def test_an_error_is_a_line_and_an_exit_status(place: Path) -> None:
    (place / "v/0.1").write_bytes(b"short")
    (place / "README").write_text("hello")
    done = nczfs("verify", place)
    assert done.returncode == 1
    assert sorted(done.stdout.splitlines()) == [
        "error /v v/0.1: the data decode to 5 bytes, and a chunk has 32",
        "note / README: not part of the dataset; ignored",
    ]
    assert done.stderr.endswith(": 1 error, 1 note\n")


def test_notes_alone_are_no_failure(place: Path) -> None:
    (place / "v/7.7").write_bytes(b"left over")
    done = nczfs("verify", place)
    assert done.returncode == 0
    assert done.stdout == "note /v v/7.7: a chunk beyond the shape [4, 6]; never read\n"


def test_chunks_that_are_too_long_are_said_once(place: Path) -> None:
    (place / "v/0.1").write_bytes(bytes(33))
    for more in ([], ["--log-level", "error"]):
        done = nczfs("verify", place, *more)
        assert done.returncode == 1
        assert done.stdout.startswith("error /v v/0.1: a chunk decodes to 33 bytes instead of 32;")
        assert done.stderr.count("\n") == 1


def test_json_is_one_document(place: Path) -> None:
    (place / "v/0.1").write_bytes(b"short")
    done = nczfs("verify", "--json", place)
    assert done.returncode == 1
    found = json.loads(done.stdout)
    assert found.pop("findings") == [
        {
            "severity": "error",
            "kind": "chunk",
            "path": "/v",
            "key": "v/0.1",
            "message": "the data decode to 5 bytes, and a chunk has 32",
        }
    ]
    assert found.pop("complete") is True
    assert (found["variables"], found["chunks"], found["errors"]) == (8, CHUNKS, 1)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], {"findings"}),
        (["--holes"], {"findings", "holes"}),
        (["--digest"], {"findings", "digests"}),
    ],
)
def test_documents_have_their_lists_also_when_they_are_empty(
    tmp_path: Path, words: list[str], expected: set[str]
) -> None:
    put_group(DirectoryZMap(tmp_path), "", {"title": "t"})
    found = json.loads(nczfs("verify", "--json", *words, tmp_path).stdout)
    assert {name for name, value in found.items() if value == []} == expected


def test_a_part_of_a_dataset_is_verified_alone(place: Path) -> None:
    (place / "v/0.1").write_bytes(b"short")
    assert nczfs("verify", place / "g").returncode == 0
    done = nczfs("verify", place / "v")
    assert done.returncode == 1
    assert done.stdout.startswith("error /v 0.1: ")


def test_a_part_of_an_archive_is_verified_alone(place: Path) -> None:
    (place / "v/0.1").write_bytes(b"short")
    archive = shutil.make_archive(str(place), "zip", place)
    assert nczfs("verify", f"{archive}/g").returncode == 0
    done = nczfs("verify", f"{archive}/v")
    assert done.stdout == "error /v v/0.1: the data decode to 5 bytes, and a chunk has 32\n"
    digest = hashlib.sha256(np.arange(4, dtype="<i4").tobytes()).hexdigest()
    assert nczfs("verify", "--digest", f"{archive}/y").stdout == f"{digest}  /y\n"


def test_a_damaged_member_of_an_archive_is_a_finding(place: Path) -> None:
    archive = Path(shutil.make_archive(str(place), "zip", place))
    data = archive.read_bytes()
    # Stored or deflated, the checksum of the member no longer holds.
    at = data.index(b"g/zstd/1") + 40
    archive.write_bytes(data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :])
    done = nczfs("verify", archive)
    assert done.returncode == 1
    assert done.stdout.startswith("error /g/zstd g/zstd/1: ")
    assert done.stdout.count("\n") == 1


def test_a_bucket_is_verified_as_a_directory_is(place: Path, swift: S3Server) -> None:
    (place / "v/0.1").write_bytes(b"short")
    (place / "g/junk").write_bytes(b"x")
    (place / "y/2").unlink()
    bucket = swift.new_bucket()
    client = swift.client()
    upload(client, bucket, "data.zarr", place)
    client.close()
    url = swift.url(bucket, "data.zarr")
    for words in ([], ["--holes"], ["--digest"]):
        here, there = nczfs("verify", *words, place), nczfs("verify", *words, url)
        assert there.returncode == here.returncode
        assert sorted(there.stdout.splitlines()) == sorted(here.stdout.splitlines())
        assert len(there.stderr.splitlines()) == len(here.stderr.splitlines())
    assert nczfs("verify", swift.url(bucket, "data.zarr/g")).stdout.startswith("note / junk: ")


def test_holes_are_a_line_each(place: Path) -> None:
    (place / "y/2").unlink()
    done = nczfs("verify", "--holes", place)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "/y 2\n/g/hole 1.1\n"
    found = json.loads(nczfs("verify", "--holes", "--json", place).stdout)
    assert found["holes"] == [{"path": "/y", "chunk": "2"}, {"path": "/g/hole", "chunk": "1.1"}]


def test_digests_are_a_line_each_and_nothing_else(place: Path) -> None:
    done = nczfs("verify", "--digest", place)
    assert (done.returncode, done.stderr) == (0, "")
    lines = {line[66:]: line[:64] for line in done.stdout.splitlines()}
    assert lines["/v"] == hashlib.sha256(FIELD.tobytes()).hexdigest()
    found = json.loads(nczfs("verify", "--digest", "--json", place).stdout)
    assert {entry["path"]: entry["sha256"] for entry in found["digests"]} == lines


def test_what_has_no_digest_is_named_on_stderr(place: Path) -> None:
    (place / "v/0.1").write_bytes(b"short")
    (place / "y/.zarray").write_bytes(b"")
    done = nczfs("verify", "--digest", place)
    assert done.returncode == 1
    assert len(done.stdout.splitlines()) == 6
    assert [line.split(":")[0] for line in done.stderr.splitlines()] == [
        "error /y y/.zarray",
        "error /v",
    ]


def test_what_does_not_go_together_is_wrong_usage(place: Path, tmp_path: Path) -> None:
    assert nczfs("verify", "--holes", "--digest", place).returncode == 2
    assert nczfs("verify", "--holes", "--resume", tmp_path / "s", place).returncode == 2
    assert not (tmp_path / "s").exists()
    assert nczfs("verify", tmp_path / "absent").returncode == 1
    refused = nczfs("verify", "--resume", tmp_path / "typo/s", place)
    assert refused.stderr == (
        f"nczfs: --resume {tmp_path}/typo/s: there is no directory {tmp_path}/typo\n"
    )
    assert refused.returncode == 2


def test_a_finished_run_is_not_repeated(place: Path, tmp_path: Path) -> None:
    nczfs("verify", "--resume", tmp_path / "state", place)
    done = nczfs("verify", "--resume", tmp_path / "state", place)
    assert done.stderr == (
        "nczfs: 8 variables, 0 chunks (0B), 23 verified before: 0 errors, 0 notes\n"
    )


# The reads of chunks are counted in a process that may end itself at one of them.
_COUNTING = """
import os, signal, sys, threading
from nczfs.cli.main import main
from nczfs.tools.verify import state as verify_state
from nczfs.zmap.directory import DirectoryZMap

ends_at, ends_by, *words = sys.argv[1:]
verify_state.COMMIT_EVERY_S = 0.0
count, read, lock = 0, DirectoryZMap.read, threading.Lock()

def counted(self, key, *arguments, **options):
    global count
    if key[-1].isdigit():
        with lock:
            count += 1
            if count == int(ends_at):
                os.kill(os.getpid(), getattr(signal, ends_by))
    return read(self, key, *arguments, **options)

DirectoryZMap.read = counted
status = main(words)
print("reads", count, file=sys.stderr)
sys.exit(status)
"""


def counting(*words: str | Path, ends: tuple[int, str] = (0, "")) -> tuple[int, str]:
    """Exit status and stderr of a command that ends by a signal at a read of a chunk."""
    done = subprocess.run(
        [sys.executable, "-c", _COUNTING, str(ends[0]), ends[1], "verify", *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize(("name", "status"), [("SIGKILL", -signal.SIGKILL), ("SIGINT", 130)])
def test_a_run_that_was_ended_is_gone_on_with(tmp_path: Path, name: str, status: int) -> None:
    place, state, total = tmp_path / "a.zarr", tmp_path / "state", 600
    place.mkdir()
    put_array(DirectoryZMap(place), "", np.arange(total, dtype="<i4"), (1,))
    code, stderr = counting("--resume", state, place, ends=(400, name))
    assert code == status
    if name == "SIGINT":
        assert f"stopped; run the same command again to continue; {state} holds what is done" in (
            stderr
        )
    code, stderr = counting("--resume", state, place)
    assert code == 0
    (reads,) = re.findall(r"^reads (\d+)$", stderr, re.MULTILINE)
    # Those that were under way when the run ended are read again.
    assert int(reads) < 300
    assert f"1 variable, {reads} chunks" in stderr
    assert f"{total - int(reads)} verified before: 0 errors" in stderr


def test_without_a_file_the_way_to_go_on_is_named(place: Path) -> None:
    code, stderr = counting(place, ends=(10, "SIGINT"))
    assert code == 130
    assert "with --resume FILE a later run would continue here" in stderr
