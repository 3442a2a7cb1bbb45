"""The netCDF-4 data model as plain data: dimensions, attributes, variables, groups."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field, replace
from functools import cached_property
from math import prod
from types import MappingProxyType
from typing import TypeAlias

from nczfs.model.boxes import Box
from nczfs.model.dtypes import DataType, NcType
from nczfs.model.grid import ChunkGrid, ChunkIndex, Cuts, RectilinearGrid, RegularGrid
from nczfs.plaindata import frozen

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
"""A parsed JSON document (read-only by convention once it is part of the model)."""

AttributeValue: TypeAlias = "str | tuple[str, ...] | tuple[int, ...] | tuple[float, ...] | Json"


@frozen
class Attribute:
    """A named value of a group or variable.

    Attributes
    ----------
    type : CHAR: `value` is text (str). STRING: a tuple of str. A number type: a tuple of int or
        float, each within the range of the type. JSON: any other JSON value, parsed.
    """

    name: str
    type: NcType
    value: AttributeValue


@frozen
class Dimension:
    """A named length.

    Attributes
    ----------
    group : path of the group that defines it ("" is the root, "g1/g2" below it).
    anonymous : whether the reader made up the name, as netcdf-c does.
    """

    name: str
    size: int
    unlimited: bool = False
    group: str = ""
    anonymous: bool = False


@frozen
class CodecSpec:
    """A codec as in the metadata: its name, and the other members of its object.

    Attributes
    ----------
    must_understand : False: where the codec is unknown, chunks are decoded without it (Zarr v3).
    """

    name: str
    configuration: Mapping[str, Json] = field(default_factory=lambda: MappingProxyType({}))
    must_understand: bool = True


@frozen
class CodecChain:
    """The codecs of an array's chunks.

    Attributes
    ----------
    zarr_format : 2 or 3, the rules by which `codecs` are read.
    codecs : in encoding order; for Zarr v2 the filters and then the compressor, for v3 all codecs,
        with the one from array to bytes among them.
    order : "C" or "F", the order of the elements inside a chunk (Zarr v2; in v3 a codec says it).
    compressed : for Zarr v2, whether the last of `codecs` is the compressor.
    """

    zarr_format: int
    codecs: tuple[CodecSpec, ...] = ()
    order: str = "C"
    compressed: bool = False


@frozen
class Shards:
    """Boxes of chunks that are stored together, with an index of the place of each one.

    Attributes
    ----------
    shape : of a shard in elements of the array, a multiple of the shape of what it holds.
    index_codecs : of the index, in encoding order; its encoded length is fixed.
    index_at_end : whether the index follows the chunks; otherwise they follow it.
    order : the dimensions of the array in the order in which the index counts; a codec that
        transposes the shard changes it. (): their own.

    Notes
    -----
    Zarr v3, codec ``sharding_indexed``, version 1.0.
    """

    shape: tuple[int, ...]
    index_codecs: tuple[CodecSpec, ...]
    index_at_end: bool = True
    order: tuple[int, ...] = ()


_NUMBERS = re.compile(r"\d{1,19}")


@frozen
class ChunkKeys:
    """The form of chunk keys: the names of chunks by their index, below the array's key.

    Attributes
    ----------
    separator : between the numbers, "." or "/".
    prefix : before the first number ("" in Zarr v2, "c" in v3's default encoding).
    scalar : the name of the only chunk of a rank-0 array.
    before, after : texts around every name, with nothing between (Zarr v3's proposed encodings
        ``prefix`` and ``suffix``).
    """

    separator: str = "."
    prefix: str = ""
    scalar: str = "0"
    before: str = ""
    after: str = ""

    def name(self, chunk: ChunkIndex) -> str:
        """Return the name of a chunk below its array: ``0.1``, ``0/1``, ``c/0/1``."""
        return f"{self.head(len(chunk))}{self.separator.join(map(str, chunk))}{self.after}"

    def head(self, ndim: int) -> str:
        """Return the part of every name before the first number, for an array of `ndim`."""
        if not ndim:
            return self.before + self.scalar
        return f"{self.before}{self.prefix}{self.separator}" if self.prefix else self.before

    def index(self, name: str, ndim: int) -> ChunkIndex | None:
        """Return the index of the chunk with a name below an array of `ndim` dimensions.

        None: no chunk has it.
        """
        end = len(name) - len(self.after)
        numbers = _NUMBERS.findall(name, min(len(self.head(ndim)), end), end) if ndim else ()
        index = tuple(map(int, numbers))
        return index if len(index) == ndim and self.name(index) == name else None


@frozen(slots=False)
class ArrayDescription:
    """Everything needed to read and write the chunks of one array.

    Attributes
    ----------
    shape : of the array; () is a scalar.
    chunk_shape : of every chunk, each length at least 1. A chunk is what is decoded as a whole: of
        shards the innermost one.
    dtype : of the elements.
    fill_value : what a chunk that was never written holds (bytes for S and V, str for U and text);
        None: undefined, read as zeros.
    codecs : of a chunk.
    chunk_keys : the form of the keys of its units. A unit is what is stored as one object: a chunk,
        or a shard.
    shards : that chunks lie in: the outermost first, which are objects, then those inside these.
        (): every chunk is an object.
    cuts : how each dimension is cut into units; (): into equal ones. Then `chunk_shape`, or the
        shape of the first shards, is that of the largest unit.
    """

    shape: tuple[int, ...]
    chunk_shape: tuple[int, ...]
    dtype: DataType
    fill_value: object
    codecs: CodecChain
    chunk_keys: ChunkKeys = ChunkKeys()
    shards: tuple[Shards, ...] = ()
    cuts: tuple[Cuts, ...] = ()

    @cached_property
    def grid(self) -> ChunkGrid:
        """The grid of chunks."""
        return RegularGrid(self.shape, self.chunk_shape) if self.shards else self.units

    @cached_property
    def units(self) -> ChunkGrid:
        """The grid of what is stored as one object each."""
        if self.cuts:
            return RectilinearGrid(self.shape, self.cuts)
        return RegularGrid(self.shape, self.unit_shape)

    @property
    def unit_shape(self) -> tuple[int, ...]:
        """The number of elements of the largest unit along each dimension."""
        return self.shards[0].shape if self.shards else self.chunk_shape

    def unit_of(self, chunk: ChunkIndex) -> ChunkIndex:
        """Return the index of the unit in which a chunk lies."""
        if not self.shards:
            return chunk
        sides = zip(self.units.cuts, self.grid.origin(chunk), strict=True)
        return tuple([cuts.at(start).number for cuts, start in sides])

    def chunks_of(self, unit: ChunkIndex) -> Box:
        """Return the chunks of the grid that lie in a unit; none if it is beyond the shape."""
        if unit not in self.units:
            return Box(unit, unit)
        if not self.shards:
            return Box(unit, tuple([index + 1 for index in unit]))
        return self.grid.touched(self.units.box(unit))

    def unit_index(self, name: str) -> ChunkIndex | None:
        """Return the index of the unit with a name below the array; None: no unit has it."""
        return self.chunk_keys.index(name, len(self.shape))

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def decoded_bytes(self) -> int | None:
        """The bytes of all elements; None for variable-length types."""
        return None if self.dtype.vlen is not None else self.size * self.dtype.item_size

    @property
    def chunk_bytes(self) -> int:
        """The bytes of one decoded chunk (for variable-length types: of its references)."""
        return prod(self.chunk_shape) * self.dtype.stored.itemsize


@frozen
class Variable:
    """An array with its names, which netCDF calls a variable.

    Attributes
    ----------
    path : below the root of the dataset, without a leading slash; "" when the root is an array.
    key : where the array's chunks lie, below the root of the dataset (mostly equal to `path`).
    format : the metadata layout it was read from: "zarr3", "zarr2", "nczarr-L1", ..., "nczarr-L3".
    attributes : in stored order, without those of the format.
    problems : messages about what did not prevent reading, each naming its key.
    omissions : those of them that say which attributes are left out.
    primary : path of the array whose document declares this one (a dependent array of Zarr v3);
        None: it has a document of its own.
    dependents : the arrays that its document declares; their chunks lie at its own `key`.
    label : its name among the variables of its group, where it is shown as one of them; "": its
        own.
    """

    path: str
    key: str
    format: str
    array: ArrayDescription
    dimensions: tuple[Dimension, ...]
    attributes: tuple[Attribute, ...] = ()
    problems: tuple[str, ...] = ()
    primary: str | None = None
    dependents: tuple[Variable, ...] = ()
    label: str = ""
    omissions: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.label or self.path.rpartition("/")[2]

    @property
    def group(self) -> str:
        """The path of the group in which it, or the array that it depends on, is a variable."""
        return (self.key if self.is_dependent else self.path).rpartition("/")[0]

    @property
    def name_at_key(self) -> str:
        """Its path below the array that it depends on; "": it depends on none."""
        return self.path[len(self.key) :].strip("/") if self.is_dependent else ""

    @property
    def is_dependent(self) -> bool:
        """Whether the document of another array declares it."""
        return self.primary is not None

    def moved(self, start: str, goal: str) -> Variable:
        """Return the variable after its path, or that of a group above it, changed."""
        dimensions = tuple(
            replace(dimension, group=_moved(dimension.group, start, goal))
            for dimension in self.dimensions
        )
        path, key = (_moved(place, start, goal) for place in (self.path, self.key))
        return replace(
            self,
            path=path,
            key=key,
            dimensions=dimensions,
            primary=None if self.primary is None else _moved(self.primary, start, goal),
            dependents=tuple([each.moved(start, goal) for each in self.dependents]),
        )


@frozen
class GroupHeader:
    """A group without its members.

    Attributes
    ----------
    dimensions : declared by this group itself (NCZarr). In pure Zarr dimensions follow from the
        variables.
    arrays, groups : names of the members in stored order, if the metadata list them (NCZarr); None:
        everything below the group in the store is a member.
    problems, omissions : as of a variable.
    """

    path: str
    format: str
    dimensions: tuple[Dimension, ...] = ()
    attributes: tuple[Attribute, ...] = ()
    arrays: tuple[str, ...] | None = None
    groups: tuple[str, ...] | None = None
    problems: tuple[str, ...] = ()
    omissions: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def is_bare(self) -> bool:
        """Whether its metadata have no dimension, attribute or member."""
        return self.is_empty and not self.attributes

    @property
    def is_empty(self) -> bool:
        """Whether its metadata have no dimension or member."""
        return not (self.dimensions or self.arrays or self.groups)


@frozen
class Group:
    """A group with everything below it: a hierarchy that can be compared and printed.

    Attributes
    ----------
    dimensions : declared by the group, or in pure Zarr found with its variables.
    broken : members whose metadata cannot be read, by name, and why.
    """

    header: GroupHeader
    dimensions: tuple[Dimension, ...] = ()
    variables: tuple[Variable, ...] = ()
    groups: tuple[Group, ...] = ()
    broken: tuple[tuple[str, str], ...] = ()

    @property
    def name(self) -> str:
        return self.header.name


def _moved(path: str, start: str, goal: str) -> str:
    is_within = path == start or path.startswith(f"{start}/")
    return goal + path[len(start) :] if is_within else path
