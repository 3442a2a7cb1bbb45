"""A netCDF file as a source: its declarations with their types, and its values."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import netCDF4
import numpy as np

from nczfs.buffers import Values
from nczfs.codecs.pipelines import pipeline_of
from nczfs.engine.values.fillvalues import is_fill_value
from nczfs.errors import AccessDenied, CorruptStore, NoContent, UnknownCodec, Unsupported
from nczfs.formats.attributes import is_hidden
from nczfs.formats.base import FormatOptions
from nczfs.formats.hdf5_filters import codec_of_filter
from nczfs.formats.names import below
from nczfs.formats.registry import new_format
from nczfs.model.declaration import Fill, GroupDeclaration, VariableDeclaration
from nczfs.model.dtypes import CODE_OF_NC_TYPE, DEFAULT_FILL, DataType, NcType
from nczfs.model.grid import Slices
from nczfs.model.hierarchy import ArrayDescription, Attribute, CodecSpec, Dimension
from nczfs.tools.transfer import netcdf_c
from nczfs.tools.transfer.blocks import CACHE_SHARE
from nczfs.tools.transfer.hdf5_foreign import check_own_contents
from nczfs.tools.transfer.source import Content, Notice, Source, item_bytes

_BYTE_ORDERS = {"big": ">"}


@contextmanager
def netcdf_source(
    path: str | os.PathLike[str], notice: Notice, memory_limit_bytes: int, *, skip_unsupported: bool
) -> Iterator[Source]:
    """Open a netCDF file as a source.

    Parameters
    ----------
    notice : takes lines about what cannot be carried over unchanged.
    skip_unsupported : leave out what has no counterpart in a dataset, instead of raising an error.

    Raises
    ------
    NoContent, AccessDenied, CorruptStore : it cannot be opened.
    Unsupported : there are variables or attributes of user-defined types, or it takes something
        from another file.
    """
    file = os.fspath(path)
    dataset = _opened(file)
    try:
        dataset.set_auto_maskandscale(False)
        dataset.set_auto_chartostring(False)
        reader = _Reader(file, notice, memory_limit_bytes // CACHE_SHARE)
        root = reader.group(dataset, "")
        if reader.refused and not skip_unsupported:
            more = f", and {len(reader.refused) - 1} more" if len(reader.refused) > 1 else ""
            raise Unsupported(
                f"{file}: {reader.refused[0]}, for which Zarr has no counterpart{more}; "
                "--skip-unsupported leaves such things out"
            )
        for line in reader.refused:
            notice(f"{line}: left out")
        yield Source(file, root, reader.contents)
    finally:
        dataset.close()


def _opened(file: str) -> Any:
    try:
        os.stat(file)
        check_own_contents(file)
        with warnings.catch_warnings(), translated(file):
            warnings.simplefilter("ignore")  # about variables that it skips: they are refused here
            return netCDF4.Dataset(file)
    except FileNotFoundError:
        raise NoContent(f"{file}: no such file") from None
    except PermissionError as error:
        raise AccessDenied(f"{file}: {error.strerror}") from None


@contextmanager
def translated(where: str) -> Iterator[None]:
    """Translate errors of the netCDF library."""
    try:
        yield
    except PermissionError:
        raise
    except (OSError, RuntimeError, IndexError, ValueError, UnicodeError) as error:
        text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise CorruptStore(f"{where}: {text}") from error


@dataclass
class _Reader:
    """A walk through the groups of a file.

    Attributes
    ----------
    refused : what a dataset cannot hold, one phrase each.
    """

    file: str
    notice: Notice
    cache_bytes: int
    contents: dict[str, Content] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)

    def group(self, group: Any, path: str) -> GroupDeclaration:
        with translated(f"{self.file}: /{path}"):
            types = netcdf_c.variable_types(group._grpid)
            dimensions = tuple(
                Dimension(name, len(found), found.isunlimited(), path)
                for name, found in group.dimensions.items()
            )
            attributes = self._attributes(group, netcdf_c.GLOBAL, f"/{path}")
        return GroupDeclaration(
            path.rpartition("/")[2],
            dimensions,
            attributes,
            tuple(self._variables(group, path, types)),
            tuple(self.group(child, below(path, name)) for name, child in group.groups.items()),
        )

    def _variables(
        self, group: Any, path: str, types: dict[str, NcType | str]
    ) -> Iterator[VariableDeclaration]:
        for name, nc_type in types.items():
            place = below(path, name)
            if not isinstance(nc_type, NcType):
                self.refused.append(f"/{place} is of the {nc_type}")
                continue
            variable = group.variables[name]
            with translated(f"{self.file}: /{place}"):
                hidden = _hidden_dimension(variable)
                if hidden is not None:
                    self.refused.append(f"/{place} has a dimension that a nearer {hidden!r} hides")
                    continue
                declaration = self._variable(variable, place, nc_type)
                self.contents[place] = self._content(variable, place, nc_type)
            yield declaration

    def _variable(self, variable: Any, path: str, nc_type: NcType) -> VariableDeclaration:
        attributes = self._attributes(variable, variable._varid, f"/{path}")
        return VariableDeclaration(
            variable.name,
            nc_type,
            tuple(_full_name(dimension) for dimension in variable.get_dims()),
            attributes,
            chunk_shape(variable),
            self._codecs(variable, path, nc_type),
            _fill_value(variable, attributes, nc_type),
            _BYTE_ORDERS.get(variable.endian()) if _dtype(nc_type).itemsize > 1 else None,
        )

    def _attributes(self, node: Any, number: int, place: str) -> tuple[Attribute, ...]:
        found: list[Attribute] = []
        for name in node.ncattrs():
            if is_hidden(name):
                self.notice(f"{place}: attribute {name!r} is reserved by the format: left out")
                continue
            try:
                attribute = netcdf_c.attribute(node._grpid, number, name)
                found.append(self._in_unicode(attribute, place))
            except Unsupported as error:
                self.refused.append(f"{place}: {error}")
        return tuple(found)

    def _in_unicode(self, attribute: Attribute, place: str) -> Attribute:
        """Decode a text; old files use other encodings without naming them."""
        value = attribute.value
        if attribute.type is not NcType.CHAR or not isinstance(value, str):
            return attribute
        data = value.encode("utf-8", "surrogateescape")
        if value.encode("utf-8", "replace") == data:
            return attribute
        self.notice(f"{place}: attribute {attribute.name!r} is not UTF-8: read as Latin-1")
        return replace(attribute, value=data.decode("latin-1"))

    def _codecs(self, variable: Any, path: str, nc_type: NcType) -> tuple[CodecSpec, ...] | None:
        """Return the codecs for the filters; None, the default, if there are none.

        A netCDF file does not compress strings, even if they have filters.
        """
        if not _is_hdf5(variable) or nc_type is NcType.STRING:
            return None
        try:
            filters = netcdf_c.filters(variable._grpid, variable._varid)
            codecs = tuple(codec_of_filter(*found) for found in filters)
            _check(codecs, nc_type)
            return codecs or None
        except (Unsupported, UnknownCodec) as error:
            self.notice(f"/{path}: {error}; the default codecs are used")
            return None

    def _content(self, variable: Any, path: str, nc_type: NcType) -> Content:
        shape = tuple(int(length) for length in variable.shape)
        dtype = _dtype(nc_type)
        chunks = chunk_shape(variable)
        resize = _cache_resizer(variable) if chunks is not None else lambda _size: None
        resized = False

        def read(selection: Slices) -> Values:
            nonlocal resized
            with translated(f"{self.file}: /{path}"):
                if not resized:
                    resize(self.cache_bytes)
                    resized = True
                values = variable[selection or ...]
            if dtype.kind in "OS":  # a scalar of these types comes as str or bytes
                return np.asarray(values, dtype).reshape(_lengths(selection))
            return np.asarray(values)

        def release() -> None:
            nonlocal resized
            resize(0)
            resized = False

        return Content(shape, chunks or (1,) * len(shape), item_bytes(dtype), read, release)


def _cache_resizer(variable: Any) -> Callable[[int], object]:
    def resize(size: int) -> None:
        variable.set_var_chunk_cache(size, 1009, 0.75)

    return resize


def _is_hdf5(variable: Any) -> bool:
    return str(variable.group().data_model).startswith("NETCDF4")


def chunk_shape(variable: Any) -> tuple[int, ...] | None:
    """Return the chunk shape of a netCDF variable; None: it has no chunks."""
    chunking = variable.chunking()
    return tuple(int(n) for n in chunking) if isinstance(chunking, list) and chunking else None


def _check(codecs: tuple[CodecSpec, ...], nc_type: NcType) -> None:
    """Raise UnknownCodec if there is no codec for a filter that has a name."""
    stored = _dtype(nc_type)
    dtype = DataType(stored.str, stored)
    chain = new_format(None, FormatOptions()).codec_chain(codecs, dtype)
    pipeline_of(ArrayDescription((1,), (1,), dtype, None, chain))


def _fill_value(variable: Any, attributes: tuple[Attribute, ...], nc_type: NcType) -> object:
    """Return the fill value: the default if `_FillValue` does not fit the type, as in netCDF-3."""
    if not netcdf_c.is_filled(variable._grpid, variable._varid):
        return Fill.NONE
    own = next((found for found in attributes if found.name == "_FillValue"), None)
    if own is None or is_fill_value(own, nc_type):
        return Fill.DEFAULT
    return DEFAULT_FILL[nc_type]


def _hidden_dimension(variable: Any) -> str | None:
    """Return the name of a dimension that netCDF4-python, going by names, takes for another."""
    numbers = netcdf_c.dimensions(variable._grpid, variable._varid)
    for dimension, number in zip(variable.get_dims(), numbers, strict=True):
        if dimension._dimid != number:
            return str(dimension.name)
    return None


def _full_name(dimension: Any) -> str:
    path = dimension.group().path
    return f"{path.rstrip('/')}/{dimension.name}"


def _dtype(nc_type: NcType) -> np.dtype[Any]:
    if nc_type is NcType.CHAR:
        return np.dtype("S1")
    return np.dtype(object if nc_type is NcType.STRING else CODE_OF_NC_TYPE[nc_type])


def _lengths(selection: Slices) -> tuple[int, ...]:
    return tuple(part.stop - part.start for part in selection)
