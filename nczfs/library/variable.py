"""A variable of an open dataset: its description, its attributes, and its values by indexing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from nczfs.buffers import Values
from nczfs.codecs.fillelement import fill_element
from nczfs.engine.arrays.selection import Selection, select, select_for_writing
from nczfs.engine.dataset import Dataset
from nczfs.engine.options import Tally
from nczfs.engine.structure.editor import Editor
from nczfs.engine.values.convert import converted
from nczfs.errors import BadSelection, BadValue, NotWritable, UsageError
from nczfs.formats.base import Node
from nczfs.library.mappings import Attributes, NamedMapping
from nczfs.model import hierarchy as model
from nczfs.model.dtypes import EmptyArray, NcType
from nczfs.model.grid import ChunkIndex
from nczfs.model.hierarchy import Attribute


class LibraryNode:
    """The common part of groups and variables: a place in a dataset, and attributes."""

    def __init__(
        self, dataset: Dataset, node: Node, editor: Editor | None, shown: str | None = None
    ) -> None:
        self._opened = dataset
        self._editor = editor
        self._at = node.path
        self._shown = shown
        self._stored = node
        self._revision = dataset.edits.revision

    @property
    def engine_dataset(self) -> Dataset:
        """The engine's dataset, for tools that work with chunks. Raises UsageError: closed."""
        return self._dataset

    @property
    def _dataset(self) -> Dataset:
        """The dataset, while it is open. Raises UsageError."""
        if self._opened.is_closed:
            raise UsageError(f"{self._opened.url(self._at)}: the dataset was closed")
        return self._opened

    @property
    def stored(self) -> Node:
        """The node as plain data, including all changes through this dataset."""
        revision = self._dataset.edits.revision
        if revision != self._revision:
            self._stored = self._dataset.node(self._at)
            self._revision = revision
        return self._stored if self._shown is None else replace(self._stored, path=self._shown)

    @property
    def editor(self) -> Editor:
        url = self._dataset.url(self._at)
        if self._editor is None:
            raise NotWritable(f"{url}: was opened for reading; open it with mode 'r+'")
        return self._editor

    @property
    def name(self) -> str:
        return self.stored.name or "/"

    @property
    def path(self) -> str:
        """The path below the root of the dataset, with a leading slash."""
        return f"/{self._at if self._shown is None else self._shown}"

    @property
    def attrs(self) -> Attributes:
        return Attributes(self)

    def set_attribute(self, attribute: Attribute) -> None:
        """Give an attribute exactly this type and value."""
        self.editor.set_attribute(self._at, attribute, self._known_array)

    def delete_attribute(self, name: str) -> None:
        """Remove an attribute if there is one."""
        self.editor.delete_attribute(self._at, name, self._known_array)

    @property
    def _known_array(self) -> model.ArrayDescription | None:
        """The array of a variable, as it was last read; None: of a group."""
        return self._stored.array if isinstance(self._stored, model.Variable) else None


class Variable(LibraryNode):
    """A variable of an open dataset.

    Indexing reads and writes: integers, slices with steps, an ellipsis, and lists of integers or
    boolean masks that each select along their own dimension. Reading gives a new array in this
    machine's byte order, with values as stored: nothing is unpacked or masked. Written values are
    converted as in netCDF, and refused if they are out of range or too long. Writing beyond the end
    of an unlimited dimension makes it longer.
    """

    @property
    def description(self) -> model.Variable:
        """The variable as plain data."""
        node = self.stored
        assert isinstance(node, model.Variable)
        return node

    @property
    def dependents(self) -> Mapping[str, Variable]:
        """The arrays that the document of this one declares, by name (Zarr v3).

        Their chunks lie beside its own. Each is also found at ``group["VARIABLE/NAME"]``.
        """
        return NamedMapping(
            {
                each.name: Variable(self._dataset, each, self._editor)
                for each in self.description.dependents
            },
            "dependent array",
        )

    @property
    def shape(self) -> tuple[int, ...]:
        return self.description.array.shape

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.description.array.size

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of read values; object for netCDF strings and bytes of variable length."""
        variable = self.description
        return np.dtype(object) if self._is_text else variable.array.dtype.native

    @property
    def _is_text(self) -> bool:
        """Whether elements are netCDF strings, stored in cells of fixed length."""
        dtype = self.description.array.dtype
        is_cell = dtype.nc_type is NcType.STRING and dtype.stored.kind == "S"
        return is_cell and self._dataset.format.is_netcdf

    @property
    def chunks(self) -> tuple[int, ...]:
        """The shape of a chunk."""
        return self.description.array.chunk_shape

    @property
    def fill_value(self) -> object:
        """What chunks that were never written read as; None: undefined, read as zeros."""
        array = self.description.array
        fill = array.fill_value
        return fill_element(array).item() if isinstance(fill, EmptyArray) else fill

    @property
    def dimensions(self) -> tuple[str, ...]:
        """The names of the dimensions, slowest first."""
        return tuple(dimension.name for dimension in self.description.dimensions)

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong with its metadata, and missing codecs."""
        return self._dataset.problems(self.description)

    def __getitem__(self, selector: object) -> Any:
        """Read the selected values: an array, or a numpy scalar for integers in all dimensions.

        Raises
        ------
        BadSelection, UnknownCodec, CorruptChunk, MissingChunk, StoreError.
        """
        selection = select(selector, self.shape)
        return selection.result(self.read(selection))

    def read(self, selection: Selection) -> Values:
        """Read a selection: an array with all dimensions, in ascending order where it is a range.

        Raises
        ------
        UnknownCodec, CorruptChunk, MissingChunk, StoreError.
        """
        variable = self.description
        values = np.empty(selection.shape, variable.array.dtype.native)
        self._dataset.array(variable).read_selection(selection, values, Tally())
        if self._is_text:
            values = np.strings.decode(values, "utf-8", "surrogateescape").astype(object)
        return values

    def __setitem__(self, selector: object, values: Any) -> None:
        """Write the selected elements; `values` is broadcast.

        Raises
        ------
        BadValue : a value does not fit the type; nothing was written.
        BadSelection, NotWritable, CodecError, StoreError.
        """
        editor = self.editor
        variable = self.description
        given = storable(values, variable, self.path)
        unlimited = tuple(dimension.unlimited for dimension in variable.dimensions)
        selection = select_for_writing(selector, variable.array.shape, unlimited, given.shape)
        spread = selection.spread(given)
        needed = [_end(axis) for axis in selection.axes]
        if any(end > length for end, length in zip(needed, variable.array.shape, strict=True)):
            editor.grow(variable, needed)
            variable = self.description
        self._dataset.array(variable).write_selection(selection, spread)

    def __array__(self, dtype: np.dtype[Any] | None = None, copy: bool | None = None) -> Values:
        values: Values = np.asarray(self[...])
        return values if dtype is None else values.astype(dtype)

    def chunk(self, index: ChunkIndex) -> Values:
        """Return the decoded values of a whole chunk, including the fill beyond the edge.

        Raises
        ------
        BadSelection : the grid has no such chunk.
        """
        variable = self.description
        if index not in variable.array.grid:
            raise BadSelection(f"{self.path}: no chunk {index}")
        with self._dataset.array(variable).chunk(index, Tally()) as values:
            return np.array(values)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError(f"{self.path} is a scalar and has no length")
        return self.shape[0]

    def __bool__(self) -> bool:
        """Return True, also if the length is 0, or for a scalar, which has no length."""
        return True

    def __repr__(self) -> str:
        if self._opened.is_closed:
            return f"<closed nczfs.Variable {self.path}>"
        dimensions = ", ".join(
            f"{name}: {size}" for name, size in zip(self.dimensions, self.shape, strict=True)
        )
        return f"<nczfs.Variable {self.path} ({dimensions}) {self.dtype}>"


def storable(values: Any, variable: model.Variable, place: str) -> Values:
    """Convert values to a variable's type; masked ones become its fill value, as in netCDF4-python.

    Raises
    ------
    BadValue : a value does not fit the type.
    """
    array = variable.array
    if not isinstance(values, np.ma.MaskedArray):
        return converted(values, array.dtype, place)
    if array.fill_value is None:
        raise BadValue(f"{place}: masked values, but no fill value")
    given = np.full(values.shape, fill_element(array))
    given[~np.ma.getmaskarray(values)] = converted(values.compressed(), array.dtype, place)
    return given


def _end(axis: Any) -> int:
    if len(axis) == 0:
        return 0
    return int(axis[-1] if isinstance(axis, range) else axis.max()) + 1
