"""The special attributes of CDL, which describe how a variable is stored.

netCDF has no such attributes: ``ncdump -s`` prints them, and ncgen obeys them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np

from nczfs.cdl.constants import Item, Misfit, converted, joined
from nczfs.cdl.tokens import decoded
from nczfs.cdl.values import quoted
from nczfs.errors import BadMetadata
from nczfs.formats.hdf5_filters import (
    DEFLATE,
    FLETCHER32,
    SHUFFLE,
    codec_of_filter,
    filter_of_codec,
)
from nczfs.formats.jsontext import compact, parse, plain
from nczfs.model.declaration import ElementType, Fill, VariableDeclaration
from nczfs.model.dtypes import CODE_OF_NC_TYPE, NcType
from nczfs.model.hierarchy import CodecSpec, Variable

OF_THE_FILE = frozenset({"_NCProperties", "_IsNetcdf4", "_SuperblockVersion"})
"""Special attributes about the library that wrote a file, which mean nothing for a new one."""

_FILTER = re.compile(r"\s*(\d{1,9})\s*((?:,\s*\d{1,10}[uU]?\s*)*)\Z")
_FILTERS_MAX = 32  # as in HDF5
_WORDS_OF_TRUTH = {"true": True, "1": True, "false": False, "0": False}
_ENDIANNESS = {"little": "<", "big": ">"}
_STORAGE = ("chunked", "contiguous", "compact")


@dataclass(slots=True)
class StoredForm:
    """The contents of the special attributes of one variable."""

    storage: str | None = None
    chunk_shape: tuple[int, ...] | None = None
    shard_shape: tuple[int, ...] | None = None
    deflate_level: int | None = None
    shuffle: bool = False
    fletcher32: bool = False
    filters: list[CodecSpec] = field(default_factory=list)
    codecs: tuple[CodecSpec, ...] | None = None
    byte_order: str | None = None
    no_fill: bool = False

    def set(self, name: str, items: Sequence[Item]) -> bool:
        """Take a special attribute. Returns False if it is an ordinary one.

        Raises
        ------
        Misfit : the attribute cannot have this value.
        Unsupported : it names a filter that has no codec.
        """
        match name:
            case "_Storage":
                self.storage = _one_of(_STORAGE, _text(items))
            case "_ChunkSizes":
                self.chunk_shape = tuple(_integer(item, 1, 1 << 62) for item in items)
            case "_ShardSizes":
                self.shard_shape = tuple(_integer(item, 1, 1 << 62) for item in items)
            case "_DeflateLevel":
                self.deflate_level = _integer(_single(items), 0, 9)
            case "_Shuffle":
                self.shuffle = _truth(items)
            case "_Fletcher32":
                self.fletcher32 = _truth(items)
            case "_Filter":
                self.filters = _filters(_text(items))
            case "_Codecs":
                self.codecs = _codecs(_text(items))
            case "_Endianness":
                self.byte_order = _ENDIANNESS[_one_of(tuple(_ENDIANNESS), _text(items))]
            case "_NoFill":
                self.no_fill = _truth(items)
            case _:
                return False
        return True

    def applied(self, variable: VariableDeclaration, shape: tuple[int, ...]) -> VariableDeclaration:
        """Return the variable as it is to be stored.

        Raises
        ------
        Misfit : the chunks do not fit its dimensions, or it has filters without chunks.
        """
        chunk_shape = self.chunk_shape
        if chunk_shape is not None and len(chunk_shape) != len(shape):
            raise Misfit(
                f"_ChunkSizes has {len(chunk_shape)} lengths, and {variable.name} {len(shape)} "
                "dimensions"
            )
        whole = self.storage in ("contiguous", "compact")
        if whole and shape and (chunk_shape is not None or self._chain()):
            raise Misfit(f"{variable.name} is {self.storage} and has chunks or filters")
        if whole:
            chunk_shape = tuple(max(1, length) for length in shape)
        return replace(
            variable,
            chunk_shape=chunk_shape,
            shard_shape=self.shard_shape,
            codecs=self._codecs_wanted(_item_bytes(variable.type)),
            fill_value=Fill.NONE if self.no_fill else variable.fill_value,
            byte_order=self.byte_order,
        )

    def _codecs_wanted(self, item_bytes: int) -> tuple[CodecSpec, ...] | None:
        chain = tuple(_with_item_size(codec, item_bytes) for codec in self._chain())
        # A text that says how a variable is stored, and names no filter, wants none.
        is_described = self.storage is not None or self.chunk_shape is not None
        asked = self.codecs is not None or self.deflate_level is not None
        return chain if chain or is_described or asked else None

    def _chain(self) -> tuple[CodecSpec, ...]:
        """Return the chain: `_Codecs` if it is given, otherwise the filters in a useful order."""
        if self.codecs is not None:
            return self.codecs
        chain = [codec_of_filter(SHUFFLE, ())] if self.shuffle else []
        if self.deflate_level:
            chain.append(codec_of_filter(DEFLATE, (self.deflate_level,)))
        chain += self.filters
        if self.fletcher32:
            chain.append(codec_of_filter(FLETCHER32, ()))
        return tuple(chain)


def _item_bytes(element: ElementType) -> int:
    """Return the bytes of an element; 0 if they are not known yet (texts)."""
    return (
        np.dtype(CODE_OF_NC_TYPE.get(element, "V")).itemsize if isinstance(element, NcType) else 0
    )


def _with_item_size(codec: CodecSpec, item_bytes: int) -> CodecSpec:
    """Return a shuffle with its element size, which HDF5 and netcdf-c may write as 0."""
    if codec.name != "shuffle" or codec.configuration.get("elementsize"):
        return codec
    return codec_of_filter(SHUFFLE, (item_bytes,))


def _single(items: Sequence[Item]) -> Item:
    if len(items) != 1:
        raise Misfit(f"{len(items)} values found; expected one")
    return items[0]


def _integer(item: Item, least: int, most: int) -> int:
    number = converted(item, NcType.INT64)
    if not least <= number <= most:
        raise Misfit(f"{number} is not between {least} and {most}")
    return int(number)


def _text(items: Sequence[Item]) -> str:
    return decoded(joined(items))


def _one_of(choices: Sequence[str], text: str) -> str:
    if text not in choices:
        raise Misfit(f"{quoted(text)} is not one of {', '.join(choices)}")
    return text


def _truth(items: Sequence[Item]) -> bool:
    item = _single(items)
    try:
        word = str(_integer(item, 0, 1))
    except Misfit:
        word = _text(items)
    return _WORDS_OF_TRUTH[_one_of(tuple(_WORDS_OF_TRUTH), word)]


def _filters(text: str) -> list[CodecSpec]:
    """Parse filters like ``307,9|32015,3``: numbers with parameters, in encoding order."""
    specs = text.split("|")
    if len(specs) > _FILTERS_MAX:
        raise Misfit(f"{len(specs)} filters (max {_FILTERS_MAX})")
    found: list[CodecSpec] = []
    for spec in specs:
        match = _FILTER.match(spec)
        if match is None:
            raise Misfit(f"{quoted(spec)} is not `ID,PARAMETER,...`, all of them whole numbers")
        parameters = tuple(int(word.strip(" \tuU")) for word in match[2].split(",")[1:])
        found.append(codec_of_filter(int(match[1]), parameters))
    return found


def _codecs(text: str) -> tuple[CodecSpec, ...]:
    """Parse the JSON of Zarr v2: a list of codecs, each an object with an ``id``."""
    try:
        value = plain(parse(text.encode(), "the text").value)
    except BadMetadata as error:
        raise Misfit(str(error)) from None
    if not isinstance(value, list) or len(value) > _FILTERS_MAX:
        raise Misfit(f"{quoted(text)} is not a list of codecs")
    codecs: list[CodecSpec] = []
    for codec in value:
        name = codec.get("id") if isinstance(codec, dict) else None
        if not isinstance(codec, dict) or not isinstance(name, str):
            raise Misfit(f"{quoted(text)}: each codec is an object with an `id`")
        rest = {member: item for member, item in codec.items() if member != "id"}
        codecs.append(CodecSpec(name, MappingProxyType(rest)))
    return tuple(codecs)


def special_attributes(variable: Variable) -> Iterator[tuple[str, str]]:
    """Return the name of each special attribute of a variable, with its value as CDL."""
    array = variable.array
    filters = [filter_of_codec(codec) for codec in array.codecs.codecs]
    numbers = {found[0]: found[1] for found in filters if found is not None}
    # ncgen refuses chunks without lengths, which a scalar does not have.
    yield "_Storage", quoted("chunked" if variable.dimensions else "contiguous")
    if variable.dimensions:
        yield "_ChunkSizes", ", ".join(map(str, array.chunk_shape))
    if array.shards:
        yield "_ShardSizes", ", ".join(map(str, array.unit_shape))
    if FLETCHER32 in numbers:
        yield "_Fletcher32", quoted("true")
    if SHUFFLE in numbers:
        yield "_Shuffle", quoted("true")
    if DEFLATE in numbers:
        yield "_DeflateLevel", str(numbers[DEFLATE][0])
    others = [
        ",".join(map(str, (found[0], *found[1])))
        for found in filters
        if found is not None and found[0] not in (FLETCHER32, SHUFFLE, DEFLATE)
    ]
    if others:
        yield "_Filter", quoted("|".join(others))
    if filters:
        yield "_Codecs", quoted(codecs_text(array.codecs.codecs))
    if array.dtype.vlen is None and array.dtype.stored.kind in "iuf" and array.dtype.item_size > 1:
        yield "_Endianness", quoted("big" if array.dtype.stored.str[0] == ">" else "little")
    if array.fill_value is None:
        yield "_NoFill", quoted("true")


def codecs_text(codecs: Sequence[CodecSpec]) -> str:
    """Format codecs as the JSON list that netcdf-c makes from filters and compressor."""
    return compact([{"id": codec.name, **codec.configuration} for codec in codecs])
