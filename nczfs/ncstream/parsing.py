"""The protobuf messages of hostile streams, parsed within bounds of memory.

A parsed message takes many times its size if it has many parts of two bytes, so the parts of a
large one are counted first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from google.protobuf.message import DecodeError

from nczfs.messages import reason
from nczfs.ncstream import ncStream_pb2 as pb
from nczfs.ncstream.bytesource import ByteSource

HEADER_BYTES_MAX: Final = 256 << 20
DATA_BYTES_MAX: Final = 1 << 20
VALUES_BYTES_MAX: Final = 512 << 20
"""Of a message that has values in it, and so is read as a whole."""

PARTS_MAX: Final = 500_000
_UNCOUNTED_BYTES: Final = 1 << 20

_Schema = Mapping[int, "Mapping[int, Any] | None"]
"""The repeated parts of a message by the numbers of their fields, and what these are made of."""

_LEAF: _Schema = {}
_ATTRIBUTE: _Schema = {5: None}
_VARIABLE: _Schema = {3: _LEAF, 4: _ATTRIBUTE}
_ENUM: _Schema = {2: _LEAF}
_STRUCTURE: dict[int, Any] = {3: _LEAF, 4: _ATTRIBUTE, 5: _VARIABLE}
_STRUCTURE[6] = _STRUCTURE
_GROUP: dict[int, Any] = {2: _LEAF, 3: _VARIABLE, 4: _STRUCTURE, 5: _ATTRIBUTE, 7: _ENUM}
_GROUP[6] = _GROUP
_COLUMN: dict[int, Any] = {3: {1: _LEAF}, 11: None, 13: None}
_COLUMN[14] = {1: _COLUMN}
_SCHEMAS: Mapping[Any, _Schema] = {
    pb.Header: {4: _GROUP},
    pb.StructureData: {4: None},
    pb.DataCol: _COLUMN,
    pb.Data: {},
    pb.Error: {},
}


def parsed(source: ByteSource, kind: Any, most: int) -> Any:
    """Take a message of a kind, with its length before it.

    Raises
    ------
    BadMetadata : it is longer than `most`, has too many parts, or is no such message.
    """
    what = f"a message {kind.DESCRIPTOR.name}"
    begin = source.offset
    data = source.block(what, most)
    if len(data) > _UNCOUNTED_BYTES and _parts(data, _SCHEMAS[kind]) > PARTS_MAX:
        source.fail(f"{what} has more than {PARTS_MAX} parts", begin)
    try:
        return kind.FromString(data)
    except DecodeError as error:
        source.fail(f"{what} cannot be parsed: {reason(error)}", begin)


def _parts(data: bytes, schema: _Schema) -> int:
    """Count the repeated parts of a message, up to a little more than `PARTS_MAX`.

    What is no message is left to the parser.
    """
    found = 0
    waiting: list[tuple[int, int, _Schema]] = [(0, len(data), schema)]
    while waiting and found <= PARTS_MAX:
        at, stop, schema = waiting.pop()
        while at < stop and found <= PARTS_MAX:
            tag = data[at]
            if tag < 0x80:
                at += 1
            else:
                tag, at = _varint(data, at, stop)
            wire_type = tag & 7
            if wire_type == 2:
                if at < stop and data[at] < 0x80:
                    size = data[at]
                    at += 1
                else:
                    size, at = _varint(data, at, stop)
                if tag >> 3 in schema:
                    found += 1
                    below = schema[tag >> 3]
                    if below and size:
                        waiting.append((at, min(at + size, stop), below))
                at += size
            elif wire_type == 0:
                _, at = _varint(data, at, stop)
            elif wire_type in (1, 5):
                at += 8 if wire_type == 1 else 4
            else:
                break
    return found


def _varint(data: bytes, at: int, stop: int) -> tuple[int, int]:
    found = shift = 0
    while at < stop:
        byte = data[at]
        at += 1
        found |= (byte & 0x7F) << shift
        if byte < 0x80 or shift > 63:
            break
        shift += 7
    return found, at
