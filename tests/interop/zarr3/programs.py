"""The programs, each of which writes or reads an array of a store, or raises its own error."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tensorstore
import zarr

import nczfs
from tests.interop.zarr3.arrays import Array
from tests.interop.zarr3.elements import Values
from tests.support.mounts import mounted

GROUP = {"zarr_format": 3, "node_type": "group", "attributes": {}}

ZARR = "zarr-python"
TENSORSTORE = "tensorstore"
NCZFS = "nczfs"
VALUES = "nczfs, of values alone"
MOUNT = "a mount of nczfs"


@dataclass(frozen=True, slots=True)
class Program:
    """A program.

    Attributes
    ----------
    writing, reading : open a store.
    write : stores an array there; those that do not make documents of their own find it made.
    """

    name: str
    writing: Callable[[Path], AbstractContextManager[Any]]
    write: Callable[[Any, Array], None]
    reading: Callable[[Path], AbstractContextManager[Any]]
    read: Callable[[Any, Array], Values]

    @property
    def is_given_documents(self) -> bool:
        """It writes values alone."""
        return self.write in (nczfs_write, mount_write)


def prepare(root: Path) -> None:
    """Make an empty store."""
    root.mkdir(parents=True)
    (root / "zarr.json").write_text(json.dumps(GROUP))


def state(root: Path, array: Array) -> None:
    """Write the document of an array, and none of its values."""
    place = root / array.name
    place.mkdir(parents=True, exist_ok=True)
    (place.parent / "zarr.json").write_text(json.dumps(GROUP))
    (place / "zarr.json").write_text(json.dumps(array.document()))


def zarr_write(root: Path, array: Array) -> None:
    """Write through a document that is given, which zarr-python then writes in its own words."""
    state(root, array)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of types and codecs that its specification lacks
        found = zarr.open_array(root / array.name, mode="r+")
        found[array.box] = array.values[array.box]
        found.attrs["written by"] = zarr.__version__


def zarr_read(root: Path, array: Array) -> Values:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return boxed(zarr.open_array(root / array.name, mode="r")[...], array)


def boxed(found: Any, array: Array) -> Values:
    """What a program read, as an array; an element of variable length as it is."""
    if not array.element.is_object or isinstance(found, np.ndarray):
        return np.asarray(found)
    box = np.empty((), object)
    box[()] = found
    return box


def tensorstore_write(root: Path, array: Array) -> None:
    spec = tensorstore_spec(root, array) | {"metadata": array.document(), "create": True}
    found = tensorstore.open(spec).result()
    found[array.box].write(array.values[array.box]).result()


def tensorstore_read(root: Path, array: Array) -> Values:
    found = tensorstore.open(tensorstore_spec(root, array)).result()
    return np.asarray(found.read().result())


def tensorstore_spec(root: Path, array: Array) -> dict[str, Any]:
    return {"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{root / array.name}/"}}


@contextmanager
def creating(root: Path) -> Iterator[nczfs.OpenDataset]:
    """Make a dataset of nczfs's own in place of the empty store."""
    with nczfs.open(str(root), "w", format="zarr3") as dataset:
        yield dataset


def changing(root: Path) -> AbstractContextManager[nczfs.OpenDataset]:
    return nczfs.open(str(root), "r+")


def opened(root: Path) -> AbstractContextManager[nczfs.OpenDataset]:
    return nczfs.open(str(root))


def nczfs_create(dataset: nczfs.OpenDataset, array: Array) -> None:
    """Make an array by the library, document and all, and write to it."""
    where, _, name = array.name.partition("/")
    group = dataset[where] if where in dataset.groups else dataset.create_group(where)
    assert isinstance(group, nczfs.Group)
    made = group.create_variable(
        name,
        array.shape,
        str if array.element.name == "string" else array.element.dtype,
        fillvalue=array.fill_element,
        chunks=array.geometry.chunk if array.is_plain else array.object_shape,
        shards=array.object_shape if array.layout.name == "shards" else None,
        codecs=array.chunk_codecs() if array.is_plain else array.codecs(),
    )
    made[array.box] = array.values[array.box]


def nczfs_read(dataset: nczfs.OpenDataset, array: Array) -> Values:
    found = dataset[array.name]
    assert isinstance(found, nczfs.Variable)
    return boxed(found[...], array)


def nczfs_write(dataset: nczfs.OpenDataset, array: Array) -> None:
    """Write the values of an array whose document is given."""
    found = dataset[array.name]
    assert isinstance(found, nczfs.Variable)
    found[array.box] = array.values[array.box]


@contextmanager
def mount_of(root: Path) -> Iterator[Path]:
    with mounted(root.parent) as mount:
        yield mount / "datasets" / root.name


def mount_write(dataset: Path, array: Array) -> None:
    """Write values of an array whose document is given, through a file of a mount."""
    values = np.ascontiguousarray(array.values[array.box])
    with (dataset / array.name / "values.raw").open("r+b") as raw:
        raw.write(values.tobytes())


def mount_read(dataset: Path, array: Array) -> Values:
    """Read the values as a whole, and chunk by chunk; those of variable length as texts."""
    place, dtype = dataset / array.name, array.element.dtype
    if array.element.is_object:
        texts = [json.loads(line) for line in (place / "values.txt").read_text().splitlines()]
        if array.element.name == "bytes":
            texts = [text.encode("latin-1") for text in texts]
        values = np.empty(len(texts), object)
        values[:] = texts
        return values.reshape(array.shape)
    chunk_shape = json.loads((place / "info.json").read_text())["chunk_shape"]
    values = np.frombuffer((place / "values.raw").read_bytes(), dtype).reshape(array.shape)
    for name in os.listdir(place / "chunks"):
        index = tuple(map(int, name.split(".")))[: len(array.shape)]
        corner = zip(index, chunk_shape, strict=True)
        wanted = values[tuple(slice(i * side, (i + 1) * side) for i, side in corner)]
        chunk = np.frombuffer((place / "chunks" / name).read_bytes(), dtype)
        found = chunk.reshape(chunk_shape)[tuple(map(slice, wanted.shape))]
        assert found.tobytes() == wanted.tobytes(), f"chunk {name}: {found}, not {wanted}"
    return values


FOREIGN = (
    Program(ZARR, nullcontext, zarr_write, nullcontext, zarr_read),
    Program(TENSORSTORE, nullcontext, tensorstore_write, nullcontext, tensorstore_read),
)
OURS = (
    Program(NCZFS, creating, nczfs_create, opened, nczfs_read),
    Program(VALUES, changing, nczfs_write, opened, nczfs_read),
    Program(MOUNT, mount_of, mount_write, mount_of, mount_read),
)
