"""Any legal document of an array is read, in any spelling, as zarr-python reads what it knows."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import zarr
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

import nczfs
from nczfs.buffers import Values
from tests.unit.codecs.test_v3_chains import chains, is_for_zarr_python, some
from tests.unit.codecs.test_v3_round_trips import CORE, as_object
from tests.unit.codecs.v3arrays import Word

GROUP = {"zarr_format": 3, "node_type": "group"}
OTHER_TYPES: dict[str, Any] = {"r8": "V1", "r24": "V3"}
LIMITS = {2: "0x7e01", 4: "0xffc00001", 8: "0x7ff8000000000001"}
"""NaNs of other bits, as floats of some bytes spell them."""


json_values: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, -(2**63), 2**64 - 1, 1.5, "a", [], [1, 2.5], {"a": [{}]}]
)


def real_fills(dtype: np.dtype[Any]) -> st.SearchStrategy[Any]:
    exact = st.floats(width=8 * dtype.itemsize, allow_nan=False, allow_infinity=False)  # type: ignore[arg-type]
    words = ["NaN", "Infinity", "-Infinity", LIMITS[dtype.itemsize]]
    return exact | st.integers(-5, 5) | st.sampled_from(words)


def fills(dtype: np.dtype[Any]) -> st.SearchStrategy[Any]:
    """Fill values as the specification spells those of a type."""
    match dtype.kind:
        case "b":
            return st.booleans()
        case "i" | "u":
            limits = np.iinfo(dtype)
            return st.integers(int(limits.min), int(limits.max))
        case "f":
            return real_fills(dtype)
        case "c":
            part = real_fills(np.dtype(f"f{dtype.itemsize // 2}"))
            return st.tuples(part, part).map(list)
        case _:
            return st.lists(st.integers(0, 255), min_size=dtype.itemsize, max_size=dtype.itemsize)


def spelled(draw: st.DrawFn, word: Word) -> Word:
    """Spell an extension in one of the ways that mean the same."""
    if isinstance(word, str):
        word = {"name": word}
    found = dict(word)
    if not found.get("configuration"):
        forms: list[Word] = [str(found["name"]), {"name": found["name"]}]
        return draw(st.sampled_from([*forms, {"name": found["name"], "configuration": {}}]))
    if draw(st.booleans()):
        found["must_understand"] = True
    inner: Any = found["configuration"]
    if "codecs" in inner:
        found["configuration"] = inner | {
            "codecs": [spelled(draw, each) for each in inner["codecs"]]
        }
    return found


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    is_usual = draw(st.booleans())  # in words that zarr-python knows
    name = draw(st.sampled_from([*CORE] if is_usual else [*CORE, *OTHER_TYPES]))
    dtype = np.dtype(CORE.get(name) or OTHER_TYPES[name])
    shape = tuple(draw(st.lists(st.integers(0, 7), max_size=3)))
    chunk = tuple(draw(st.integers(1, 6)) for _ in shape)
    is_core = name in CORE
    chain: list[Word] = draw(chains(name, chunk)) if is_core else ["bytes"]
    if is_usual:
        assume(is_for_zarr_python(chain))
    separator = draw(st.sampled_from(["/", "."] if is_usual else ["/", ".", None]))
    encoding: dict[str, Any] = {"name": draw(st.sampled_from(["default", "v2"]))}
    if separator is not None:
        encoding["configuration"] = {"separator": separator}

    def spell(word: Word) -> Word:
        return word if is_usual else spelled(draw, word)

    document = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(shape),
        "data_type": spell(name),
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(chunk)}},
        "chunk_key_encoding": spell(encoding),
        "fill_value": draw(fills(dtype)),
        "codecs": [spell(as_object(each)) for each in chain],
    }
    optional = {
        "attributes": st.dictionaries(st.sampled_from("abc"), json_values),
        "storage_transformers": st.just([]),
        "dimension_names": st.tuples(*[st.none() | st.text("xyz_", min_size=1)] * len(shape)),
    }
    if not is_usual:
        optional["strange"] = st.just({"must_understand": False, "name": "strange"})
    return document | draw(st.fixed_dictionaries({}, optional=optional))


@settings(max_examples=25, deadline=None)
@given(document=documents(), raw=st.binary(min_size=1, max_size=64))
def test_any_document_is_read_as_zarr_python_reads_it(document: Any, raw: bytes) -> None:
    spelling = document["data_type"]
    name = spelling if isinstance(spelling, str) else spelling["name"]
    dtype = np.dtype(CORE.get(name) or OTHER_TYPES[name])
    values = some(raw, dtype, tuple(document["shape"]))
    with TemporaryDirectory() as directory:
        place = Path(directory)
        (place / "v").mkdir()
        (place / "zarr.json").write_text(json.dumps(GROUP))
        (place / "v/zarr.json").write_text(json.dumps(document))
        untouched = ours(place)
        try:
            before = written_by_zarr_python(place / "v", values)
        except Exception as error:  # noqa: BLE001 - it refuses documents in many ways
            event(f"zarr-python: {type(error).__name__}")
            with nczfs.open(str(place), "r+") as dataset:
                dataset.variables["v"][...] = values
        else:
            event("written by zarr-python")
            assert untouched.tobytes() == before.tobytes()
        found = ours(place)
        assert (found.dtype, found.shape) == (values.dtype, values.shape)
        assert found.tobytes() == values.tobytes()


def ours(place: Path) -> Values:
    with nczfs.open(str(place)) as dataset:
        return np.asarray(dataset.variables["v"][...])


def written_by_zarr_python(place: Path, values: Values) -> Values:
    """What zarr-python read before it wrote values."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of types and codecs that its specification lacks
        array: Any = zarr.open_array(place, mode="r+", zarr_format=3)
        before = np.asarray(array[...])
        array[...] = values
        return before
