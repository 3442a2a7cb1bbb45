"""A store that is served over HTTP by this process."""

from __future__ import annotations

import http.client
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

import pytest

from nczfs.engine.options import EngineOptions
from nczfs.serve.app import AppOptions, application
from nczfs.serve.server import ServerOptions, answering, listen, url_of
from nczfs.serve.store import ServedStore
from nczfs.zmap.registry import StoreOptions

DEADLINE_S = 120.0


@dataclass(frozen=True, slots=True)
class Got:
    """An answer that was received whole."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()


@dataclass(frozen=True, slots=True)
class Served:
    """A running service. `url` ends with a slash."""

    url: str
    store: ServedStore

    def connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(str(urlsplit(self.url).netloc), timeout=DEADLINE_S)

    def get(self, target: str, method: str = "GET", **headers: str) -> Got:
        """Ask for a target, whose first slash is left out."""
        connection = self.connection()
        try:
            names = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, f"/{target}", headers=names)
            response = connection.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            return Got(response.status, found, response.read())
        finally:
            connection.close()


@contextmanager
def served(
    url: str | Path,
    app: AppOptions = AppOptions(),  # noqa: B008 - frozen
    server: ServerOptions = ServerOptions(port=0),  # noqa: B008 - frozen
    options: EngineOptions | None = None,
    around: Callable[[Any], Any] = lambda app: app,
) -> Iterator[Served]:
    """Serve a store during the block.

    Parameters
    ----------
    around : makes another application of that of the service.
    """
    with ExitStack() as stack:
        listener = stack.enter_context(listen(server))
        store = ServedStore(str(url), StoreOptions(), options or EngineOptions())
        stack.callback(store.close)
        inner = around(application(store, app))
        at = url_of(listener)
        stack.enter_context(answering(inner, listener, server))
        yield Served(at, store)


@contextmanager
def serving(*words: str | Path) -> Iterator[tuple[subprocess.Popen[str], str, IO[str]]]:
    """A running ``nczfs serve``, its host and port, and what it prints from then on."""
    command = [sys.executable, "-m", "nczfs.cli.main", "serve", *map(str, words)]
    process = subprocess.Popen(
        [*command, "--listen", "127.0.0.1:0"], stderr=subprocess.PIPE, text=True, cwd=os.getcwd()
    )
    assert process.stderr is not None
    try:
        said = ""
        for line in process.stderr:
            said += line
            if found := re.search(r"is served at http://([0-9.:]+)/; Ctrl-C ends it", line):
                yield process, found[1], process.stderr
                return
        pytest.fail(said)
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def resident(pid: int) -> int:
    """The bytes of a process that are in memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
