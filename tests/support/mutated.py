"""Broken metadata by the thousand: run as a program, under limits of time and memory.

    python -m tests.support.mutated DIRECTORY COUNT SEED

Every round takes one of the datasets below DIRECTORY, damages one of its documents, and opens the
dataset from memory: the damaged node may be refused with an error of ours, and nothing else may
happen; its siblings stay readable.
"""

from __future__ import annotations

import logging
import random
import re
import resource
import signal
import sys
from pathlib import Path
from types import FrameType

import numpy as np

from nczfs.cdl.printer import header
from nczfs.engine.dataset import Engine, open_dataset
from nczfs.engine.metadata.documents import MetadataCache
from nczfs.engine.options import EngineOptions, Tally
from nczfs.errors import NczfsError
from nczfs.formats.base import FormatOptions
from nczfs.model.hierarchy import GroupHeader, Variable
from nczfs.views.info import variable_info
from nczfs.zmap import keys
from nczfs.zmap.memory import MemoryZMap

MEMORY_BYTES = 256 << 20
SECONDS = 1.0
DOCUMENTS = (".zarray", ".zattrs", ".zgroup", ".zmetadata")

_VALUES = [
    b"0", b"-1", b"1", b"9223372036854775807", b"9223372036854775808", b"18446744073709551616",
    b"1e400", b"-1e400", b"NaN", b"Infinity", b"1.5", b"007", b"0x10", b"null", b"true", b"[]",
    b"{}", b"[[]]", b'""', b'"\\u0000"', b'"\\ud800"', b'".."', b'"a/b"', b'"/x"', b'"|O"',
    b'"|V0"',
    b'"<U999999999"', b'"<f16"', b'"\xff"', b'[1,2,3,4,5,6,7,8]', b'{"id": "zlib"}', b'{"id": 3}',
    b'[{"id": "shuffle", "elementsize": -1}]', b'{"id": "delta", "dtype": "<f8"}',
    b'{"id": "lzma", "filters": [{"id": 3, "dist": 99999}]}', b'{"id": "blosc", "blocksize": 1e9}',
    b"[" * 50 + b"]" * 50, b"[" * 2000 + b"]" * 2000, b'{"a":' * 200 + b"1" + b"}" * 200,
    b"1" + b"0" * 3000, b'"' + b"x" * 100_000 + b'"', b"[" + b"1," * 10_000 + b"1]",
]  # fmt: skip
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*|true|false|null|[\[\]{}:,]')


def damaged(data: bytes, dice: random.Random) -> bytes:
    """The document with one to three injuries."""
    for _ in range(dice.choice((1, 1, 1, 2, 3))):
        data = dice.choice(_INJURIES)(data, dice)
    return data


def _token_replaced(data: bytes, dice: random.Random) -> bytes:
    tokens = list(_TOKEN.finditer(data))
    if not tokens:
        return dice.choice(_VALUES)
    token = dice.choice(tokens)
    return data[: token.start()] + dice.choice(_VALUES) + data[token.end() :]


def _token_doubled(data: bytes, dice: random.Random) -> bytes:
    tokens = list(_TOKEN.finditer(data))
    if not tokens:
        return data + b"{"
    one, other = dice.choice(tokens), dice.choice(tokens)
    return data[: one.start()] + other.group() + data[one.start() :]


def _token_dropped(data: bytes, dice: random.Random) -> bytes:
    tokens = list(_TOKEN.finditer(data))
    if not tokens:
        return b""
    token = dice.choice(tokens)
    return data[: token.start()] + data[token.end() :]


def _bit_flipped(data: bytes, dice: random.Random) -> bytes:
    if not data:
        return b"\0"
    at = dice.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << dice.randrange(8)]) + data[at + 1 :]


def _cut(data: bytes, dice: random.Random) -> bytes:
    return data[: dice.randrange(len(data) + 1)]


def _inserted(data: bytes, dice: random.Random) -> bytes:
    at = dice.randrange(len(data) + 1)
    return data[:at] + dice.randbytes(dice.choice((1, 3, 40))) + data[at:]


_INJURIES = (
    _token_replaced, _token_replaced, _token_replaced, _token_doubled, _token_dropped,
    _bit_flipped, _cut, _inserted,
)  # fmt: skip


def datasets(directory: Path) -> list[dict[str, bytes]]:
    """The objects of every dataset right below a directory, chunks included."""
    return [
        {
            path.relative_to(root).as_posix(): path.read_bytes()
            for path in sorted(root.rglob("*"))
            if path.is_file()
        }
        for root in sorted(directory.iterdir())
    ]


def look(objects: dict[str, bytes], damaged_key: str) -> str:
    """Open a dataset and look at all of it; what became of it, in one word."""
    zmap = MemoryZMap("memory://mutated")
    for key, data in objects.items():
        zmap.write(keys.parse_key(key), data)
    engine = Engine(EngineOptions(memory_limit_bytes=8 << 20))
    try:
        metadata = MetadataCache(zmap, engine.options, engine.pools)
        try:
            dataset = open_dataset(engine, metadata, keys.ROOT, FormatOptions())
            if dataset is None or not isinstance(dataset.node(""), GroupHeader):
                return "no group"
            tree = dataset.group("")
        except NczfsError as error:
            _check(error)
            if "/" in damaged_key:
                raise RuntimeError(f"damage at {damaged_key} hides the root: {error}") from error
            return "refused"
        header(tree, name="mutated")
        for variable in tree.variables:
            variable_info(variable, dataset.problems(variable))
            _read_some(dataset.array(variable), variable)
        return "broken member" if tree.broken else "opened"
    finally:
        engine.close()


def _read_some(array: object, variable: Variable) -> None:
    from nczfs.engine.arrays.array import Array

    assert isinstance(array, Array)
    if not variable.array.size or variable.array.chunk_bytes > 1 << 20:
        return
    out = np.empty(1, variable.array.dtype.native)
    try:
        array.read_run(0, out, Tally())
    except NczfsError as error:
        _check(error)


def _check(error: NczfsError) -> None:
    """An error is one line that says something."""
    assert str(error).strip()
    assert "\n" not in str(error)


def main() -> None:
    """Damage and look, COUNT times; prints how often each end was met."""
    logging.disable()  # it would be a line for most of the rounds
    directory, count, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    found = datasets(directory)
    in_use = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    limit = in_use + MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    signal.signal(signal.SIGPROF, _too_late)
    ends: dict[str, int] = {}
    for number in range(count):
        dice = random.Random(f"{seed} {number}")
        objects = dict(dice.choice(found))
        key = dice.choice([key for key in objects if key.endswith(DOCUMENTS)])
        objects[key] = damaged(objects[key], dice)
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        try:
            end = look(objects, key)
        except BaseException as error:
            print(f"round {number}: {key}: {error!r}\n{objects[key][:2000]!r}", file=sys.stderr)
            raise
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        ends[end] = ends.get(end, 0) + 1
    print(ends)


def _too_late(number: int, frame: FrameType | None) -> None:
    raise TimeoutError(f"more than {SECONDS} s")


if __name__ == "__main__":
    main()
