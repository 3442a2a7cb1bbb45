"""Decoding and encoding of one chunk of 4 MiB, beside numcodecs: ``python -m benchmarks.codecs``.

Prints milliseconds for a MiB, the ratio (numcodecs' time / ours, above 1 is faster), and how much
more two threads do than one (ours).
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numcodecs
import numpy as np

from nczfs.buffers import Values
from nczfs.codecs.pipelines import pipeline_of
from nczfs.model.dtypes import DataType
from nczfs.model.hierarchy import ArrayDescription, CodecChain, CodecSpec, Json

REPEATS = 9

CHAINS: dict[str, list[dict[str, Json]]] = {
    "shuffle, zlib 1": [{"id": "shuffle", "elementsize": 4}, {"id": "zlib", "level": 1}],
    "shuffle, zlib 4": [{"id": "shuffle", "elementsize": 4}, {"id": "zlib", "level": 4}],
    "blosc lz4": [{"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1}],
    "zstd 1": [{"id": "zstd", "level": 1}],
    "lz4": [{"id": "lz4"}],
}


def chunk() -> Values:
    """Smooth numbers as a model's field has them, float32, 4 MiB."""
    y, x = np.mgrid[0:1024, 0:1024] / 100
    noise = np.random.default_rng(0).normal(scale=1e-3, size=(1024, 1024))
    field: Values = 280 + 20 * np.sin(x) * np.cos(y) + noise
    return field.astype(np.float32)


def seconds(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def compare(ours: Callable[[], object], theirs: Callable[[], object]) -> tuple[float, float, float]:
    """Median times of both, and the median of the ratios of pairs run one after the other."""
    pairs = [(seconds(ours), seconds(theirs)) for _ in range(REPEATS)]
    return (
        statistics.median(a for a, _ in pairs),
        statistics.median(b for _, b in pairs),
        statistics.median(b / a for a, b in pairs),
    )


def gain_of_two_threads(function: Callable[[], object]) -> float:
    def work() -> None:
        for _ in range(4):
            function()

    def both() -> None:
        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    return statistics.median(2 * seconds(work) / seconds(both) for _ in range(5))


def their_decode(codecs: Sequence[Any], data: bytes) -> object:
    values: Any = data
    for codec in reversed(codecs):
        values = codec.decode(values)
    return np.frombuffer(values, "<f4")


def their_encode(codecs: Sequence[Any], values: Values) -> object:
    data: Any = values
    for codec in codecs:
        data = codec.encode(data)
    return data


def main() -> None:
    values = chunk()
    mib = values.nbytes / 2**20
    print(f"{'ms/MiB':24}{'ours':>8}{'numcodecs':>11}{'ratio':>7}{'2 threads':>11}{'size':>7}")
    for name, chain in CHAINS.items():
        specs = tuple(
            CodecSpec(str(c["id"]), {k: v for k, v in c.items() if k != "id"}) for c in chain
        )
        pipeline = pipeline_of(
            ArrayDescription(
                values.shape,
                values.shape,
                DataType("<f4", np.dtype("<f4")),
                0,
                CodecChain(2, specs, compressed=True),
            )
        )
        codecs = [numcodecs.get_codec(dict(c)) for c in chain]
        stored = pipeline.encode(values)
        assert np.array_equal(pipeline.decode(stored), values)

        def decode(data: bytes = stored, run: Callable[[bytes], object] = pipeline.decode) -> None:
            run(data)

        def encode(run: Callable[[Values], object] = pipeline.encode) -> None:
            run(values)

        def decode_theirs(data: bytes = stored, codecs: Sequence[Any] = codecs) -> None:
            their_decode(codecs, data)

        def encode_theirs(codecs: Sequence[Any] = codecs) -> None:
            their_encode(codecs, values)

        for what, ours, theirs in (
            ("decode", decode, decode_theirs),
            ("encode", encode, encode_theirs),
        ):
            a, b, ratio = compare(ours, theirs)
            gain = gain_of_two_threads(ours)
            print(
                f"{name + ' ' + what:24}{a * 1e3 / mib:8.2f}{b * 1e3 / mib:11.2f}{ratio:7.2f}"
                f"{gain:11.2f}{len(stored) / values.nbytes:7.2f}"
            )


if __name__ == "__main__":
    main()
