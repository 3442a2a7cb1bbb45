"""A relay before a store that lets requests through in rounds: how many must a program wait for?

What is asked at the same time is one round, and takes one round trip, however much it is. No clock
says where a round ends. The next one begins when all answers of the last one were given and every
thread of the programs that are watched sleeps: nothing more can come before there is an answer. The
threads of the relay sleep then, too: what was asked has arrived, however busy the machine is.
"""

from __future__ import annotations

import contextlib
import http
import http.client
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

STEP_S = 0.003
STILL_S = 0.045
PATIENCE_S = 1.5
STILL_STEPS = 4  # on a busy machine a look takes as long as many threads sleep
_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length"})


class _Waiting(NamedTuple):
    """A request whose round has not come yet; see `Rounds.turn`."""

    what: str
    come: threading.Event
    say_later: Callable[[], None]


@dataclass(slots=True)
class Rounds:
    """The relay, and what was asked in the last `of`, round by round.

    Attributes
    ----------
    asked : "LIST" and a prefix, or a method and a key.
    """

    endpoint_url: str
    asked: list[list[str]] = field(default_factory=list)
    _pids: tuple[int, ...] = ()
    _waiting: list[_Waiting] = field(default_factory=list)
    _unanswered: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def requests(self) -> Counter[str]:
        """How often each thing was asked."""
        return Counter(what for together in self.asked for what in together)

    @contextlib.contextmanager
    def of(self, *pids: int) -> Iterator[None]:
        """Let requests through by rounds; these processes, and their children, make them."""
        self.asked.clear()
        self._pids = pids
        ended = threading.Event()
        thread = threading.Thread(target=self._let_through, args=(ended,))
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
            self._pids = ()
            self._release()

    @contextlib.contextmanager
    def turn(self, what: str, say_later: Callable[[], None]) -> Iterator[None]:
        """A request, from when its round has come until it is answered.

        Parameters
        ----------
        say_later : says that an answer will come, so that the request is not made again.
        """
        come = threading.Event()
        with self._lock:
            is_watched = bool(self._pids)
            if is_watched:
                self._waiting.append(_Waiting(what, come, say_later))
        if is_watched:
            come.wait()
        try:
            yield
        finally:
            if is_watched:
                with self._lock:
                    self._unanswered -= 1

    def _release(self) -> None:
        with self._lock:
            together, self._waiting = self._waiting, []
            self._unanswered += len(together)
        if together:
            self.asked.append([each.what for each in together])
        for each in together:
            each.come.set()

    def _say_later(self) -> None:
        """All at once: one after the other they would keep the programs from being still."""
        with self._lock:
            together = list(self._waiting)
        for each in together:
            with contextlib.suppress(OSError):
                each.say_later()

    def _let_through(self, ended: threading.Event) -> None:
        still, before = 0, None
        since = said = time.monotonic()
        while not ended.is_set():
            time.sleep(STEP_S)
            now = _switches(self._pids)
            count = len(self._waiting)
            is_still = now is not None and not self._unanswered and (now, count) == before
            if not is_still:
                still, since = 0, time.monotonic()
            still += is_still
            before = (now, count)
            if still >= STILL_STEPS and time.monotonic() - since >= STILL_S and count:
                self._release()
                still = 0
                since = said = time.monotonic()
            elif time.monotonic() - said >= PATIENCE_S:
                self._say_later()
                said = time.monotonic()


def _switches(pids: tuple[int, ...]) -> tuple[tuple[str, str], ...] | None:
    """How often each thread of some processes gave its processor away.

    None: one of them wants it, or one of this process other than this thread.
    """
    found = []
    here, this = os.getpid(), str(threading.get_native_id())
    for pid in (here, *_with_children(pids)):
        for task in Path(f"/proc/{pid}/task").glob("*/status"):
            if task.parent.name == this:
                continue
            try:
                lines = task.read_text("utf-8", "replace").splitlines()
            except OSError:
                return None  # it has just ended
            state = next(line for line in lines if line.startswith("State:"))
            if state.split()[1] not in "SDZ":
                return None
            if pid != here:
                found.append((task.parent.name, lines[-2] + lines[-1]))
    return tuple(sorted(found))


def _with_children(pids: tuple[int, ...]) -> Iterator[int]:
    for pid in pids:
        yield pid
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{pid}/task").glob("*/children"):
                yield from _with_children(tuple(map(int, task.read_text().split())))


@contextlib.contextmanager
def in_rounds(endpoint_url: str) -> Iterator[Rounds]:
    """A relay before a server of plain HTTP."""
    target = urlsplit(endpoint_url).netloc

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle(self) -> None:
            with contextlib.closing(http.client.HTTPConnection(target)) as self.server_side:
                super().handle()

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            with rounds.turn(_named(self.command, self.path), self.say_later):
                self.pass_on(body)

        def say_later(self) -> None:
            self.send_response_only(http.HTTPStatus.CONTINUE)
            self.end_headers()

        def pass_on(self, body: bytes) -> None:
            to = self.server_side
            to.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() != "connection":
                    to.putheader(name, value)
            to.endheaders(body)
            reply = to.getresponse()
            content = reply.read()
            self.send_response_only(reply.status)
            for name, value in reply.getheaders():
                if name.lower() not in _HOP:
                    self.send_header(name, value)
            length = reply.getheader("content-length") if self.command == "HEAD" else len(content)
            self.send_header("Content-Length", str(length or 0))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = answer

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing on stderr."""

    class Server(ThreadingHTTPServer):
        request_queue_size = 1024  # of connections that come at the same time
        daemon_threads = True

    server = Server(("127.0.0.1", 0), Handler)
    rounds = Rounds(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield rounds
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _named(method: str, path: str) -> str:
    parts = urlsplit(path)
    query = parse_qs(parts.query)
    if "list-type" in query:
        return f"LIST {''.join(query.get('prefix', []))}"
    return f"{method} {parts.path.split('/', 2)[2]}"
