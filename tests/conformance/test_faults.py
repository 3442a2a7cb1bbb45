"""Each operation of each store with every one of the calls below it failing in turn."""

from __future__ import annotations

import errno
import io
import itertools
import json
import os
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import pytest

from nczfs.errors import NoSuchObject, StoreError, Unavailable
from nczfs.testing.faults import Fault, Faulty
from nczfs.zmap import reference_targets
from nczfs.zmap.base import ABSENT, ZMap
from nczfs.zmap.directory import DirectoryZMap
from nczfs.zmap.http import HttpZMap
from nczfs.zmap.inblocks import InBlocks
from nczfs.zmap.keys import ROOT, Key, Prefix
from nczfs.zmap.memory import MemoryZMap
from nczfs.zmap.registry import StoreOptions, open_store
from nczfs.zmap.wrappers import Metered, Prefixed, ReadOnly
from nczfs.zmap.zip import ZipZMap
from tests.support.contents import objects_of
from tests.support.scripted import Asked, Reply, serving

BIG = bytes(range(256)) * 3000
OBJECTS = {"kept": b"kept", "a/big": BIG, "a/deep/er": b"deep"}
KEPT, NEW, BIG_KEY = Key("kept"), Key("new/place/key"), Key("a/big")

Operation: TypeAlias = Callable[[ZMap], object]


def _tree(zmap: ZMap) -> dict[str, int]:
    return {stat.key: stat.size for stat in zmap.list(ROOT)}


def _names(zmap: ZMap) -> set[str]:
    return {entry.name for prefix in ("", "a") for entry in zmap.search(Prefix(prefix))}


def _absent(zmap: ZMap) -> str:
    """What is told of a key that no object has: that, and not that it could not be asked."""
    try:
        return f"{zmap.read(Key('absent/key')).object_size}"
    except NoSuchObject:
        return "absent"


READS: Mapping[str, tuple[Operation, object]] = {
    "read": (lambda zmap: bytes(zmap.read(BIG_KEY).data), BIG),
    "read a range": (
        lambda zmap: bytes(zmap.read(BIG_KEY, 700_000, 700_010).data),
        BIG[700_000:700_010],
    ),
    "stat": (lambda zmap: zmap.stat(KEPT).size, 4),
    "search": (_names, {"kept", "a", "big", "deep"}),
    "list": (_tree, {key: len(data) for key, data in OBJECTS.items()}),
    "ask for what is absent": (_absent, "absent"),
}
WRITES: Mapping[str, tuple[Operation, Mapping[str, bytes]]] = {
    "write": (lambda zmap: zmap.write(KEPT, b"newer"), {**OBJECTS, "kept": b"newer"}),
    "write below a new prefix": (lambda zmap: zmap.write(NEW, b"n"), {**OBJECTS, NEW: b"n"}),
    "create": (lambda zmap: zmap.write(NEW, b"n", replaces=ABSENT), {**OBJECTS, NEW: b"n"}),
    "replace a version": (
        lambda zmap: zmap.write(KEPT, b"newer", replaces=zmap.stat(KEPT).version),
        {**OBJECTS, "kept": b"newer"},
    ),
    "delete": (
        lambda zmap: zmap.delete(Key("a/deep/er")),
        {"kept": b"kept", "a/big": BIG},
    ),
    "delete many": (lambda zmap: zmap.delete_many([Key("a/deep/er"), BIG_KEY]), {"kept": b"kept"}),
}


def _outcome(operation: Operation, open_it: Callable[[], ZMap]) -> object:
    """What an operation gives, or its error."""
    try:
        return operation(open_it())
    except StoreError as error:
        return error


def _fill(zmap: ZMap, before: str = "") -> ZMap:
    for key, data in OBJECTS.items():
        zmap.write(Key(before + key), data)
    return zmap


# Stores round another store


Stack: TypeAlias = "tuple[Faulty, Callable[[], ZMap]]"


def _wrapped(wrap: Callable[[ZMap], ZMap], before: str = "") -> Stack:
    faulty = Faulty(_fill(MemoryZMap(), before), page_entries=1)
    return faulty, lambda: wrap(faulty)


def _archived(method: int, *, far: bool) -> Stack:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for key, data in OBJECTS.items():
            archive.writestr(key, data)
    inner = MemoryZMap()
    inner.write(Key("data.zip"), file.getvalue())
    faulty = Faulty(inner)
    near = InBlocks(faulty) if far else faulty
    return faulty, lambda: ZipZMap(near, Key("data.zip"), top="")


WRITABLE: Mapping[str, Callable[[], Stack]] = {
    "prefixed": lambda: _wrapped(lambda zmap: Prefixed(zmap, Prefix("p/q")), "p/q/"),
    "metered": lambda: _wrapped(lambda zmap: Metered(zmap, "test")),
}
STACKS: Mapping[str, Callable[[], Stack]] = {
    **WRITABLE,
    "read-only": lambda: _wrapped(ReadOnly),
    "stored zip": lambda: _archived(zipfile.ZIP_STORED, far=False),
    "deflated zip": lambda: _archived(zipfile.ZIP_DEFLATED, far=False),
    "far zip": lambda: _archived(zipfile.ZIP_STORED, far=True),
}


def _fail_in_turn(faulty: Faulty, open_it: Callable[[], ZMap], name: str) -> None:
    """Fail each call of a reading operation, and look at what comes of it."""
    operation, expected = READS[name]
    for call in itertools.count():
        faulty.arm(Fault(call))
        outcome = _outcome(operation, open_it)
        if not faulty.fired:
            assert outcome == expected
            assert call > 0
            return
        assert type(outcome) is Unavailable
        faulty.arm()
        assert _outcome(operation, open_it) == expected


@pytest.mark.parametrize("name", READS)
@pytest.mark.parametrize("stack", STACKS)
def test_a_failure_below_is_told_and_the_next_call_is_right(stack: str, name: str) -> None:
    _fail_in_turn(*STACKS[stack](), name)


@pytest.mark.parametrize("name", READS)
def test_a_failure_below_references_is_told_and_the_next_call_is_right(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data.bin").write_bytes(b"head" + BIG + b"deep")
    references = {
        "kept": ["kept.bin"],
        "a/big": ["data.bin", 4, len(BIG)],
        "a/deep/er": ["data.bin", 4 + len(BIG), 4],
    }
    (tmp_path / "kept.bin").write_bytes(b"kept")
    (tmp_path / "refs.json").write_text(json.dumps({"version": 1, "refs": references}))
    faulty = Faulty(DirectoryZMap(tmp_path))
    monkeypatch.setattr(reference_targets, "open_store", lambda url, options: faulty)
    if name in ("search", "list", "read", "read a range", "stat"):
        _fail_in_turn(faulty, lambda: open_store(str(tmp_path / "refs.json")), name)
    else:
        zmap = open_store(str(tmp_path / "refs.json"))
        faulty.arm(Fault(0, repeats=100))
        assert _outcome(READS[name][0], lambda: zmap) == READS[name][1]  # nobody is asked


@pytest.mark.parametrize("after", [False, True], ids=["before it took effect", "after it did"])
@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("stack", WRITABLE)
def test_a_write_that_fails_leaves_each_object_old_or_new(
    stack: str, name: str, after: bool
) -> None:
    operation, expected = WRITES[name]
    for call in itertools.count():
        faulty, open_it = WRITABLE[stack]()
        faulty.arm(Fault(call, after=after))
        outcome = _outcome(operation, open_it)
        fired = faulty.fired
        faulty.arm()
        found = objects_of(open_it())
        if not fired:
            assert found == expected
            assert call > 0
            return
        assert type(outcome) is Unavailable
        _check_old_or_new(found, expected)


def _check_old_or_new(found: Mapping[str, bytes], expected: Mapping[str, bytes]) -> None:
    for key in {*OBJECTS, *expected, *found}:
        assert found.get(key) in (OBJECTS.get(key), expected.get(key))


# A directory: its calls are those of the system

_CALLS = (
    *("open", "stat", "fstat", "readlink", "scandir", "pread", "write", "mkdir", "rmdir"),
    *("utime", "fchmod", "fsync", "rename", "unlink"),
)


class _FailingSystem:
    """Makes the n-th of the system calls fail, once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, call: int) -> None:
        self._left = call
        self.fired = False
        for name in _CALLS:
            monkeypatch.setattr(os, name, self._failing(getattr(os, name)))

    def _failing(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def fail_or_call(*args: Any, **kwargs: Any) -> Any:
            self._left -= 1
            if self._left == -1:
                self.fired = True
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return call(*args, **kwargs)

        return fail_or_call


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[ZMap]:
    (tmp_path / "root").mkdir()
    zmap = DirectoryZMap(tmp_path / "root", durable=True)
    yield zmap
    zmap.close()


def _with_failure(call: int, operation: Operation, zmap: ZMap) -> tuple[object, bool]:
    with pytest.MonkeyPatch.context() as patch:
        failing = _FailingSystem(patch, call)
        return _outcome(operation, lambda: zmap), failing.fired


@pytest.mark.parametrize("name", READS)
def test_a_failing_system_call_is_never_taken_for_an_answer(directory: ZMap, name: str) -> None:
    operation, expected = READS[name]
    _fill(directory)
    before = len(os.listdir("/proc/self/fd"))
    for call in itertools.count():
        outcome, fired = _with_failure(call, operation, directory)
        assert type(outcome) is Unavailable or outcome == expected
        assert operation(directory) == expected
        assert len(os.listdir("/proc/self/fd")) == before
        if not fired:
            assert outcome == expected
            assert call > 0
            return


@pytest.mark.parametrize("name", WRITES)
def test_a_failing_system_call_leaves_each_object_old_or_new(
    directory: ZMap, name: str, tmp_path: Path
) -> None:
    operation, expected = WRITES[name]
    for call in itertools.count():
        directory.delete_many([stat.key for stat in directory.list(ROOT)])
        _fill(directory)
        outcome, fired = _with_failure(call, operation, directory)
        found = objects_of(directory)
        _check_old_or_new(found, expected)
        assert {
            str(path.relative_to(tmp_path / "root"))
            for path in tmp_path.rglob("*")
            if path.is_file()
        } == set(found)
        if not fired:
            assert found == expected
            assert call > 0
            return
        assert type(outcome) is Unavailable or found == expected


# A web server: its calls are requests, and one that fails is made again


def _page(names: set[str]) -> Reply:
    links = "".join(f'<a href="{name}">{name}</a>' for name in sorted(names))
    return Reply(200, f"<title>Index of /</title>{links}".encode(), {"Content-Type": "text/html"})


def _served(asked: Asked) -> Reply:
    """A server with ranges, ETags and index pages."""
    path = urlsplit(asked.path).path.removeprefix("/data").lstrip("/")
    if path.endswith("/") or not path:
        below = [key[len(path) :] for key in OBJECTS if key.startswith(path)]
        names = {key.partition("/")[0] + ("/" if "/" in key else "") for key in below}
        return _page(names) if names else Reply(404)
    data = OBJECTS.get(path)
    if data is None:
        return Reply(404)
    found = re.fullmatch(r"bytes=(\d+)-(\d*)", asked.headers.get("range", ""))
    if found is None:
        return Reply(200, data, {"ETag": '"e"'})
    start, stop = int(found[1]), min(int(found[2] or len(data)) + 1, len(data))
    place = f"bytes {start}-{stop - 1}/{len(data)}"
    return Reply(206, data[start:stop], {"ETag": '"e"', "Content-Range": place})


def _cut(asked: Asked, reply: Reply) -> Reply:
    """The reply without its last byte, and then nothing."""
    if asked.method == "HEAD" or not reply.body:
        return Reply(500)
    headers = {**reply.headers, "Content-Length": str(len(reply.body)), "Connection": "close"}
    return Reply(reply.status, reply.body[:-1], headers)


@pytest.mark.parametrize(
    "failure",
    [lambda *_: Reply(500), lambda *_: Reply(503), _cut],
    ids=["500", "503", "cut"],
)
@pytest.mark.parametrize("name", READS)
def test_an_operation_outlasts_the_failure_of_any_of_its_requests(
    name: str, failure: Callable[[Asked, Reply], Reply], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    operation, expected = READS[name]
    for failing in itertools.count():
        numbers = itertools.count()

        def fail_or_serve(asked: Asked, failing: int = failing, numbers: Any = numbers) -> Reply:
            reply = _served(asked)
            return failure(asked, reply) if next(numbers) == failing else reply

        with serving(fail_or_serve) as server:
            options = StoreOptions(request_timeout_s=60.0, attempt_timeout_s=2.0)
            zmap = HttpZMap(f"{server.endpoint_url}/data", options)
            assert operation(zmap) == expected
            zmap.close()
            if len(server.asked) <= failing:
                break
    assert failing > 0
