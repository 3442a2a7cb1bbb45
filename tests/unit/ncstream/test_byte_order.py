"""In which order the bytes of numbers are, by kind of message, its version and its flag."""

from __future__ import annotations

import io
import zlib
from typing import Any

import numpy as np
import pytest

from nczfs.ncstream import Array, Header, read
from nczfs.ncstream import ncStream_pb2 as pb
from nczfs.ncstream.framing import DATA, DATA2, block, message, vint
from nczfs.ncstream.messages import DataType, Dimension, Group, Structure, Variable

VALUES = [1, 258, -3]
STRUCTURE = Structure(
    "s",
    DataType.STRUCTURE,
    (Dimension("x", 3),),
    variables=(Variable("v", DataType.INT),),
)
HEADER = Header(Group(structures=(STRUCTURE,)))

FLAGS: list[tuple[bool | None, int, bool]] = [
    (True, 1, True),
    (True, 3, True),
    (False, 1, False),
    (False, 3, False),
    (None, 1, True),
    (None, 2, True),
    (None, 3, False),
    (None, 4, False),
]
"""What a message states: `bigend`, which may be missing, its version, and what that means."""


def numbers(big: bool) -> bytes:
    return np.array(VALUES, ">i4" if big else "<i4").tobytes()


def stated(kind: Any, flag: bool | None, version: int, **more: Any) -> Any:
    found = kind(version=version, **more)
    if flag is not None:
        found.bigend = flag
    found.section.range.add(size=3)
    return found


def data(flag: bool | None, version: int, big: bool, form: str) -> bytes:
    """A message of DATA with numbers in one of three forms."""
    found = stated(pb.Data, flag, version, varName="v", dataType=int(DataType.INT))
    payload = block(numbers(big))
    if form == "deflated":
        found.compress = pb.DEFLATE
        payload = block(zlib.compress(numbers(big)))
    elif form == "ragged":
        found.vdata = True
        payload = vint(3) + b"".join(block(numbers(big)[at : at + 4]) for at in (0, 4, 8))
    return message(DATA, found.SerializeToString()) + payload


def rows(flag: bool | None, version: int, big: bool) -> bytes:
    found = stated(pb.Data, flag, version, varName="s", dataType=int(DataType.STRUCTURE))
    body = pb.StructureData(data=numbers(big), nrows=3, rowLength=4)
    return message(DATA, found.SerializeToString()) + block(body.SerializeToString())


def column(flag: bool | None, version: int, big: bool) -> bytes:
    found = stated(pb.DataCol, flag, version, name="v", dataType=int(DataType.INT))
    found.nelems = 3
    found.primdata = numbers(big)
    return message(DATA2, found.SerializeToString())


def values_of(stream: bytes, **options: Any) -> list[int]:
    (found,) = read(io.BytesIO(stream), **options)
    assert isinstance(found, Array)
    values = found.values["v"] if found.type is DataType.STRUCTURE else found.values
    return [int(np.asarray(each).reshape(-1)[0]) for each in values]


@pytest.mark.parametrize(("flag", "version", "big"), FLAGS)
@pytest.mark.parametrize("form", ["plain", "deflated", "ragged"])
def test_numbers_of_data_are_big_endian_unless_the_flag_is_to_be_believed(
    flag: bool | None, version: int, big: bool, form: str
) -> None:
    """All programs write them so, and netcdf-java and siphon read them so."""
    assert values_of(data(flag, version, True, form)) == VALUES
    assert values_of(data(flag, version, big, form), believes_bigend=True) == VALUES


@pytest.mark.parametrize("believes", [False, True])
@pytest.mark.parametrize(("flag", "version", "big"), FLAGS)
def test_structures_and_columns_have_the_order_that_they_state(
    flag: bool | None, version: int, big: bool, believes: bool
) -> None:
    options = {"believes_bigend": believes}
    assert values_of(rows(flag, version, big), header=HEADER, **options) == VALUES
    assert values_of(column(flag, version, big), **options) == VALUES
