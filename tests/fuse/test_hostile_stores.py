"""Real mounts of servers that mean no good: bounded in memory, and their neighbours are served."""

from __future__ import annotations

import errno
import itertools
import os
import re
import resource
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.mounts import NCZFS, Served, served
from tests.support.neighbour import cpu_s
from tests.support.pouring import Pour, endless, head, pouring
from tests.support.scripted import Reply, serving

GROWTH_MAX_MIB = 300
HEAVY = 8
WAITED_CPU_S = 5.0  # of the daemon: far below what was seen, whatever the machine does besides
MOUNT = [*NCZFS, "mount", "--foreground", "--no-sign-request"]
CHUNKED = "Transfer-Encoding: chunked"
HTML = "Content-Type: text/html"


def whole(data: bytes, *headers: str, status: int = 200) -> list[bytes]:
    return [head(status, f"Content-Length: {len(data)}", 'ETag: "e"', *headers), data]


def index(*names: str) -> list[bytes]:
    links = "".join(f"<a href='{name}'>{name}</a>" for name in names)
    return whole(f"<title>Index of /</title>{links}".encode(), HTML)


def web_server(line: str) -> Iterator[bytes]:
    """Directories with a good file each; what else there is does not end."""
    method, path, _ = line.split()
    name = path.rpartition("/")[2]
    if path == "/":
        return iter(index("range/", "html/", "bad/", "long/", "good"))
    if path == "/long/":
        return itertools.chain([head(200, HTML, CHUNKED)], endless())
    if path == "/html/":
        page = b"<title>Index of /</title><a href='good'>good</a>" + b"<a " * (4 << 20)
        return iter(whole(page, HTML))
    if path in {"/range/", "/bad/"}:
        return iter(index("good", "endless", "forbidden", "broken", "huge"))
    if name == "good":
        data = [] if method == "HEAD" else [b"good"]
        return iter([head(200, "Content-Length: 4", 'ETag: "e"'), *data])
    if name == "huge":
        return iter([head(200, f"Content-Length: {1 << 63}", 'ETag: "e"', "Connection: close")])
    if name == "endless" and method == "HEAD":
        return iter([head(200, "Content-Length: 1000000000000", 'ETag: "e"')])
    if name == "endless":
        part = head(206, "Content-Range: bytes 0-4095/1000000000000", 'ETag: "e"', CHUNKED)
        return itertools.chain([part], endless())
    status = {"forbidden": 403, "broken": 500}.get(name, 404)
    return iter([head(status, "Content-Length: 0")])


def s3_server(line: str) -> Iterator[bytes]:
    """A bucket with one good object at its root; what is below a prefix has no end, or depth."""
    if "prefix=endless" in line:
        start = b"<ListBucketResult><Contents><Key>"
        return itertools.chain(
            [head(200, CHUNKED), b"%x\r\n%b\r\n" % (len(start), start)], endless()
        )
    if "prefix=heavy" in line:
        levels = 400_000
        nested = b"<a>" * levels + b"</a>" * levels
        return iter(whole(b"<ListBucketResult>" + nested + b"</ListBucketResult>"))
    if "list-type" in line:
        heavy = "".join(
            f"<CommonPrefixes><Prefix>heavy{n}/</Prefix></CommonPrefixes>" for n in range(HEAVY)
        )
        objects = (
            "<Contents><Key>good</Key><LastModified>2026-01-02T03:04:05Z</LastModified>"
            "<ETag>&quot;e&quot;</ETag><Size>4</Size></Contents>"
            f"<CommonPrefixes><Prefix>endless/</Prefix></CommonPrefixes>{heavy}"
        )
        inside = objects if "prefix=" not in line else ""
        return iter(whole(f"<ListBucketResult>{inside}</ListBucketResult>".encode()))
    if "/good" in line:
        return iter(whole(b"good"))
    return iter([head(404, "Content-Length: 0")])


class Neighbour(threading.Thread):
    """Another program in the same mount, which is served again and again."""

    def __init__(self, mount: Served) -> None:
        super().__init__(daemon=True)
        self._file = mount.path / ".nczfs/status.json"
        self._pid = mount.process.pid
        self._is_over = threading.Event()
        self.waited_cpu_s = 0.0
        self.turns = 0

    def run(self) -> None:
        while not self._is_over.is_set():
            begin = cpu_s(self._pid)
            self._file.read_bytes()
            self.waited_cpu_s = max(self.waited_cpu_s, cpu_s(self._pid) - begin)
            self.turns += 1

    def end(self) -> None:
        self._is_over.set()
        self.join()


@contextmanager
def mounted_and_watched(pour: Pour, path: str) -> Iterator[Path]:
    """A mount; its memory and how it serves a neighbour are judged at the end."""
    with pouring(pour) as server:
        expect = r"sends more than|left out \d+ entries|list|nobody|cannot be known|objects/"
        with served([*MOUNT, f"{server.url}{path}"], expect=expect) as mount:
            before = _peak_mib(mount)
            neighbour = Neighbour(mount)
            neighbour.start()
            try:
                yield mount.path
            finally:
                neighbour.end()
            assert neighbour.turns > 0
            assert neighbour.waited_cpu_s < WAITED_CPU_S
            assert _peak_mib(mount) - before < GROWTH_MAX_MIB


def _peak_mib(mount: Served) -> float:
    status = Path(f"/proc/{mount.process.pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) / 1024


def test_a_range_that_never_ends_is_an_error_and_takes_no_memory() -> None:
    """SEMANTICS A7."""
    with mounted_and_watched(web_server, "/range") as mount:
        with (
            (mount / "objects/endless").open("rb", buffering=0) as file,
            pytest.raises(OSError, match=os.strerror(errno.EIO)),
        ):
            file.read(4096)
        assert (mount / "objects/good").read_bytes() == b"good"


@pytest.mark.parametrize(
    ("pour", "path", "directory"),
    [(web_server, "/", "long"), (s3_server, "/bucket#mode=s3", "endless")],
)
def test_a_listing_that_never_ends_is_an_error_and_takes_no_memory(
    pour: Pour, path: str, directory: str
) -> None:
    """SEMANTICS A7."""
    with mounted_and_watched(pour, path) as mount:
        assert "good" in os.listdir(mount / "objects")
        with pytest.raises(OSError, match=os.strerror(errno.EIO)):
            os.listdir(mount / "objects" / directory)
        assert (mount / "objects/good").read_bytes() == b"good"


def test_pages_that_were_made_to_take_memory_are_errors_and_take_none() -> None:
    """SEMANTICS A7."""

    def fails(directory: Path) -> bool:
        with pytest.raises(OSError, match=os.strerror(errno.EIO)):
            os.listdir(directory)
        return True

    with mounted_and_watched(s3_server, "/bucket#mode=s3") as mount:
        with ThreadPoolExecutor(HEAVY) as pool:
            assert all(pool.map(fails, [mount / f"objects/heavy{n}" for n in range(HEAVY)]))
        assert (mount / "objects/good").read_bytes() == b"good"


def test_a_page_that_was_made_to_take_hours_takes_a_moment() -> None:
    """SEMANTICS A7."""
    with mounted_and_watched(web_server, "/") as mount:
        assert os.listdir(mount / "objects/html") == ["good"]


def test_entries_that_the_server_cannot_tell_of_hide_no_others() -> None:
    """SEMANTICS A8."""
    with mounted_and_watched(web_server, "/bad") as mount:
        assert sorted(os.listdir(mount / "objects")) == ["endless", "good"]


def test_a_service_of_this_machine_is_not_reached_by_a_redirection() -> None:
    with serving(lambda asked: Reply(200, b"hush-hush")) as local:

        def pour(line: str) -> Iterator[bytes]:
            _, path, _ = line.split()
            if path == "/":
                return iter(index("key"))
            to = f"Location: {local.endpoint_url}/secret"
            return iter([head(302 if path == "/key" else 404, "Content-Length: 0", to)])

        with pouring(pour) as server:
            with served([*MOUNT, server.url], expect="redirected to") as mount:
                with pytest.raises(OSError, match=os.strerror(errno.EACCES)):
                    (mount.path / "objects/key").read_bytes()
                assert local.asked == []
            options = ["--allow-redirects", local.endpoint_url]
            with served([*MOUNT, *options, server.url]) as mount:
                assert (mount.path / "objects/key").read_bytes() == b"hush-hush"


def test_without_a_descriptor_left_the_answer_is_that_and_no_other(tmp_path: Path) -> None:
    """SEMANTICS A9."""
    store = tmp_path / "store"
    for directory in ("seen", "unseen"):
        (store / directory).mkdir(parents=True)
        (store / directory / "file").write_bytes(b"data")
    with served([*MOUNT, str(store)], expect="Too many open files") as mount:
        assert (mount.path / "objects/seen/file").read_bytes() == b"data"
        pid = mount.process.pid
        used = set(map(int, os.listdir(f"/proc/{pid}/fd")))
        free = next(number for number in itertools.count() if number not in used)
        limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (free, limits[1]))
        try:
            for act in (
                lambda: os.listdir(mount.path / "objects/unseen"),
                lambda: (mount.path / "objects/unseen/file").read_bytes(),
            ):
                with pytest.raises(OSError, match=os.strerror(errno.ENFILE)):
                    act()
        finally:
            resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
        assert (mount.path / "objects/unseen/file").read_bytes() == b"data"
