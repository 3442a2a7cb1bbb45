"""Reading an array of Zarr v3 from its JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from nczfs.errors import BadMetadata
from nczfs.formats.base import FormatOptions
from nczfs.formats.problems import Problems
from nczfs.formats.zarr3.chain import CODECS_MAX, SHARDING, byte_order_of, codec_specs, read_chain
from nczfs.formats.zarr3.extensions import extension
from nczfs.formats.zarr3.fill import fill_value
from nczfs.formats.zarr3.fill_write import fill_json
from nczfs.formats.zarr3.grids import read_grid
from nczfs.formats.zarr3.stored import ARRAY_TO_ARRAY, ARRAY_TO_BYTES, BYTES_TO_BYTES
from nczfs.formats.zarr3.types import CORE_TYPES, data_type
from nczfs.formats.zom.checking import (
    Corrections,
    at,
    json_at,
    lengths_at,
    required,
    wrong,
)
from nczfs.formats.zom.nodes import ArrayV3, NamedConfig
from nczfs.formats.zom.pointers import below
from nczfs.formats.zom.writing import named_json
from nczfs.messages import shown
from nczfs.model.dtypes import DataType
from nczfs.model.hierarchy import Json

_Place: TypeAlias = Callable[[str], str]

_NO_LIMIT = FormatOptions(chunk_bytes_max=2**63)
_SEPARATORS = {"default": "/", "v2": "."}
MEMBERS = (
    "shape",
    "data_type",
    "chunk_grid",
    "chunk_key_encoding",
    "fill_value",
    "codecs",
    "dimension_names",
    "storage_transformers",
)
"""What `array_v3` reads."""
_KNOWN = ARRAY_TO_ARRAY | ARRAY_TO_BYTES | BYTES_TO_BYTES
_OF_V2 = {f"|{code}": name for name, code in CORE_TYPES.items() if code.endswith("1")}


def array_v3(members: dict[str, Json], pointer: str, corrections: Corrections) -> ArrayV3:
    """Return an array of Zarr v3.

    Parameters
    ----------
    members : of its JSON, without its version, type and attributes; what is read is taken out.

    Raises
    ------
    BadMetadata : as `loads`.
    """

    def place(name: str) -> str:
        return below(pointer, name)

    shape = lengths_at(required(members, "shape", pointer), place("shape"))
    dtype = _data_type(required(members, "data_type", pointer), place("data_type"), corrections)
    grid = _named(required(members, "chunk_grid", pointer), place("chunk_grid"))
    keys = _key_encoding(
        required(members, "chunk_key_encoding", pointer), place("chunk_key_encoding")
    )
    fill = json_at(required(members, "fill_value", pointer), place("fill_value"))
    codecs = _codecs(required(members, "codecs", pointer), place("codecs"), dtype, corrections)
    names = _names(members.pop("dimension_names", None), shape, place("dimension_names"))
    transformers = _transformers(members, place("storage_transformers"), corrections)
    node = ArrayV3(shape, dtype, grid, keys, fill, codecs, names, transformers)
    _check(node, place)
    return node


def usual_fill(node: ArrayV3) -> Json:
    """Return the fill value of an array in its usual spelling, as far as nczfs knows its type."""
    dtype = _known_type(node.data_type, [named_json(each) for each in node.codecs], str)
    if dtype is None:
        return node.fill_value
    return fill_json(fill_value(node.fill_value, dtype, "", Problems()), dtype)


def _named(value: Json, pointer: str, *, is_optional: bool = False) -> NamedConfig:
    with at(pointer):
        found = extension(json_at(value, pointer), pointer, is_optional=is_optional)
        return NamedConfig(found.name, found.configuration, found.must_understand)
    raise AssertionError("an extension is never unsupported")


def _data_type(value: Json, pointer: str, corrections: Corrections) -> str | NamedConfig:
    found = _named(value, pointer)
    name = found.name
    if (meant := _OF_V2.get(name)) is not None:
        corrections.note(pointer, f"{shown(name)} is a type of Zarr v2; {meant!r} is meant")
        return meant
    return name if not found.configuration else found


def _key_encoding(value: Json, pointer: str) -> NamedConfig:
    found = _named(value, pointer)
    usual = _SEPARATORS.get(found.name)
    if usual is None:
        return found
    with at(pointer):
        extension(named_json(found), pointer).check_members(("separator",))
    separator = found.configuration.get("separator", usual)
    if separator not in (".", "/"):
        raise wrong(pointer, f"separator is {shown(separator)}, neither '.' nor '/'")
    return NamedConfig(found.name, {"separator": separator})


def _codecs(
    value: Json, pointer: str, dtype: str | NamedConfig, corrections: Corrections
) -> tuple[NamedConfig, ...]:
    if not isinstance(value, list | tuple):
        raise wrong(pointer, f"{shown(value)} is not a list of codecs")
    if not value or len(value) > CODECS_MAX:
        raise wrong(pointer, f"has {len(value)} codecs (max {CODECS_MAX})" if value else "is empty")
    found = [_codec(each, f"{pointer}/{i}", dtype, corrections) for i, each in enumerate(value)]
    names = [each.name for each in found]
    if _KNOWN.issuperset(names) and ARRAY_TO_BYTES.isdisjoint(names):
        corrections.note(pointer, "no codec turns elements into bytes; 'bytes' is put there")
        before = (i for i, name in enumerate(names) if name not in ARRAY_TO_ARRAY)
        new = _with_endian(NamedConfig("bytes"), pointer, dtype, Corrections())
        found.insert(next(before, len(names)), new)
    return tuple(found)


def _codec(
    value: Json, pointer: str, dtype: str | NamedConfig, corrections: Corrections
) -> NamedConfig:
    found = _named(value, pointer, is_optional=True)
    name = found.name
    if name not in _KNOWN and name.lower() in _KNOWN:
        corrections.note(pointer, f"{shown(name)} is {name.lower()!r}")
        found = NamedConfig(name.lower(), found.configuration, found.must_understand)
    if found.name == "bytes":
        return _with_endian(found, pointer, dtype, corrections)
    if found.name == SHARDING:
        return _sharding(found, pointer, dtype, corrections)
    return found


def _with_endian(
    codec: NamedConfig, pointer: str, dtype: str | NamedConfig, corrections: Corrections
) -> NamedConfig:
    """Return a codec with the byte order that it must have where elements have several bytes."""
    code = CORE_TYPES.get(dtype) if isinstance(dtype, str) else None
    if code is None or code[1:] == "1" or "endian" in codec.configuration:
        return codec
    corrections.note(pointer, "'bytes' without a byte order; 'little' is meant")
    return NamedConfig(codec.name, {**codec.configuration, "endian": "little"})


def _sharding(
    codec: NamedConfig, pointer: str, dtype: str | NamedConfig, corrections: Corrections
) -> NamedConfig:
    """Return a codec of shards with the codecs within it in normal form."""
    members = dict(codec.configuration)
    place = f"{pointer}/configuration"
    for name, stored in (("codecs", dtype), ("index_codecs", "uint64")):
        inner = members.get(name)
        if isinstance(inner, list) and inner:
            found = _codecs(inner, f"{place}/{name}", stored, corrections)
            members[name] = [named_json(each) for each in found]
    return NamedConfig(codec.name, members, codec.must_understand)


def _names(value: Json, shape: tuple[int, ...], pointer: str) -> tuple[str | None, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list | tuple):
        raise wrong(pointer, f"{shown(value)} is not a list of names")
    if len(value) != len(shape):
        raise wrong(pointer, f"has {len(value)} names and shape has {len(shape)} dimensions")
    for place, name in enumerate(value):
        if name is not None and not isinstance(name, str):
            raise wrong(f"{pointer}/{place}", f"{shown(name)} is neither a name nor null")
    return tuple(None if name is None else str(name) for name in value)


def _transformers(
    members: dict[str, Json], pointer: str, corrections: Corrections
) -> tuple[NamedConfig, ...]:
    value = members.pop("storage_transformers", [])
    if value is None:
        corrections.note(pointer, "null is not a list; there are none")
        return ()
    if not isinstance(value, list | tuple):
        raise wrong(pointer, f"{shown(value)} is not a list")
    return tuple(_named(each, f"{pointer}/{i}") for i, each in enumerate(value))


def _check(node: ArrayV3, place: _Place) -> None:
    """Check that the members fit each other, as far as nczfs knows their names."""
    grid_place, codecs_place = place("chunk_grid"), place("codecs")
    chunk_shape: tuple[int, ...] | None = None
    with at(grid_place):
        grid = read_grid(named_json(node.chunk_grid), node.shape, grid_place)
        chunk_shape = grid.chunk_shape
    codecs: list[Json] = [named_json(each) for each in node.codecs]
    if chunk_shape is not None:
        with at(codecs_place):
            read_chain(codecs, chunk_shape, codecs_place, _NO_LIMIT)
    dtype = _known_type(node.data_type, codecs, place)
    if dtype is not None:
        with at(place("fill_value")):
            if node.fill_value is None:
                raise BadMetadata("null is no fill value in Zarr v3")
            fill_value(node.fill_value, dtype, place("fill_value"), Problems())


def _known_type(value: str | NamedConfig, codecs: Sequence[Json], place: _Place) -> DataType | None:
    pointer = place("data_type")
    with at(pointer):
        order = byte_order_of(codec_specs(list(codecs), place("codecs")), place("codecs"))
        return data_type(value if isinstance(value, str) else named_json(value), order, pointer)
    return None
