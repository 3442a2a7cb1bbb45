"""Programs that read a live netCDF file, beside the same program with a file of its own.

    python -m benchmarks.netcdf [--pairs N]

The native file is made from the same dataset, with the same chunks and codecs. Each pair is one run
of the program with the native file, and one with the live file: page cache dropped before both, the
chunk cache of the mount emptied by `refresh`. For `ncdump -h` and `stat`, whose cost is metadata,
the page cache stays.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import zarr
from numcodecs import Shuffle, Zlib

from benchmarks.harness import drop_page_cache, field, mounted, paired, refresh, timed

STEPS, ROWS, COLUMNS = 64, 1024, 1024
MANY = 1000
TILE = 8  # values along each dimension of the many variables

OPEN_ALL = """
import sys, zarr
group = zarr.open_group(sys.argv[1], mode="r", use_consolidated=False)
assert len([group[name] for name in group]) == int(sys.argv[2])
"""


def main() -> None:
    """Run and print the rows of a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=5)
    pairs = parser.parse_args().pairs
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="nczfs-bench-") as scratch:
        root = Path(scratch)
        store = root / "store"
        write_field(store / "field.zarr")
        write_many(store / "many.zarr")
        for name in ("field", "many"):
            export(store / f"{name}.zarr", root / f"{name}.nc")
        print("| program | native s | live s | ratio |\n| --- | --- | --- | --- |")
        with mounted(str(store), root / "mnt", "--memory-limit", "512MiB") as mount:
            live = mount / "datasets"
            of_values(root / "field.nc", live / "field.zarr/field.nc", mount, root, pairs)
            of_metadata(root / "many.nc", live / "many.zarr/many.nc", store, mount, pairs)


def write_field(path: Path) -> None:
    """Write 256 MiB on a global grid, zlib level 4 after shuffle, chunks of 4 MiB."""
    group = zarr.open_group(path, mode="w", zarr_format=2)
    axes = {
        "time": (np.arange(STEPS, dtype="f8"), "hours since 2000-01-01"),
        "lat": (np.linspace(-89.9, 89.9, ROWS), "degrees_north"),
        "lon": (np.linspace(0, 359.6, COLUMNS), "degrees_east"),
    }
    for name, (axis, units) in axes.items():
        array = group.create_array(name, data=axis, compressors=None)
        array.attrs.update({"_ARRAY_DIMENSIONS": [name], "units": units})
    array = group.create_array(
        "t2m",
        shape=(STEPS, ROWS, COLUMNS),
        chunks=(1, ROWS, COLUMNS),
        dtype="f4",
        filters=[Shuffle(4)],
        compressors=Zlib(4),
    )
    array[...] = field((STEPS, ROWS, COLUMNS))
    array.attrs.update({"_ARRAY_DIMENSIONS": list(axes), "units": "K"})


def write_many(path: Path) -> None:
    """Write many small variables, each with ten attributes."""
    group = zarr.open_group(path, mode="w", zarr_format=2)
    words = {f"attribute_{number}": f"a value of words {number}" for number in range(9)}
    for number in range(MANY):
        array = group.create_array(
            f"v{number}", shape=(TILE, TILE), dtype="f4", chunks=(TILE, TILE)
        )
        array.attrs.update({"_ARRAY_DIMENSIONS": ["y", "x"], **words})


def export(source: Path, target: Path) -> None:
    """Make a netCDF-4 file of a dataset, with its chunks and codecs."""
    command = [sys.executable, "-m", "nczfs.cli.main", "export", str(source), str(target)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def run(*words: object) -> None:
    """Run a program; its output does not matter."""
    subprocess.run(list(map(str, words)), check=True, stdout=subprocess.DEVNULL)


def of_values(native: Path, live: Path, mount: Path, root: Path, pairs: int) -> None:
    """Time the programs that read all values."""
    copy = root / "copy.nc"

    def cold() -> None:
        copy.unlink(missing_ok=True)
        refresh(mount)
        drop_page_cache()
        os.stat(live)  # its header is made once for each version of the dataset

    programs: dict[str, tuple[object, ...]] = {
        "nccopy": ("nccopy", "-d", "0", "FILE", copy),
        "ncks": ("ncks", "-O", "-h", "-L", "0", "FILE", copy),
        "cdo fldmean": ("cdo", "-s", "-O", "fldmean", "FILE", copy),
        "gdal_translate (from the last row to the first)": (
            *("gdal_translate", "-q", "-of", "ENVI", "NETCDF:FILE:t2m", copy),
        ),
    }
    for name, words in programs.items():

        def with_file(file: Path, words: tuple[object, ...] = words) -> None:
            run(*(str(word).replace("FILE", str(file)) for word in words))

        paired(
            f"directory, cold, 256 MiB: {name}",
            lambda of=with_file: of(native),  # type: ignore[misc]
            lambda of=with_file: of(live),  # type: ignore[misc]
            before=cold,
            pairs=pairs,
        )
    copy.unlink(missing_ok=True)


def of_metadata(native: Path, live: Path, store: Path, mount: Path, pairs: int) -> None:
    """Time what asks for metadata alone, of many variables."""
    many = store / "many.zarr"
    first = timed(lambda: os.stat(live))
    print(f"| first stat of the file of {MANY} variables | | {first:.3f} | |", flush=True)
    paired(
        f"`ncdump -h`, {MANY} variables",
        lambda: run("ncdump", "-h", native),
        lambda: run("ncdump", "-h", live),
        before=lambda: None,
        pairs=pairs,
    )
    paired(
        f"stat after a refresh, {MANY} variables: zarr-python opens all",
        lambda: run(sys.executable, "-c", OPEN_ALL, many, MANY),
        lambda: os.stat(live),
        before=lambda: refresh(mount),
        pairs=pairs,
    )


if __name__ == "__main__":
    main()
