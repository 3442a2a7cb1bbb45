"""Parsing an info.json that a program writes: the variable or group that it declares."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from types import MappingProxyType
from typing import TypeAlias

from nczfs.engine.values.fillvalues import FILL_VALUE, as_fill_value
from nczfs.errors import BadMetadata, BadValue
from nczfs.formats.attributes import is_hidden, typed, untyped
from nczfs.formats.dimensions import anonymous
from nczfs.formats.jsontext import Unfinished, parse, plain
from nczfs.formats.names import parent_of
from nczfs.formats.zarr3.keyencodings import CHUNK_KEYS
from nczfs.messages import shown
from nczfs.model.declaration import VariableDeclaration
from nczfs.model.dtypes import CODE_OF_NC_TYPE, NcType
from nczfs.model.hierarchy import Attribute, CodecSpec, Json
from nczfs.plaindata import frozen
from nczfs.views.declared_type import element_of, fill_of
from nczfs.zmap.keys import is_within

DECLARED = frozenset(
    {
        *("shape", "dimensions", "dtype", "nc_type", "chunk_shape", "codecs", "fill_value"),
        "shard_shape",
        *("order", "dimension_separator", "attributes", "attribute_types"),
    }
)
SHOWN = frozenset(
    {
        *("name", "path", "format", "chunk_count", "object_count", "decoded_bytes", "problems"),
        *("primary", "dependents", CHUNK_KEYS),
    }
)
"""Further members of a variable's info.json, which are accepted."""
GROUP = frozenset(
    {
        *("name", "path", "format", "dimensions", "variables", "groups"),
        *("attributes", "attribute_types", "problems"),
    }
)

_TYPES = {nc_type.value: nc_type for nc_type in NcType}


@frozen
class WantedDimension:
    """A dimension; it is made if none of that name is declared.

    Attributes
    ----------
    name : None: it is anonymous.
    unlimited : for a new dimension.
    levels : how many groups the declaring one is above that of the variable; None: the document
        does not say.
    """

    name: str | None
    size: int
    unlimited: bool = False
    levels: int | None = None


@frozen
class WantedVariable:
    """A variable, and its dimensions, which the declaration does not name yet.

    Attributes
    ----------
    format : of the dataset from which the document was made; None: it does not say.
    dependents : the names of the arrays that the variable declares, if the document lists them.
    """

    declaration: VariableDeclaration
    dimensions: tuple[WantedDimension, ...]
    format: str | None = None
    dependents: tuple[str, ...] = ()


@frozen
class WantedGroup:
    """The dimensions and attributes of a group; `format` as in `WantedVariable`."""

    dimensions: tuple[WantedDimension, ...]
    attributes: tuple[Attribute, ...]
    format: str | None = None


WantedNode: TypeAlias = "WantedVariable | WantedGroup"


def wanted_node(name: str, data: bytes) -> WantedNode:
    """Return what an info.json describes: a variable with `shape` and `dtype`, otherwise a group.

    A document with `attribute_types`, as nczfs makes it, is taken literally: the variable has
    exactly these attributes, this dtype and this fill value.

    Raises
    ------
    BadValue : it is not such a document. Unfinished : it is the beginning of one.
    """
    try:
        document = plain(parse(data, "info.json").value)
    except Unfinished:
        if not data.lstrip().startswith((b"{", b"\xef\xbb\xbf")) and data.strip():
            raise BadValue("info.json: is not a JSON object") from None
        raise
    except BadMetadata as error:
        raise BadValue(str(error)) from None
    if not isinstance(document, dict):
        raise BadValue("info.json: is not a JSON object")
    is_group = not document.keys() & {"shape", "dtype", "nc_type"} and (
        "variables" in document or "groups" in document
    )
    known = GROUP if is_group else DECLARED | SHOWN
    unknown = sorted(set(document) - known)
    if unknown:
        named = ", ".join(sorted(known))
        raise BadValue(f"info.json: {shown(unknown[0])} is not known; known are {named}")
    format_name = document.get("format")
    if format_name is not None and not isinstance(format_name, str):
        raise BadValue(f"info.json: format: {shown(format_name)} is not a format")
    wanted = _group(document) if is_group else _variable(name, document)
    return wanted if format_name is None else _of_format(wanted, format_name)


def _of_format(wanted: WantedNode, name: str) -> WantedNode:
    if isinstance(wanted, WantedGroup):
        return WantedGroup(wanted.dimensions, wanted.attributes, name)
    return replace(wanted, format=name)


def _variable(name: str, document: dict[str, Json]) -> WantedVariable:
    shape = _lengths(document.get("shape"), "shape")
    chunks, shards = document.get("chunk_shape"), document.get("shard_shape")
    listed = document.get("codecs")
    codecs = None if listed is None else tuple(map(_codec, _list(listed, "codecs")))
    is_shown = "attribute_types" in document
    element = element_of(
        document.get("dtype"), document.get("nc_type"), codecs or (), is_shown=is_shown
    )
    declaration = VariableDeclaration(
        name,
        element.type,
        attributes=tuple(_attributes(document, element.nc_type)),
        chunk_shape=None if chunks is None else _lengths(chunks, "chunk_shape"),
        codecs=codecs,
        order=_one_of(("C", "F"), document, "order") or "C",
        separator=_one_of((".", "/"), document, "dimension_separator"),
        fill_value=fill_of(document, element, is_shown=is_shown),
        byte_order=element.byte_order,
        string_bytes=element.string_bytes,
        is_complete=is_shown,
        shard_shape=None if shards is None else _lengths(shards, "shard_shape"),
    )
    path = document.get("path")
    group = parent_of(path.strip("/")) if isinstance(path, str) else None
    dimensions = _dimensions(document.get("dimensions"), shape, group)
    listed_dependents = _list(document.get("dependents", []), "dependents")
    dependents = tuple(each for each in listed_dependents if isinstance(each, str))
    return WantedVariable(declaration, tuple(dimensions), dependents=dependents)


def _group(document: dict[str, Json]) -> WantedGroup:
    listed = _list(document.get("dimensions", []), "dimensions")
    sizes = [item.get("size") if isinstance(item, dict) else None for item in listed]
    found = _dimensions(listed, _lengths(sizes, "dimensions"), None)
    dimensions = (
        WantedDimension(d.name, d.size, d.unlimited, 0) for d in found if d.name is not None
    )
    return WantedGroup(tuple(dimensions), tuple(_attributes(document, None)))


def _dimensions(
    named: Json, shape: tuple[int, ...], group: str | None
) -> Iterable[WantedDimension]:
    """Return the dimensions of a shape; `group` is the variable's group by the document."""
    if named is None:
        return [WantedDimension(None, size) for size in shape]
    wanted = _list(named, "dimensions")
    if len(wanted) != len(shape):
        raise BadValue(f"info.json: dimensions: {len(wanted)} for a shape of {len(shape)}")
    found = [_dimension(item, size, group) for item, size in zip(wanted, shape, strict=True)]
    sizes: dict[object, int] = {}
    for dimension in found:
        place = (dimension.name, dimension.levels)
        if dimension.name and sizes.setdefault(place, dimension.size) != dimension.size:
            raise BadValue(f"info.json: dimensions: {shown(dimension.name)} has two lengths")
    return found


def _dimension(item: Json, size: int, group: str | None) -> WantedDimension:
    match item:
        case str():
            return WantedDimension(item, size)
        case {"name": str(name), **rest}:
            unlimited = rest.get("unlimited", False)
            if rest.get("size", size) == size and isinstance(unlimited, bool):
                if name == anonymous(size).name:
                    return WantedDimension(None, size)
                declaring = rest.get("group")
                above = declaring if isinstance(declaring, str) else None
                return WantedDimension(name, size, unlimited, _levels(above, group))
    raise BadValue(f"info.json: dimensions: {shown(item)} is not a dimension of length {size}")


def _levels(declaring: str | None, group: str | None) -> int | None:
    """Return how many groups above a group the one is that declares a dimension."""
    if declaring is None or group is None:
        return None
    above = declaring.strip("/")
    if not is_within(group, above):
        return None
    return _depth(group) - _depth(above)


def _depth(path: str) -> int:
    return path.count("/") + 1 if path else 0


def _attributes(document: dict[str, Json], nc_type: NcType | None) -> Iterable[Attribute]:
    members, types = document.get("attributes", {}), document.get("attribute_types", {})
    if not isinstance(members, dict):
        raise BadValue("info.json: attributes: is not a JSON object")
    if not isinstance(types, dict):
        raise BadValue("info.json: attribute_types: is not a JSON object")
    for name, value in members.items():
        if is_hidden(name):
            raise BadValue(f"info.json: attribute {shown(name)} is reserved by the format")
        if name in types:
            yield _typed(name, value, types[name])
            continue
        attribute = untyped(name, value, nc_type)
        if name == FILL_VALUE and nc_type is not None:
            attribute = as_fill_value(attribute, nc_type)
        yield attribute


def _typed(name: str, value: Json, type_name: Json) -> Attribute:
    """Return an attribute with its shown type: the inverse of `info.attribute_json`."""
    nc_type = _TYPES.get(type_name) if isinstance(type_name, str) else None
    attribute = None
    match nc_type:
        case NcType.CHAR if isinstance(value, str):
            attribute = Attribute(name, NcType.CHAR, value)
        case NcType.STRING:
            items = value if isinstance(value, list) else [value]
            texts = tuple(item for item in items if isinstance(item, str))
            if len(texts) == len(items):
                attribute = Attribute(name, NcType.STRING, texts)
        case NcType.JSON:
            attribute = Attribute(name, NcType.JSON, value)
        case _ if nc_type in CODE_OF_NC_TYPE:
            assert nc_type is not None
            attribute = typed(name, value, f"<{CODE_OF_NC_TYPE[nc_type]}")
    if attribute is None:
        raise BadValue(
            f"info.json: attribute {shown(name)}: {shown(value)} is not of type {shown(type_name)}"
        )
    return attribute


def _codec(codec: Json) -> CodecSpec:
    if not isinstance(codec, dict) or not isinstance(codec.get("id"), str):
        raise BadValue(f"info.json: codecs: {shown(codec)} is not a codec: it needs an 'id'")
    settings = {name: value for name, value in codec.items() if name != "id"}
    return CodecSpec(str(codec["id"]), MappingProxyType(settings))


def _one_of(known: tuple[str, str], document: dict[str, Json], member: str) -> str | None:
    value = document.get(member)
    if value is None or (isinstance(value, str) and value in known):
        return value
    raise BadValue(f"info.json: {member}: {shown(value)} is neither {known[0]!r} nor {known[1]!r}")


def _lengths(value: Json, what: str) -> tuple[int, ...]:
    lengths = _list(value, what)
    found = tuple(n for n in lengths if isinstance(n, int) and not isinstance(n, bool) and n >= 0)
    if len(found) != len(lengths):
        raise BadValue(f"info.json: {what}: {shown(value)} is not a list of lengths")
    return found


def _list(value: Json, what: str) -> list[Json]:
    if not isinstance(value, list):
        raise BadValue(f"info.json: {what}: must be a list, not {shown(value)}")
    return value
