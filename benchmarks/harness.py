"""What the benchmarks share: data, mounts, cold caches, paired runs."""

from __future__ import annotations

import json
import os
import shlex
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import zarr
from numcodecs import Blosc, Shuffle, Zlib

MIB = 1 << 20
SHAPE = (64, 1024, 1024)  # float32: 256 MiB
LAYOUTS = {
    "rows1": (1, 256, 1024),
    "rows4": (1, 1024, 1024),
    "tiles1": (4, 256, 256),
    "tiles4": (16, 256, 256),
}


@dataclass(frozen=True)
class Pair:
    """Paired timings of a peer and of nczfs, in seconds."""

    name: str
    peer: list[float]
    ours: list[float]

    @property
    def ratio(self) -> float:
        """Median over the pairs of peer / ours: above 1, nczfs is faster."""
        return statistics.median(p / o for p, o in zip(self.peer, self.ours, strict=True))

    def row(self) -> str:
        """A row of the table in docs/benchmarks.md."""
        peer, ours = statistics.median(self.peer), statistics.median(self.ours)
        return f"| {self.name} | {peer:.3f} | {ours:.3f} | {self.ratio:.2f} |"


def printed_by(checkout: Path, code: str, place: str) -> list[str]:
    """Return the lines that code prints with the version of nczfs in a directory.

    Parameters
    ----------
    place : a directory, where it runs, and its only argument.
    """
    done = subprocess.run(
        [sys.executable, "-c", code, place],
        cwd=place,
        env={**os.environ, "PYTHONPATH": str(checkout)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


def field(shape: tuple[int, ...] = SHAPE) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """A smooth field with a little noise, that compresses as model output does (to about 0.3)."""
    rng = np.random.default_rng(1)
    y = np.linspace(0, 6, shape[-2], dtype=np.float32)
    x = np.linspace(0, 9, shape[-1], dtype=np.float32)
    base = 280 + 10 * np.sin(y)[:, None] * np.cos(x)[None, :]
    out = np.empty(shape, np.float32)
    for t in range(shape[0]):
        noise = rng.normal(0, 0.01, shape[1:]).astype(np.float32)
        out[t] = np.round((base + 0.1 * t + noise) * 1024) / 1024
    return out


def write(
    path: Path, values: np.ndarray[tuple[int, ...], np.dtype[np.float32]], layout: str, codec: str
) -> None:
    """Write an array with zarr-python, Zarr v2."""
    if codec == "zlib":
        filters, compressor = [Shuffle(4)], Zlib(1)
    else:
        filters, compressor = None, Blosc("lz4", 5, Blosc.SHUFFLE)
    group = zarr.open_group(path, mode="a", zarr_format=2)
    array = group.create_array(
        f"{codec}_{layout}",
        shape=values.shape,
        chunks=LAYOUTS[layout],
        dtype="f4",
        filters=filters,
        compressors=compressor,
    )
    array[...] = values


@contextmanager
def mounted(url: str, directory: Path, *options: str) -> Iterator[Path]:
    """`nczfs mount` of a URL, unmounted at the end."""
    directory.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "nczfs.cli.main", "mount", url, str(directory), *options]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    try:
        yield directory
    finally:
        subprocess.run(
            [sys.executable, "-m", "nczfs.cli.main", "umount", str(directory)], check=True
        )


@contextmanager
def bare(size: int, directory: Path) -> Iterator[Path]:
    """A bare pyfuse3 file system that serves `size` bytes from memory."""
    directory.mkdir(parents=True, exist_ok=True)
    before = directory.stat().st_dev
    with subprocess.Popen(
        [sys.executable, "-m", "benchmarks.barefs", str(directory), str(size)]
    ) as process:
        while directory.stat().st_dev == before:
            time.sleep(0.01)
        read_ahead(directory)
        try:
            yield directory
        finally:
            subprocess.run(["fusermount3", "-u", str(directory)], check=True)
            process.wait(10)


def read_ahead(directory: Path, kib: int = 1024) -> None:
    """Give a mount the read-ahead that nczfs gives its own, where permitted."""
    device = directory.stat().st_dev
    knob = Path(f"/sys/class/bdi/{os.major(device)}:{os.minor(device)}/read_ahead_kb")
    with suppress(OSError):
        knob.write_text(str(kib))


def drop_page_cache() -> None:
    """Forget all cached pages of the machine, where permitted."""
    os.sync()
    with suppress(OSError):
        Path("/proc/sys/vm/drop_caches").write_text("3")


def read_whole(path: Path, size: int) -> None:
    """Read a file in order by calls of 1 MiB into new memory, as a program reads an array."""
    out = np.empty(size, np.uint8)
    view = memoryview(out)  # type: ignore[arg-type]
    fd = os.open(path, os.O_RDONLY)
    try:
        position = 0
        while position < size:
            got = os.readv(fd, [view[position : position + MIB]])
            if not got:
                raise EOFError(f"{path} ended after {position} of {size} bytes")
            position += got
    finally:
        os.close(fd)


def timed(action: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    """Seconds that an action takes."""
    start = clock()
    action()
    return clock() - start


def paired(
    name: str,
    peer: Callable[[], object],
    ours: Callable[[], object],
    *,
    before: Callable[[], object] = drop_page_cache,
    pairs: int = 5,
    clock: Callable[[], float] = time.perf_counter,
) -> Pair:
    """Time both in turn, after one run of each that does not count."""
    times: tuple[list[float], list[float]] = ([], [])
    for number in range(pairs + 1):
        for action, found in zip((peer, ours), times, strict=True):
            before()
            seconds = timed(action, clock)
            if number:
                found.append(seconds)
    pair = Pair(name, *times)
    print(pair.row(), flush=True)
    return pair


def refresh(mount: Path) -> None:
    """Have a mount forget what it cached."""
    (mount / ".nczfs" / "refresh").write_text("\n")


def status(mount: Path) -> dict[str, object]:
    """status.json of a mount."""
    found: dict[str, object] = json.loads((mount / ".nczfs" / "status.json").read_text())
    return found


TOOLS = Path(__file__).resolve().parent.parent / "tests" / "tools"


@contextmanager
def s3_server(bucket: str) -> Iterator[str]:
    """A real S3 server on this machine; yields its endpoint, sets its keys in the environment.

    The endpoint itself is taken out of the environment: obstore would prefer it to the one given.
    """
    environment = os.environ | {"S3_SERVER_PORT": "0", "S3_SERVER_BUCKETS": bucket}
    settings = _settings([str(TOOLS / "s3-server"), "start"], environment)
    endpoint = settings["AWS_ENDPOINT_URL_S3"]
    os.environ.update(settings)
    for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"):
        os.environ.pop(name, None)
    try:
        yield endpoint
    finally:
        subprocess.run([str(TOOLS / "s3-server"), "stop"], check=True, env=environment | settings)


@contextmanager
def delayed(endpoint: str, delay_ms: int) -> Iterator[str]:
    """A relay in front of a server that adds a delay to every request; yields its endpoint."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(TOOLS / "s3-faults"), "delay", str(delay_ms), "--to", endpoint]
    with subprocess.Popen([*command, "--port", str(port)], stdout=subprocess.DEVNULL) as relay:
        try:
            _wait_for_port(port)
            yield f"http://127.0.0.1:{port}"
        finally:
            relay.terminate()


def _settings(command: list[str], environment: dict[str, str]) -> dict[str, str]:
    """What a tool prints as ``export NAME=VALUE`` lines."""
    printed = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    words = shlex.split(printed.stdout.replace(";", "\n"), comments=True)
    return dict(word.split("=", 1) for word in words if "=" in word)


def _wait_for_port(port: int) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise TimeoutError(f"nothing listens on port {port}")
