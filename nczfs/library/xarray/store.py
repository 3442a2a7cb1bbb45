"""A group as xarray reads it: its variables with dimensions, attributes and encoding."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from xarray import Variable as XarrayVariable
from xarray.backends import AbstractDataStore
from xarray.coding.strings import create_vlen_dtype
from xarray.core import indexing

from nczfs.codecs.fillelement import fill_element
from nczfs.engine.values.fillvalues import FILL_VALUE, attributes_with_fill, marks_missing
from nczfs.formats.flattening import flattened
from nczfs.library.api import Group, RootArray
from nczfs.library.mappings import attribute_value
from nczfs.library.xarray.array import LazyArray
from nczfs.library.xarray.chunking import is_even, preferred_chunks
from nczfs.library.xarray.source import ReopeningSource
from nczfs.model import hierarchy as model
from nczfs.model.dtypes import NcType, VlenKind
from nczfs.model.hierarchy import Attribute, Dimension, Variable

_ELEMENTS = {VlenKind.TEXT: str, VlenKind.BYTES: bytes}


class GroupStore(AbstractDataStore):
    """A group of an open dataset.

    Parameters
    ----------
    group : without what lies below its variables and groups.
    is_netcdf : whether its types are those of netCDF.
    dropped : the names of variables that are not wanted.
    """

    def __init__(
        self,
        source: ReopeningSource,
        group: model.Group,
        *,
        is_netcdf: bool,
        dropped: Collection[str] = (),
    ) -> None:
        self._source = source
        self._group = flattened(group)
        self._is_netcdf = is_netcdf
        for name, why in group.broken:
            if name not in dropped:
                warnings.warn(f"{name!r} is left out: {why}", stacklevel=2)

    def get_variables(self) -> Mapping[str, XarrayVariable]:
        return {variable.name: self._variable(variable) for variable in self._group.variables}

    def get_attrs(self) -> dict[str, Any]:
        return _values(self._group.header.attributes)

    def get_dimensions(self) -> dict[str, int]:
        return {dimension.name: dimension.size for dimension in self._dimensions()}

    def get_encoding(self) -> dict[str, Any]:
        unlimited = {each.name for each in self._dimensions() if each.unlimited}
        encoding: dict[str, Any] = {"unlimited_dims": unlimited} if unlimited else {}
        return encoding if self._source.url is None else {**encoding, "source": self._source.url}

    def _dimensions(self) -> list[Dimension]:
        return [each for variable in self._group.variables for each in variable.dimensions]

    def _variable(self, variable: Variable) -> XarrayVariable:
        array = variable.array
        names = _names(variable.dimensions)
        lazy = LazyArray(self._source, variable.path, array.shape, self._dtype(variable))
        return XarrayVariable(
            names,
            indexing.LazilyIndexedArray(lazy),
            self._attributes(variable),
            _encoding(variable, names),
        )

    def _dtype(self, variable: Variable) -> np.dtype[Any]:
        dtype = variable.array.dtype
        if self._is_text(variable) or dtype.vlen in _ELEMENTS:
            element = str if dtype.vlen is None else _ELEMENTS[dtype.vlen]
            made: np.dtype[Any] = create_vlen_dtype(element)  # type: ignore[no-untyped-call]
            return made
        return dtype.native

    def _is_text(self, variable: Variable) -> bool:
        dtype = variable.array.dtype
        return self._is_netcdf and dtype.nc_type is NcType.STRING and dtype.stored.kind == "S"

    def _attributes(self, variable: Variable) -> dict[str, Any]:
        """Return the attributes, with what xarray masks as `_FillValue`.

        In Zarr v2 that is the fill value, as for xarray's own engine, which keeps a `_FillValue` in
        no other way. But netCDF's default for integers and texts, which NCZarr states, is not one:
        it would make every variable of integers one of floats.
        """
        if self._is_netcdf and variable.array.dtype.stored.kind != "f":
            return _values(attributes_with_fill(variable))
        found, fill = _values(variable.attributes), _fill_value(variable)
        if fill is not None and marks_missing(variable.array):
            found[FILL_VALUE] = fill
        return found


def listed(group: Group) -> model.Group:
    """Return a group with its variables, without the groups below it."""
    if isinstance(group, RootArray):
        return group.tree()
    nodes, broken = group.engine_dataset.members(group.header.path, documented=True)
    variables = tuple(node for node in nodes if isinstance(node, Variable))
    return model.Group(group.header, (), variables, (), tuple(broken))


def _names(dimensions: tuple[Dimension, ...]) -> tuple[str, ...]:
    """Return the names of dimensions; those that were made up for one variable must differ."""
    met: Counter[str] = Counter()
    names = []
    for dimension in dimensions:
        met[dimension.name] += 1
        count = met[dimension.name]
        is_again = dimension.anonymous and count > 1
        names.append(f"{dimension.name}_{count}" if is_again else dimension.name)
    return tuple(names)


def _values(attributes: tuple[Attribute, ...]) -> dict[str, Any]:
    return {attribute.name: attribute_value(attribute) for attribute in attributes}


def _fill_value(variable: Variable) -> Any:
    """Return the fill value if it is a number, a time or a text; xarray compares no others."""
    array = variable.array
    is_single = array.dtype.stored.kind in "biufcmMSU" or array.dtype.vlen in _ELEMENTS
    return fill_element(array)[()] if is_single and array.fill_value is not None else None


def _encoding(variable: Variable, names: tuple[str, ...]) -> dict[str, Any]:
    """Return how a variable is stored, as far as other engines can store it likewise."""
    array = variable.array
    encoding: dict[str, Any] = {
        "preferred_chunks": preferred_chunks(variable, names),
        "original_shape": array.shape,
    }
    if is_even(array):
        encoding["chunks"] = array.chunk_shape
        if array.shape:
            encoding["chunksizes"] = array.chunk_shape  # as netCDF has it
        if array.shards:
            encoding["shards"] = array.shards[0].shape
    if not marks_missing(array) and (fill := _fill_value(variable)) is not None:
        encoding["fill_value"] = fill
    return encoding
