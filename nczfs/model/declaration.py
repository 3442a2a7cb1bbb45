"""Declarations of groups, dimensions and variables, before they have a stored form.

CDL, a netCDF file, an ``info.json`` and the library's `create_variable` all give the same facts
about a new variable; omitted ones have defaults, which the format and the engine choose.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, TypeAlias

import numpy as np

from nczfs.model.dtypes import NcType
from nczfs.model.hierarchy import Attribute, CodecSpec, Dimension
from nczfs.plaindata import frozen


class Fill(Enum):
    """The replacement of a fill value that was not given."""

    DEFAULT = "default"
    NONE = "none"


ElementType: TypeAlias = "NcType | np.dtype[Any]"
"""A netCDF type, or a numpy dtype where netCDF has none (bool, complex, datetime, ...)."""


@frozen
class VariableDeclaration:
    """A variable to make.

    Attributes
    ----------
    name : within its group.
    type : of the elements.
    dimensions : names, slowest first, as seen from the group (the nearest one upwards that has the
        name), or full names with a leading slash.
    attributes : in order, including `_FillValue` if the user set one.
    chunk_shape : None: chosen by the engine.
    shard_shape : of what is stored as one object, whole chunks; None: a chunk.
    codecs : in encoding order; None: the default of the engine; (): no codecs.
    fill_value : a value of the type, `Fill.DEFAULT` (that of netCDF), or `Fill.NONE`.
    byte_order : "<" or ">"; None: little-endian.
    string_bytes : per string of fixed length; None: the format's default.
    is_complete : whether all attributes are given, so that none is made from the fill value, nor
        the fill value taken from one.
    order : "C" or "F", of the elements inside a chunk.
    separator : of the chunk keys, "." or "/"; None: that of new variables of the dataset.
    """

    name: str
    type: ElementType
    dimensions: tuple[str, ...] = ()
    attributes: tuple[Attribute, ...] = ()
    chunk_shape: tuple[int, ...] | None = None
    codecs: tuple[CodecSpec, ...] | None = None
    fill_value: object = Fill.DEFAULT
    byte_order: str | None = None
    string_bytes: int | None = None
    is_complete: bool = False
    order: str = "C"
    separator: str | None = None
    shard_shape: tuple[int, ...] | None = None


@frozen
class GroupDeclaration:
    """A group to make, and everything below it; the root has the name ""."""

    name: str
    dimensions: tuple[Dimension, ...] = ()
    attributes: tuple[Attribute, ...] = ()
    variables: tuple[VariableDeclaration, ...] = ()
    groups: tuple[GroupDeclaration, ...] = ()
