"""A server that never answered is soon given up, and what names it is named."""

from __future__ import annotations

import itertools
import logging
import socket
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from typing import TypeAlias

import pytest
from urllib3.util import connection

from nczfs.errors import DeadlinePassed, StoreError, Unavailable
from nczfs.zmap.base import ZMap
from nczfs.zmap.http import HttpZMap
from nczfs.zmap.keys import ROOT, Key
from nczfs.zmap.registry import StoreOptions, open_store
from nczfs.zmap.web import attempts, resolving, silence
from nczfs.zmap.web.attempts import FIRST_CONTACT_S, STRANGER_S, AttemptLoop, Deadline
from nczfs.zmap.web.failures import AttemptFailed
from tests.support.ports import free_port
from tests.support.pouring import pouring
from tests.support.scripted import Reply, serving

KEY = Key("dir/key")
OPTIONS = StoreOptions(no_sign_request=True)
Waits: TypeAlias = Callable[[], int]


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Waits:
    """How often was waited for another attempt; not for long."""
    monkeypatch.setattr(attempts, "FIRST_WAIT_S", 0.0)
    caplog.set_level(logging.INFO, attempts.__name__)
    return lambda: sum(record.name == attempts.__name__ for record in caplog.records)


def by_option(url: str) -> ZMap:
    options = StoreOptions(endpoint_url=url, no_sign_request=True)
    return open_store("s3://bucket/dir", options)


def by_url(url: str) -> ZMap:
    return open_store(f"{url}/bucket/dir#mode=s3", OPTIONS)


def over_http(url: str) -> ZMap:
    return open_store(f"{url}/dir", OPTIONS)


@pytest.mark.parametrize(
    ("opened", "named"),
    [
        (by_option, "check --endpoint-url$"),
        (by_url, "check host and port of the URL$"),
        (over_http, "check host and port of the URL$"),
    ],
)
def test_where_nobody_listens_is_tried_twice_and_the_setting_named(
    waits: Waits, opened: Callable[[str], ZMap], named: str
) -> None:
    with closing(opened(f"http://127.0.0.1:{free_port()}")) as zmap:
        with pytest.raises(Unavailable, match=f"Connection refused; {named}") as caught:
            zmap.read(KEY)
        where = str(caught.value).partition(": Connection refused")[0]
        assert zmap.name in (where, f"{where}/dir")  # and no key
        assert waits() == 1


@pytest.mark.usefixtures("waits")
def test_an_endpoint_of_the_environment_is_named_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", f"http://127.0.0.1:{free_port()}")
    zmap = open_store("s3://bucket", OPTIONS)
    with closing(zmap), pytest.raises(Unavailable, match="check AWS_ENDPOINT_URL_S3"):
        zmap.read(KEY)


def test_a_server_that_has_never_answered_is_named_once_while_it_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(silence, "ANNOUNCED_S", 0.05)
    told = "the server has not answered yet; a request is given up after 0.5 s (--request-timeout)"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with closing(open_store(f"{url}/dir", StoreOptions(request_timeout_s=0.5))) as zmap:
            assert zmap.silent_s == 0
            for _ in range(2):
                with pytest.raises(DeadlinePassed):
                    zmap.read(KEY)
            assert zmap.silent_s > 1
    assert [record.message for record in caplog.records] == [f"{url}/dir: {told}"]


def test_a_server_that_answers_is_neither_silent_nor_named(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(silence, "ANNOUNCED_S", 0.05)
    answered = threading.Event()

    def late(asked: object) -> Reply:
        if answered.is_set():
            time.sleep(0.2)
        return Reply(200, b"x")

    with serving(late) as server, closing(over_http(server.endpoint_url)) as zmap:
        zmap.read(KEY)
        caplog.clear()
        answered.set()
        zmap.read(KEY)
        assert zmap.silent_s == 0
    assert caplog.records == []


def test_who_takes_connections_and_speaks_no_http_is_tried_twice(waits: Waits) -> None:
    with pouring(lambda line: [b"SSH-2.0-OpenSSH_9.2\r\n"]) as server:
        zmap = by_option(server.url)
        match = "does not speak HTTP; check --endpoint-url"
        with closing(zmap), pytest.raises(Unavailable, match=match):
            zmap.read(KEY)
        assert len(server.asked) == 2


def test_a_web_server_that_is_no_s3_server_is_asked_twice(waits: Waits) -> None:
    page = Reply(200, b"<!DOCTYPE html><html>Welcome</html>", {"Content-Type": "text/html"})
    with serving(lambda asked: page) as server:
        zmap = by_option(server.endpoint_url)
        match = "not a listing of S3; check --endpoint-url"
        with closing(zmap), pytest.raises(Unavailable, match=match):
            list(zmap.search(ROOT))
        assert len(server.asked) == 2


def test_a_host_of_many_addresses_has_the_time_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of them answers: each is the address of a listener whose queue is full."""
    with ExitStack() as ends:
        full = ends.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        port = full.getsockname()[1]
        for _ in range(4):
            waiting = ends.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(("127.0.0.1", port))
        monkeypatch.setattr(resolving, "_addresses", lambda *_: ["127.0.0.1"] * 60)
        timeouts: list[float] = []
        real = connection.create_connection

        def watched(address: tuple[str, int], timeout: float, **options: object) -> socket.socket:
            timeouts.append(timeout)
            return real(address, min(timeout, 0.01), **options)  # type: ignore[arg-type]

        monkeypatch.setattr(resolving, "create_connection", watched)
        with pytest.raises(TimeoutError):
            resolving.connect("host", port, 2.0, None, None)
    assert len(timeouts) == resolving.ADDRESSES_MAX
    assert timeouts[0] <= 2.0 / resolving.ADDRESSES_MAX
    assert all(before <= after for before, after in itertools.pairwise(timeouts))


def test_a_name_that_nobody_resolves_in_time_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = threading.Event()
    real = socket.getaddrinfo

    def stuck(host: str, *rest: object, **options: object) -> object:
        if options.get("flags"):
            return real(host, *rest, **options)  # type: ignore[arg-type]
        ended.wait()
        raise socket.gaierror(socket.EAI_AGAIN, "late")

    monkeypatch.setattr(socket, "getaddrinfo", stuck)
    with pytest.raises(TimeoutError, match="not resolved in time"):
        resolving.connect("far.example.org", 80, 0.05, None, None)
    ended.set()


def test_who_answered_once_is_waited_for(waits: Waits) -> None:
    """A server that is being started anew refuses connections for a while."""
    headers = {"Connection": "close"}
    with serving(lambda asked: Reply(404, headers=headers)) as server:
        zmap = HttpZMap(server.endpoint_url, StoreOptions(request_timeout_s=5.0))
        with pytest.raises(StoreError):
            zmap.read(KEY)
    with pytest.raises((Unavailable, DeadlinePassed), match="attempts"):
        zmap.read(KEY)
    assert waits() == attempts.ATTEMPTS - 1
    zmap.close()


def test_the_whole_time_of_a_request_that_did_not_suffice_is_named() -> None:
    now = 0.0

    def attempt(deadline: Deadline) -> None:
        nonlocal now
        now += deadline.left_s()
        raise AttemptFailed("nobody answers")

    asked = AttemptLoop("test", "s3://b", 15.0, 4.0, address_from="", clock=lambda: now)
    asked.silence.note_answer()
    with pytest.raises(DeadlinePassed, match=r"^keys: no answer within 65 s \(1 attempt\): nobody"):
        asked.run("keys", attempt, work_s=50.0)


def test_the_questions_of_one_command_wait_for_a_dead_host_once() -> None:
    now = 0.0
    tried: list[float] = []

    def attempt(deadline: Deadline) -> None:
        nonlocal now
        tried.append(now)
        now += FIRST_CONTACT_S
        raise AttemptFailed("nobody answers", is_stranger=True)

    asked = AttemptLoop(
        "test", "s3://b", 15.0, 4.0, address_from="--endpoint-url", clock=lambda: now
    )

    def ask(key: str) -> None:
        with pytest.raises(Unavailable, match=r"^s3://b: nobody answers; check --endpoint-url$"):
            asked.run(key, attempt)

    ask("a")
    ask("b")
    assert tried == [0.0]
    now += STRANGER_S
    ask("c")
    assert tried == [0.0, FIRST_CONTACT_S + STRANGER_S]
    now += STRANGER_S
    assert asked.run("d", lambda deadline: "answer") == "answer"
