"""Recorded and made streams, each with what a reader must find in it, or why it must refuse it."""

from __future__ import annotations

import base64
import io
import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nczfs.errors import BadMetadata
from nczfs.ncstream import Array, Header, StreamError, assemble, read
from nczfs.ncstream.messages import DataType, Dimension, Group, Structure, Variable
from tests.support.reference import reference_root


def streams(kind: str) -> list[Path]:
    root = reference_root()
    found = sorted((root / "ncstream").glob("*.ncs")) if root else []
    return [path for path in found if path.name.startswith("bad-") == (kind == "bad")]


def member(name: str, type_: DataType) -> Variable:
    return Variable(name, type_)


ROWS = {  # answers of CDM Remote, whose client has the header already
    "struct": Structure(
        "obs",
        DataType.STRUCTURE,
        (Dimension("n", 3),),
        variables=(
            member("day", DataType.BYTE),
            member("elev", DataType.SHORT),
            member("count", DataType.INT),
            member("rh", DataType.FLOAT),
            member("t", DataType.DOUBLE),
        ),
    ),
    "struct-heap": Structure(
        "h",
        DataType.STRUCTURE,
        (Dimension("n", 2),),
        variables=(member("id", DataType.INT), member("text", DataType.STRING)),
    ),
    "sequence": Structure(
        "q",
        DataType.SEQUENCE,
        variables=(member("i", DataType.INT), member("d", DataType.DOUBLE)),
    ),
}


def jsonable(value: Any) -> Any:
    """A value as the expected ones are spelled."""
    match value:
        case bytes():
            return {"b64": base64.b64encode(value).decode()}
        case np.ndarray():
            return jsonable(value.tolist())
        case list() | tuple():
            return [jsonable(item) for item in value]
        case float():
            if math.isfinite(value):
                return value
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


@pytest.mark.parametrize("path", streams("good"), ids=lambda path: path.stem)
def test_a_stream_is_read(path: Path) -> None:
    expected = json.loads(path.with_suffix(".json").read_text())
    structure = ROWS.get(path.stem)
    header = None if structure is None else Header(Group(structures=(structure,)))
    data = path.read_bytes()
    items = list(read(io.BytesIO(data), path.name, size=len(data), header=header))
    told = [item for item in items if isinstance(item, StreamError)]
    named = [m.removeprefix("error ") for m in expected["messages"] if m.startswith("error")]
    assert [error.message for error in told] == named
    assert sum(isinstance(i, Header) for i in items) == expected["messages"].count("header")
    if expected["values"] is not None:
        assert {
            name: jsonable(values)
            for name, values in assemble(i for i in items if not isinstance(i, StreamError)).items()
        } == expected["values"]


REASONS = {
    "bad-bomb": "inflates to more than the 40 bytes it should have",
    "bad-length": "is longer than",
    "bad-magic": "begins no message",
    "bad-no-end": "it has no END",
    "bad-section": "8 on, 1 apart, along dimension 0 of length 10",
    "bad-size": "has 12 bytes, not 10 elements of type INT",
    "bad-truncated-block": "but the stream ends after",
    "bad-unknown-var": "no header has such a variable",
    "bad-vint": "has more than 10 bytes",
}


@pytest.mark.parametrize("path", streams("bad"), ids=lambda path: path.stem)
@pytest.mark.parametrize("is_pipe", [False, True], ids=["file", "pipe"])
def test_a_broken_stream_is_refused_with_its_place(path: Path, is_pipe: bool) -> None:
    data = path.read_bytes()
    with pytest.raises(BadMetadata) as refused:
        for _ in read(io.BytesIO(data), path.name, size=None if is_pipe else len(data)):
            pass
    found = re.match(rf"{re.escape(path.name)}: at byte (\d+): ", str(refused.value))
    assert found is not None, refused.value
    assert 0 <= int(found[1]) <= len(data)
    assert REASONS[path.stem] in str(refused.value)


def test_attributes_of_both_encodings_are_read() -> None:
    root = reference_root()
    assert root is not None
    with (root / "ncstream/header-old.ncs").open("rb") as file:
        (header,) = read(file)
    assert isinstance(header, Header)
    found = {a.name: (a.type, a.values) for a in header.root.attributes}
    assert found["units"] == (DataType.STRING, ("m",))
    assert found["v"] == (DataType.SHORT, (3, -4))
    assert found["both"] == (DataType.USHORT, (65000,))
    assert found["none"][1] == ()
    (variable,) = header.root.variables
    assert variable.type is DataType.USHORT


def test_an_enumeration_and_its_codes_are_read() -> None:
    root = reference_root()
    assert root is not None
    with (root / "ncstream/groups.ncs").open("rb") as file:
        header, first, *_ = read(file)
    assert isinstance(header, Header)
    assert header.root.enum_types[0].members == ((0, "Clear"), (1, "Cb"), (255, "Missing"))
    assert isinstance(first, Array)  # of the header
    assert first.path == "lat"
