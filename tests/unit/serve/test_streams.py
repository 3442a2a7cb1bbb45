"""Answers that take long: clients that go away or stop reading, stores that fail, and the end."""

from __future__ import annotations

import http.client
import logging
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import numpy as np
import pytest
from siphon.cdmr.ncstream import read_ncstream_messages
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import nczfs
from nczfs import metrics
from nczfs.serve.app import AppOptions
from nczfs.serve.server import ServerOptions
from nczfs.serve.values import value_blocks
from tests.conftest import ExpectedWarnings
from tests.support.served import DEADLINE_S, Served, resident, served, serving

MIB = 1 << 20
LARGE = "cdmremote/a.zarr?req=data&var=large"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset of 256 MiB that were never written, and of variables with a broken chunk."""
    path = tmp_path_factory.mktemp("served")
    with nczfs.open(str(path / "a.zarr"), "w", format="zarr2") as dataset:
        dataset.create_variable("large", (64, MIB), "f4", chunks=(1, MIB))
        values = np.arange(8 * MIB // 4, dtype="f4").reshape(8, -1)
        for name in ("good", "bad_at_once", "bad_later"):
            dataset.create_variable(name, values.shape, "f4", values, chunks=(1, values.shape[1]))
        square = values.reshape(2048, 1024)
        dataset.create_variable("rows", square.shape, "f4", square, chunks=(128, 1024))
        dataset.create_variable("tiles", square.shape, "f4", square, chunks=(2048, 64))
    (path / "a.zarr" / "bad_at_once" / "0.0").write_bytes(b"broken")
    (path / "a.zarr" / "bad_later" / "7.0").write_bytes(b"broken")
    return path


class _Heard(logging.Handler):
    """Waits for a line of the log."""

    def __init__(self, pattern: str) -> None:
        super().__init__()
        self._pattern = re.compile(pattern)
        self._found = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        if self._pattern.search(record.getMessage()):
            self._found.set()

    def wait(self) -> None:
        assert self._found.wait(DEADLINE_S)


@contextmanager
def heard(pattern: str) -> Iterator[_Heard]:
    handler, logger = _Heard(pattern), logging.getLogger("nczfs.serve")
    level = logger.level
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    try:
        yield handler
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


# -- a store that fails ----------------------------------------------------------------------------


def test_an_error_before_the_first_value_is_the_answer(
    service: Served, expected_warnings: ExpectedWarnings
) -> None:
    """SEMANTICS V5."""
    expected_warnings.add("codec 'blosc'")
    got = service.get("cdmremote/a.zarr?req=data&var=bad_at_once;good")
    assert got.status == 502
    assert "a chunk of the dataset cannot be decoded" in got.text
    assert "a.zarr" not in got.text


def test_an_error_between_messages_is_a_message(
    service: Served, expected_warnings: ExpectedWarnings
) -> None:
    """SEMANTICS V5."""
    expected_warnings.add("codec 'blosc'")
    got = service.get("cdmremote/a.zarr?req=data&var=good(0,0:9);bad_at_once;good")
    assert got.status == 200
    with pytest.raises(RuntimeError, match="a chunk of the dataset cannot be decoded"):
        read_ncstream_messages(BytesIO(got.body))


def test_an_error_within_values_cuts_the_connection(
    service: Served, expected_warnings: ExpectedWarnings
) -> None:
    """SEMANTICS V5."""
    expected_warnings.add("codec 'blosc'")
    with pytest.raises(http.client.IncompleteRead):
        service.get("cdmremote/a.zarr?req=data&var=bad_later")
    with pytest.raises(http.client.IncompleteRead):
        service.get("a.zarr/bad_later/values.raw")
    assert service.get("cdmremote/a.zarr?req=data&var=bad_later(0:6,:)").status == 200


def test_values_are_deflated_as_a_whole_or_not_at_all(
    service: Served, expected_warnings: ExpectedWarnings
) -> None:
    """SEMANTICS V4."""
    expected_warnings.add("codec 'blosc'")
    assert service.get("cdmremote/a.zarr?req=data&var=bad_later&deflate=1").status == 502
    (values,) = read_ncstream_messages(
        BytesIO(service.get("cdmremote/a.zarr?req=data&var=good(0:7:7,:)&deflate=1").body)
    )
    assert values.tolist() == np.arange(8 * MIB // 4).reshape(8, -1)[::7].tolist()


@pytest.mark.parametrize("name", ["rows", "tiles"])
def test_chunks_are_decoded_once(service: Served, name: str) -> None:
    """SEMANTICS V6."""
    before = metrics.value("nczfs_chunks_decoded_total")
    (values,) = read_ncstream_messages(
        BytesIO(service.get(f"cdmremote/a.zarr?req=data&var={name}").body)
    )
    assert np.array_equal(values.reshape(-1), np.arange(8 * MIB // 4, dtype="f4"))
    assert metrics.value("nczfs_chunks_decoded_total") - before == 16


def test_the_next_block_is_made_while_one_is_sent(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = [threading.Event(), threading.Event()]

    def noted(*words: Any) -> Iterator[Any]:
        following = iter(made)
        for block in value_blocks(*words):
            next(following).set()
            yield block

    def waiting(app: ASGIApp) -> ASGIApp:
        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            async def sending(message: Message) -> None:
                if len(message.get("body", b"")) > 1000:  # of the first block, not the head
                    assert made[1].wait(DEADLINE_S)  # in the event loop, which only sends
                await send(message)

            await app(scope, receive, sending)

        return answer

    monkeypatch.setattr("nczfs.serve.cdm.value_blocks", noted)
    with served(store, around=waiting) as service:
        got = service.get("cdmremote/a.zarr?req=data&var=good")
    assert len(got.body) > 8 * MIB


# -- clients ---------------------------------------------------------------------------------------


def test_what_nobody_reads_any_more_is_not_made(service: Served) -> None:
    """SEMANTICS V6."""
    with heard(r"large.* 200, \d+ bytes \(not complete\)") as ended:
        connection = service.connection()
        connection.request("GET", f"/{LARGE}")
        connection.getresponse().read(MIB)
        connection.close()
        ended.wait()


def test_who_leaves_with_the_last_byte_has_a_complete_answer(store: Path) -> None:
    """Most clients do, before the server has said that there are no more."""

    def held_up(app: ASGIApp) -> ASGIApp:
        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            sent = 0

            async def sending(message: Message) -> None:
                nonlocal sent
                await send(message)
                sent += len(message.get("body", b""))
                if sent == 8 * MIB:
                    await anyio.sleep_forever()  # until the client has left

            await app(scope, receive, sending)

        return answer

    with (
        served(store, around=held_up) as service,
        heard(r"values\.raw\S* 200, 8388608 bytes(?! \(not complete\))") as ended,
    ):
        connection = service.connection()
        connection.request("GET", "/a.zarr/good/values.raw")
        assert len(connection.getresponse().read()) == 8 * MIB
        connection.close()
        ended.wait()


@pytest.mark.parametrize("before", ["", "good;"])
def test_what_nobody_waits_for_any_more_is_not_deflated(
    store: Path, monkeypatch: pytest.MonkeyPatch, before: str
) -> None:
    """SEMANTICS V6. Nothing is sent before everything is deflated."""
    begun, ended = threading.Event(), threading.Event()

    def endless(*words: Any) -> Iterator[Any]:
        if words[1] != (range(64), range(MIB)):
            yield from value_blocks(*words)
            return
        block = next(value_blocks(*words))
        try:
            while True:
                begun.set()
                yield block
        finally:
            ended.set()

    monkeypatch.setattr("nczfs.serve.cdm.value_blocks", endless)
    monkeypatch.setattr("nczfs.serve.spooled.tempfile.SpooledTemporaryFile", lambda _: _Nowhere())
    with served(store) as service:
        connection = service.connection()
        connection.request("GET", f"/cdmremote/a.zarr?req=data&var={before}large&deflate=1")
        if before:
            connection.getresponse().read(1)
        assert begun.wait(DEADLINE_S)
        connection.close()
        assert ended.wait(DEADLINE_S)


class _Nowhere(BytesIO):
    """A file that keeps nothing."""

    def write(self, data: Any, /) -> int:
        return len(data)


def test_a_client_that_takes_nothing_is_cut_off(store: Path) -> None:
    """SEMANTICS V6."""
    options = ServerOptions(port=0, stall_s=0.5)
    with served(store, server=options) as service, ExitStack() as stack:
        ended = stack.enter_context(heard(r"large.* 200, \d+ bytes \(not complete\)"))
        connection = service.connection()
        stack.callback(connection.close)
        connection.request("GET", f"/{LARGE}")
        ended.wait()


@pytest.mark.parametrize("begin", [b"", b"GET / HTTP/1.1\r\nX: y"])
def test_a_request_that_does_not_arrive_is_given_up(store: Path, begin: bytes) -> None:
    """SEMANTICS V14."""
    with (
        served(store, server=ServerOptions(port=0, request_s=0.2)) as service,
        _connected(service) as client,
    ):
        client.sendall(begin)
        assert client.recv(1) == b""


def test_a_second_request_that_does_not_arrive_is_given_up(store: Path) -> None:
    """SEMANTICS V14."""
    with (
        served(store, server=ServerOptions(port=0, request_s=1.5)) as service,
        _connected(service) as client,
    ):
        client.sendall(b"GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\nGET /")
        received = b""
        while data := client.recv(65536):
            received += data
        assert received.startswith(b"HTTP/1.1 404 ")
        assert received.count(b"HTTP/1.1") == 1


@pytest.mark.parametrize(
    "body",
    [
        b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
        b"Content-Length: 1\r\n\r\nx",
    ],
)
@pytest.mark.parametrize("method", [b"GET", b"POST"])
def test_nothing_follows_a_request_with_a_body(service: Served, method: bytes, body: bytes) -> None:
    """SEMANTICS V16."""
    smuggled = b"GET /a.zarr/ HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with _connected(service) as client:
        client.sendall(method + b" /nothing HTTP/1.1\r\nHost: localhost\r\n" + body + smuggled)
        received = b""
        while data := client.recv(65536):
            received += data
    assert received.startswith(b"HTTP/1.1 404 " if method == b"GET" else b"HTTP/1.1 405 ")
    assert received.count(b"HTTP/1.1") == 1


def test_more_answers_than_allowed_are_refused(store: Path) -> None:
    """SEMANTICS V15."""
    with served(store, AppOptions(answers_max=1)) as service, ExitStack() as stack:
        connection = service.connection()
        stack.callback(connection.close)
        connection.request("GET", f"/{LARGE}")
        connection.getresponse().read(1)
        got = service.get("")
        assert got.status == 503
        assert "retry-after" in got.headers


def test_many_clients_read_at_once(service: Served) -> None:
    """SEMANTICS V6."""
    expected = service.get("cdmremote/a.zarr?req=data&var=good").body
    found: list[bool] = []

    def read() -> None:
        found.append(service.get("cdmremote/a.zarr?req=data&var=good").body == expected)

    threads = [threading.Thread(target=read) for _ in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_S)
    assert found == [True] * 50


def _connected(service: Served) -> socket.socket:
    address = urlsplit(service.url)
    return socket.create_connection((address.hostname, address.port), DEADLINE_S)


# -- the process -----------------------------------------------------------------------------------


def test_answers_that_do_not_end_are_given_up(store: Path) -> None:
    """SEMANTICS V11."""
    options = "--stop-timeout", "1s", "--metadata-ttl", "5s", "--missing-chunks", "fill"
    with serving(store, *options) as (process, address, _):
        connection = http.client.HTTPConnection(address, timeout=DEADLINE_S)
        connection.request("GET", f"/{LARGE}")
        connection.getresponse().read(MIB)
        process.send_signal(signal.SIGINT)
        assert process.wait(DEADLINE_S) == 0
        connection.close()


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_service_whichever_thread_it_interrupts(signum: signal.Signals) -> None:
    """SEMANTICS V11."""
    program = f"""if True:
        import signal
        import threading
        from nczfs.serve.server import ServerOptions, listen, serve

        def interrupt_another_thread():  # once the main thread waits
            threading.Timer(0.5, signal.raise_signal, ({signum:d},)).start()

        options = ServerOptions(port=0)
        serve(None, listen(options), options, interrupt_another_thread)
    """
    subprocess.run([sys.executable, "-c", program], check=True, timeout=DEADLINE_S)


def test_slow_clients_take_little_memory_and_may_end_after_a_signal(store: Path) -> None:
    """SEMANTICS V6 and V11."""
    with (
        serving(store, "--memory-limit", "64MiB", "--stop-timeout", "2m") as (
            process,
            address,
            stderr,
        ),
        ExitStack() as stack,
    ):
        connection = http.client.HTTPConnection(address, timeout=DEADLINE_S)
        connection.request("GET", f"/{LARGE}")
        assert len(connection.getresponse().read()) > 256 * MIB  # everything is imported now
        connection.close()
        before = resident(process.pid)
        with ExitStack() as clients:
            for _ in range(50):
                connection = http.client.HTTPConnection(address, timeout=DEADLINE_S)
                clients.callback(connection.close)
                connection.request("GET", f"/{LARGE}")
                connection.getresponse().read(2 * MIB)
            assert resident(process.pid) - before < 256 * MIB
        connection = http.client.HTTPConnection(address, timeout=DEADLINE_S)
        stack.callback(connection.close)
        connection.request("GET", "/a.zarr/large/values.raw")
        response = connection.getresponse()
        received = len(response.read(MIB))
        process.send_signal(signal.SIGTERM)
        for line in stderr:
            if "running answers have 120 s" in line:
                break
        received += len(response.read())
        assert received == 256 * MIB
        assert process.wait(DEADLINE_S) == 0
