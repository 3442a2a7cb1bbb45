"""How the S3 store copies on the server, against a server that answers as told."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from nczfs.errors import AccessDenied, Conflict, NoSuchObject, ObjectExists, ObjectTooLarge
from nczfs.zmap.base import ABSENT, ByteRange, Part, Version
from nczfs.zmap.keys import Key
from nczfs.zmap.s3 import S3ZMap, writing
from nczfs.zmap.s3.pieces import PART_BYTES_MIN
from tests.support.s3_bucket import Bucket
from tests.support.s3_script import KEY, Serve, fault
from tests.support.scripted import Asked, Reply, Scripted

MIB = 1 << 20
GOAL = Key("dir/goal")
LARGE = bytes(range(256)) * (21 * MIB // 256)


def _named(path: str) -> str:
    """A key, with what is most telling of the query."""
    key, mark, query = path.partition("?")
    names = re.findall("(?:^|&)([^=&]+)", query)
    return f"{key}{mark}{'partNumber' if 'partNumber' in names else ''.join(names[:1])}"


@dataclass
class Setup:
    """A server, a store on it, and what is asked of the server for objects of the test."""

    bucket: Bucket
    server: Scripted
    zmap: S3ZMap

    def asked(self, act: Callable[[], object]) -> list[str]:
        """Method, key and a query name of each request during a call, own objects left out."""
        before = len(self.server.asked)
        act()
        return [
            f"{asked.method} {_named(asked.path.removeprefix('/bucket/'))}"
            + (" copied" if "x-amz-copy-source" in asked.headers else "")
            for asked in self.server.asked[before:]
            if "nczfs-" not in asked.path
        ]


@pytest.fixture
def start(serve: Serve) -> Callable[..., Setup]:
    def set_up(**manners: object) -> Setup:
        bucket = Bucket(**manners)  # type: ignore[arg-type]  # by name
        server, open_bucket = serve(bucket)
        return Setup(bucket, server, open_bucket(part_bytes=PART_BYTES_MIN))

    return set_up


CEPH = {"if_match": "unquoted", "copies_if": False, "ends_if": False}
MANNERS = [
    {},
    CEPH | {"source_header": "x-amz-copy-if-match"},
    {"if_match": "501", "if_none_match": False},
    {"source_header": ""},
]


# Copies


@pytest.mark.parametrize("manners", MANNERS)
def test_a_copy_is_one_request_where_the_server_looks_at_the_version(
    start: Callable[..., Setup], manners: dict[str, object]
) -> None:
    setup = start(**manners)
    setup.zmap.write(KEY, b"data")
    stat = setup.zmap.stat(KEY)
    setup.zmap.copy(stat, GOAL)
    asked = setup.asked(lambda: setup.zmap.copy(stat, GOAL))
    if manners.get("source_header") == "":
        assert asked == [f"GET {KEY}", f"PUT {GOAL}"]
    else:
        assert asked == [f"PUT {GOAL} copied"]
    assert setup.bucket.objects[GOAL][0] == b"data"
    assert not [key for key in setup.bucket.objects if "nczfs-" in key]


@pytest.mark.parametrize("manners", MANNERS)
def test_a_copy_of_what_was_replaced_is_a_conflict_whatever_the_server_makes_of_it(
    start: Callable[..., Setup], manners: dict[str, object]
) -> None:
    setup = start(**manners)
    setup.zmap.write(KEY, b"old")
    old = setup.zmap.stat(KEY)
    setup.zmap.write(KEY, b"new")
    for replaces in (None, ABSENT):
        with pytest.raises(Conflict, match=KEY):
            setup.zmap.copy(old, GOAL, replaces=replaces)
    setup.zmap.delete(KEY)
    for replaces in (None, ABSENT):
        with pytest.raises(NoSuchObject, match=KEY):
            setup.zmap.copy(old, GOAL, replaces=replaces)
    assert setup.bucket.objects == {}


@pytest.mark.parametrize("manners", MANNERS)
def test_a_condition_on_the_goal_is_kept_whatever_the_server_makes_of_it(
    start: Callable[..., Setup], manners: dict[str, object]
) -> None:
    setup = start(**manners)
    setup.zmap.write(KEY, b"data")
    stat = setup.zmap.stat(KEY)
    first = setup.zmap.copy(stat, GOAL, replaces=ABSENT)
    with pytest.raises(ObjectExists, match=GOAL):
        setup.zmap.copy(stat, GOAL, replaces=ABSENT)
    setup.zmap.write(GOAL, b"other")
    with pytest.raises(Conflict, match=GOAL):
        setup.zmap.copy(stat, GOAL, replaces=first)
    assert setup.bucket.objects[GOAL][0] == b"other"
    setup.zmap.copy(stat, GOAL, replaces=setup.zmap.stat(GOAL).version)
    assert setup.bucket.objects[GOAL][0] == b"data"


def test_a_copy_keeps_metadata_also_where_a_condition_needs_a_mark_of_ours(
    start: Callable[..., Setup],
) -> None:
    setup = start()
    meta = {"content-type": "image/png", "x-amz-meta-who": "me"}
    setup.bucket.objects[KEY] = (b"data", meta)
    stat = setup.zmap.stat(KEY)
    setup.zmap.copy(stat, Key("plain"))
    setup.zmap.copy(stat, GOAL, replaces=ABSENT)
    assert setup.bucket.objects["plain"][1] == meta
    assert meta.items() <= setup.bucket.objects[GOAL][1].items()


def test_a_conditional_copy_whose_answer_was_lost_is_no_conflict_with_itself(
    start: Callable[..., Setup],
) -> None:
    lost: list[str] = []

    def lose_the_first(asked: Asked, reply: Reply) -> Reply:
        if asked.path.endswith(GOAL) and asked.method == "PUT" and not lost:
            lost.append(asked.path)
            return Reply(500)
        return reply

    setup = start(after=lose_the_first)
    setup.zmap.write(KEY, b"data")
    version = setup.zmap.copy(setup.zmap.stat(KEY), GOAL, replaces=ABSENT)
    assert lost
    assert setup.zmap.stat(GOAL).version == version


def test_the_answer_to_a_copy_that_turns_into_an_error_is_asked_for_again(
    start: Callable[..., Setup],
) -> None:
    answers = iter([Reply(200, b"<Error><Code>InternalError</Code></Error>")])

    def once(asked: Asked) -> Reply | None:
        return next(answers, None) if asked.path.endswith(GOAL) else None

    setup = start(before=once)
    setup.zmap.write(KEY, b"data")
    setup.zmap.copy(setup.zmap.stat(KEY), GOAL)
    assert setup.bucket.objects[GOAL][0] == b"data"


# Objects put together


def parts_of(setup: Setup) -> tuple[list[Part], bytes]:
    """A large object with some bytes changed in its middle."""
    setup.zmap.write(KEY, LARGE)
    stat = setup.zmap.stat(KEY)
    parts: list[Part] = [
        ByteRange(stat, 0, 9 * MIB),
        b"new",
        ByteRange(stat, 9 * MIB + 3, len(LARGE)),
    ]
    return parts, LARGE[: 9 * MIB] + b"new" + LARGE[9 * MIB + 3 :]


@pytest.mark.parametrize("manners", MANNERS)
def test_what_was_not_changed_of_a_large_object_is_copied_by_the_server(
    start: Callable[..., Setup], manners: dict[str, object]
) -> None:
    setup = start(**manners)
    parts, data = parts_of(setup)
    version = setup.zmap.write_parts(KEY, parts)
    assert setup.bucket.objects[KEY][0] == data
    assert setup.zmap.stat(KEY).version == version
    asked = setup.asked(lambda: setup.zmap.write_parts(GOAL, [*parts[1:2], *as_ranges(setup)]))
    sent = [what for what in asked if "partNumber" in what and "copied" not in what]
    assert (len(sent), sum(what == f"GET {KEY}" for what in asked)) == (1, 1)
    assert sum("copied" in what for what in asked) >= 1


def as_ranges(setup: Setup) -> list[Part]:
    return [ByteRange(setup.zmap.stat(KEY), 0, len(LARGE))]


@pytest.mark.parametrize("manners", MANNERS)
def test_a_large_object_put_together_keeps_its_conditions(
    start: Callable[..., Setup], manners: dict[str, object]
) -> None:
    setup = start(**manners)
    parts, data = parts_of(setup)
    old = setup.zmap.stat(KEY).version
    with pytest.raises(ObjectExists):
        setup.zmap.write_parts(KEY, parts, replaces=ABSENT)
    with pytest.raises(Conflict):
        setup.zmap.write_parts(GOAL, parts, replaces=old)
    assert setup.bucket.objects[KEY][0] == LARGE
    setup.zmap.write_parts(KEY, parts, replaces=old)
    assert setup.bucket.objects[KEY][0] == data
    with pytest.raises(Conflict, match=KEY):
        setup.zmap.write_parts(GOAL, parts)
    assert (GOAL in setup.bucket.objects, setup.bucket.uploads) == (False, {})


def test_conditions_of_an_upload_are_the_servers_where_it_keeps_them(
    start: Callable[..., Setup],
) -> None:
    setup = start()
    parts, _ = parts_of(setup)
    old = setup.zmap.stat(KEY).version

    def replace_by_another(asked: Asked) -> Reply | None:
        if asked.method == "POST" and asked.path.startswith(f"/bucket/{KEY}?uploadId"):
            setup.bucket.objects[KEY] = (b"of another", {})
        return None

    setup.zmap.write_parts(GOAL, parts, replaces=ABSENT)
    setup.bucket.before = replace_by_another
    with pytest.raises(Conflict):
        setup.zmap.write_parts(KEY, parts, replaces=old)
    assert setup.bucket.objects[KEY][0] == b"of another"
    assert setup.bucket.uploads == {}


def test_a_source_that_is_replaced_meanwhile_is_noticed_though_the_server_does_not_look(
    start: Callable[..., Setup],
) -> None:
    setup = start(source_header="")
    parts, _ = parts_of(setup)

    def replace_by_another(asked: Asked) -> Reply | None:
        if "partNumber=2" in asked.path:
            setup.bucket.objects[KEY] = (bytes(len(LARGE)), {})
        return None

    setup.bucket.before = replace_by_another
    with pytest.raises(Conflict, match=KEY):
        setup.zmap.write_parts(GOAL, parts)
    assert GOAL not in setup.bucket.objects
    assert setup.bucket.uploads == {}


def test_who_replaces_the_object_during_an_upload_is_noticed_also_without_conditions(
    start: Callable[..., Setup],
) -> None:
    setup = start(if_match="501", if_none_match=False)
    parts, _ = parts_of(setup)
    old = setup.zmap.write(GOAL, b"old")

    def replace_by_another(asked: Asked) -> Reply | None:
        if "partNumber=2" in asked.path:
            setup.bucket.objects[GOAL] = (b"of another", {})
        return None

    setup.bucket.before = replace_by_another
    with pytest.raises(Conflict, match=GOAL):
        setup.zmap.write_parts(GOAL, parts, replaces=old)
    assert setup.bucket.objects[GOAL][0] == b"of another"


def test_an_upload_whose_last_answer_was_lost_is_complete_also_under_a_condition(
    start: Callable[..., Setup],
) -> None:
    lost: list[str] = []

    def lose(asked: Asked, reply: Reply) -> Reply:
        if asked.method == "POST" and f"{GOAL}?uploadId" in asked.path and not lost:
            lost.append(asked.path)
            return Reply(500)
        return reply

    setup = start(after=lose)
    parts, data = parts_of(setup)
    version = setup.zmap.write_parts(GOAL, parts, replaces=ABSENT)
    assert lost
    assert setup.zmap.stat(GOAL).version == version
    assert setup.bucket.objects[GOAL][0] == data


def test_whatever_request_of_it_is_refused_an_upload_leaves_nothing(
    start: Callable[..., Setup],
) -> None:
    setup = start()
    parts, _ = parts_of(setup)
    setup.zmap.write_parts(Key("first"), parts)  # after which no trial is left
    for failing in itertools.count():
        count = itertools.count()

        def refuse(
            asked: Asked, failing: int = failing, count: itertools.count[int] = count
        ) -> Reply | None:
            counted = asked.method in {"PUT", "POST"} and "nczfs-" not in asked.path
            return fault(403, "AccessDenied") if counted and next(count) == failing else None

        setup.bucket.before = refuse
        try:
            setup.zmap.write_parts(GOAL, parts)
        except AccessDenied:
            assert setup.bucket.uploads == {}
            assert GOAL not in setup.bucket.objects
        else:
            break
    assert failing >= 4


def test_what_only_a_put_keeps_the_condition_of_has_at_most_five_gib(
    start: Callable[..., Setup], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "PUT_BYTES_MAX", 20 * MIB)
    setup = start(**CEPH)
    parts, data = parts_of(setup)
    with pytest.raises(ObjectTooLarge, match="conditional"):
        setup.zmap.write_parts(GOAL, parts, replaces=ABSENT)
    with pytest.raises(ObjectTooLarge, match="conditional"):
        setup.zmap.write(GOAL, LARGE, replaces=Version('"1"'))
    setup = start()
    setup.zmap.write(GOAL, data, replaces=ABSENT)
    assert setup.bucket.objects[GOAL][0] == data


def test_an_object_too_large_for_one_request_is_copied_in_parts(
    start: Callable[..., Setup], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "PUT_BYTES_MAX", 20 * MIB)
    setup = start()
    setup.zmap.write(KEY, LARGE)
    asked = setup.asked(lambda: setup.zmap.copy(setup.zmap.stat(KEY), GOAL))
    assert setup.bucket.objects[GOAL][0] == LARGE
    assert f"GET {KEY}" not in asked
    assert any("partNumber copied" in what for what in asked)
