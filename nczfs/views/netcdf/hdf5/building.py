"""Templates of netCDF-4 files, written by the HDF5 library.

h5py is imported with this module: that takes a fifth of a second and some 20 MB, which a mount
without such files does not spend. One thread at a time calls it; HDF5 has one lock for everything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
from h5py import h5a, h5d, h5f, h5fd, h5g, h5p, h5r, h5s, h5t

from nczfs.model.dtypes import CODE_OF_NC_TYPE, DEFAULT_FILL, NcType
from nczfs.model.hierarchy import Attribute
from nczfs.model.printing import encoded
from nczfs.views.netcdf.content import (
    Elements,
    FileContent,
    FileDimension,
    FileGroup,
    FileVariable,
    Texts,
)
from nczfs.views.netcdf.hdf5.filetypes import (
    REFERENCE,
    REFERENCES,
    TEXT,
    USE,
    FileTypes,
    any_text,
    fixed_text,
    simple_space,
)
from nczfs.views.netcdf.hdf5.scales import (
    DimensionKey,
    DimensionScale,
    file_name,
    key_of,
    one_chunk,
    scales_of,
    value_bytes,
)
from nczfs.views.netcdf.hdf5.sparse import SparseFile
from nczfs.views.netcdf.hdf5.template import FileExtent, Template, gaps

PROPERTIES: Final = "version=2,nczfs=1"
"""In place of the libraries and their versions, with which the bytes of the file would change."""

PAGE_BYTES: Final = 4096  # variables from this size on begin a page
_ORDERED: Final = h5p.CRT_ORDER_TRACKED | h5p.CRT_ORDER_INDEXED
_USES_MAX: Final = 32
"""An unlimited scale of more variables does not list them: h5netcdf looks at each of them whenever
it wants the length of one (1,000 variables: minutes, natively as well). All have the length of the
scale here, and netCDF-C, h5py and xarray read the references from variables to scales."""


def build_template(content: FileContent, go_on: Callable[[], None] = lambda: None) -> Template:
    """Return the template of a content, which HDF5 writes into a sparse file in memory.

    No write fails: HDF5 2.0 ends the process after one that does. And a file in memory may be
    larger than what any disk takes.

    Parameters
    ----------
    go_on : called before each member is written; what it raises ends the building.
    """
    written = SparseFile()
    fapl = h5p.create(h5p.FILE_ACCESS)
    fapl.set_fileobj_driver(h5fd.fileobj_driver, written)
    fapl.set_libver_bounds(h5f.LIBVER_V18, h5f.LIBVER_V18)
    fapl.set_alignment(PAGE_BYTES, PAGE_BYTES)
    fapl.set_sieve_buf_size(0)
    file = h5f.create(b"nczfs", h5f.ACC_TRUNC, _creation_list(), fapl)
    try:
        runs = _Builder(file, content, go_on).build()
    finally:
        file.close()
    taken = tuple(sorted(place for place in runs if place.nbytes))
    literals, data = written.contents(gaps(taken, written.size))
    return Template(written.size, runs, literals, data)


class _Builder:
    """The writer of one file.

    The values of variables get their places last: then all that describes them lies at the front.
    """

    def __init__(self, file: h5f.FileID, content: FileContent, go_on: Callable[[], None]) -> None:
        self._file = file
        self._content = content
        self._go_on = go_on
        self._scales = scales_of(content)
        self._lcpl = h5p.create(h5p.LINK_CREATE)
        self._lcpl.set_char_encoding(h5t.CSET_UTF8)
        self._gcpl = h5p.create(h5p.GROUP_CREATE)
        self._gcpl.set_link_creation_order(_ORDERED)
        self._gcpl.set_attr_creation_order(_ORDERED)
        self._gcpl.set_obj_track_times(False)
        self._dcpl = h5p.create(h5p.DATASET_CREATE)
        self._dcpl.set_attr_creation_order(_ORDERED)
        self._dcpl.set_obj_track_times(False)
        self._types = FileTypes(h5g.open(file, b"/"), self._lcpl)
        self._variables: list[tuple[FileVariable, h5r.Reference]] = []
        self._scale_references: dict[DimensionKey, h5r.Reference] = {}
        self._shown: list[tuple[FileVariable, h5r.Reference]] = []

    def build(self) -> tuple[FileExtent, ...]:
        """Write everything, and return the places of the values that come from arrays."""
        groups: dict[str, h5g.GroupID] = {}
        for group in self._content.groups():
            self._go_on()
            groups[group.path] = self._create_group(group, groups)
        for group in self._content.groups():
            self._create_datasets(group, groups[group.path])
        self._attach_scales()
        h5f.flush(self._file)  # what has no place yet gets one
        return tuple(self._allocated(variable, itself) for variable, itself in self._shown)

    def _create_group(self, group: FileGroup, groups: Mapping[str, h5g.GroupID]) -> h5g.GroupID:
        if not group.path:
            created = h5g.open(self._file, b"/")
            _put_text(created, "_NCProperties", PROPERTIES, fixed_text(len(PROPERTIES)))
        else:
            above = groups[group.path.rpartition("/")[0]]
            created = h5g.create(above, encoded(group.name), self._lcpl, self._gcpl)
        for attribute in group.attributes:
            _put_attribute(created, attribute)
        return created

    def _create_datasets(self, group: FileGroup, place: h5g.GroupID) -> None:
        """Create the datasets of a group in the order of netCDF-C, which h5netcdf relies on.

        The scales come in the order of the dimensions, and the variables in their own; so those
        before a coordinate come before later dimensions.
        """
        variables = iter(group.variables)
        for dimension in group.dimensions:
            scale = self._scales[key_of(dimension)]
            if scale.coordinate is None:
                self._create_bare_scale(scale, place)
            elif key_of(dimension) not in self._scale_references:
                for variable in variables:
                    self._create_variable(variable, group, place)
                    if variable.name == scale.coordinate:
                        break
        for variable in variables:
            self._create_variable(variable, group, place)

    def _create_variable(
        self, variable: FileVariable, group: FileGroup, place: h5g.GroupID
    ) -> None:
        self._go_on()
        name = file_name(variable, group)
        own = self._scales.get((group.path, variable.name))
        scale = own if own is not None and own.coordinate == name else None
        dataset = self._create_dataset(variable, name, place, is_scale=scale is not None)
        if scale is not None:
            self._mark_scale(scale, dataset, name)
        if scale is None and variable.dimensions:
            # netCDF-C adds this to every variable that it finds without, as soon as a value is
            # written, if the coordinates do not have the order of their dimensions.
            number = self._scales[key_of(variable.dimensions[0])].number
            _put_array(dataset, "_Netcdf4Dimid", np.array(number, "<i4"))
        if scale is None or len(variable.dimensions) > 1:
            self._put_numbers(dataset, variable)
        for attribute in variable.attributes:
            _put_attribute(dataset, attribute)
        itself = _reference(dataset)
        if isinstance(variable.values, Elements):
            self._shown.append((variable, itself))
        if scale is None and variable.dimensions:
            self._variables.append((variable, itself))

    def _create_bare_scale(self, scale: DimensionScale, place: h5g.GroupID) -> None:
        """Create a dataset without storage, as netCDF-C does for a dimension without a variable."""
        self._go_on()
        dimension, dcpl = scale.dimension, self._dcpl
        if dimension.unlimited:
            dcpl = dcpl.copy()
            dcpl.set_chunk((1,))
        space = simple_space((dimension.size,), _limits((dimension,)))
        name = encoded(dimension.name)
        dataset = h5d.create(place, name, h5t.IEEE_F32BE, space, dcpl, lcpl=self._lcpl)
        self._mark_scale(
            scale,
            dataset,
            f"This is a netCDF dimension but not a netCDF variable. {dimension.size:10d}",
        )

    def _create_dataset(
        self,
        variable: FileVariable,
        name: str,
        place: h5g.GroupID,
        *,
        is_scale: bool,
    ) -> h5d.DatasetID:
        dcpl = self._dcpl.copy()
        is_chunked = is_scale and any(d.unlimited for d in variable.dimensions)
        if is_chunked:
            dcpl.set_chunk(one_chunk(variable))
        else:
            dcpl.set_layout(h5d.CONTIGUOUS)
        if isinstance(variable.values, Elements):
            dcpl.set_alloc_time(h5d.ALLOC_TIME_LATE)
            dcpl.set_fill_time(h5d.FILL_TIME_NEVER)
            if (fill := _fill_value(variable)) is not None:
                dcpl.set_fill_value(fill)
        limits = _limits(variable.dimensions) if is_chunked else None
        space = simple_space(variable.shape, limits)
        tid = self._types.find(variable.type)
        dataset = h5d.create(place, encoded(name), tid, space, dcpl, lcpl=self._lcpl)
        if isinstance(variable.values, Texts) and variable.values.values:
            texts = np.array([encoded(text) for text in variable.values.values], TEXT)
            dataset.write(h5s.ALL, h5s.ALL, texts.reshape(variable.shape))
        return dataset

    def _mark_scale(self, scale: DimensionScale, dataset: h5d.DatasetID, name: str) -> None:
        """Make a scale of a dataset, as H5DSset_scale does."""
        _put_text(dataset, "CLASS", "DIMENSION_SCALE", fixed_text(len("DIMENSION_SCALE") + 1))
        size = len(encoded(name)) + 1
        _put_text(dataset, "NAME", name, fixed_text(size))
        _put_array(dataset, "_Netcdf4Dimid", np.array(scale.number, "<i4"))
        self._scale_references[key_of(scale.dimension)] = _reference(dataset)

    def _put_numbers(self, dataset: h5d.DatasetID, variable: FileVariable) -> None:
        numbers = [self._scales[key_of(d)].number for d in variable.dimensions]
        if not numbers:
            return
        _put_array(dataset, "_Netcdf4Coordinates", np.array(numbers, "<i4"))

    def _attach_scales(self) -> None:
        """Write references from variables to scales and back.

        H5DSattach_scale writes the same, but all references of a scale anew for each variable.
        """
        uses: dict[DimensionKey, list[tuple[h5r.Reference, int]]] = {}
        list_type = h5t.py_create(REFERENCES, logical=True)
        for variable, itself in self._variables:
            self._go_on()
            references = np.empty(len(variable.dimensions), REFERENCES)
            for i, dimension in enumerate(variable.dimensions):
                key = key_of(dimension)
                references[i] = np.array([self._scale_references[key]], REFERENCE)
                uses.setdefault(key, []).append((itself, i))
            dataset = h5r.dereference(itself, self._file)
            _put_array(dataset, "DIMENSION_LIST", references, list_type)
        use_type = h5t.py_create(USE, logical=True)
        for key, found in uses.items():
            self._go_on()
            if self._scales[key].dimension.unlimited and len(found) > _USES_MAX:
                continue
            dataset = h5r.dereference(self._scale_references[key], self._file)
            _put_array(dataset, "REFERENCE_LIST", np.array(found, USE), use_type)

    def _allocated(self, variable: FileVariable, itself: h5r.Reference) -> FileExtent:
        """Return the place of a variable's values, which HDF5 gives with the first written one."""
        self._go_on()
        size = value_bytes(variable)
        if not size:
            return FileExtent(0, 0)
        dataset = h5r.dereference(itself, self._file)
        space = dataset.get_space()
        if variable.dimensions:
            rank = len(variable.dimensions)
            space.select_hyperslab((0,) * rank, (1,) * rank)
        type_ = dataset.get_type()
        zero = np.zeros((), f"V{type_.get_size()}")
        dataset.write(h5s.create(h5s.SCALAR), space, zero, type_)
        if dataset.get_create_plist().get_layout() == h5d.CHUNKED:
            dataset.flush()
            return FileExtent(dataset.get_chunk_info(0).byte_offset, size)
        return FileExtent(dataset.get_offset(), size)


def _creation_list() -> h5p.PropFCID:
    fcpl = h5p.create(h5p.FILE_CREATE)
    fcpl.set_link_creation_order(_ORDERED)
    fcpl.set_attr_creation_order(_ORDERED)
    fcpl.set_obj_track_times(False)
    return fcpl


def _limits(dimensions: tuple[FileDimension, ...]) -> tuple[int | None, ...] | None:
    if not any(dimension.unlimited for dimension in dimensions):
        return None
    return tuple(None if d.unlimited else d.size for d in dimensions)


def _fill_value(variable: FileVariable) -> Any:
    """Return the fill value that readers ask the library for: that of the attribute, or netCDF's.

    Without one netCDF takes the variable as never filled, and netCDF4-python shows values that mean
    "never written" instead of masking them.
    """
    if not isinstance(variable.type, NcType):
        return None
    given = next((a.value for a in variable.attributes if a.name == "_FillValue"), None)
    if variable.type is NcType.CHAR:
        text = given if isinstance(given, str) else ""
        return np.array(encoded(text)[:1] or b"\0", "S1")
    value: Any = given[0] if isinstance(given, tuple) and given else DEFAULT_FILL[variable.type]
    return np.array(value, CODE_OF_NC_TYPE[variable.type])


def _put_attribute(place: h5g.GroupID | h5d.DatasetID, attribute: Attribute) -> None:
    value = attribute.value
    match attribute.type:
        case NcType.CHAR:
            assert isinstance(value, str)
            size = len(encoded(value))
            _put_text(place, attribute.name, value, fixed_text(size or 1, is_ascii=value.isascii()))
        case NcType.STRING:
            assert isinstance(value, tuple)
            texts = np.array([encoded(str(text)) for text in value], TEXT)
            _put_array(place, attribute.name, texts, any_text())
        case NcType.JSON:
            raise AssertionError(attribute.name)
        case number:
            _put_array(place, attribute.name, np.array(value, CODE_OF_NC_TYPE[number]))


def _put_text(
    place: h5g.GroupID | h5d.DatasetID, name: str, text: str, type_: h5t.TypeStringID
) -> None:
    """Write text of a fixed length; netCDF has empty text as an attribute without elements."""
    data = encoded(text)
    space = h5s.create(h5s.SCALAR if data else h5s.NULL)
    created = h5a.create(place, encoded(name), type_, space)
    if data:
        created.write(np.array(data, f"S{type_.get_size()}"), type_)


def _put_array(
    place: h5g.GroupID | h5d.DatasetID,
    name: str,
    values: np.ndarray[Any, Any],
    type_: h5t.TypeID | None = None,
) -> None:
    type_ = type_ or h5t.py_create(values.dtype)
    space = simple_space(values.shape) if values.size else h5s.create(h5s.NULL)
    created = h5a.create(place, encoded(name), type_, space)
    if values.size:
        created.write(values)


def _reference(dataset: h5d.DatasetID) -> h5r.Reference:
    """Return what a dataset is found again by: open ones take 10 KB of memory each."""
    return h5r.create(dataset, b".", h5r.OBJECT)
