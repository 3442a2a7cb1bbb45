"""A small dataset that zarr-python writes, and whether a mount shows every value of it."""

from __future__ import annotations

import io
import itertools
import json
import os
import subprocess
import warnings
import zipfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numcodecs
import numpy as np
import zarr

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

Values: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

ZLIB = numcodecs.Zlib(1)
LZ4 = numcodecs.Blosc("lz4", shuffle=numcodecs.Blosc.SHUFFLE)


@dataclass(frozen=True, slots=True)
class Field:
    """An array of the sample.

    Attributes
    ----------
    absent : the box of a chunk that is not written; it holds the fill value.
    """

    values: Values
    chunks: tuple[int, ...]
    dimensions: tuple[str, ...]
    compressor: Any = None
    shuffled: bool = False
    fill_value: object = 0
    order: Literal["C", "F"] = "C"
    separator: str = "."
    absent: tuple[slice, ...] | None = None


def _waves(*shape: int) -> Values:
    return np.sin(np.arange(np.prod(shape), dtype="<f8")).reshape(shape)


def _fields() -> dict[str, Field]:
    salt = _waves(9, 11)
    salt[4:8, 5:10] = np.nan
    return {
        "time": Field(np.arange(7, dtype="<f8") * 6, (3,), ("time",)),
        "t2m": Field(
            (250 + 40 * _waves(7, 30, 50)).astype("<f4"),
            (1, 30, 50),
            ("time", "y", "x"),
            ZLIB,
            shuffled=True,
        ),
        "tiles": Field(
            np.arange(45 * 61, dtype=">i2").reshape(45, 61), (16, 16), ("y2", "x2"), LZ4, order="F"
        ),
        "wave": Field(_waves(10) + 1j * _waves(10), (4,), ("n",), ZLIB),
        "mask": Field(_waves(5, 7) > 0, (2, 7), ("p", "q")),
        "label": Field(np.array([b"one", b"three", b"", b"ab"], "S5"), (3,), ("l",), fill_value=""),
        "level": Field(np.array(3.5, "<f8"), (), ()),
        "ocean/salt": Field(
            salt,
            (4, 5),
            ("yo", "xo"),
            LZ4,
            fill_value="NaN",
            separator="/",
            absent=(slice(4, 8), slice(5, 10)),
        ),
    }


FIELDS: Mapping[str, Field] = _fields()
ATTRIBUTES: dict[str, Any] = {"title": "a sample", "version": 3}


def write_sample(directory: Path) -> None:
    """Write the dataset as Zarr v2 with xarray's convention; zarr-python does it."""
    root = zarr.open_group(directory, mode="w", zarr_format=2, attributes=ATTRIBUTES)
    root.create_group("ocean")
    for path, field in FIELDS.items():
        array = root.create_array(
            path,
            shape=field.values.shape,
            dtype=field.values.dtype,
            chunks=field.chunks,
            filters=[numcodecs.Shuffle(field.values.itemsize)] if field.shuffled else None,
            compressors=field.compressor,
            fill_value=np.nan if field.fill_value == "NaN" else field.fill_value,
            order=field.order,
            chunk_key_encoding={"name": "v2", "separator": field.separator},
            attributes={"_ARRAY_DIMENSIONS": list(field.dimensions), "units": "1"},
        )
        if field.absent is None:
            array[...] = field.values
            continue
        # Box by box: writing fill values would store them.
        boxes = itertools.product(
            *(range(0, n, c) for n, c in zip(field.values.shape, field.chunks, strict=True))
        )
        for corner in boxes:
            box = tuple(
                slice(at, min(at + c, n))
                for at, c, n in zip(corner, field.chunks, field.values.shape, strict=True)
            )
            if box != field.absent:
                array[box] = field.values[box]


def keys_of(directory: Path) -> dict[str, Path]:
    """The files below a directory, by their paths relative to it."""
    return {
        path.relative_to(directory).as_posix(): path
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def zip_up(directory: Path, archive: Path, top: str = "") -> None:
    """Make a zip of a directory; `top` is a directory in the archive, as netcdf-c makes one."""
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_STORED) as file:
        if top:
            file.writestr(f"{top}/", b"")
        for key, path in keys_of(directory).items():
            file.write(path, f"{top}/{key}" if top else key)


def upload(client: S3Client, bucket: str, prefix: str, directory: Path) -> None:
    """Put the files of a directory below a prefix of a bucket."""

    def put(item: tuple[str, Path]) -> None:
        client.put_object(Bucket=bucket, Key=f"{prefix}/{item[0]}", Body=item[1].read_bytes())

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(put, keys_of(directory).items()))


def check_sample(place: Path) -> None:
    """Every view of the dataset that is mounted at `place` shows every value."""
    name = place.name.partition(".")[0]
    assert set(os.listdir(place)) == {
        *(path.partition("/")[0] for path in FIELDS),
        f"{name}.cdl",
        f"{name}.nc",
        f"{name}.classic.nc",
        f"{name}.ncs",
        "info.json",
        "zom.json",
        "attributes",
    }
    assert (place / "attributes/title").read_text() == "a sample\n"
    assert (place / "attributes/version").read_text() == "3\n"
    assert "float t2m(time, y, x) ;" in (place / f"{name}.cdl").read_text()
    problems = json.loads((place / "info.json").read_text())["problems"]
    assert [problem for problem in problems if " leaves out " not in problem] == []
    for path, field in FIELDS.items():
        check_variable(place / path, field)


def check_variable(place: Path, field: Field) -> None:
    """Every view of a variable shows the values of a field."""
    values = field.values.astype(field.values.dtype.newbyteorder("="))
    about = json.loads((place / "info.json").read_text())
    assert about["shape"] == list(values.shape)
    assert about["dtype"] == field.values.dtype.str
    assert [d["name"] for d in about["dimensions"]] == list(field.dimensions)
    assert about["problems"] == []
    for name in os.listdir(place):
        if (place / name).is_file():
            assert (place / name).stat().st_size == len((place / name).read_bytes()), name
    assert (place / "values.raw").read_bytes() == values.tobytes()
    saved = io.BytesIO()
    np.save(saved, values)
    assert (place / "values.npy").read_bytes() == saved.getvalue()
    np.testing.assert_array_equal(np.load(place / "values.npy", mmap_mode="r"), values)
    np.testing.assert_array_equal(reassembled(place), values)
    lines = (place / "values.txt").read_text("latin-1").splitlines()
    assert len(lines) == values.size
    assert len({len(line) for line in lines}) == 1
    np.testing.assert_array_equal(_parsed(lines, values.dtype), values.reshape(-1))


def reassembled(place: Path) -> Values:
    """An array put together from the files of its chunks."""
    about = json.loads((place / "info.json").read_text())
    shape, chunks = about["shape"], about["chunk_shape"]
    dtype = np.dtype(about["dtype"]).newbyteorder("=")
    values: Values = np.empty(shape, dtype)
    names = set(os.listdir(place / "chunks"))
    counts = [-(-n // c) for n, c in zip(shape, chunks, strict=True)]
    for index in itertools.product(*map(range, counts)):
        name = ".".join(map(str, index)) or "0"
        names.remove(name)
        chunk = np.fromfile(place / "chunks" / name, dtype).reshape(chunks)
        box = tuple(slice(i * c, (i + 1) * c) for i, c in zip(index, chunks, strict=True))
        values[box] = chunk[tuple(slice(n) for n in np.shape(values[box]))]
    assert not names
    return values


def output(*command: str | Path, fails: bool = False) -> bytes:
    """What a program prints; it must end well and say nothing on stderr, unless it `fails`."""
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=120
    )
    if not fails:
        assert (done.returncode, done.stderr) == (0, b""), done
    else:
        assert done.returncode != 0, done
        return done.stderr
    return done.stdout


def open_zarr(directory: Path) -> zarr.Group:
    """A group as zarr-python reads it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its own, of names that it does not know
        group = zarr.open(directory, mode="r")
    assert isinstance(group, zarr.Group)
    return group


def _parsed(lines: list[str], dtype: np.dtype[Any]) -> Values:
    match dtype.kind:
        case "S":
            return np.array([line.rstrip().encode("latin-1") for line in lines], dtype)
        case "c":
            pairs = [line.split() for line in lines]
            return np.array([complex(float(a), float(b)) for a, b in pairs], dtype)
        case "f":
            return np.array([float(line) for line in lines], dtype)
        case _:
            return np.array([int(line) for line in lines], dtype)
