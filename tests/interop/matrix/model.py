"""A small dataset as plain data, and what a program was seen to read of one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from itertools import product
from typing import Any

import numpy as np

Values = np.ndarray[Any, np.dtype[Any]]
Codec = Mapping[str, Any]
ChunkIndex = tuple[int, ...]


class Fill(Enum):
    """Fill values that are not a number of the case's own."""

    DEFAULT = "netCDF's default of the type"
    NONE = "no fill: what was never written reads as anything"


@dataclass(frozen=True, slots=True)
class Dim:
    name: str
    size: int
    unlimited: bool = False


@dataclass(frozen=True, slots=True)
class Var:
    """A variable.

    Attributes
    ----------
    type : a numpy type string, with netCDF's meaning for "S1" (a character); "str": texts.
    values : of all elements, also those of chunks that are never written, which hold `fill`.
    chunks : the shape of a chunk; (): one chunk.
    codecs : as numcodecs configures them, in the order of encoding.
    unwritten : indices of chunks that no writer writes.
    """

    name: str
    dims: tuple[str, ...]
    type: str
    values: Values
    chunks: tuple[int, ...] = ()
    codecs: tuple[Codec, ...] = ()
    fill: object = Fill.DEFAULT
    unwritten: frozenset[ChunkIndex] = frozenset()
    attributes: Mapping[str, object] = field(default_factory=dict)

    @property
    def chunk_shape(self) -> tuple[int, ...]:
        return self.chunks or self.values.shape

    def boxes(self) -> Iterator[tuple[slice, ...]]:
        """What is to be written: the selections of the chunks, or everything in one."""
        if not self.unwritten:
            yield tuple(slice(0, size) for size in self.values.shape)
            return
        shape, chunks = self.values.shape, self.chunk_shape
        counts = [-(-size // chunk) for size, chunk in zip(shape, chunks, strict=True)]
        for index in product(*(range(count) for count in counts)):
            if index not in self.unwritten:
                corners = zip(index, shape, chunks, strict=True)
                yield tuple(slice(i * c, min(s, (i + 1) * c)) for i, s, c in corners)


@dataclass(frozen=True, slots=True)
class Grp:
    """A group; the root has the name ""."""

    name: str = ""
    dims: tuple[Dim, ...] = ()
    vars: tuple[Var, ...] = ()
    attributes: Mapping[str, object] = field(default_factory=dict)
    groups: tuple[Grp, ...] = ()

    def walk(self, prefix: str = "") -> Iterator[tuple[str, Grp]]:
        """The group and those below it, by path; the root's is ""."""
        path = f"{prefix}/{self.name}".strip("/")
        yield path, self
        for group in self.groups:
            yield from group.walk(path)


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    root: Grp

    def variables(self) -> dict[str, Var]:
        """By path."""
        return {
            f"{path}/{variable.name}".strip("/"): variable
            for path, group in self.root.walk()
            for variable in group.vars
        }

    def dimension_of(self, path: str, name: str) -> Dim:
        """The nearest dimension of that name, from a variable's group upwards."""
        groups = dict(self.root.walk())
        here = path.rpartition("/")[0]
        while True:
            for dimension in groups[here].dims:
                if dimension.name == name:
                    return dimension
            if not here:
                raise KeyError(name)
            here = here.rpartition("/")[0]


@dataclass(frozen=True, slots=True)
class Seen:
    """A variable as a program showed it. None: it does not say.

    Attributes
    ----------
    fill : the fill value; `Fill.NONE` where it says that there is none.
    unlimited : of each dimension.
    """

    values: Values
    dims: tuple[str, ...] | None = None
    unlimited: tuple[bool, ...] | None = None
    fill: object = None
    attributes: Mapping[str, object] | None = None


@dataclass(frozen=True, slots=True)
class Observed:
    """A dataset as a program showed it. None: it does not say.

    Attributes
    ----------
    variables : by path.
    groups : the attributes of each group, by path; the root's is "".
    types_told : False: numbers of attributes are numbers, whatever their type was.
    """

    variables: Mapping[str, Seen]
    groups: Mapping[str, Mapping[str, object]] | None = None
    types_told: bool = False


class Lack(Enum):
    """What a writer's store has no place for, so that no reader can show it."""

    ATTRIBUTES = "attributes"
    ATTRIBUTE_TYPES = "types of attributes"
    DIMENSION_NAMES = "names of dimensions"
    UNLIMITED = "unlimited dimensions"


class Refused(Exception):
    """A program did not do what it was asked to, in its own words."""
