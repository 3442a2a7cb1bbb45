"""The Zarr Object Model: hierarchies of Zarr as plain data, to declare, compare and validate.

The nodes and their JSON are in ``nczfs.formats.zom``; here is what is done with whole hierarchies.
"""

from nczfs.formats.zom.conversion import to_v3
from nczfs.formats.zom.documents import consolidated
from nczfs.formats.zom.flat import flat_json, from_flat, is_flat, read_flat, to_flat
from nczfs.formats.zom.nodes import ArrayV2, ArrayV3, GroupV2, GroupV3, NamedConfig, Node, walk
from nczfs.formats.zom.reading import checked, read
from nczfs.formats.zom.schema import schema
from nczfs.formats.zom.text import TextLimits, dumps, loads, parse, spelled
from nczfs.formats.zom.writing import json_of
from nczfs.zom.conventions import Convention, read_convention, validate
from nczfs.zom.creation import create
from nczfs.zom.differences import Change, Difference, applied, diff, like
from nczfs.zom.patterns import ConventionFault
from nczfs.zom.stored import Problem, StoredHierarchy, from_store

__all__ = [
    "ArrayV2",
    "ArrayV3",
    "Change",
    "Convention",
    "ConventionFault",
    "Difference",
    "GroupV2",
    "GroupV3",
    "NamedConfig",
    "Node",
    "Problem",
    "StoredHierarchy",
    "TextLimits",
    "applied",
    "checked",
    "consolidated",
    "create",
    "diff",
    "dumps",
    "flat_json",
    "from_flat",
    "from_store",
    "is_flat",
    "json_of",
    "like",
    "loads",
    "parse",
    "read",
    "read_convention",
    "read_flat",
    "schema",
    "spelled",
    "to_flat",
    "to_v3",
    "validate",
    "walk",
]
