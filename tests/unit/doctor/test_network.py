"""``nczfs doctor`` with servers to which the way is bad."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path

import pytest

from tests.support.examined import examined
from tests.support.httpd import WebServer
from tests.support.ports import free_port


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@contextmanager
def answering(text: str) -> Iterator[str]:
    """A server that gives every request the same answer, or with "" none at all."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        kept: list[socket.socket] = []

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                kept.append(connection)
                if text:
                    with connection:
                        connection.recv(65536)
                        connection.sendall(text.encode())

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
        for connection in kept:
            connection.close()


def test_a_name_without_an_address_is_wrong_and_nothing_behind_it_is_examined() -> None:
    found = examined("https://nothing.invalid/data.zarr")
    assert found.status == 1
    assert "host and port of the URL" in found.line("name") or "nothing came" in found.line("name")
    assert list(found.findings)[-1] == "name"


def test_a_server_that_refuses_connections_is_wrong() -> None:
    found = examined("s3://bucket/x", "--endpoint-url", f"http://127.0.0.1:{free_port()}")
    assert (found.status, found.grade("server")) == (1, "wrong")
    assert "Connection refused; check --endpoint-url" in found.line("server")
    assert "listing" not in found.findings


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_server_that_hangs_is_wrong_after_a_while(scheme: str) -> None:
    with answering("") as place:
        found = examined(f"{scheme}://{place}/data.zarr", "--request-timeout", "1s")
    subject = {"http": "server", "https": "TLS"}[scheme]
    assert (found.status, found.grade(subject)) == (1, "wrong")
    assert list(found.findings)[-1] == subject


def test_a_server_that_does_not_speak_tls_is_wrong(python_server: WebServer) -> None:
    found = examined(python_server.url.replace("http://", "https://"))
    assert found.grade("TLS") == "wrong"
    assert "use http://" in found.line("TLS")


def test_a_certificate_must_be_known_and_should_last(nginx: WebServer) -> None:
    url = f"{nginx.tls_url}/html/"
    unknown = examined(url)
    assert (unknown.status, unknown.grade("TLS")) == (1, "wrong")
    assert "--ca-bundle" in unknown.line("TLS")
    ends_soon = examined(url, "--ca-bundle", nginx.certificate)  # it is for two days
    assert ends_soon.grade("TLS") == "doubtful"
    assert "renew" in ends_soon.line("TLS")
    assert ends_soon.grade("server") == "well"


def test_a_way_without_encryption_is_doubtful_beyond_this_machine(
    python_server: WebServer,
) -> None:
    here = examined(python_server.url)
    assert here.grade("TLS") == "well"
    elsewhere = examined(python_server.url.replace("127.0.0.1", "0.0.0.0"))
    assert elsewhere.grade("TLS") == "doubtful"
    assert "https://" in elsewhere.line("TLS")


@pytest.mark.parametrize(
    ("off_s", "url", "grade"),
    [
        (0, "http://{}/x", "well"),
        (120, "http://{}/x", "doubtful"),
        (3600, "http://{}/x", "doubtful"),
        (-3600, "http://{}/bucket/x#mode=s3", "wrong"),
    ],
)
def test_a_clock_that_differs_from_the_servers_is_named(off_s: int, url: str, grade: str) -> None:
    answer = (
        f"HTTP/1.1 404 Not Found\r\nDate: {formatdate(time.time() + off_s, usegmt=True)}\r\n"
        "Content-Length: 0\r\nConnection: close\r\n\r\n"
    )
    with answering(answer) as place:
        found = examined(url.format(place), "--request-timeout", "60s", "--no-sign-request")
    assert found.grade("clock") == grade
    assert grade == "well" or "timedatectl" in found.line("clock")


def test_an_unusable_proxy_and_one_before_a_near_server_are_named_without_secrets(
    python_server: WebServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = f"127.0.0.1:{free_port()}"
    monkeypatch.setenv("http_proxy", f"http://user:hush-hush@{proxy}")
    found = examined(python_server.url)
    assert f"through {proxy}" in found.line("proxies")
    assert found.grade("proxy") == "doubtful"
    assert "no_proxy" in found.line("proxy")
    assert (found.grade("server"), found.status) == ("wrong", 1)
    assert "hush-hush" not in found.text
    monkeypatch.setenv("http_proxy", "ftp://user:hush-hush@proxy:1")
    found = examined(python_server.url)
    assert (found.grade("proxies"), found.grade("store")) == ("wrong", "wrong")
    assert "hush-hush" not in found.text


def test_a_password_of_the_url_is_not_printed(
    nginx: WebServer, capsys: pytest.CaptureFixture[str]
) -> None:
    url = nginx.url.replace("http://", "http://user:hush-hush@")
    found = examined(f"{url}/private/")
    assert "hush-hush" not in found.text
    assert "hush-hush" not in capsys.readouterr().err


def test_a_web_server_without_listings_is_doubtful(nginx: WebServer) -> None:
    (nginx.new_directory() / "file").write_bytes(b"x")
    found = examined(f"{nginx.url}/unlisted/")
    assert found.grade("listing") != "well"


def test_an_endless_answer_is_refused() -> None:
    with answering("HTTP/1.1 200 OK\r\n" + "X: y\r\n" * 5000 + "\r\n") as place:
        found = examined(f"http://{place}/x", "--request-timeout", "1s")
    assert (found.status, found.grade("server")) == (1, "wrong")


def test_a_ca_bundle_that_is_not_there_is_named(tmp_path: Path) -> None:
    found = examined("https://127.0.0.1:1/x", "--ca-bundle", tmp_path / "none.pem")
    assert found.grade("store") == "wrong"
    assert "--ca-bundle" in found.line("store")
