"""Datasets to draw, and what is drawn of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from nczfs.engine.dataset import Dataset, Engine
from nczfs.engine.options import EngineOptions
from nczfs.pictures.composing import variable_scene
from nczfs.pictures.limits import PREVIEW, PictureLimits
from nczfs.pictures.scene import Line, Plane, Scene, Words
from nczfs.testing.datasets import put_array, put_group, put_json
from tests.support.counted import CountedStore, opened, variable

LATITUDE = {"units": "degrees_north"}
LONGITUDE = {"units": "degrees_east"}


def empty_store() -> CountedStore:
    store = CountedStore(near=True)
    put_group(store, "")
    return store


def map_store(**attributes: object) -> CountedStore:
    """A store with ``t2m(time, lat, lon)``, one chunk a step."""
    store = empty_store()
    values = np.arange(2 * 4 * 6, dtype="<i2").reshape(2, 4, 6)
    put_array(
        store,
        "t2m",
        values,
        (1, 4, 6),
        dimensions=("time", "lat", "lon"),
        attributes=attributes,
        fill_value=None,
    )
    put_line(store, "lat", np.array([40.0, 30, 20, 10]), **LATITUDE)
    put_line(store, "lon", np.arange(0.0, 60, 10), **LONGITUDE)
    put_line(store, "time", np.array([30, 31]), units="days since 2000-01-01", calendar="360_day")
    return store


def put_line(store: CountedStore, name: str, values: Any, **attributes: object) -> None:
    """Put a coordinate variable, in one chunk."""
    put_array(
        store,
        name,
        values,
        (len(values),),
        dimensions=(name,),
        attributes=attributes,
        fill_value=None,
    )


def put_unwritten(
    store: CountedStore,
    name: str,
    shape: tuple[int, ...],
    chunks: tuple[int, ...],
    dimensions: tuple[str, ...],
    dtype: str = "<f4",
    **attributes: object,
) -> None:
    """Put the documents of an array of any size, of which no chunk was written."""
    document = {
        "zarr_format": 2,
        "shape": list(shape),
        "chunks": list(chunks),
        "dtype": dtype,
        "compressor": None,
        "filters": None,
        "fill_value": 0,
        "order": "C",
    }
    put_json(store, f"{name}/.zarray", document)
    put_json(store, f"{name}/.zattrs", {**attributes, "_ARRAY_DIMENSIONS": list(dimensions)})


@contextmanager
def dataset_in(store: CountedStore) -> Iterator[Dataset]:
    engine = Engine(EngineOptions())
    try:
        yield opened(store, engine)
    finally:
        engine.close()


def scene(store: CountedStore, name: str, limits: PictureLimits = PREVIEW) -> Scene:
    with dataset_in(store) as dataset:
        return variable_scene(dataset, variable(dataset, name), limits)


def plane(store: CountedStore, name: str, limits: PictureLimits = PREVIEW) -> Plane:
    found = scene(store, name, limits)
    assert isinstance(found, Plane)
    return found


def line(store: CountedStore, name: str, limits: PictureLimits = PREVIEW) -> Line:
    found = scene(store, name, limits)
    assert isinstance(found, Line)
    return found


def words(store: CountedStore, name: str) -> Words:
    found = scene(store, name)
    assert isinstance(found, Words)
    return found


def chunk_reads(store: CountedStore) -> int:
    """The chunks that were asked for, whether they exist or not."""
    return sum(count for key, count in store.reads.items() if is_chunk(key))


def is_chunk(key: str) -> bool:
    return key.rpartition("/")[2].replace(".", "").isdigit()
