"""``nczfs cp`` in one process beside xarray with zarr-python and threads of dask.

    python -m benchmarks.copying [--pairs N] [--mib N]

A variable of float32 in a directory, one map a chunk: the same chunks with another codec, and time
series (rechunked).
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import warnings
from functools import partial
from pathlib import Path

import dask
import numpy as np
import xarray as xr
from numcodecs import Zlib, Zstd

from benchmarks.harness import field, paired
from nczfs.cli.main import main as nczfs

SIDE = 512
MAP_MIB = 1  # of SIDE x SIDE float32
WAYS = {"other codec": (1, SIDE, SIDE), "maps to time series": (0, 32, 32)}  # 0: all


def main() -> None:
    """Run and print the rows of a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--mib", type=int, default=1024)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")  # zarr-python's about consolidated metadata
    steps = arguments.mib // MAP_MIB
    print("| cp | xarray + dask s | nczfs cp s | ratio |\n| --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory(prefix="nczfs-bench-") as scratch:
        source, target = Path(scratch) / "source.zarr", Path(scratch) / "target.zarr"
        _make(source, steps)
        for name, chunks in WAYS.items():
            whole = (chunks[0] or steps, *chunks[1:])
            paired(
                f"{arguments.mib} MiB, {name}",
                partial(_theirs, source, target, whole),
                partial(_ours, source, target, whole),
                before=partial(shutil.rmtree, target, ignore_errors=True),
                pairs=arguments.pairs,
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


def _ours(source: Path, target: Path, chunks: tuple[int, ...]) -> None:
    lengths = ",".join(f"{name}={n}" for name, n in zip("tyx", chunks, strict=True))
    status = nczfs(["cp", str(source), str(target), "--chunks", lengths, "--codecs", "zstd:1"])
    assert status == 0


if __name__ == "__main__":
    main()
