"""What the headers of an ncstream declare, for a new dataset."""

from __future__ import annotations

from itertools import islice
from types import MappingProxyType
from typing import Any

import numpy as np

from nczfs.engine.values.fillvalues import is_fill_value
from nczfs.errors import Unsupported
from nczfs.formats.attributes import is_hidden
from nczfs.formats.base import MetadataFormat
from nczfs.formats.names import below
from nczfs.model.declaration import ElementType, Fill, GroupDeclaration, VariableDeclaration
from nczfs.model.dtypes import DEFAULT_FILL, EmptyArray, NcType
from nczfs.model.hierarchy import Attribute, CodecSpec, Dimension
from nczfs.ncstream import messages as ncs
from nczfs.ncstream.messages import DataType
from nczfs.ncstream.nctypes import NC_TYPES
from nczfs.tools.transfer.source import Notice

_COMPLEX: dict[DataType, np.dtype[Any]] = {
    DataType.FLOAT: np.dtype("c8"),
    DataType.DOUBLE: np.dtype("c16"),
}
_ZLIB = CodecSpec("zlib", MappingProxyType({"level": 4}))
_Scope = dict[str, Dimension]


class StreamDeclarations:
    """What the headers of a stream declare, header by header.

    Each header is declared for what it adds to earlier ones: a stream may have as many headers as
    variables.

    Parameters
    ----------
    name : of the stream, for messages.
    stored_by : the format of the dataset.
    notice : takes lines about what cannot be carried over unchanged, each once.
    skip_unsupported : leave out what has no counterpart in a dataset, instead of raising an error.
    """

    def __init__(
        self, name: str, stored_by: MetadataFormat, notice: Notice, *, skip_unsupported: bool
    ) -> None:
        self._name = name
        self._stored_by = stored_by
        self._notice = notice
        self._skip_unsupported = skip_unsupported
        self._noticed: set[str] = set()
        self._scopes: dict[str, _Scope] = {}
        self._attributes: dict[str, dict[str, ncs.Attribute]] = {}
        self._variables: set[str] = set()

    def has(self, path: str) -> bool:
        """Return whether a header has had a variable, be it left out or not."""
        return path in self._variables

    def added(self, root: ncs.Group) -> GroupDeclaration:
        """Return what a header adds: the groups that it has, with what is new in them.

        A variable stays as it was described first, and so does a dimension.

        Raises
        ------
        Unsupported : there is something without a counterpart.
        """
        refused: list[str] = []
        declared = self._group(root, "", (), refused)
        if refused and not self._skip_unsupported:
            more = f", and {len(refused) - 1} more" if len(refused) > 1 else ""
            raise Unsupported(
                f"{self._name}: {refused[0]}, for which {self._stored_by.name} has no type{more}; "
                "--skip-unsupported leaves such things out"
            )
        for line in refused:
            self._say(f"{line}: left out")
        return declared

    def _say(self, line: str) -> None:
        if line not in self._noticed:
            self._noticed.add(line)
            self._notice(line)

    def _group(
        self, group: ncs.Group, path: str, above: tuple[_Scope, ...], refused: list[str]
    ) -> GroupDeclaration:
        """Declare a group; `above` are the dimensions of the groups above it, the root first."""
        own = self._scopes.setdefault(path, {})
        known = len(own)
        for d in {d.name: d for d in group.dimensions if d.name and not d.is_vlen}.values():
            own.setdefault(d.name, Dimension(d.name, d.length, d.is_unlimited, path))
        scopes = (*above, own)
        variables: list[VariableDeclaration] = []
        for node in group.nodes:
            place = below(path, node.name)
            if place not in self._variables:
                self._variables.add(place)
                found = self._variable(node, path, scopes, refused)
                variables += [] if found is None else [found]
        groups = tuple(self._group(g, below(path, g.name), scopes, refused) for g in group.groups)
        added = self._attributes.setdefault(path, {})
        changed = tuple(a for a in group.attributes if added.get(a.name) != a)
        added.update((a.name, a) for a in changed)
        return GroupDeclaration(
            group.name,
            tuple(islice(own.values(), known, None)),
            self._declared(changed, f"/{path}"),
            tuple(variables),
            groups,
        )

    def _variable(
        self,
        node: ncs.Variable | ncs.Structure,
        path: str,
        scopes: tuple[_Scope, ...],
        refused: list[str],
    ) -> VariableDeclaration | None:
        place = f"/{below(path, node.name)}"
        type_, codec = element_type(node), object_codec(node)
        if type_ is None or not self._holds(type_, codec):
            what = "of variable length" if _is_ragged(node) else f"of type {node.type.name}"
            refused.append(f"{place} is {what}")
            return None
        if isinstance(node, ncs.Variable) and node.enum_type:
            self._say(f"{place}: an enumeration becomes its numbers")
        attributes = self._declared(node.attributes, place, type_)
        own = next((a for a in attributes if a.name == "_FillValue"), None)
        fill: object = Fill.DEFAULT
        if own is not None and isinstance(type_, NcType) and not is_fill_value(own, type_):
            fill = DEFAULT_FILL[type_]
        dimensions = tuple(
            _named(d, node.name, at, path, scopes)
            for at, d in enumerate(node.shape)
            if not d.is_vlen
        )
        codecs = None
        if codec is not None:
            fill = b"" if node.type is DataType.OPAQUE else EmptyArray("0")
            codecs = codec, _ZLIB
        return VariableDeclaration(
            node.name, type_, dimensions, attributes, codecs=codecs, fill_value=fill
        )

    def _holds(self, type_: ElementType, codec: CodecSpec | None) -> bool:
        try:
            self._stored_by.stored_type(
                type_, byte_order=None, string_bytes=None, object_codec=codec
            )
        except Unsupported:
            return False
        return True

    def _declared(
        self, attributes: tuple[ncs.Attribute, ...], place: str, type_: ElementType | None = None
    ) -> tuple[Attribute, ...]:
        found: list[Attribute] = []
        for each in attributes:
            if is_hidden(each.name):
                self._say(f"{place}: attribute {each.name!r} is reserved by the format: left out")
                continue
            nc_type, value = NC_TYPES[each.type], each.values
            is_fill_text = each.name == "_FillValue" and type_ is NcType.STRING
            if nc_type is NcType.STRING and len(value) < 2 and not is_fill_text:
                found.append(Attribute(each.name, NcType.CHAR, str(value[0]) if value else ""))
            else:
                found.append(Attribute(each.name, nc_type, value))
        return tuple(found)


def object_codec(node: ncs.Variable | ncs.Structure) -> CodecSpec | None:
    """Return the codec of elements that are bytes, or numbers, of any length; None: others."""
    if isinstance(node, ncs.Structure):
        return None
    if _is_ragged(node):
        if node.type is DataType.CHAR or not node.type.is_fixed:
            return None
        dtype = node.type.dtype.newbyteorder("<").str
        return CodecSpec("vlen-array", MappingProxyType({"dtype": dtype}))
    return CodecSpec("vlen-bytes") if node.type is DataType.OPAQUE else None


def element_type(node: ncs.Variable | ncs.Structure) -> ElementType | None:
    """Return the type of the elements in a dataset; None: no dataset holds them."""
    if object_codec(node) is not None:
        return np.dtype(object)
    if _is_ragged(node):
        return None
    if isinstance(node, ncs.Variable):
        return NC_TYPES.get(node.type)
    if node.type is not DataType.STRUCTURE or node.structures:
        return None
    members = node.variables
    types = {member.type for member in members}
    if [m.name for m in members] == ["r", "i"] and len(types) == 1 and not members[0].shape:
        (type_,) = types
        if type_ in _COMPLEX:
            return _COMPLEX[type_]
    if not all(member.type.is_fixed for member in members):
        return None
    shapes = [tuple(d.length for d in member.shape) for member in members]
    fields = [(m.name, m.type.dtype, s) for m, s in zip(members, shapes, strict=True)]
    found: np.dtype[Any] = np.dtype(fields)
    return found.newbyteorder("<")


def _is_ragged(node: ncs.Variable | ncs.Structure) -> bool:
    return any(d.is_vlen for d in node.shape)


def _named(
    wanted: ncs.Dimension, variable: str, place: int, path: str, scopes: tuple[_Scope, ...]
) -> str:
    """Return the name of a dimension in a group, where it is declared if it is nowhere else."""
    if wanted.name and not wanted.is_private:
        for scope in reversed(scopes):
            if wanted.name in scope:
                if scope[wanted.name].size == wanted.length:
                    return wanted.name
                break
    name = wanted.name or f"{variable}_{place}"
    while any(name in s and s[name].size != wanted.length for s in scopes):
        name += "_"
    if not any(name in scope for scope in scopes):
        scopes[-1][name] = Dimension(name, wanted.length, wanted.is_unlimited, path)
    return name
