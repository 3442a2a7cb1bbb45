"""The nodes of the Zarr Object Model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import ClassVar, TypeAlias

from nczfs.model.hierarchy import Json


def _nothing() -> Mapping[str, Json]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class NamedConfig:
    """A name with a configuration, of which Zarr v3 metadata consist.

    Attributes
    ----------
    must_understand : False: a reader that does not know the name may ignore it.
    """

    name: str
    configuration: Mapping[str, Json] = field(default_factory=_nothing)
    must_understand: bool = True


@dataclass(frozen=True, slots=True)
class ArrayV2:
    """An array of Zarr v2: the members of its metadata document, and its attributes.

    Attributes
    ----------
    dtype : a type string, or a list of fields.
    fill_value : as it is written in JSON.
    compressor, filters : codecs with their ``id``; None: there are none.
    others : further members, which Zarr v2 ignores.
    """

    zarr_format: ClassVar[int] = 2

    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    dtype: Json
    fill_value: Json = None
    order: str = "C"
    compressor: Mapping[str, Json] | None = None
    filters: tuple[Mapping[str, Json], ...] | None = None
    dimension_separator: str = "."
    attributes: Mapping[str, Json] = field(default_factory=_nothing)
    others: Mapping[str, Json] = field(default_factory=_nothing)


@dataclass(frozen=True, slots=True)
class ArrayV3:
    """An array of Zarr v3: the members of its metadata document.

    Attributes
    ----------
    data_type : a name, or that of an extension with its configuration.
    fill_value : as it is written in JSON.
    dimension_names : None: no dimension has a name.
    storage_transformers : none is defined yet.
    others : further members, each an object that a reader need not understand.
    """

    zarr_format: ClassVar[int] = 3

    shape: tuple[int, ...]
    data_type: str | NamedConfig
    chunk_grid: NamedConfig
    chunk_key_encoding: NamedConfig
    fill_value: Json
    codecs: tuple[NamedConfig, ...]
    dimension_names: tuple[str | None, ...] | None = None
    storage_transformers: tuple[NamedConfig, ...] = ()
    attributes: Mapping[str, Json] = field(default_factory=_nothing)
    others: Mapping[str, Json] = field(default_factory=_nothing)


@dataclass(frozen=True, slots=True)
class GroupV2:
    """A group of Zarr v2.

    Attributes
    ----------
    members : by name; None: they are unknown.
    others : further members of the document. One that is called ``members`` there is called
        ``_members`` here, with more underscores where that is taken.
    """

    zarr_format: ClassVar[int] = 2

    members: Mapping[str, ArrayV2 | GroupV2] | None = None
    attributes: Mapping[str, Json] = field(default_factory=_nothing)
    others: Mapping[str, Json] = field(default_factory=_nothing)


@dataclass(frozen=True, slots=True)
class GroupV3:
    """A group of Zarr v3; see `GroupV2`. Each of `others` is an object that may be ignored."""

    zarr_format: ClassVar[int] = 3

    members: Mapping[str, ArrayV3 | GroupV3] | None = None
    attributes: Mapping[str, Json] = field(default_factory=_nothing)
    others: Mapping[str, Json] = field(default_factory=_nothing)


Array: TypeAlias = ArrayV2 | ArrayV3
Group: TypeAlias = GroupV2 | GroupV3
Node: TypeAlias = Array | Group


FIELDS = frozenset(
    {"zarr_format", "node_type"}.union(
        *({each.name for each in fields(kind)} for kind in (ArrayV2, ArrayV3, GroupV2, GroupV3))
    )
    - {"others"}
)
"""The names that the members of a node can have in JSON, without `others`."""


def group_of(zarr_format: int, members: Mapping[str, Node] | None) -> Group:
    """Return a group without attributes."""
    return with_members(GroupV2() if zarr_format == 2 else GroupV3(), members)


def with_members(group: Group, members: Mapping[str, Node] | None) -> Group:
    """Return a group with other members, which are of its version."""
    return replace(group, members=members)  # type: ignore[arg-type]  # no type says the version


def walk(node: Node, path: str = "") -> Iterator[tuple[str, Node]]:
    """Yield a node and all below it by their paths ("" and ``/a/b``), groups before members."""
    yield path, node
    if isinstance(node, GroupV2 | GroupV3):
        for name, member in (node.members or {}).items():
            yield from walk(member, f"{path}/{name}")
