"""Chunks that other programs wrote decode to the values that they say they wrote.

The reference data are named by ``NCZFS_REFERENCE_DATA`` alone.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nczfs.buffers import Values
from nczfs.codecs.pipelines import pipeline_of
from nczfs.model.dtypes import DataType, VlenKind
from nczfs.model.hierarchy import ArrayDescription, ChunkKeys, CodecChain, CodecSpec

CASES = [
    "compressors", "datetime", "dtypes", "filters", "layout", "objects", "strings", "structured",
]  # fmt: skip
KINDS = {
    "vlen-utf8": VlenKind.TEXT,
    "vlen-bytes": VlenKind.BYTES,
    "vlen-array": VlenKind.ARRAY,
    "json2": VlenKind.JSON,
}


def arrays() -> Iterator[Any]:
    root = os.environ.get("NCZFS_REFERENCE_DATA")
    for case in CASES if root else []:
        data = Path(str(root), "zarr", f"v2-{case}", "data.zarr")
        for document in sorted(data.rglob(".zarray")):
            name = document.parent.relative_to(data).as_posix()
            yield pytest.param(data.parent, name, id=f"{case}/{name}")


def field_types(members: list[Any]) -> list[Any]:
    return [
        (name, field_types(kind) if isinstance(kind, list) else kind, *map(tuple, shape))
        for name, kind, *shape in members
    ]


def described(document: dict[str, Any]) -> ArrayDescription:
    """What a `.zarray` says, so far as decoding needs it."""
    dtype = document["dtype"]
    stored = np.dtype(field_types(dtype) if isinstance(dtype, list) else dtype)
    objects = [*(document["filters"] or []), document["compressor"]]
    specs = tuple(
        CodecSpec(codec["id"], {key: value for key, value in codec.items() if key != "id"})
        for codec in objects
        if codec
    )
    return ArrayDescription(
        tuple(document["shape"]),
        tuple(document["chunks"]),
        DataType(stored.str, stored, KINDS.get(specs[0].name) if stored.hasobject else None),
        None,
        CodecChain(2, specs, document["order"]),
        ChunkKeys(document.get("dimension_separator", ".")),
    )


def read(directory: Path, array: ArrayDescription) -> tuple[Values, Values]:
    """The values, and which of them a chunk is stored for."""
    pipeline = pipeline_of(array)
    values = np.zeros(array.shape, array.dtype.native)
    stored = np.zeros(array.shape, bool)
    for chunk in product(*map(range, array.grid.counts)):
        path = directory / array.chunk_keys.name(chunk)
        if path.exists():
            box = array.grid.box(chunk)
            place = tuple(map(slice, box.start, box.stop))
            decoded = pipeline.decode(path.read_bytes())
            again = pipeline.decode(pipeline.encode(decoded))
            assert comparable(again) == comparable(decoded)
            values[place] = decoded[tuple(slice(n) for n in values[place].shape)]
            stored[place] = True
    return values, stored


def comparable(values: Values) -> Any:
    return [plain(value) for value in values.flat] if values.dtype.hasobject else values.tobytes()


def plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    return {"b64": base64.b64encode(value).decode()} if isinstance(value, bytes) else value


@pytest.mark.parametrize(("case", "name"), list(arrays()))
def test_reference_chunks_decode_to_their_values(case: Path, name: str) -> None:
    directory = case / "data.zarr" / name
    array = described(json.loads((directory / ".zarray").read_text()))
    values, stored = read(directory, array)
    assert stored.any() or name == "nothing"
    if array.dtype.vlen is not None:
        expected = json.loads((case / "expected.json").read_text())
        known = expected["arrays"].get(name, {}).get("values", expected.get(name))
        found = np.empty(values.shape, object)
        for place in np.ndindex(values.shape):
            found[place] = plain(values[place])
        assert found.tolist() == known
        return
    with np.load(case / "expected.npz", allow_pickle=False) as members:
        known_values = members[name]
    assert known_values.shape == values.shape
    as_stored = values.astype(array.dtype.stored)
    if known_values.dtype.kind == "i" and values.dtype.kind in "mM":
        as_stored = values.view("i8").astype(known_values.dtype)
    if array.dtype.stored.kind == "V":
        known_values = known_values.view(array.dtype.stored)
    assert as_stored[stored].tobytes() == known_values.astype(as_stored.dtype)[stored].tobytes()
