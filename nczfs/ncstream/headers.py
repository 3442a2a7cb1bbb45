"""Headers to messages and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from nczfs.ncstream import ncStream_pb2 as pb
from nczfs.ncstream.framing import HEADER, message
from nczfs.ncstream.messages import (
    UNSIGNED,
    Attribute,
    DataType,
    Dimension,
    EnumType,
    Group,
    Header,
    Structure,
    Variable,
)
from nczfs.ncstream.names import text

_OLD_TYPES = (
    DataType.STRING,
    DataType.BYTE,
    DataType.SHORT,
    DataType.INT,
    DataType.LONG,
    DataType.FLOAT,
    DataType.DOUBLE,
)
_VERSION = 1


def header_message(header: Header) -> bytes:
    """Return a header as a message."""
    found: Any = pb.Header(
        location=text(header.location),
        title=text(header.title),
        id=text(header.id),
        root=_encoded_group(header.root),
        version=_VERSION,
    )
    return message(HEADER, found.SerializeToString(deterministic=True))


def _encoded_group(group: Group) -> Any:
    return pb.Group(
        name=text(group.name),
        dims=[_encoded_dimension(d) for d in group.dimensions],
        vars=[_encoded_variable(v) for v in group.variables],
        structs=[_encoded_structure(s) for s in group.structures],
        atts=[_encoded_attribute(a) for a in group.attributes],
        groups=[_encoded_group(g) for g in group.groups],
        enumTypes=[_encoded_enum(e) for e in group.enum_types],
    )


def _encoded_dimension(dimension: Dimension) -> Any:
    return pb.Dimension(
        name=text(dimension.name),
        length=dimension.length,
        isUnlimited=dimension.is_unlimited,
        isVlen=dimension.is_vlen,
        isPrivate=dimension.is_private,
    )


def _encoded_variable(variable: Variable) -> Any:
    return pb.Variable(
        name=text(variable.name),
        dataType=int(variable.type),
        shape=[_encoded_dimension(d) for d in variable.shape],
        atts=[_encoded_attribute(a) for a in variable.attributes],
        data=variable.data or b"",
        enumType=text(variable.enum_type),
    )


def _encoded_structure(structure: Structure) -> Any:
    return pb.Structure(
        name=text(structure.name),
        dataType=int(structure.type),
        shape=[_encoded_dimension(d) for d in structure.shape],
        atts=[_encoded_attribute(a) for a in structure.attributes],
        vars=[_encoded_variable(v) for v in structure.variables],
        structs=[_encoded_structure(s) for s in structure.structures],
    )


def _encoded_enum(enum: EnumType) -> Any:
    found: Any = pb.EnumTypedef(name=text(enum.name))
    for code, name in enum.members:
        found.map.add(code=code, value=text(name))
    return found


def _encoded_attribute(attribute: Attribute) -> Any:
    found: Any = pb.Attribute(
        name=text(attribute.name), dataType=int(attribute.type), len=len(attribute.values)
    )
    if attribute.type is DataType.STRING:
        found.sdata.extend(text(str(value)) for value in attribute.values)
    else:
        found.data = np.array(attribute.values, attribute.type.dtype).tobytes()
    return found


def decoded_header(found: Any) -> Header:
    """Return what a parsed header says.

    Raises
    ------
    ValueError : it contradicts itself; the message is a clause.
    """
    return Header(_group(found.root, "/"), found.location, found.title, found.id)


def _group(found: Any, where: str) -> Group:
    return Group(
        found.name,
        tuple(_dimension(d) for d in found.dims),
        tuple(_variable(v, where) for v in found.vars),
        tuple(_structure(s, where) for s in found.structs),
        tuple(_attribute(a, where) for a in found.atts),
        tuple(_group(g, f"{where}{g.name}/") for g in found.groups),
        tuple(EnumType(e.name, tuple((m.code, m.value) for m in e.map)) for e in found.enumTypes),
    )


def _dimension(found: Any) -> Dimension:
    return Dimension(
        found.name,
        0 if found.isVlen else found.length,
        found.isUnlimited,
        found.isVlen,
        found.isPrivate,
    )


def _variable(found: Any, where: str) -> Variable:
    where = f"{where}{found.name}"
    attributes = tuple(_attribute(a, where) for a in found.atts)
    type_ = data_type(found.dataType, where)
    if found.unsigned or _says_unsigned(attributes):
        type_ = UNSIGNED.get(type_, type_)
    return Variable(
        found.name,
        type_,
        tuple(_dimension(d) for d in found.shape),
        attributes,
        found.enumType,
        found.data or None,
    )


def _says_unsigned(attributes: tuple[Attribute, ...]) -> bool:
    return any(a.name == "_Unsigned" and a.values == ("true",) for a in attributes)


def _structure(found: Any, where: str) -> Structure:
    where = f"{where}{found.name}"
    type_ = data_type(found.dataType, where)
    if not type_.is_record:
        raise ValueError(f"{where} has members, but is of type {type_.name}")
    return Structure(
        found.name,
        type_,
        tuple(_dimension(d) for d in found.shape),
        tuple(_attribute(a, where) for a in found.atts),
        tuple(_variable(v, f"{where}.") for v in found.vars),
        tuple(_structure(s, f"{where}.") for s in found.structs),
    )


def _attribute(found: Any, where: str) -> Attribute:
    """Decode in the order of netcdf-java: `dataType`, then the older `type`, then the value."""
    where = f"attribute {found.name} of {where}"
    type_ = data_type(found.dataType, where)
    if type_ is DataType.CHAR:
        if not 0 <= found.type < len(_OLD_TYPES):
            raise ValueError(f"{where}: {found.type} is no type")
        type_ = _OLD_TYPES[found.type]
        if type_ is DataType.STRING and found.len and not found.sdata:
            type_ = DataType.CHAR
    if found.unsigned:
        type_ = UNSIGNED.get(type_, type_)
    if not found.len:
        return Attribute(found.name, DataType.STRING if type_ is DataType.CHAR else type_, ())
    if type_ is DataType.STRING:
        if len(found.sdata) != found.len:
            raise ValueError(f"{where} has {len(found.sdata)} strings, not {found.len}")
        return Attribute(found.name, type_, tuple(found.sdata))
    if not type_.is_fixed:
        raise ValueError(f"{where} is of type {type_.name}")
    if len(found.data) != found.len * type_.dtype.itemsize:
        raise ValueError(
            f"{where} has {len(found.data)} bytes, not {found.len} elements of type {type_.name}"
        )
    if type_ is DataType.CHAR:
        return Attribute(found.name, DataType.STRING, (_characters(found.data),))
    return Attribute(found.name, type_, tuple(np.frombuffer(found.data, type_.dtype).tolist()))


def _characters(data: bytes) -> str:
    return data.rstrip(b"\0").decode("utf-8", "surrogateescape")


def data_type(number: int, where: str) -> DataType:
    """Return the type with a number. Raises ValueError: there is none."""
    try:
        return DataType(number)
    except ValueError:
        raise ValueError(f"{where}: {number} is no type of elements") from None
