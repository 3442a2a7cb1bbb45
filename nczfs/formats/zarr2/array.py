"""``.zarray`` documents: the description of a Zarr v2 array."""

from __future__ import annotations

import re
from types import MappingProxyType

from nczfs.errors import BadMetadata, Unsupported
from nczfs.formats.base import FormatOptions
from nczfs.formats.elementtypes import as_char, data_type
from nczfs.formats.jsontext import plain
from nczfs.formats.limits import check_array
from nczfs.formats.problems import Problems
from nczfs.formats.zarr2.fill import exact_default, fill_value
from nczfs.messages import shown
from nczfs.model.dtypes import DataType
from nczfs.model.hierarchy import ArrayDescription, ChunkKeys, CodecChain, CodecSpec, Json
from nczfs.plaindata import frozen

NDIM_MAX = 1024
CODECS_MAX = 64


@frozen
class Dialect:
    """What must be known about the writer to read its ``.zarray``.

    Attributes
    ----------
    literal_text : whether the fill value of ``S`` types is the text itself, as netcdf-c writes it;
        otherwise it is base64.
    char_types : the type strings that mean netCDF text, one byte an element: ``>S1`` in NCZarr
        since 4.9.1, ``<U1`` of netcdf-c to 4.9.0.
    own_fill : whether the array has a ``_FillValue`` attribute.
    """

    literal_text: bool = False
    char_types: frozenset[str] = frozenset()
    own_fill: bool = False


def read_array(
    document: dict[str, Json],
    where: str,
    options: FormatOptions,
    dialect: Dialect,
    problems: Problems,
) -> ArrayDescription:
    """Return the array that a ``.zarray`` describes.

    Parameters
    ----------
    document : the parsed document; members that Zarr does not know are ignored.
    where : its key, for messages.
    problems : receives problems that do not prevent reading.

    Raises
    ------
    BadMetadata : a member is missing, has a wrong type, or is impossible.
    Unsupported : another version of Zarr, an unsupported type, or chunks beyond the limit.

    Notes
    -----
    Zarr v2 specification, "Metadata". An unknown codec is no error here: the array can be
    described, and the codecs refuse its values.
    """
    _check_version(document, where, problems)
    shape = _lengths(document, "shape", where)
    chunk_shape = _chunk_shape(_lengths(document, "chunks", where), shape, where)
    filters = _filters(document.get("filters"), where)
    dtype = data_type(_required(document, "dtype", where), filters, where)
    if dtype.typestr in dialect.char_types:
        dtype = as_char(dtype)
    compressor = document.get("compressor")
    codecs = filters if compressor is None else (*filters, _codec(compressor, "compressor", where))
    fill = fill_value(
        document.get("fill_value"), dtype, where, problems, literal_text=dialect.literal_text
    )
    array = ArrayDescription(
        shape,
        chunk_shape,
        dtype,
        fill if dialect.own_fill else exact_default(fill, dtype),
        CodecChain(
            2,
            tuple([_true_element_size(codec, dtype) for codec in codecs]),
            _order(document, where),
            compressed=compressor is not None,
        ),
        ChunkKeys(_separator(document, where, problems)),
    )
    check_array(array, where, options)
    return array


def _check_version(document: dict[str, Json], where: str, problems: Problems) -> None:
    if "zarr_format" not in document:
        problems.add(f"{where}: zarr_format is missing; read as 2")
    elif document["zarr_format"] not in (2, "2"):
        version = shown(document["zarr_format"])
        raise Unsupported(f"{where}: zarr_format is {version}, not 2")


def _required(document: dict[str, Json], member: str, where: str) -> Json:
    if document.get(member) is None:
        raise BadMetadata(f"{where}: {member} is missing")
    return document[member]


def _lengths(document: dict[str, Json], member: str, where: str) -> tuple[int, ...]:
    value = _required(document, member, where)
    if not isinstance(value, list):
        raise BadMetadata(f"{where}: {member} is {shown(value)}, not a list of lengths")
    if len(value) > NDIM_MAX:
        raise BadMetadata(f"{where}: {member} has {len(value)} dimensions (max {NDIM_MAX})")
    lengths: list[int] = []
    for length in value:
        if not isinstance(length, int) or isinstance(length, bool) or length < 0:
            raise BadMetadata(f"{where}: {member}: {shown(length)} is not a length")
        lengths.append(length)
    return tuple(lengths)


def _chunk_shape(chunks: tuple[int, ...], shape: tuple[int, ...], where: str) -> tuple[int, ...]:
    if len(chunks) != len(shape):
        raise BadMetadata(
            f"{where}: chunks has {len(chunks)} dimensions and shape has {len(shape)}"
        )
    for length, chunk in zip(shape, chunks, strict=True):
        # Old writers give a dimension of length 0 chunks of length 0.
        if chunk == 0 and length != 0:
            raise BadMetadata(f"{where}: chunks: length 0 in a dimension of length {length}")
    return tuple([max(1, chunk) for chunk in chunks])


def _filters(value: Json, where: str) -> tuple[CodecSpec, ...]:
    if value is None or value == {} or value == []:
        return ()
    if not isinstance(value, list):
        raise BadMetadata(f"{where}: filters is {shown(value)}, not a list of codecs")
    if len(value) > CODECS_MAX:
        raise BadMetadata(f"{where}: {len(value)} filters (max {CODECS_MAX})")
    return tuple(_codec(codec, "filters", where) for codec in value)


def _codec(value: Json, member: str, where: str) -> CodecSpec:
    if not isinstance(value, dict) or not isinstance(value.get("id"), str):
        raise BadMetadata(f"{where}: {member}: {shown(value)} is not a codec with an id")
    configuration = {name: _number_of_text(item) for name, item in value.items() if name != "id"}
    if value["id"] == "shuffle" and isinstance(value.get("elementsize"), str):
        configuration["elementsize"] = 0  # netcdf-c wrote text or zero; neither is meant
    return CodecSpec(str(value["id"]), MappingProxyType(configuration))


_DECIMAL = re.compile(r"-?\d{1,18}\Z")


def _number_of_text(value: Json) -> Json:
    """Convert numbers of a codec that netcdf-c 4.9 writes as text: ``"level": "5"``."""
    if isinstance(value, str) and _DECIMAL.match(value):
        return int(value)
    return plain(value)


def _true_element_size(codec: CodecSpec, dtype: DataType) -> CodecSpec:
    """Return shuffle with the item size where netcdf-c wrote 0; other codecs unchanged.

    netcdf-c always shuffles with the size of an item; read with 0 the bytes would count as not
    shuffled, and silently give wrong values.
    """
    if codec.name != "shuffle" or codec.configuration.get("elementsize") != 0:
        return codec
    size = {"elementsize": dtype.item_size}
    return CodecSpec(codec.name, MappingProxyType({**codec.configuration, **size}))


def _order(document: dict[str, Json], where: str) -> str:
    order = document.get("order")
    if order is None:
        return "C"
    if order not in ("C", "F"):
        raise BadMetadata(f"{where}: order is {shown(order)}, not 'C' or 'F'")
    return str(order)


def _separator(document: dict[str, Json], where: str, problems: Problems) -> str:
    separator = document.get("dimension_separator", ".")
    if separator in (".", "/"):
        return str(separator)
    problems.add(f"{where}: dimension_separator {shown(separator)} is taken as '.'")
    return "."
