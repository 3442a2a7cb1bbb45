"""`nczfs serve` beside the same server with bytes in memory, and beside recorded answers.

    python -m benchmarks.serving [--pairs N] [--layouts rows1,...] [--codecs none,zlib,lz4]

256 MiB of float32 in one request: to a client that only receives, beside the same number of bytes
that the same server sends from memory in pieces of 1 MiB; and to siphon, beside a bare server that
replays the recorded answers. Clients are processes of their own. The page cache is warm; the chunk
cache is smaller than the data.
"""

from __future__ import annotations

import argparse
import http.server
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import urlopen

import numpy as np
from starlette.types import ASGIApp, Receive, Scope, Send

from benchmarks.harness import LAYOUTS, MIB, field, paired
from nczfs.engine.options import EngineOptions
from nczfs.library.opening import open_url
from nczfs.serve.app import AppOptions, application
from nczfs.serve.server import ServerOptions, answering, listen, url_of
from nczfs.serve.store import ServedStore
from nczfs.zmap.registry import StoreOptions

CODECS: dict[str, list[dict[str, Any]]] = {
    "none": [],
    "zlib": [{"id": "shuffle", "elementsize": 4}, {"id": "zlib", "level": 1}],
    "lz4": [{"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0}],
}
OPTIONS = ServerOptions(port=0)


def main() -> None:
    """Run and print the rows of a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--layouts", default="rows1,rows4")
    parser.add_argument("--codecs", default=",".join(CODECS))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="nczfs-bench-") as scratch:
        path = Path(scratch) / "data.zarr"
        values = field()
        names = []
        with open_url(str(path), "w", format="zarr2") as dataset:
            for layout in arguments.layouts.split(","):
                for codec in arguments.codecs.split(","):
                    names.append(f"{codec}_{layout}")
                    dataset.create_variable(
                        names[-1],
                        values.shape,
                        "f4",
                        values,
                        chunks=LAYOUTS[layout],
                        codecs=CODECS[codec],
                    )
        with _served(path) as ours, _client("raw") as raw, _client("siphon") as siphon:
            _compare(ours, names, values.nbytes, raw, siphon, arguments.pairs)


def _compare(
    ours: str, names: list[str], nbytes: int, raw: _Client, siphon: _Client, pairs: int
) -> None:
    print("| case | peer s | nczfs s | ratio |\n| --- | --- | --- | --- |")
    endpoint = f"{ours}cdmremote/data.zarr"
    with _answered(partial(_memory, nbytes)) as memory:
        for name in names:
            paired(
                f"received, {name}; peer: from memory",
                partial(raw.read, memory),
                partial(raw.read, f"{endpoint}?req=data&var={name}"),
                before=_nothing,
                pairs=pairs,
            )
    for name in names:
        with _replayed(endpoint, name) as recorded:
            paired(
                f"siphon, {name}; peer: recorded answers",
                partial(siphon.read, f"{recorded}cdmremote/data.zarr#{name}"),
                partial(siphon.read, f"{endpoint}#{name}"),
                before=_nothing,
                pairs=pairs,
            )


def _nothing() -> None:
    pass


@contextmanager
def _served(path: Path) -> Iterator[str]:
    """The service of a dataset; yields its URL."""
    store = ServedStore(str(path), StoreOptions(), EngineOptions(memory_limit_bytes=64 * MIB))
    with _answered(application(store, AppOptions())) as url:
        yield url
    store.close()


@contextmanager
def _answered(app: ASGIApp) -> Iterator[str]:
    with ExitStack() as stack:
        listener = stack.enter_context(listen(OPTIONS))
        url = url_of(listener)
        stack.enter_context(answering(app, listener, OPTIONS))
        yield url


async def _memory(nbytes: int, scope: Scope, receive: Receive, send: Send) -> None:
    """Send bytes that are in memory."""
    piece = bytes(MIB)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for _ in range(nbytes // MIB):
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


@contextmanager
def _replayed(endpoint: str, name: str) -> Iterator[str]:
    """A bare server with the answers that siphon gets for a variable; yields its URL."""
    answers = {}
    for query in ("req=header", f"req=data&var=%2F{name}"):
        with urlopen(f"{endpoint}?{query}") as answer:
            answers[f"{urlsplit(endpoint).path}?{query}"] = answer.read()

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = answers[self.path]
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()
        thread.join()


class _Client:
    """A client in a process of its own, which reads what it is told to."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def read(self, url: str) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(url, file=self._process.stdin, flush=True)
        assert self._process.stdout.readline() == "read\n"


@contextmanager
def _client(kind: str) -> Iterator[_Client]:
    command = [sys.executable, "-m", "benchmarks.serving", kind]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield _Client(process)
        assert process.stdin is not None
        process.stdin.close()


def _be_a_client(kind: str) -> None:
    read = {"raw": _receive, "siphon": _siphon}[kind]
    for line in sys.stdin:
        read(line.strip())
        print("read", flush=True)


def _receive(url: str) -> None:
    parts = urlsplit(url)
    into = bytearray(MIB)
    with socket.create_connection((parts.hostname or "", parts.port or 80)) as client:
        target = f"{parts.path or '/'}?{parts.query}"
        client.sendall(
            f"GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
        )
        received = 0
        while count := client.recv_into(into):
            received += count
    assert received > 256 * MIB


def _siphon(url: str) -> None:
    from siphon.cdmr import Dataset

    endpoint, _, name = url.partition("#")
    values = Dataset(endpoint).variables[name][:]
    assert values.nbytes == 256 * MIB
    assert np.isfinite(values[0, 0, 0])


if __name__ == "__main__":
    if sys.argv[1:] in (["raw"], ["siphon"]):
        _be_a_client(sys.argv[1])
    else:
        main()
