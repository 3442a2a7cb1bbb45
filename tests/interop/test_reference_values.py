"""What zarr-python and tensorstore wrote, read through every view, byte for byte."""

from __future__ import annotations

import base64
import io
import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nczfs
from nczfs.vfs.filesystem import TreeFileSystem
from nczfs.vfs.tree import mount_tree
from tests.support.reference import load, zarr2_cases
from tests.support.trees import exists, find, listing, read

Values = np.ndarray[Any, np.dtype[Any]]


def native(values: Values, dtype: np.dtype[Any]) -> Values:
    """Expected values in the dtype that the views have: dates stand as int64 in the files."""
    if dtype.kind in "mM":
        return values.astype("=i8").view(dtype)
    return values.astype(dtype)


def same_bits(found: Values, expected: Values) -> bool:
    return found.shape == expected.shape and found.tobytes() == expected.tobytes()


def from_chunks(
    fs: TreeFileSystem, path: str, info: dict[str, Any], dtype: np.dtype[Any]
) -> Values:
    """The array put together from its chunk files."""
    shape, chunks = info["shape"], info["chunk_shape"]
    counts = [-(-n // c) for n, c in zip(shape, chunks, strict=True)]
    padded = np.zeros([n * c for n, c in zip(counts, chunks, strict=True)], dtype)
    names = {".".join(map(str, index)) or "0" for index in product(*map(range, counts))}
    assert set(listing(fs, f"{path}/chunks")) == names
    for index in product(*map(range, counts)):
        name = ".".join(map(str, index)) or "0"
        chunk = np.frombuffer(read(fs, f"{path}/chunks/{name}"), dtype).reshape(chunks)
        padded[tuple(slice(i * c, (i + 1) * c) for i, c in zip(index, chunks, strict=True))] = chunk
    return padded[tuple(map(slice, shape))].copy()


@pytest.mark.parametrize("directory", zarr2_cases(), ids=lambda path: path.name)
def test_every_view_holds_what_the_writer_stored(directory: Path) -> None:
    case = load(directory)
    fs = mount_tree(str(case.store))
    (top,) = listing(fs, "datasets")
    with nczfs.open(str(case.store)) as dataset:
        for name, stored in case.values.items():
            path = f"datasets/{top}/{name}".rstrip("/")
            info = json.loads(read(fs, f"{path}/info.json"))
            assert [p for p in info["problems"] if ".nc: is of type" not in p] == [], path
            variable = dataset[name or top]
            assert isinstance(variable, nczfs.Variable)
            dtype = variable.dtype
            expected = native(stored, dtype)
            assert info["decoded_bytes"] == expected.nbytes == find(fs, f"{path}/values.raw").size
            raw = np.frombuffer(read(fs, f"{path}/values.raw"), dtype).reshape(info["shape"])
            assert same_bits(raw, expected), path
            saved = io.BytesIO()
            np.save(saved, expected)
            assert read(fs, f"{path}/values.npy") == saved.getvalue(), path
            assert same_bits(from_chunks(fs, path, info, dtype), expected), path
            assert same_bits(np.asarray(variable[...]), expected), path
            if dtype.names is None and dtype.kind != "V":
                check_text(fs, path, expected)
            else:
                assert not exists(fs, f"{path}/values.txt")
    fs.close()


def check_text(fs: TreeFileSystem, path: str, expected: Values) -> None:
    text = read(fs, f"{path}/values.txt")
    # Fixed-length bytes need not be UTF-8.
    encoding = "latin-1" if expected.dtype.kind == "S" else "utf-8"
    lines = text.decode(encoding).split("\n")
    assert lines.pop() == ""
    assert len(lines) == expected.size
    assert len({len(line.encode(encoding)) for line in lines}) <= 1
    flat = expected.reshape(-1)
    match expected.dtype.kind:
        case "f" | "i" | "u" | "b":
            back = np.array([line.strip() for line in lines], dtype="U24")
            if expected.dtype.kind == "f":
                read_back = back.astype(expected.dtype)
                assert read_back[~np.isnan(flat)].tobytes() == flat[~np.isnan(flat)].tobytes()
                assert np.array_equal(np.isnan(read_back), np.isnan(flat))
            else:
                assert [int(word) for word in back] == [int(value) for value in flat]
        case "m" | "M":
            assert [int(line) for line in lines] == flat.view("i8").tolist()
        case "c":
            pairs = [line.split() for line in lines]
            parts = flat.view(f"f{flat.dtype.itemsize // 2}").reshape(-1, 2)
            found = np.array(pairs, dtype="U32").astype(parts.dtype)
            np.testing.assert_array_equal(found, parts)
        case "S":
            shown = [printable(value.decode("latin-1")) for value in flat]
            assert [line.rstrip(" ") for line in lines] == [value.rstrip(" ") for value in shown]
        case "U":
            shown = [printable(value) for value in flat]
            assert [line.rstrip(" ") for line in lines] == [value.rstrip(" ") for value in shown]
        case other:
            raise AssertionError(f"no rule for kind {other}")


def printable(text: str) -> str:
    """Control characters as question marks."""
    return "".join("?" if ord(c) < 0x20 or ord(c) == 0x7F else c for c in text)


def decoded(value: object) -> object:
    """A value of expected.json as values.txt has it: bytes are base64 there, Latin-1 here."""
    if isinstance(value, dict) and set(value) == {"b64"}:
        return base64.b64decode(value["b64"]).decode("latin-1")
    return value


def flattened(values: list[Any], notes: dict[str, Any]) -> list[Any]:
    """The elements in C order; expected.json nests them by dimension."""
    for _ in notes["shape"][1:]:
        values = [value for row in values for value in row]
    return values


@pytest.mark.parametrize("directory", zarr2_cases(), ids=lambda path: path.name)
def test_elements_of_variable_length_are_json(directory: Path) -> None:
    case = load(directory)
    texts = {
        name: notes["values"]
        for name, notes in case.notes["arrays"].items()
        if "values" in notes and name not in case.values
    }
    fs = mount_tree(str(case.store))
    (top,) = listing(fs, "datasets")
    for name, values in texts.items():
        path = f"datasets/{top}/{name}"
        lines = read(fs, f"{path}/values.txt").decode().splitlines()
        expected = [decoded(value) for value in flattened(values, case.notes["arrays"][name])]
        assert [json.loads(line) for line in lines] == expected
        assert not exists(fs, f"{path}/values.raw")
        info = json.loads(read(fs, f"{path}/info.json"))
        if len(info["shape"]) == 1:
            numbers = range(info["chunk_count"])
            chunks = [json.loads(read(fs, f"{path}/chunks/{number}")) for number in numbers]
            assert [value for chunk in chunks for value in chunk][: len(values)] == expected
    fs.close()
