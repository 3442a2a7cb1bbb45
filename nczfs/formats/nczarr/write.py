"""Encoding of NCZarr nodes: the additions of each layout to Zarr v2."""

from __future__ import annotations

from collections.abc import Iterable

from nczfs.errors import Unsupported
from nczfs.formats.attributes_write import attribute_json, attribute_typestr
from nczfs.formats.base import Documents, FormatOptions
from nczfs.formats.dimensions import SCALAR_NAME
from nczfs.formats.names import below
from nczfs.formats.nczarr.layouts import (
    L1,
    NczarrLayout,
    array_member,
    group_member,
    has_superblock,
    layout_at,
    own_document,
    spelled,
)
from nczfs.formats.rewriting import Encoding, OrderedMembers, OwnMembers
from nczfs.formats.zarr2.nodes import ARRAY_DIMENSIONS, ZARRAY, ZATTRS, ZGROUP, NodeDocuments
from nczfs.formats.zarr2.write import array_members
from nczfs.model.hierarchy import Attribute, Dimension, GroupHeader, Json, Variable
from nczfs.plaindata import frozen

HIDDEN_TYPE = "|J0"


@frozen
class Placement:
    """The documents and layouts for NCZarr's additions to a node.

    Attributes
    ----------
    own, types : the layouts of the group or array member and of the types of attributes.
    array_document, types_document : names of separate documents (L1).
    superblock : whether the node has one.
    xarray : whether names of dimensions are written for programs that do not know NCZarr.
    """

    own: NczarrLayout
    types: NczarrLayout
    array_document: str = L1.array
    types_document: str = L1.types
    superblock: bool = False
    xarray: bool = True


def placement_of(
    layout: NczarrLayout,
    node: NodeDocuments,
    documents: Documents,
    options: FormatOptions,
) -> Placement:
    """Return where the parts of a node are; missing parts belong where the layout has them."""
    what = "group" if node.array is None else "array"
    types = layout_at(layout, node, "types") or layout
    superblock = has_superblock(layout, node, documents)
    own = layout_at(layout, node, what)
    if own is None:
        return Placement(layout, types, superblock=superblock, xarray=options.xarray)
    member = group_member if node.array is None else array_member
    own = spelled(own, member(layout, node, documents, options))
    if not layout.own_documents:
        return Placement(own, types, superblock=superblock, xarray=options.xarray)
    return Placement(
        own,
        types,
        own_document(node.path, documents, "array"),
        own_document(node.path, documents, "types"),
        superblock,
        options.xarray,
    )


def encode_group(header: GroupHeader, placement: Placement) -> Encoding:
    """Encode a group; without a list of members it has none of NCZarr's members."""
    layout = placement.own
    own: dict[str, OwnMembers] = {}
    if placement.superblock and not layout.own_documents:
        own[layout.superblock] = OwnMembers(version="2.0.0")
    if header.arrays is not None:
        own[layout.group] = OwnMembers(
            {
                layout.dimensions: OrderedMembers({d.name: _length(d) for d in header.dimensions}),
                layout.arrays: list(header.arrays),
                "groups": list(header.groups or ()),
            }
        )
    documents: Encoding = {ZATTRS: _attributes(header.attributes, placement)}
    zgroup = OwnMembers(zarr_format=2)
    if layout.own_documents:
        documents.update(own)
    elif layout.in_attributes:
        documents[ZATTRS].update(reversed(own.items()))
    else:
        zgroup.update(own)
    _add_types(documents, header.attributes, placement, reversed(own))
    if placement.superblock and layout.own_documents:
        documents[layout.superblock] = OwnMembers(zarr_format=2, nczarr_version="1.0.0")
    return {**documents, ZGROUP: zgroup}


def encode_variable(variable: Variable, placement: Placement) -> Encoding:
    """Encode a variable, which refers to its dimensions by their full names."""
    layout = placement.own
    array = variable.array
    attributes = _attributes(variable.attributes, placement)
    if placement.xarray:
        names: list[Json] = [d.name for d in variable.dimensions]
        attributes[ARRAY_DIMENSIONS] = names or [SCALAR_NAME]
    references = OwnMembers({layout.references: [full_name(d) for d in variable.dimensions]})
    if not array.shape:
        # netcdf-c up to 4.9.2 checks the storage, later releases the flag.
        references["scalar"] = 1
    is_early = not array.shape and not layout.in_attributes
    references["storage"] = "scalar" if is_early else "chunked"
    zarray = array_members(
        array, below(variable.path, ZARRAY), literal_text=True, scalar_shape=(1,)
    )
    documents: Encoding = {ZATTRS: attributes}
    if layout.own_documents:
        documents[placement.array_document] = references
    else:
        (attributes if layout.in_attributes else zarray)[layout.array] = references
    _add_types(documents, variable.attributes, placement, [layout.array])
    return {**documents, ZARRAY: zarray}


def full_name(dimension: Dimension) -> str:
    """Return the name by which variables of all groups refer to a dimension."""
    return "/" + below(dimension.group, dimension.name)


def check_dimensions(
    header: GroupHeader, existing: GroupHeader | None, layout: NczarrLayout
) -> None:
    """Refuse dimensions that a group of the layout cannot declare.

    Raises
    ------
    Unsupported : an unlimited dimension in a layout whose readers only know lengths; any dimension
        of a group that lists no members, because declaring one would hide all members.
    """
    known = () if existing is None else existing.dimensions
    where = below(header.path, ZGROUP)
    if header.arrays is None and header.dimensions:
        raise Unsupported(f"{where}: a group that lists no members cannot declare dimensions")
    for dimension in header.dimensions:
        if layout.early and dimension.unlimited and dimension not in known:
            raise Unsupported(
                f"{where}: {layout.name} has no unlimited dimensions ({dimension.name}); make it "
                "fixed, or use the format nczarr-L3"
            )


def check_references(variable: Variable, existing: Variable | None, *, is_whole: bool) -> None:
    """Refuse new references where the root is a group of a larger dataset.

    Raises
    ------
    Unsupported : full names begin at a root that is not visible.
    """
    known = () if existing is None else existing.dimensions
    if is_whole or [*map(full_name, variable.dimensions)] == [*map(full_name, known)]:
        return
    raise Unsupported(
        f"{below(variable.path, ZARRAY)}: the dataset was opened at one of its groups, where the "
        "full names of dimensions are not known; open it at its root"
    )


def _length(dimension: Dimension) -> Json:
    if dimension.unlimited:
        return {"size": dimension.size, "unlimited": 1}
    return dimension.size


def _attributes(attributes: tuple[Attribute, ...], placement: Placement) -> OwnMembers:
    # netcdf-c fails on an empty list, and early releases on any unusual one.
    early = placement.types.early
    return OwnMembers(
        {a.name: attribute_json(a, json_as_text=early or a.value == []) for a in attributes}
    )


def _add_types(
    documents: Encoding, attributes: tuple[Attribute, ...], placement: Placement, own: Iterable[str]
) -> None:
    layout = placement.types
    types = OwnMembers({a.name: attribute_typestr(a, early=layout.early) for a in attributes})
    if layout.own_documents:
        documents[placement.types_document] = OwnMembers(types=types)
        return
    if placement.own.in_attributes:
        types.update(dict.fromkeys((*own, layout.types), HIDDEN_TYPE))
    documents[ZATTRS][layout.types] = OwnMembers(types=types)
