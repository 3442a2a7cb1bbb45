"""Many readers of one mount: right bytes, bounded memory, and word of what costs too much."""

from __future__ import annotations

import hashlib
import json
import math
import os
import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numcodecs
import numpy as np
import pytest
import zarr

from tests.support.looking import peak_bytes
from tests.support.mounts import mounted
from tests.support.sample import Values
from tests.support.waiting import until

MIB = 1 << 20
READERS = 8
SLACK_BYTES = 150 * 10**6  # what the daemon may take besides its budget
LINE = 16  # of a float32 in values.txt, its newline included

SHAPE = (24, 1000, 1024)  # 94 MiB: more than the smaller budget
CHUNKS = {"rows": (1, 256, 1024), "tiles": (6, 256, 256)}


@dataclass(frozen=True, slots=True)
class Expected:
    """A file of the mount, and any range of what it must hold."""

    path: str
    size: int
    read: Callable[[int, int], bytes]


@pytest.fixture(scope="module")
def field() -> Values:
    values: Values = np.arange(math.prod(SHAPE), dtype="<f4").reshape(SHAPE)
    values *= 0.37
    return values


@pytest.fixture(scope="module")
def store(field: Values, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("store")
    root = zarr.open_group(directory, mode="w", zarr_format=2)
    for name, chunks in CHUNKS.items():
        array = root.create_array(
            name,
            shape=SHAPE,
            chunks=chunks,
            dtype="<f4",
            filters=[numcodecs.Shuffle(4)],
            compressors=numcodecs.Zlib(1),
            attributes={"_ARRAY_DIMENSIONS": ["time", "y", "x"]},
        )
        array[...] = field
    return directory


@pytest.mark.parametrize("memory_limit", [64 * MIB, 512 * MIB], ids=["64MiB", "512MiB"])
@pytest.mark.parametrize("name", CHUNKS)
def test_readers_at_random_places_all_get_the_right_bytes_in_bounded_memory(
    store: Path, field: Values, name: str, memory_limit: int
) -> None:
    """SEMANTICS A2, D5, D6."""
    read_at_random(store, field, name, memory_limit, reads=250)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("memory_limit", [64 * MIB, 512 * MIB], ids=["64MiB", "512MiB"])
@pytest.mark.parametrize("name", CHUNKS)
def test_a_hundred_thousand_reads_at_random_places_get_the_right_bytes(
    store: Path, field: Values, name: str, memory_limit: int
) -> None:
    read_at_random(store, field, name, memory_limit, reads=100_000 // READERS)


def read_at_random(store: Path, field: Values, name: str, memory_limit: int, *, reads: int) -> None:
    files = expected_files(field, name)
    with (
        bounded(store, memory_limit, expect="read amplification") as dataset,
        ThreadPoolExecutor(READERS) as threads,
    ):
        readers = [
            threads.submit(one_reader, dataset / name, files, seed, reads)
            for seed in range(READERS)
        ]
        for reader in readers:
            reader.result()


def one_reader(variable: Path, files: list[Expected], seed: int, reads: int) -> None:
    """Reads here and there; every second reader past the kernel's page cache."""
    rng = random.Random(seed)
    direct = os.O_DIRECT if seed % 2 else 0
    opened = [os.open(variable / file.path, os.O_RDONLY | direct) for file in files]
    try:
        for number in range(reads):
            place = rng.randrange(len(files))
            file, fd = files[place], opened[place]
            offset = rng.randrange(file.size + 1000)
            size = int(2 ** rng.uniform(0, 18))
            buffer = bytearray(size)
            count = os.preadv(fd, [buffer], offset)
            found = bytes(buffer[:count])
            stop = min(offset + size, file.size)
            expected = file.read(offset, stop) if offset < stop else b""
            assert found == expected, f"{file.path}: read {number} of {size} bytes at {offset}"
            if rng.random() < 0.02:
                os.close(fd)
                opened[place] = os.open(variable / file.path, os.O_RDONLY | direct)
    finally:
        for fd in opened:
            os.close(fd)


def expected_files(field: Values, name: str) -> list[Expected]:
    """Three views of the whole array and two chunk files, one of them at the edge."""
    raw = field.reshape(-1).view(np.uint8)
    flat = field.reshape(-1)
    header = 128

    def text(start: int, stop: int) -> bytes:
        first, last = start // LINE, -(-stop // LINE)
        lines = "".join(f"{value:15.9g}\n" for value in flat[first:last].tolist()).encode()
        return lines[start - first * LINE : stop - first * LINE]

    def saved(start: int, stop: int) -> bytes:
        head = np.lib.format.magic(1, 0)
        about = (
            f"{{'descr': '<f4', 'fortran_order': False, 'shape': {SHAPE}, }}".ljust(117).encode()
            + b"\n"
        )
        head += len(about).to_bytes(2, "little") + about
        assert len(head) == header
        data = raw[max(0, start - header) : max(0, stop - header)].tobytes()
        return head[start:stop] + data

    def chunk(index: tuple[int, ...]) -> Expected:
        chunks = CHUNKS[name]
        whole = np.zeros(chunks, "<f4")
        part = field[tuple(slice(i * c, (i + 1) * c) for i, c in zip(index, chunks, strict=True))]
        whole[tuple(slice(n) for n in part.shape)] = part
        data = whole.tobytes()
        return Expected(
            f"chunks/{'.'.join(map(str, index))}", len(data), lambda start, stop: data[start:stop]
        )

    edge = (1, 3, 0)
    return [
        Expected("values.raw", raw.nbytes, lambda start, stop: raw[start:stop].tobytes()),
        Expected("values.npy", raw.nbytes + header, saved),
        Expected("values.txt", flat.size * LINE, text),
        chunk((0, 0, 0)),
        chunk(edge),
    ]


@pytest.mark.parametrize("name", CHUNKS)
def test_an_array_larger_than_the_budget_is_read_from_end_to_end_in_bounded_memory(
    store: Path, field: Values, name: str
) -> None:
    with bounded(store, 64 * MIB) as dataset:
        assert digest(dataset / name / "values.raw") == hashlib.sha256(field.data).hexdigest()
        # Two at a time, one of them behind the other.
        with ThreadPoolExecutor(2) as threads:
            digests = threads.map(digest, [dataset / name / "values.raw"] * 2)
            assert set(digests) == {hashlib.sha256(field.data).hexdigest()}


@pytest.mark.parametrize("name", CHUNKS)
def test_lines_of_text_are_read_in_order_in_bounded_memory(
    store: Path, field: Values, name: str
) -> None:
    read_lines(store, field, name, lines=2 * MIB)


@pytest.mark.long
@pytest.mark.parametrize("name", CHUNKS)
def test_all_lines_of_text_are_read_in_order_in_bounded_memory(
    store: Path, field: Values, name: str
) -> None:
    read_lines(store, field, name, lines=field.size)


def read_lines(store: Path, field: Values, name: str, *, lines: int) -> None:
    step = 64 << 10
    flat = field.reshape(-1)
    with (
        bounded(store, 64 * MIB) as dataset,
        open(dataset / name / "values.txt", "rb", buffering=0) as file,
    ):
        for first in range(0, lines, step):
            count = min(step, lines - first)
            found = np.array(read_exactly(file.fileno(), count * LINE).split(), "f4")
            assert found.tobytes() == flat[first : first + count].tobytes(), first


def test_reading_across_the_chunks_is_told_in_the_access_log(store: Path, field: Values) -> None:
    """SEMANTICS N4."""
    with bounded(store, 64 * MIB, expect="read amplification") as dataset:
        with open(dataset / "tiles/values.raw", "rb", buffering=0) as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
            for y in range(0, SHAPE[1], 256):
                for x in range(0, SHAPE[2], 256):
                    for t in range(SHAPE[0]):
                        element = (t * SHAPE[1] + y) * SHAPE[2] + x
                        assert os.pread(file.fileno(), 4, 4 * element) == field[t, y, x].tobytes()
        lines = (dataset.parent.parent / ".nczfs/access.log").read_text().splitlines()
        warnings = [line for line in lines if "amplification" in line]
        assert len(warnings) == 1
        assert "/tiles values.raw" in warnings[0]
        assert "variable tiles, axis time" in warnings[0]


def test_reading_along_the_chunks_is_not_warned_of(store: Path) -> None:
    """SEMANTICS N4."""
    with bounded(store, 512 * MIB) as dataset:
        for name in CHUNKS:
            digest(dataset / name / "values.raw")
        log = dataset.parent.parent / ".nczfs/access.log"
        until(lambda: len(log.read_text().splitlines()) == len(CHUNKS))
        assert "amplification" not in log.read_text()
        assert "/rows values.raw box=[0:24,0:1000,0:1024]" in log.read_text()


@contextmanager
def bounded(store: Path, memory_limit: int, expect: str | None = None) -> Iterator[Path]:
    """The mounted dataset; at the end, the daemon must never have taken more than its share."""
    with mounted(store, "--memory-limit", str(memory_limit), expect=expect) as mount:
        yield mount / "datasets" / store.name
        pid = json.loads((mount / ".nczfs/status.json").read_text())["pid"]
        peak = peak_bytes(pid)
        print(f"{peak / MIB:.0f} MiB resident at most, of a budget of {memory_limit / MIB:.0f} MiB")
        assert peak <= memory_limit + SLACK_BYTES, f"{peak / MIB:.0f} MiB resident"


def digest(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_exactly(fd: int, size: int) -> bytes:
    pieces = []
    while size:
        pieces.append(os.read(fd, size))
        assert pieces[-1], "the end came too early"
        size -= len(pieces[-1])
    return b"".join(pieces)
