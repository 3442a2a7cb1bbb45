"""The places where each generation of netcdf-c keeps NCZarr's additions to Zarr v2.

========  ==============  =====================================================================
layout    written by      where
========  ==============  =====================================================================
L1        4.8.0           documents of their own: ``.nczarr``, ``.nczgroup``, ``.nczarray``,
                          ``.nczattrs`` (4.8.0 itself: ``.nczvar``, ``.nczattr``)
L2U       4.8.1 - 4.9.0   members with upper-case names in ``.zgroup``, ``.zarray``, ``.zattrs``
L2l       4.9.1 - 4.9.2   the same in lower case
L3        4.9.3 -         all of them in ``.zattrs``, with longer names inside
========  ==============  =====================================================================

The layout follows from these names, not from the version in the superblock. They are
case-sensitive.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Literal

from nczfs.formats.base import Documents, FormatOptions
from nczfs.formats.names import below
from nczfs.formats.zarr2.nodes import NodeDocuments, optional_object
from nczfs.model.hierarchy import Json
from nczfs.plaindata import frozen


@frozen
class NczarrLayout:
    """The layout of one generation of netcdf-c.

    Attributes
    ----------
    name : as in `GroupHeader.format`.
    in_attributes : whether the members are in ``.zattrs``; otherwise in ``.zgroup`` and
        ``.zarray``.
    superblock, group, array, types : names of the members; for L1, of the documents.
    older : other names of the documents that L1 had in its first release.
    early : whether it is of netcdf-c up to 4.9.0, which calls text ``<U1``, and has neither strings
        nor unlimited dimensions.
    dimensions, arrays, references : names within `group` and `array`.
    """

    name: str
    in_attributes: bool
    superblock: str
    group: str
    array: str
    types: str
    dimensions: str
    arrays: str
    references: str
    own_documents: bool = False
    older: tuple[str, ...] = ()
    early: bool = False


L1 = NczarrLayout(
    "nczarr-L1",
    False,
    ".nczarr",
    ".nczgroup",
    ".nczarray",
    ".nczattrs",
    "dims",
    "vars",
    "dimrefs",
    own_documents=True,
    older=(".nczvar", ".nczattr"),
    early=True,
)
L2U = NczarrLayout(
    "nczarr-L2U",
    False,
    "_NCZARR_SUPERBLOCK",
    "_NCZARR_GROUP",
    "_NCZARR_ARRAY",
    "_NCZARR_ATTR",
    "dims",
    "vars",
    "dimrefs",
    early=True,
)
L2L = NczarrLayout(
    "nczarr-L2l",
    False,
    "_nczarr_superblock",
    "_nczarr_group",
    "_nczarr_array",
    "_nczarr_attr",
    "dims",
    "vars",
    "dimrefs",
)
L3 = NczarrLayout(
    "nczarr-L3",
    True,
    "_nczarr_superblock",
    "_nczarr_group",
    "_nczarr_array",
    "_nczarr_attr",
    "dimensions",
    "arrays",
    "dimension_references",
)

LAYOUTS = (L3, L2L, L2U, L1)

MEMBER_LAYOUTS = (L3, L2L, L2U)
"""Layouts with their keys in Zarr's documents, the newest first, as netcdf-c searches."""

_VERSION = re.compile(r"\bnetcdf=(\d{1,4})\.(\d{1,4})\.(\d{1,4})")


@frozen
class DatasetWriter:
    """What the root of a dataset says about its writer.

    Attributes
    ----------
    layout : None: there are no NCZarr keys.
    is_whole : whether there is a superblock: this is the root of the dataset, not a group in it.
    version : of netcdf-c, from ``_NCProperties``.
    """

    layout: NczarrLayout | None = None
    is_whole: bool = False
    version: tuple[int, int, int] | None = None

    @property
    def is_netcdf_c(self) -> bool:
        return self.layout is not None or self.version is not None

    @property
    def char_types(self) -> frozenset[str]:
        """The type strings of variables that mean netCDF text, one byte an element."""
        old = self.layout in (L1, L2U) or (self.version is not None and self.version <= (4, 9, 0))
        types = frozenset({"<U1", ">U1", "|U1"}) if old else frozenset()
        return types | {">S1"} if self.layout is not None else types


def writer_of(node: NodeDocuments, documents: Documents) -> DatasetWriter:
    """Return what the documents at a root say about their writer."""
    properties = node.attributes.get("_NCProperties")
    match = _VERSION.search(properties) if isinstance(properties, str) else None
    version = (int(match[1]), int(match[2]), int(match[3])) if match else None
    for is_whole in (True, False):
        for layout in MEMBER_LAYOUTS:
            names = (layout.superblock,) if is_whole else (layout.group, layout.array)
            if any(name in holder for name in names for holder in _holders(layout, node)):
                return DatasetWriter(layout, is_whole, version)
        if documents.get(node.key(L1.superblock if is_whole else L1.group)) is not None:
            return DatasetWriter(L1, is_whole, version)
    return DatasetWriter(version=version)


def has_superblock(layout: NczarrLayout, node: NodeDocuments, documents: Documents) -> bool:
    """Return whether a node is the root of a whole dataset."""
    if layout.own_documents:
        return documents.get(node.key(layout.superblock)) is not None
    return any(
        known.superblock in holder for known in MEMBER_LAYOUTS for holder in _holders(known, node)
    )


def spelled(layout: NczarrLayout, found: Json) -> NczarrLayout:
    """Return a layout with the names that a group or array member contains."""
    if not isinstance(found, dict):
        return layout

    def name(default: str, *known: str) -> str:
        return next((name for name in known if name in found), default)

    return replace(
        layout,
        dimensions=name(layout.dimensions, "dimensions", "dims"),
        arrays=name(layout.arrays, "arrays", "vars"),
        references=name(layout.references, "dimension_references", "dimrefs"),
    )


def group_member(
    layout: NczarrLayout, node: NodeDocuments, documents: Documents, options: FormatOptions
) -> Json:
    """Return what NCZarr stores about a group; None: nothing."""
    return _member(layout, node, documents, options, "group")


def array_member(
    layout: NczarrLayout, node: NodeDocuments, documents: Documents, options: FormatOptions
) -> Json:
    """Return what NCZarr stores about an array; None: nothing."""
    return _member(layout, node, documents, options, "array")


def types_member(
    layout: NczarrLayout, node: NodeDocuments, documents: Documents, options: FormatOptions
) -> dict[str, Json]:
    """Return the type strings of the attributes of a node, by name."""
    found = _member(layout, node, documents, options, "types")
    types = found.get("types") if isinstance(found, dict) else None
    return types if isinstance(types, dict) else {}


def layout_at(layout: NczarrLayout, node: NodeDocuments, what: str) -> NczarrLayout | None:
    """Return the layout whose "group", "array" or "types" is read at a node; None: none.

    It differs from the root's if a program of another release wrote the node. A layout with
    separate documents always stays the same.
    """
    if layout.own_documents:
        return layout
    for known in (layout, *MEMBER_LAYOUTS):
        name: str = getattr(known, what)
        for holder in _holders(known, node, is_types=what == "types"):
            if name in holder:
                return known
    return None


def first(found: dict[str, Json], *names: str) -> Json:
    """Return the first existing one of several members; netcdf-c tries the newest name first."""
    return next((found[name] for name in names if name in found), None)


def own_keys(path: str, writer: DatasetWriter, kind: Literal["group", "array"]) -> tuple[str, ...]:
    """Return the documents of a group or an array that only its layout has."""
    if writer.layout is not L1:
        return ()
    names = [L1.group] if kind == "group" else [L1.array, L1.older[0]]
    return tuple(below(path, name) for name in (*names, L1.types, L1.older[1]))


def _member(
    layout: NczarrLayout,
    node: NodeDocuments,
    documents: Documents,
    options: FormatOptions,
    what: str,
) -> Json:
    if layout.own_documents:
        return _own_document(node, documents, options, what)
    known = layout_at(layout, node, what)
    if known is None:
        return None
    name: str = getattr(known, what)
    holders = _holders(known, node, is_types=what == "types")
    return next(holder[name] for holder in holders if name in holder)


def own_document(path: str, documents: Documents, what: str) -> str:
    """Return the name of an existing L1 document; the newest name if there is none."""
    names = {
        "group": (L1.group,),
        "array": (L1.array, L1.older[0]),
        "types": (L1.types, L1.older[1]),
    }[what]
    return next((n for n in names if documents.get(below(path, n)) is not None), names[0])


def _own_document(
    node: NodeDocuments, documents: Documents, options: FormatOptions, what: str
) -> Json:
    key = node.key(own_document(node.path, documents, what))
    data = documents.get(key)
    return None if data is None else optional_object(data, key, options, node.problems)


def _holders(
    layout: NczarrLayout, node: NodeDocuments, *, is_types: bool = False
) -> tuple[dict[str, Json], ...]:
    """Return the documents that may contain the members of a layout."""
    if layout.in_attributes or is_types:
        return (node.attributes,)
    return (node.group, node.array or {})
