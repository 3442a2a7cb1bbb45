"""An array of Zarr v3: its document, and the values that a program is to write and to read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any

from tests.interop.zarr3.elements import Element, Values

Word = dict[str, Any]
"""A codec, as a document has it."""


DTYPE, SIZE = "the type of the elements", "the size of an element"


def word(name: str, **configuration: Any) -> Word:
    """A codec; those of numcodecs always have a configuration, which zarr-python asks for."""
    if not configuration and not name.startswith("numcodecs."):
        return {"name": name}
    return {"name": name, "configuration": configuration}


@dataclass(frozen=True)
class Chain:
    """The codecs of a chunk, without those of shards.

    Attributes
    ----------
    suits : the kinds of elements that they take; "": all.
    before : from array to array. serializer : from array to bytes; None: the usual one.
    has_wide_numbers : whether what `before` makes has more than a byte.
    """

    name: str
    suits: str = ""
    before: tuple[Word, ...] = ()
    serializer: Word | None = None
    after: tuple[Word, ...] = ()
    is_big: bool = False
    has_wide_numbers: bool = False


@dataclass(frozen=True)
class Level:
    """Shards within an array or within other shards.

    Attributes
    ----------
    factor : how many chunks, or inner shards, lie along each dimension.
    """

    factor: int = 2
    at_end: bool = True
    has_checksum: bool = True


@dataclass(frozen=True)
class Layout:
    """How chunks lie in objects: each in its own, or in shards.

    Attributes
    ----------
    levels : outermost first.
    before, after : codecs of whole shards.
    """

    name: str
    levels: tuple[Level, ...] = ()
    before: tuple[Word, ...] = ()
    after: tuple[Word, ...] = ()


@dataclass(frozen=True)
class Keys:
    name: str
    separator: str
    label: str


@dataclass(frozen=True)
class Geometry:
    label: str
    shape: tuple[int, ...]
    chunk: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Array:
    """An array of the matrix.

    Attributes
    ----------
    name : of its directory.
    fill : the label of a fill value of the element.
    """

    name: str
    element: Element
    chain: Chain
    layout: Layout
    fill: str
    keys: Keys
    geometry: Geometry
    dimension_names: tuple[str | None, ...] | None = field(default=None)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.geometry.shape

    @property
    def object_shape(self) -> tuple[int, ...]:
        """The shape of what is stored as one object."""
        factor = prod(level.factor for level in self.layout.levels)
        return tuple(side * factor for side in self.chunk_shape)

    @cached_property
    def tags(self) -> frozenset[str]:
        """What rules and the page call the properties of the array."""
        codecs = [*self.chain.before, *self.chain.after, self.chain.serializer]
        named = [codec["name"] for codec in codecs if codec is not None]
        return frozenset(
            {
                self.element.name,
                self.chain.name,
                *named,
                self.layout.name,
                f"fill {self.fill}",
                self.keys.label,
                self.geometry.label,
                *(["repeated names"] if self._repeats_names else []),
            }
        )

    @property
    def is_plain(self) -> bool:
        """Chunks lie as nczfs lays them out by itself."""
        return self.layout.name in ("no shards", "shards")

    @property
    def _repeats_names(self) -> bool:
        named = [name for name in self.dimension_names or () if name is not None]
        return len(set(named)) < len(named)

    @property
    def chunk_shape(self) -> tuple[int, ...]:
        return self.geometry.chunk

    def chunk_codecs(self) -> list[Word]:
        """The codecs of a chunk, without those of shards."""
        chain = self.chain
        serializer = chain.serializer or self._serializer()
        return [self._completed(codec) for codec in (*chain.before, serializer, *chain.after)]

    def codecs(self) -> list[Word]:
        """All codecs, as a document has them."""
        codecs = self.chunk_codecs()
        shape = self.chunk_shape
        order = self._order()
        for level in reversed(self.layout.levels):
            codecs = [
                word(
                    "sharding_indexed",
                    chunk_shape=[shape[d] for d in order],
                    codecs=codecs,
                    index_codecs=[LITTLE, *[word("crc32c")] * level.has_checksum],
                    index_location="end" if level.at_end else "start",
                )
            ]
            shape = tuple(side * level.factor for side in shape)
        return [*self.layout.before, *codecs, *self.layout.after]

    def _completed(self, codec: Word) -> Word:
        """A codec with the type and the size of the elements in place of `DTYPE` and `SIZE`."""
        dtype = self.element.dtype
        values = {DTYPE: dtype.newbyteorder("<").str, SIZE: max(1, dtype.itemsize)}
        configuration = codec.get("configuration", {})
        return word(
            codec["name"],
            **{
                name: values.get(value, value) if isinstance(value, str) else value
                for name, value in configuration.items()
            },
        )

    def _order(self) -> Sequence[int]:
        rank = range(len(self.shape))
        return list(rank)[::-1] if self.layout.before else rank

    def _serializer(self) -> Word:
        match self.element.name, self.element.dtype:
            case "string", _:
                return word("vlen-utf8")
            case "bytes", _:
                return word("vlen-bytes")
            case _ if self.chain.has_wide_numbers:
                return LITTLE
            case _, dtype if dtype.itemsize == 1 or (dtype.kind in "SV" and not self._has_order):
                return word("bytes")
        return word("bytes", endian="big") if self.chain.is_big else LITTLE

    @property
    def _has_order(self) -> bool:
        return self.element.kind == "small" or self.element.dtype.names is not None

    def document(self) -> dict[str, Any]:
        """As programs write it: names of core types, codecs as objects."""
        document = {
            "zarr_format": 3,
            "node_type": "array",
            "shape": list(self.shape),
            "data_type": self.element.data_type,
            "chunk_grid": word("regular", chunk_shape=list(self.object_shape)),
            "chunk_key_encoding": word(self.keys.name, separator=self.keys.separator),
            "fill_value": self.element.fills[self.fill][0],
            "codecs": self.codecs(),
            "attributes": {},
        }
        if self.dimension_names is not None:
            document["dimension_names"] = list(self.dimension_names)
        return document

    @property
    def fill_element(self) -> Any:
        return self.element.fill(self.fill)

    @property
    def written(self) -> int:
        """How many rows are written: the last chunks along the first dimension stay missing."""
        if not self.shape:
            return 1
        chunk = self.chunk_shape[0]
        return max(min(chunk, self.shape[0]), (self.shape[0] - 1) // chunk * chunk)

    @cached_property
    def values(self) -> Values:
        """All values, those of missing chunks included."""
        values = self.element.sample(prod(self.shape)).reshape(self.shape)
        if self.shape:
            values[self.written :] = self.fill_element
        return values

    @property
    def shows_fill(self) -> bool:
        """Whether some chunks are missing."""
        return bool(self.shape) and self.written < self.shape[0]

    @property
    def box(self) -> Any:
        """The selection of what is written."""
        return slice(0, self.written) if self.shape else ...


LITTLE = word("bytes", endian="little")
