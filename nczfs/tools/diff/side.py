"""One side of a comparison: a part of a dataset, a netCDF file, or CDL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

from nczfs.engine.values.fillvalues import FILL_VALUE
from nczfs.library.api import Group
from nczfs.library.variable import Variable
from nczfs.model import hierarchy as model
from nczfs.model.declaration import Fill, VariableDeclaration
from nczfs.model.dtypes import DEFAULT_FILL, NcType
from nczfs.plaindata import frozen
from nczfs.tools.chunkset import ChunkSet
from nczfs.tools.progress import Progress
from nczfs.tools.transfer.dataset_source import DatasetSource, dataset_source
from nczfs.tools.transfer.listed import stored_units
from nczfs.tools.transfer.source import Notice, Source


@frozen
class Side:
    """One side of a comparison.

    Attributes
    ----------
    is_variable : whether the side is a single variable, whose name does not matter.
    is_pure : whether it is pure Zarr: attributes have no types, no dimension is unlimited or
        without a variable, and text is strings.
    stored : the stored chunks or shards of variables by their paths, where they are known.
    """

    source: Source
    is_variable: bool = False
    is_pure: bool = False
    stored: Mapping[str, ChunkSet] = field(default_factory=dict)

    def fill_value(self, path: str, declared: VariableDeclaration) -> object:
        """Return what elements that were never written read as; None: that is undefined."""
        if isinstance(self.source, DatasetSource):
            return self.source.variables[path].description.array.fill_value
        if declared.fill_value is Fill.NONE:
            return None
        if declared.fill_value is not Fill.DEFAULT:
            return declared.fill_value
        for attribute in declared.attributes:
            if attribute.name == FILL_VALUE:
                value = attribute.value
                return value[0] if isinstance(value, tuple) else value
        return DEFAULT_FILL.get(declared.type) if isinstance(declared.type, NcType) else None

    def description(self, path: str) -> model.Variable | None:
        """Return a variable as plain data; None: the side is not a dataset."""
        source = self.source
        return source.variables[path].description if isinstance(source, DatasetSource) else None

    def surveyed(self, progress: Progress) -> Side:
        """Return the side with the stored chunks of each variable, if one listing finds them all.

        Raises
        ------
        StoreError : the store could not be asked.
        """
        source = self.source
        if not isinstance(source, DatasetSource) or not source.variables:
            return self
        first = next(iter(source.variables.values()))
        base = first.description.key if self.is_variable else source.base
        variables = {path: v.description for path, v in source.variables.items()}
        return replace(self, stored=stored_units(first.engine_dataset, base, variables, progress))


def dataset_side(
    node: Group | Variable, name: str, notice: Notice, *, skip_unsupported: bool
) -> Side:
    """Return a node of an open dataset as a side. Raises as `dataset_source`."""
    is_pure = not node.engine_dataset.format.single.declares
    source = dataset_source(
        node, name, notice, skip_unsupported=skip_unsupported, unique_dimensions=not is_pure
    )
    return Side(source, isinstance(node, Variable), is_pure)
