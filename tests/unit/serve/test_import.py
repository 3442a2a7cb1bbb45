"""``nczfs import`` of what a service sends: by its URL, and from a pipe."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.types import Message, Receive, Scope, Send

import nczfs
from nczfs.cli.main import main
from tests.support.served import DEADLINE_S, Served, served

MIB = 1 << 20
STREAM = "d.zarr/d.ncs"


def run(*words: str | Path) -> int:
    return main([str(word) for word in words])


class Cutting:
    """The service behind a line that breaks.

    Attributes
    ----------
    cuts : the bytes of a body after which an answer breaks off, for each of the next answers.
    sent : the bytes of all bodies. ranges : that were asked for, as in the headers.
    """

    def __init__(self) -> None:
        self.cuts: list[int] = []
        self.sent = 0
        self.ranges: list[bytes] = []

    def __call__(self, app: Any) -> Callable[[Scope, Receive, Send], Any]:
        async def cutting(scope: Scope, receive: Receive, send: Send) -> None:
            left: int | None = None
            if scope["type"] == "http" and scope["method"] == "GET":
                self.ranges += [value for name, value in scope["headers"] if name == b"range"]
                left = self.cuts.pop(0) if self.cuts else None

            async def sending(message: Message) -> None:
                nonlocal left
                if message["type"] == "http.response.body":
                    if left is not None and len(message["body"]) >= left:
                        part = message["body"][:left]
                        self.sent += len(part)
                        await send({**message, "body": part, "more_body": True})
                        raise ConnectionError("cut")
                    left = None if left is None else left - len(message["body"])
                    self.sent += len(message["body"])
                await send(message)

            # Without the end of the body, the server closes the connection.
            with suppress(ConnectionError):
                await app(scope, receive, sending)

        return cutting


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("served")
    random = np.random.default_rng(3)
    with nczfs.open(str(path / "d.zarr"), "w", format="zarr3") as dataset:
        values = random.integers(0, 99, (20, MIB // 4), "i4")
        dataset.create_variable("v", values.shape, "i4", values, chunks=(3, MIB // 4))
        texts = np.array(["", "zwei", "日本" * 40], object)
        dataset.create_group("g", {"title": "below"}).create_variable("s", (3,), str, texts)
    return path


@pytest.fixture(scope="module")
def line() -> Cutting:
    return Cutting()


@pytest.fixture(scope="module")
def service(store: Path, line: Cutting) -> Iterator[Served]:
    with served(store, around=line) as running:
        yield running


def digests(place: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    capsys.readouterr()
    assert run("verify", "--digest", place) == 0
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("form", ["zarr3", "nczarr"])
def test_an_import_goes_on_by_ranges_after_cuts(
    form: str,
    service: Served,
    line: Cutting,
    store: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    line.cuts = [5 * MIB, 0, MIB]
    line.sent, line.ranges = 0, []
    target = tmp_path / "out.zarr"
    assert run("import", service.url + STREAM, target, "--format", form) == 0
    assert not line.cuts
    assert digests(target, capsys) == digests(store / "d.zarr", capsys)
    readings = 1 if form == "zarr3" else 2  # strings in cells are read first
    assert line.sent < (readings * 20 + 7) * MIB
    assert all(wanted.startswith(b"bytes=") for wanted in line.ranges)


def test_nothing_is_left_when_the_line_stays_dead(
    service: Served, line: Cutting, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line.cuts = [9 * MIB, *[0] * 1000]
    target = tmp_path / "out.zarr"
    words = ("import", service.url + STREAM, target, "--format", "zarr3")
    try:
        assert run(*words, "--request-timeout", "1s") == 1
    finally:
        line.cuts = []
    assert "d.ncs" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_stream_is_refused(
    service: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "out.zarr"
    assert run("import", f"{service.url}d.zarr/d.cdl", target) == 2
    assert "is no ncstream" in capsys.readouterr().err
    assert run("import", f"{service.url}d.zarr/none.ncs", target) == 1
    assert "`nczfs cp` copies datasets" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_curl_pipes_a_stream_into_an_import(
    service: Served, store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "out.zarr"
    with subprocess.Popen(["curl", "-sSf", service.url + STREAM], stdout=subprocess.PIPE) as curl:
        importing = [sys.executable, "-m", "nczfs.cli.main", "import", "-", str(target)]
        done = subprocess.run(importing, stdin=curl.stdout, timeout=DEADLINE_S, check=False)
        assert (done.returncode, curl.wait(DEADLINE_S)) == (0, 0)
    assert digests(target, capsys) == digests(store / "d.zarr", capsys)
