"""xarray with the engine nczfs beside its own engine zarr, with zarr-python's stores.

    python -m benchmarks.xarrays [--pairs N] [--stores directory,s3] [--formats 2,3] [--processor]

A dataset of 20 variables of 16 MiB, with three coordinates and consolidated metadata: opened, and
then a time series, a map, a variable and everything read by both engines, opened anew each time. In
a directory, whose files are in the page cache for both, and on a real S3 server 20 ms away. With
--processor, seconds are those of the processors, for machines that do other work as well.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
import zarr

from benchmarks.harness import delayed, field, paired, s3_server
from benchmarks.s3store import BUCKET, DELAY_MS, client, obstore

VARIABLES = 20
SHAPE, CHUNKS = (64, 256, 256), (8, 128, 128)

Reader = Callable[[xr.Dataset], object]
READS: dict[str, Reader] = {
    "open": lambda dataset: None,
    "a time series": lambda dataset: dataset.v03[:, 100, 100].load(),
    "a map": lambda dataset: dataset.v07[30].load(),
    "a variable": lambda dataset: dataset.v11.load(),
    "everything": lambda dataset: dataset.load(),
}


def main() -> None:
    """Run and print the rows of a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--stores", default="directory,s3")
    parser.add_argument("--formats", default="2,3")
    parser.add_argument("--processor", action="store_true")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")  # zarr-python's about consolidated metadata of v3
    clock = time.process_time if arguments.processor else time.perf_counter
    print("| xarray | engine zarr s | engine nczfs s | ratio |\n| --- | --- | --- | --- |")
    with ExitStack() as stack:
        scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="nczfs-bench-"))
        places = {
            format: Path(scratch) / f"v{format}.zarr" for format in arguments.formats.split(",")
        }
        for format, place in places.items():
            made().to_zarr(place, zarr_format=int(format), consolidated=True)
        measured = partial(_measured, pairs=arguments.pairs, clock=clock)
        if "directory" in arguments.stores:
            for format, place in places.items():
                measured(f"v{format}, directory", place, str(place))
        if "s3" in arguments.stores:
            endpoint = stack.enter_context(s3_server(BUCKET))
            for place in places.values():
                _upload(endpoint, place)
            far = stack.enter_context(delayed(endpoint, DELAY_MS))
            for format, place in places.items():
                store = partial(_store, far, place.name)
                url = f"{far}/{BUCKET}/{place.name}#mode=s3"
                measured(f"v{format}, S3 +{DELAY_MS} ms", store, url)


def made() -> xr.Dataset:
    """The dataset."""
    values = field(SHAPE)
    names = ("time", "lat", "lon")
    variables = {
        f"v{number:02}": (names, values + np.float32(number), {"units": "K"})
        for number in range(VARIABLES)
    }
    coordinates = {
        "time": np.datetime64("2020-01-01", "ns") + np.arange(SHAPE[0]) * np.timedelta64(6, "h"),
        "lat": np.linspace(-90, 90, SHAPE[1]),
        "lon": np.linspace(0, 360, SHAPE[2], endpoint=False),
    }
    dataset = xr.Dataset(variables, coordinates)
    for variable in dataset.data_vars.values():
        variable.encoding["chunks"] = CHUNKS
    return dataset


def _measured(what: str, place: Any, url: str, *, pairs: int, clock: Callable[[], float]) -> None:
    def opened(engine: str, target: Any, read: Reader) -> None:
        given = target() if callable(target) else target
        with xr.open_dataset(given, engine=engine) as dataset:
            read(dataset)

    for name, read in READS.items():
        theirs, ours = partial(opened, "zarr", place, read), partial(opened, "nczfs", url, read)
        paired(f"{what}: {name}", theirs, ours, before=_nothing, pairs=pairs, clock=clock)


def _nothing() -> None:
    pass


def _store(endpoint: str, prefix: str) -> Any:
    return zarr.storage.ObjectStore(obstore(endpoint, prefix), read_only=True)


def _upload(endpoint: str, place: Path) -> None:
    s3 = client(endpoint)
    for path in place.rglob("*"):
        if path.is_file():
            key = f"{place.name}/{path.relative_to(place).as_posix()}"
            s3.put_object(Bucket=BUCKET, Key=key, Body=path.read_bytes())


if __name__ == "__main__":
    main()
