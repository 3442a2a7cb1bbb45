"""A dataset with dependent arrays of every kind, whose values follow from a rule."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from tests.support.sample import Values

SHAPE, CHUNKS = (8, 6), (4, 3)
GROUP = {"zarr_format": 3, "node_type": "group"}
DOT = {"name": "default", "configuration": {"separator": "."}}
V2 = {"name": "v2", "configuration": {"separator": "."}}
LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}
BEFORE_Q = {"name": "prefix", "configuration": {"prefix": "q/", "base_encoding": "v2"}}

DECLARED: dict[str, Any] = {
    "mask": {
        "chunk_key_encoding": DOT,
        "attributes": {
            "flag_meanings": "ok bad",
            "dependent-arrays": {"why": {"chunk_key_encoding": V2}},
        },
    },
    "q": {
        "data_type": "float32",
        "fill_value": "NaN",
        "codecs": [LITTLE],
        "chunk_key_encoding": BEFORE_Q,
    },
    "twin": {"attributes": {}},
    "bad": {"shape": [1]},
}
VALUES: dict[str, Values] = {
    "t": np.arange(48, dtype="u1").reshape(SHAPE),
    "t/mask": (np.arange(48, dtype="u1") % 2).reshape(SHAPE),
    "t/mask/why": (np.arange(48, dtype="u1") % 5).reshape(SHAPE),
    "t/q": (np.arange(48, dtype="<f4") / 4).reshape(SHAPE),
    "t/twin": np.arange(48, dtype="u1").reshape(SHAPE),
}
FLAT = {"t": "t", "t/mask": "t.mask", "t/mask/why": "t.mask.why", "t/q": "t.q~", "t/twin": "t.twin"}
"""The names in flat formats, where another variable is called t.q."""

KEYS = {"t": "c/{}/{}", "t/mask": "c.{}.{}", "t/mask/why": "{}.{}", "t/q": "q/{}.{}"}


def array_document(shape: tuple[int, ...] = SHAPE, chunks: tuple[int, ...] = CHUNKS) -> Any:
    """Return the document of an array of bytes."""
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(shape),
        "data_type": "uint8",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(chunks)}},
        "chunk_key_encoding": {"name": "default"},
        "fill_value": 0,
        "codecs": ["bytes"],
        "attributes": {},
    }


def write_dependents_sample(place: Path, *, consolidated: bool = False) -> None:
    """Write the dataset, which takes 18 objects."""
    primary = array_document() | {
        "dimension_names": ["y", "x"],
        "attributes": {"units": "m", "dependent-arrays": DECLARED},
    }
    alone = array_document((2,), (2,))
    metadata = {"t": primary, "t.q": alone}
    copy = {"kind": "inline", "must_understand": False, "metadata": metadata}
    root = GROUP | ({"consolidated_metadata": copy} if consolidated else {})
    put(place / "zarr.json", json.dumps(root).encode())
    put(place / "t/zarr.json", json.dumps(primary).encode())
    put(place / "t.q/zarr.json", json.dumps(alone).encode())
    for path, form in KEYS.items():
        for row in range(2):
            for column in range(2):
                part = VALUES[path][4 * row : 4 * row + 4, 3 * column : 3 * column + 3]
                put(place / "t" / form.format(row, column), part.tobytes())


def put(file: Path, data: bytes) -> None:
    """Write a file, and the directories above it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)
