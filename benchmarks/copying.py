"""``nczfs cp`` beside xarray with zarr-python and dask, and rechunker; two workers beside one.

    python -m benchmarks.copying [--pairs N] [--mib N]

A variable of float32 in a directory, one map a chunk: the same chunks with another codec, and time
series (rechunked). In one process, and then by workers of Dask that run already, and ones that
`--workers` starts. A worker decodes, encodes and stores at the same time, so one alone takes more
than one processor; workers with a processor each show how the work scales. Rechunker needs zarr 2:
it is installed into an environment of its own, ``.venv/programs/rechunker``. The last row is
`verify --digest` beside decoding alone.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import shutil
import subprocess
import sys
import tempfile
import venv
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import product
from pathlib import Path

import dask
import numpy as np
import xarray as xr
from distributed import Client, LocalCluster
from numcodecs import Zlib, Zstd

import nczfs
from benchmarks.harness import field, paired
from nczfs.cli.main import main as command

SIDE = 512
MAP_MIB = 1  # of SIDE x SIDE float32
PROGRAMS = Path(__file__).resolve().parent.parent / ".venv/programs"
WAYS = {"other codec": (1, SIDE, SIDE), "maps to time series": (0, 32, 32)}  # 0: all


def main() -> None:
    """Run and print the rows of a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--mib", type=int, default=1024)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")  # zarr-python's about consolidated metadata
    steps = arguments.mib // MAP_MIB
    print("| cp | peer s | nczfs s | ratio |\n| --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory(prefix="nczfs-bench-") as scratch:
        source, target = Path(scratch) / "source.zarr", Path(scratch) / "target.zarr"
        _make(source, steps)
        measured = partial(
            paired,
            before=partial(shutil.rmtree, target, ignore_errors=True),
            pairs=arguments.pairs,
        )
        of = f"{arguments.mib} MiB"
        for name, chunks in WAYS.items():
            whole = (chunks[0] or steps, *chunks[1:])
            ours = partial(_ours, source, target, whole)
            measured(f"{of}, {name}; peer: xarray", partial(_theirs, source, target, whole), ours)
            with _rechunker() as rechunked:
                lengths = ",".join(map(str, whole))
                theirs = partial(rechunked.copy, f"{source} {target} {lengths}")
                measured(f"{of}, {name}; peer: rechunker", theirs, ours)
            with _cluster(1) as one, _cluster(2) as two:
                measured(
                    f"{of}, {name}, two workers; peer: one",
                    partial(_ours, source, target, whole, "--scheduler", one),
                    partial(_ours, source, target, whole, "--scheduler", two),
                )
            with _cluster(1, bound=True) as one, _cluster(2, bound=True) as two:
                measured(
                    f"{of}, {name}, two workers with a processor each; peer: one",
                    partial(_ours, source, target, whole, "--scheduler", one),
                    partial(_ours, source, target, whole, "--scheduler", two),
                )
        same = WAYS["other codec"]
        measured(
            f"{of}, other codec, --workers 2; peer: --workers 1",
            partial(_started, source, target, same, 1),
            partial(_started, source, target, same, 2),
        )
        measured(
            f"{of}, verify --digest; peer: decoding",
            partial(_decode, source),
            partial(_digest, source),
        )


def _make(place: Path, steps: int) -> None:
    dataset = xr.Dataset({"v": (("t", "y", "x"), field((steps, SIDE, SIDE)).astype(np.float32))})
    encoding = {"v": {"chunks": (1, SIDE, SIDE), "compressors": Zlib(1)}}
    dataset.to_zarr(place, zarr_format=2, encoding=encoding)


def _theirs(source: Path, target: Path, chunks: tuple[int, ...]) -> None:
    with dask.config.set(scheduler="threads"):
        read = xr.open_zarr(source, chunks={}).chunk(dict(zip("tyx", chunks, strict=True)))
        read.v.encoding.clear()
        encoding = {"v": {"chunks": chunks, "compressors": Zstd(1)}}
        read.to_zarr(target, zarr_format=2, encoding=encoding)


def _ours(source: Path, target: Path, chunks: tuple[int, ...], *more: str) -> None:
    assert command([*_words(source, target, chunks), *more]) == 0


def _started(source: Path, target: Path, chunks: tuple[int, ...], workers: int) -> None:
    """Copy by workers that the command starts."""
    words = [*_words(source, target, chunks), "--workers", str(workers)]
    subprocess.run([sys.executable, "-m", "nczfs.cli.main", *words], check=True)


def _words(source: Path, target: Path, chunks: tuple[int, ...]) -> list[str]:
    lengths = ",".join(f"{name}={n}" for name, n in zip("tyx", chunks, strict=True))
    return ["cp", str(source), str(target), "--chunks", lengths, "--codecs", "zstd:1"]


@contextmanager
def _cluster(workers: int, *, bound: bool = False) -> Iterator[str]:
    """Workers like those of `--workers`; yields the address of their scheduler.

    Parameters
    ----------
    bound : each runs on one processor alone.
    """
    with LocalCluster(  # type: ignore[no-untyped-call]
        n_workers=workers,
        threads_per_worker=1,
        memory_limit=0,
        dashboard_address="127.0.0.1:0",
        silence_logs=50,
    ) as cluster:
        if bound:
            with Client(cluster) as client:  # type: ignore[no-untyped-call]
                for number, worker in enumerate(client.scheduler_info()["workers"]):
                    client.run(_bind, number, workers=[worker])
        yield cluster.scheduler_address


def _bind(processor: int) -> None:
    for thread in os.listdir("/proc/self/task"):
        os.sched_setaffinity(int(thread), {processor})


class _Rechunker:
    """Rechunker in a process of its own."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def copy(self, words: str) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(words, file=self._process.stdin, flush=True)
        assert self._process.stdout.readline() == "copied\n"


@contextmanager
def _rechunker() -> Iterator[_Rechunker]:
    python = PROGRAMS / "rechunker/bin/python"
    if not (python.parent / "installed").exists():
        venv.create(python.parent.parent, clear=True, with_pip=True)
        pip = [str(python), "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
        subprocess.run([*pip, "rechunker==0.5.4"], check=True)
        (python.parent / "installed").touch()
    words = [str(python), str(Path(__file__).with_name("rechunking.py"))]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield _Rechunker(process)
        assert process.stdin is not None
        process.stdin.close()


def _digest(source: Path) -> None:
    with contextlib.redirect_stdout(io.StringIO()):
        assert command(["verify", "--digest", str(source)]) == 0


def _decode(source: Path) -> None:
    """Decode every chunk with the codecs of nczfs, by as many threads as there are processors."""
    with nczfs.open(source) as root, ThreadPoolExecutor(os.cpu_count()) as pool:
        variable = root.variables["v"]
        counts = [-(-n // c) for n, c in zip(variable.shape, variable.chunks, strict=True)]
        for _ in pool.map(variable.chunk, product(*map(range, counts))):
            pass


if __name__ == "__main__":
    main()
