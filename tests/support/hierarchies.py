"""Datasets described at random, and how they are made."""

from __future__ import annotations

import math
import unicodedata
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from hypothesis import strategies as st

from nczfs.library.api import Group
from nczfs.model import hierarchy as model
from nczfs.model.dtypes import CODE_OF_NC_TYPE
from nczfs.testing import indexing

FORMATS = ("nczarr-L3", "nczarr-L2l", "nczarr-L2U", "nczarr-L1", "zarr2")
EARLY = ("nczarr-L2U", "nczarr-L1")
CODECS: tuple[list[dict[str, Any]] | None, ...] = (
    None,
    [],
    [{"id": "zlib", "level": 1}],
    [{"id": "zstd", "level": 1}],
    [{"id": "shuffle", "elementsize": 2}, {"id": "zlib", "level": 9}],
)


@dataclass
class NewVariable:
    dimensions: list[str]
    dtype: Any
    chunks: list[int]
    codecs: list[dict[str, Any]] | None
    fill: Any
    byte_order: str
    attributes: dict[str, Any]
    data: Any


@dataclass
class NewGroup:
    attributes: dict[str, Any] = field(default_factory=dict)
    dimensions: dict[str, tuple[int, bool]] = field(default_factory=dict)
    variables: dict[str, NewVariable] = field(default_factory=dict)
    groups: dict[str, NewGroup] = field(default_factory=dict)


names = (
    st.text("abXY09_é日\U0001f600 -+.@", min_size=1, max_size=6)
    .map(lambda name: unicodedata.normalize("NFC", name))
    .filter(lambda name: name[0] not in " -+.@" and name[-1] != " ")
)
# JSON has one NaN, so its other bits are not kept in attributes.
floats = st.floats().map(lambda x: math.nan if math.isnan(x) else x)
texts = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0")
    | st.sampled_from('[]{}"\\,1'),
    max_size=8,
)


def attribute_values(layout: str) -> st.SearchStrategy[Any]:
    numbers = []
    for code in CODE_OF_NC_TYPE.values():
        dtype = np.dtype(code)
        if dtype.kind == "f":
            item: st.SearchStrategy[Any] = floats.map(partial(_as, dtype))
        else:
            item = st.integers(np.iinfo(dtype).min, np.iinfo(dtype).max)
        lists = st.lists(item, min_size=1, max_size=3)
        numbers.append(lists.map(partial(np.array, dtype=dtype)))
    kinds: list[st.SearchStrategy[Any]] = [texts, st.one_of(numbers)]
    if layout not in EARLY:
        kinds.append(st.lists(texts, min_size=2, max_size=3))
    if layout == "zarr2":
        kinds.append(st.dictionaries(texts, st.none() | st.booleans() | texts, max_size=2))
    return st.one_of(kinds)


def _as(dtype: np.dtype[Any], value: float) -> Any:
    with np.errstate(over="ignore"):
        return dtype.type(value)


def attributes(layout: str) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(names, attribute_values(layout), max_size=3)


@st.composite
def variables(draw: st.DrawFn, layout: str, seen: dict[str, tuple[int, bool]]) -> NewVariable:
    dimensions = draw(st.lists(st.sampled_from(sorted(seen)), max_size=3)) if seen else []
    shape = tuple(seen[name][0] for name in dimensions)
    types: list[Any] = [*CODE_OF_NC_TYPE.values(), "S1"]
    if layout not in EARLY:
        types.append(str)
    if layout == "zarr2":
        types += ["?", "c8", "S3"]
    dtype = draw(st.sampled_from(types))
    size = math.prod(shape)
    if dtype is str:
        found = draw(st.lists(texts, min_size=size, max_size=size))
        data = np.array([text.encode()[:8].decode("utf-8", "ignore") for text in found], object)
        data = data.reshape(shape)
        fill: Any = ""
    else:
        data = draw(indexing.values_of(shape, np.dtype(dtype)))
        fill = draw(st.none() | indexing.values_of((), np.dtype(dtype)).map(lambda x: x[()]))
        if isinstance(fill, np.bytes_):
            fill = b"x"  # in NCZarr it must be text
    return NewVariable(
        dimensions,
        dtype,
        [draw(st.integers(1, max(1, length))) for length in shape],
        draw(st.sampled_from(CODECS if dtype is not str else (None, []))),
        fill,
        draw(st.sampled_from("<>")),
        draw(attributes(layout)),
        data,
    )


@st.composite
def groups(
    draw: st.DrawFn, layout: str, above: dict[str, tuple[int, bool]], depth: int = 0
) -> NewGroup:
    lengths = st.tuples(st.integers(0, 4), st.booleans() if layout not in EARLY else st.just(False))
    if layout == "zarr2":
        # What it knows of a dimension is what the variables of the same group have.
        lengths = st.tuples(st.integers(0, 4), st.just(False))
        above = {}
    declared = draw(st.dictionaries(names, lengths, max_size=3))
    seen = {**above, **declared}
    members = draw(st.lists(names, max_size=4, unique=True))
    found = NewGroup(draw(attributes(layout)), declared)
    for name in members:
        if depth < 2 and draw(st.integers(0, 2)) == 0:
            found.groups[name] = draw(groups(layout, seen, depth + 1))
        else:
            found.variables[name] = draw(variables(layout, seen))
    return found


def make(group: Group, wanted: NewGroup) -> None:
    group.attrs.update(wanted.attributes)
    for name, (size, unlimited) in wanted.dimensions.items():
        group.create_dimension(name, None if unlimited else size)
        if unlimited:
            group.resize_dimension(name, size)
    for name, variable in wanted.variables.items():
        group.create_variable(
            name,
            variable.dimensions,
            variable.dtype,
            variable.data,
            variable.fill,
            chunks=variable.chunks,
            codecs=variable.codecs,
            attributes=variable.attributes,
            byte_order=variable.byte_order,
            string_bytes=8 if variable.dtype is str and group.header.format != "zarr2" else None,
        )
    for name, below in wanted.groups.items():
        make(group.create_group(name), below)


def comparable(group: model.Group) -> str:
    """What is the same of two equal trees, whatever was made first, and how chunks are stored."""
    header = replace(
        group.header,
        dimensions=tuple(sorted(group.header.dimensions, key=repr)),
        attributes=tuple(sorted(group.header.attributes, key=repr)),
        arrays=tuple(sorted(group.header.arrays or ())),
        groups=tuple(sorted(group.header.groups or ())),
    )
    variables = sorted(map(_comparable, group.variables))
    return "\n".join([repr(header), *variables, *sorted(map(comparable, group.groups))])


def _comparable(variable: model.Variable) -> str:
    array = variable.array
    array = replace(array, codecs=replace(array.codecs, order="C"), chunk_keys=model.ChunkKeys())
    attributes = tuple(sorted(variable.attributes, key=repr))
    return repr(replace(variable, array=array, attributes=attributes))
