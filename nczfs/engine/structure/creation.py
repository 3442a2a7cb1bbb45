"""The choice of types, chunks, codecs and fill values for a new variable."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import prod

import numpy as np

from nczfs.engine.chunks.base import NDIM_MAX
from nczfs.engine.values.convert import converted_fill, fill_attribute
from nczfs.engine.values.fillvalues import FILL_VALUE
from nczfs.engine.values.quantize import split_off
from nczfs.errors import Unsupported, UsageError
from nczfs.formats.attributes import DEFAULT_MAXSTRLEN, MAXSTRLEN
from nczfs.formats.base import MetadataFormat
from nczfs.model.declaration import Fill, VariableDeclaration
from nczfs.model.dtypes import DEFAULT_FILL, DataType
from nczfs.model.hierarchy import (
    ArrayDescription,
    Attribute,
    CodecSpec,
    Dimension,
    Shards,
    Variable,
)

CHUNK_BYTES_WANTED = 4 << 20
VLEN_ITEM_BYTES = 64  # assumed size of an element of variable length when chunks are chosen
UNLIMITED_ALONE = 1024  # elements, as in netcdf-c


def string_bytes(declaration: VariableDeclaration, root: Iterable[Attribute]) -> int | None:
    """Return the bytes per string, if an attribute of a new variable or of the root gives them."""
    for attributes, name in ((declaration.attributes, MAXSTRLEN), (root, DEFAULT_MAXSTRLEN)):
        value = next((a.value for a in attributes if a.name == name), None)
        number = value[0] if isinstance(value, tuple) and len(value) == 1 else None
        if isinstance(number, int) and number > 0:
            return number
    return None


def keeping(
    declaration: VariableDeclaration, attributes: Iterable[Attribute]
) -> VariableDeclaration:
    """Return the declaration of a variable that keeps what it does not declare of attributes."""
    declared = {attribute.name for attribute in declaration.attributes}
    kept = (each for each in attributes if each.name not in declared)
    return replace(declaration, attributes=(*kept, *declaration.attributes))


def described(
    path: str,
    declaration: VariableDeclaration,
    dimensions: Sequence[Dimension],
    metadata_format: MetadataFormat,
    separator: str | None,
) -> Variable:
    """Return the variable that a declaration asks for.

    Parameters
    ----------
    path : of the variable, below the root of the dataset.
    dimensions : those that the declaration names.
    separator : of its chunk keys, "." or "/"; None: the usual one of the format.

    Raises
    ------
    Unsupported : the format has no such type.
    UsageError : chunks, codecs or the fill value do not fit.
    """
    stored = metadata_format.stored_type(
        declaration.type,
        byte_order=declaration.byte_order,
        string_bytes=declaration.string_bytes,
        object_codec=_object_codec(declaration),
    )
    if len(dimensions) > NDIM_MAX:
        raise UsageError(f"/{path}: {len(dimensions)} dimensions (max {NDIM_MAX})")
    shape = tuple(dimension.size for dimension in dimensions)
    chunk_shape = _chunk_shape(path, declaration, dimensions, stored.dtype)
    codecs = declaration.codecs
    if codecs is None:
        codecs = metadata_format.default_codecs(stored.dtype)
    attributes = _attributes(path, declaration, stored.dtype)
    # A declaration of a copy states them, too.
    codecs = codecs[len(stored.filters) :] if _begins(codecs, stored.filters) else codecs
    if metadata_format.is_netcdf:
        codecs, rounded = split_off(codecs, stored.dtype, f"/{path}")
        attributes = attributes if rounded is None else (*attributes, rounded)
    array = ArrayDescription(
        shape,
        chunk_shape,
        stored.dtype,
        _fill_value(path, declaration, stored.dtype, metadata_format),
        metadata_format.codec_chain(
            (*stored.filters, *codecs),
            stored.dtype,
            declaration.order if declaration.order in metadata_format.orders else "C",
        ),
        metadata_format.chunk_keys(declaration.separator or separator),
        _shards(path, declaration, chunk_shape, metadata_format),
    )
    return Variable(
        path,
        path,
        metadata_format.name,
        array,
        tuple(dimensions),
        attributes,
    )


def _object_codec(declaration: VariableDeclaration) -> CodecSpec | None:
    """Return the codec from objects to bytes; None: there are no objects, or none is declared."""
    wanted, codecs = declaration.type, declaration.codecs
    has_objects = isinstance(wanted, np.dtype) and wanted.hasobject
    return codecs[0] if has_objects and codecs else None


def _begins(codecs: Sequence[CodecSpec], filters: Sequence[CodecSpec]) -> bool:
    return tuple(codecs[: len(filters)]) == tuple(filters)


def default_chunks(
    shape: Sequence[int], unlimited: Sequence[bool], item_size: int
) -> tuple[int, ...]:
    """Choose chunks of about 4 MiB, by netcdf-c's rule.

    Fixed dimensions keep their length when all together fit, and are scaled by one factor
    otherwise; unlimited ones get 1, except when all are.
    """
    wanted = max(1, CHUNK_BYTES_WANTED // item_size)
    if shape and all(unlimited):
        if len(shape) == 1:
            return (UNLIMITED_ALONE,)
        return (max(1, int(wanted ** (1 / len(shape)))),) * len(shape)
    chunks = [1 if grows else max(1, n) for n, grows in zip(shape, unlimited, strict=True)]
    # Repeated, because short dimensions may not have shrunk by their part.
    while (size := prod(chunks)) > wanted:
        factor = (wanted / size) ** (1 / sum(length > 1 for length in chunks))
        chunks = [max(1, int(length * factor)) for length in chunks]
    return tuple(chunks)


def _chunk_shape(
    path: str,
    declaration: VariableDeclaration,
    dimensions: Sequence[Dimension],
    dtype: DataType,
) -> tuple[int, ...]:
    chunks = declaration.chunk_shape
    if chunks is None:
        return default_chunks(
            [dimension.size for dimension in dimensions],
            [dimension.unlimited for dimension in dimensions],
            dtype.item_size or VLEN_ITEM_BYTES,
        )
    if len(chunks) != len(dimensions) or any(length < 1 for length in chunks):
        raise UsageError(
            f"/{path}: chunks {chunks} do not fit {len(dimensions)} dimensions: one length of at "
            "least 1 for each"
        )
    return tuple(chunks)


def _shards(
    path: str,
    declaration: VariableDeclaration,
    chunk_shape: tuple[int, ...],
    metadata_format: MetadataFormat,
) -> tuple[Shards, ...]:
    shape = declaration.shard_shape
    if shape is None:
        return ()
    shards = metadata_format.new_shards(shape)
    if shards is None:
        if declaration.is_complete:  # a copy of what another format has
            return ()
        raise Unsupported(f"/{path}: {metadata_format.name} has no shards; zarr3 has")
    fits = len(shape) == len(chunk_shape) and all(
        whole >= 1 and whole % length == 0 for whole, length in zip(shape, chunk_shape, strict=True)
    )
    if not fits:
        raise UsageError(
            f"/{path}: shards {shape} are not whole chunks {chunk_shape}: along each dimension a "
            "multiple of the length of a chunk"
        )
    return (shards,)


def _attributes(
    path: str, declaration: VariableDeclaration, dtype: DataType
) -> tuple[Attribute, ...]:
    """Return the declared attributes, preceded by the `_FillValue` if it is declared otherwise."""
    fill = declaration.fill_value
    if (
        declaration.is_complete
        or isinstance(fill, Fill)
        or any(a.name == FILL_VALUE for a in declaration.attributes)
    ):
        return declaration.attributes
    attribute = fill_attribute(fill, dtype, f"/{path}")
    return declaration.attributes if attribute is None else (attribute, *declaration.attributes)


def _fill_value(
    path: str,
    declaration: VariableDeclaration,
    dtype: DataType,
    metadata_format: MetadataFormat,
) -> object:
    fill = declaration.fill_value
    if fill is Fill.DEFAULT and declaration.is_complete:
        return None
    if fill is Fill.DEFAULT:
        fill = DEFAULT_FILL.get(dtype.nc_type) if dtype.nc_type is not None else None
        own = next((a.value for a in declaration.attributes if a.name == FILL_VALUE), None)
        if own is not None:
            fill = own[0] if isinstance(own, tuple) and own else own
    if fill is Fill.NONE or fill is None:
        return None
    if dtype.vlen is not None:
        return fill
    if dtype.stored.kind == "V" and isinstance(fill, bytes):
        return fill
    value = converted_fill(fill, dtype, f"/{path}")
    if dtype.stored.kind in "fc" and np.isnan(value).any():
        if metadata_format.keeps_nan_bits:
            return value[0]  # of whose bits a Python number loses some
        # JSON has one NaN, so chunks that are all fill with other bits must not be left out.
        parts = value.copy().view(value.real.dtype)
        parts[np.isnan(parts)] = np.nan
        value = parts.view(value.dtype)
    if dtype.stored.kind in "biufcSU":
        # Without the NULs at the end, as numpy returns text.
        return value.tolist()[0] if value.size else dtype.native.type()
    return value[0]
