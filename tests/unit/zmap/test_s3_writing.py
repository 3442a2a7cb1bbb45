"""How the S3 store writes, against a server that answers as told."""

from __future__ import annotations

import hashlib
import html
import itertools
import json
import re

import pytest

from nczfs.errors import (
    AccessDenied,
    Conflict,
    NoSuchObject,
    ObjectExists,
    StoreError,
    Unavailable,
    UsageError,
)
from nczfs.zmap.base import ABSENT
from nczfs.zmap.keys import Key, Prefix
from nczfs.zmap.registry import StoreOptions
from nczfs.zmap.s3 import S3ZMap, batch
from nczfs.zmap.s3.pieces import PART_BYTES_MIN, PARTS_MAX, part_bytes
from nczfs.zmap.web import attempts
from tests.conftest import ExpectedWarnings
from tests.support.s3_bucket import Bucket
from tests.support.s3_script import KEY, Serve, fault
from tests.support.scripted import Asked, Reply

MIB = 1 << 20


# Conditions


@pytest.mark.parametrize(
    ("bucket", "hold"),
    [
        (Bucket(), True),
        (Bucket(if_match="unquoted"), True),
        (Bucket(if_match="501"), False),
        (Bucket(if_match="ignored"), False),
        (Bucket(if_none_match=False), False),
        (Bucket(if_match="ignored", if_none_match=False), False),
    ],
)
def test_conditions_are_promised_where_a_trial_showed_that_both_hold(
    serve: Serve, bucket: Bucket, hold: bool
) -> None:
    server, open_bucket = serve(bucket)
    zmap = open_bucket()
    assert not zmap.features.conditional_writes
    assert zmap.prepare_writing().conditional_writes is hold
    assert zmap.features.conditional_writes is hold
    assert bucket.objects == {}
    asked = len(server.asked)
    open_bucket().write(KEY, b"new", replaces=ABSENT)
    again = [asked.path for asked in server.asked[asked:] if "probe" in asked.path]
    assert again == []


@pytest.mark.parametrize("if_match", ["quoted", "unquoted", "ignored", "501"])
@pytest.mark.parametrize("if_none_match", [True, False])
def test_a_condition_that_fails_is_a_conflict_whatever_the_server_makes_of_it(
    serve: Serve, if_match: str, if_none_match: bool
) -> None:
    bucket = Bucket(if_match, if_none_match)
    zmap = serve(bucket)[1]()
    first = zmap.write(KEY, b"one", replaces=ABSENT)
    with pytest.raises(ObjectExists):
        zmap.write(KEY, b"two", replaces=ABSENT)
    second = zmap.write(KEY, b"two", replaces=first)
    with pytest.raises(Conflict):
        zmap.write(KEY, b"three", replaces=first)
    assert bucket.objects[KEY][0] == b"two"
    zmap.delete(KEY)
    with pytest.raises(Conflict):
        zmap.write(KEY, b"three", replaces=second)
    assert bucket.objects == {}


def test_who_may_only_read_learns_nothing_and_is_told_so_by_the_write(serve: Serve) -> None:
    def refuse(asked: Asked) -> Reply | None:
        return fault(403, "AccessDenied") if asked.method in {"PUT", "DELETE"} else None

    bucket = Bucket(before=refuse)
    zmap = serve(bucket)[1]()
    assert not zmap.prepare_writing().conditional_writes
    with pytest.raises(AccessDenied, match="access denied"):
        zmap.write(KEY, b"data", replaces=ABSENT)
    bucket.before = lambda asked: None
    assert zmap.prepare_writing().conditional_writes


@pytest.mark.parametrize("place", range(5))
def test_a_trial_is_not_misled_by_an_answer_that_was_lost(serve: Serve, place: int) -> None:
    """The request that is sent again meets what the first one made."""
    puts = itertools.count()

    def lose(asked: Asked, reply: Reply) -> Reply:
        return Reply(500) if asked.method == "PUT" and next(puts) == place else reply

    bucket = Bucket(after=lose)
    assert serve(bucket)[1]().prepare_writing().conditional_writes
    assert bucket.objects == {}


def test_who_cannot_find_out_whether_conditions_hold_does_not_guess(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempts, "FIRST_WAIT_S", 0.001)
    seen = set[tuple[str, bytes]]()

    def lose_each_once(asked: Asked, reply: Reply) -> Reply:
        if asked.method != "PUT" or (asked.path, asked.body) in seen:
            return reply
        seen.add((asked.path, asked.body))
        return Reply(500)

    zmap = serve(Bucket("ignored", after=lose_each_once))[1]()
    with pytest.raises(Unavailable, match="cannot find out whether conditions hold"):
        zmap.prepare_writing()


def test_a_write_whose_answer_was_lost_is_no_conflict_with_itself(serve: Serve) -> None:
    lost: list[str] = []

    def lose_the_first(asked: Asked, reply: Reply) -> Reply:
        if asked.method == "PUT" and asked.path.endswith(KEY) and asked.body.decode() not in lost:
            lost.append(asked.body.decode())
            return Reply(500)
        return reply

    zmap = serve(Bucket(after=lose_the_first))[1]()
    first = zmap.write(KEY, b"one", replaces=ABSENT)
    second = zmap.write(KEY, b"two", replaces=first)
    assert zmap.stat(KEY).version == second
    assert lost == ["one", "two"]


def test_the_object_of_another_writer_is_a_conflict_though_it_has_the_same_bytes(
    serve: Serve,
) -> None:
    bucket = Bucket()

    def somebody_else(asked: Asked) -> Reply | None:
        if asked.method == "PUT" and asked.path.endswith(KEY) and KEY not in bucket.objects:
            bucket.objects[KEY] = (asked.body, {})
            return Reply(500)
        return None

    zmap = serve(bucket)[1]()
    zmap.prepare_writing()
    bucket.before = somebody_else
    with pytest.raises(ObjectExists):
        zmap.write(KEY, b"same", replaces=ABSENT)


# Parts


@pytest.mark.parametrize(
    "size", [0, 1, 80 * MIB, PARTS_MAX * 16 * MIB, PARTS_MAX * 16 * MIB + 1, 5 << 40]
)
def test_parts_are_large_enough_for_any_object(size: int) -> None:
    found = part_bytes(size, 16 * MIB)
    assert PART_BYTES_MIN <= 16 * MIB <= found <= 5 << 30
    assert found % MIB == 0
    assert -(-size // found) <= PARTS_MAX
    assert found == 16 * MIB or -(-size // (found - MIB)) > PARTS_MAX


def test_parts_that_are_too_small_are_a_usage_error(serve: Serve) -> None:
    with pytest.raises(UsageError, match="--part-size"):
        serve(Bucket())[1](part_bytes=PART_BYTES_MIN - 1)


def test_a_large_object_is_sent_in_parts_and_is_the_same(serve: Serve) -> None:
    bucket = Bucket()
    server, open_bucket = serve(bucket)
    data = bytes(range(256)) * (21 * MIB // 256)
    zmap = open_bucket(part_bytes=PART_BYTES_MIN)
    version = zmap.write(KEY, data)
    assert list(bucket.objects) == [KEY]
    assert bucket.objects[KEY][0] == data
    assert zmap.stat(KEY).version == version
    assert sum("partNumber" in asked.path for asked in server.asked) == 4


def test_a_large_object_with_a_condition_is_one_request(serve: Serve) -> None:
    bucket = Bucket()
    server, open_bucket = serve(bucket)
    zmap = open_bucket(part_bytes=PART_BYTES_MIN)
    zmap.write(KEY, bytes(21 * MIB), replaces=ABSENT)
    assert len(bucket.objects[KEY][0]) == 21 * MIB
    assert not any("upload" in asked.path for asked in server.asked)


@pytest.mark.parametrize("step", ["partNumber=3", "partNumber=4", "uploadId=upload-0"])
def test_an_upload_that_fails_leaves_nothing(serve: Serve, step: str) -> None:
    def refuse(asked: Asked) -> Reply | None:
        failing = step in asked.path and asked.method != "DELETE"
        return fault(403, "AccessDenied") if failing and not done else None

    done: list[bool] = []
    bucket = Bucket(before=refuse)
    zmap = serve(bucket)[1](part_bytes=PART_BYTES_MIN)
    with pytest.raises(AccessDenied, match=KEY):
        zmap.write(KEY, bytes(21 * MIB))
    assert bucket.uploads == {}
    assert bucket.objects == {}


def test_an_upload_whose_last_answer_was_lost_is_complete(serve: Serve) -> None:
    lost: list[str] = []

    def lose(asked: Asked, reply: Reply) -> Reply:
        if asked.method == "POST" and "uploadId" in asked.path and not lost:
            lost.append(asked.path)
            return Reply(500)
        return reply

    bucket = Bucket(after=lose)
    zmap = serve(bucket)[1](part_bytes=PART_BYTES_MIN)
    version = zmap.write(KEY, bytes(21 * MIB))
    assert zmap.stat(KEY).version == version
    assert list(bucket.objects) == [KEY]


def test_an_error_in_an_answer_that_began_well_is_an_error(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempts, "ATTEMPTS", 2)

    def later(asked: Asked) -> Reply | None:
        if asked.method == "POST" and "uploadId" in asked.path:
            return Reply(200, b"<Error><Code>InternalError</Code></Error>")
        return None

    bucket = Bucket(before=later)
    zmap = serve(bucket)[1](part_bytes=PART_BYTES_MIN)
    with pytest.raises(StoreError, match="500 InternalError"):
        zmap.write(KEY, bytes(21 * MIB))
    assert bucket.uploads == {}
    assert bucket.objects == {}


def test_an_upload_that_cannot_be_aborted_is_aborted_at_the_next_start(
    serve: Serve, expected_warnings: ExpectedWarnings
) -> None:
    def refuse(asked: Asked) -> Reply | None:
        is_second = "partNumber=2" in asked.path
        refused = "uploadId" in asked.path and (asked.method == "DELETE" or is_second)
        return fault(403, "AccessDenied") if refused else None

    bucket = Bucket(before=refuse)
    _, open_bucket = serve(bucket)
    expected_warnings.add("an unfinished upload is left")
    with pytest.raises(AccessDenied):
        open_bucket(part_bytes=PART_BYTES_MIN).write(KEY, bytes(21 * MIB))
    [(note, (content, _))] = bucket.objects.items()
    assert note.startswith(".nczfs-upload-")
    assert bucket.uploads
    bucket.before = lambda asked: None
    # The process that noted it is alive, and the listing says that the note is old.
    assert json.loads(content)["key"] == KEY
    open_bucket().prepare_writing()
    assert bucket.uploads == {}
    assert bucket.objects == {}


@pytest.mark.parametrize(
    "note",
    [
        b"",
        b"{}",
        b"[]",
        b"not JSON",
        b'{"machine":"m","process":"x","started":1,"key":"k","upload":"upload-0"}',
        b'{"machine":"m","process":1,"started":1,"key":"../k","upload":"upload-0"}',
        b'{"machine":"m","process":1,"started":1,"key":"elsewhere/k","upload":"upload-0"}',
    ],
)
def test_a_note_that_is_none_aborts_nothing(serve: Serve, note: bytes) -> None:
    bucket = Bucket(objects={"home/.nczfs-upload-1": (note, {})}, uploads={"upload-0": {}})
    server, _ = serve(bucket)
    zmap = S3ZMap("bucket", StoreOptions(endpoint_url=server.endpoint_url), home=Prefix("home"))
    zmap.prepare_writing()
    zmap.close()
    assert list(bucket.uploads) == ["upload-0"]


# Headers of what is written


def test_encryption_is_asked_for_by_what_makes_objects_and_by_nothing_else(serve: Serve) -> None:
    server, open_bucket = serve(Bucket())
    zmap = open_bucket(sse="aws:kms", sse_kms_key_id="key-1", part_bytes=PART_BYTES_MIN)
    zmap.write(KEY, b"data")
    zmap.write(KEY, b"data", replaces=zmap.stat(KEY).version)
    zmap.write(KEY, bytes(21 * MIB))
    header = "x-amz-server-side-encryption"
    for asked in server.asked:
        makes = (asked.method == "PUT" and "uploadId" not in asked.path) or "uploads" in asked.path
        assert asked.headers.get(header) == ("aws:kms" if makes else None)
        assert (f"{header}-aws-kms-key-id" in asked.headers) is makes


def test_a_body_is_signed_by_its_checksum_and_carries_no_trailer(serve: Serve) -> None:
    server, open_bucket = serve(Bucket())
    for data in (b"small", bytes(MIB)):
        open_bucket().write(KEY, data)
        headers = server.asked[-1].headers
        assert headers["x-amz-content-sha256"] == hashlib.sha256(data).hexdigest()
        assert headers["content-length"] == str(len(data))
        assert not {"transfer-encoding", "content-encoding", "x-amz-trailer"} & headers.keys()


# Many keys


def test_many_keys_are_deleted_by_one_request_for_a_thousand(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "BATCH_S", 3600.0)  # no machine is too slow
    keys = [Key(f"a&b/<{number}>") for number in range(2300)]
    server, open_bucket = serve(Bucket())
    open_bucket().delete_many(iter(keys))
    sent = [re.findall(rb"<Key>(.*?)</Key>", asked.body) for asked in server.asked]
    assert [len(names) for names in sent] == [batch.FIRST_KEYS, 1000, 1000, 200]
    assert sent[0][7] == b"a&amp;b/&lt;7&gt;"
    assert [html.unescape(name.decode()) for names in sent for name in names] == keys


def test_keys_that_a_batch_cannot_delete_are_deleted_one_by_one(serve: Serve) -> None:
    def answer(asked: Asked) -> Reply:
        if asked.method == "DELETE":
            return fault(404, "NoSuchKey") if "gone" in asked.path else Reply(204)
        assert b"bell" not in asked.body
        inner = "".join(
            f"<Error><Key>{key}</Key><Code>InternalError</Code></Error>" for key in ("b", "gone")
        )
        return Reply(200, f"<DeleteResult>{inner}</DeleteResult>".encode())

    server, open_bucket = serve(answer)
    open_bucket().delete_many([Key("a"), Key("b"), Key("bell\a"), Key("gone"), Key("c")])
    paths = {asked.path for asked in server.asked if asked.method == "DELETE"}
    assert paths == {"/bucket/b", "/bucket/gone", "/bucket/bell%07"}


def test_a_server_without_batches_deletes_one_by_one(serve: Serve) -> None:
    def answer(asked: Asked) -> Reply:
        return Reply(204) if asked.method == "DELETE" else fault(501, "NotImplemented")

    server, open_bucket = serve(answer)
    open_bucket().delete_many([Key(str(number)) for number in range(1200)])
    assert sum(asked.method == "DELETE" for asked in server.asked) == 1200
    assert sum(asked.method == "POST" for asked in server.asked) == 1


def test_who_may_not_delete_is_told_so(serve: Serve) -> None:
    zmap = serve(lambda asked: fault(403, "AccessDenied"))[1]()
    with pytest.raises(AccessDenied):
        zmap.delete_many([Key("a"), Key("b")])
    with pytest.raises(AccessDenied):
        zmap.delete(KEY)
    with pytest.raises(AccessDenied):
        zmap.write(KEY, b"data")


@pytest.mark.parametrize("deletes_if", ["honoured", "ignored", "501"])
def test_only_a_version_of_an_object_is_deleted(serve: Serve, deletes_if: str) -> None:
    """What servers make of If-Match in a DELETE differs; the object is compared before."""
    bucket = Bucket(deletes_if=deletes_if)
    zmap = serve(bucket)[1]()
    zmap.prepare_writing()
    old = zmap.write(KEY, b"one")
    new = zmap.write(KEY, b"two")
    with pytest.raises(Conflict):
        zmap.delete(KEY, version=old)
    assert bucket.objects[KEY][0] == b"two"
    zmap.delete(KEY, version=new)
    assert KEY not in bucket.objects
    with pytest.raises(NoSuchObject):
        zmap.delete(KEY, version=new)


def test_a_server_with_conditions_deletes_no_newer_version(serve: Serve) -> None:
    """One that comes between the comparison and the deletion."""
    bucket = Bucket()

    def replace(asked: Asked) -> Reply | None:
        if asked.method == "DELETE":
            bucket.objects[KEY] = b"theirs", {}
        return None

    zmap = serve(bucket)[1]()
    zmap.prepare_writing()
    seen = zmap.write(KEY, b"ours")
    bucket.before = replace
    with pytest.raises(Conflict):
        zmap.delete(KEY, version=seen)
    assert bucket.objects[KEY][0] == b"theirs"
