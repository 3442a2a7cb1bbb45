"""Writing a source into a new netCDF file, which gets its name when it is complete."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import netCDF4
import numpy as np

from nczfs.buffers import Values
from nczfs.errors import AccessDenied, BadValue, CorruptStore, NoContent, ObjectExists
from nczfs.formats.hdf5_filters import filter_of_codec
from nczfs.formats.names import below
from nczfs.model.declaration import Fill, GroupDeclaration, VariableDeclaration
from nczfs.model.dtypes import NcType
from nczfs.model.grid import Slices
from nczfs.model.hierarchy import Attribute, CodecSpec
from nczfs.plaindata import frozen
from nczfs.tools.progress import Progress
from nczfs.tools.transfer import netcdf_c
from nczfs.tools.transfer.blocks import BLOCK_SHARE, Shapes, block_size
from nczfs.tools.transfer.copying import Writes, copy, memory_of
from nczfs.tools.transfer.netcdf_kinds import NetcdfKind, fitted, stored_name
from nczfs.tools.transfer.netcdf_source import chunk_shape, translated
from nczfs.tools.transfer.source import (
    Content,
    Notice,
    Source,
    groups_of,
    variables_of,
    with_variables,
)
from nczfs.zmap.oserrors import kind_of

_PROBE_BYTES = 1 << 16
_SUBSTITUTE = (CodecSpec("shuffle"), CodecSpec("zlib", {"level": 4}))


@frozen
class NewFile:
    """The netCDF file to make.

    Attributes
    ----------
    overwrite : whether an existing file is replaced.
    memory_limit_bytes : for the library's caches and the values on their way, together.
    skip_unsupported : leave out what the kind of file cannot hold.
    """

    path: str
    kind: NetcdfKind
    overwrite: bool
    memory_limit_bytes: int
    skip_unsupported: bool


def write_netcdf(source: Source, new: NewFile, notice: Notice, progress: Progress) -> None:
    """Make a netCDF file from everything in a source.

    Parameters
    ----------
    notice : takes lines about what could not be carried over unchanged.
    progress : called with the bytes of the source that are done. If it raises, copying ends, and
        nothing is left of the file.

    Raises
    ------
    Unsupported : files of the kind cannot hold something; nothing was written.
    ObjectExists : the file exists.
    AccessDenied, NoSpace, CorruptStore : the file cannot be written. BadValue, CodecError,
        StoreError : the source cannot be read. Nothing is left of the file.
    """
    source = fitted(source, new.kind, notice, skip_unsupported=new.skip_unsupported)
    done = 0.0

    def counted(nbytes: float) -> None:
        nonlocal done
        done += nbytes
        progress(nbytes)

    try:
        _write(source, new, notice, counted)
    except _NotEncoded as error:
        notice(
            f"{error}; netcdf-c cannot store incompressible chunks with blosc: zlib is used instead"
        )
        progress(-done)
        plain = replace(source, root=with_variables(source.root, _without_blosc))
        _write(plain, new, notice, progress)


def _write(source: Source, new: NewFile, notice: Notice, progress: Progress) -> None:
    declared = dict(variables_of(source.root))
    with _renamed_at_end(new) as temporary:
        with _opened(temporary, "w", new) as file:
            _Definer(file, new, notice).define(source.root)
        with _opened(temporary, "r+", new) as file:
            for path, content in source.contents.items():
                _Filler(file[stored_name(path)], path, declared[path], new).fill(content, progress)


class _Filler:
    """A writer of a variable's values in its own thread, while the next values are read."""

    def __init__(
        self, variable: Any, path: str, declared: VariableDeclaration, new: NewFile
    ) -> None:
        variable.set_auto_maskandscale(False)
        variable.set_auto_chartostring(False)
        self._variable = variable
        self._place = f"{new.path}: /{path}"
        self._declared = declared
        self._new = new
        self._chunks = chunk_shape(variable)
        if self._chunks is not None:
            # Chunks are written whole. A cache would only postpone the work until the file is
            # closed, where there is no progress and no interruption.
            variable.set_var_chunk_cache(0, 1009, 0.75)

    def fill(self, content: Content, progress: Progress) -> None:
        declared, limit = self._declared, self._new.memory_limit_bytes
        dtype = np.dtype(object if declared.type is NcType.STRING else self._variable.dtype)
        size = block_size(limit, dtype, declared.string_bytes)
        # `Writes` owns the only thread that may use the library; it ends first.
        with (
            ThreadPoolExecutor(1, "nczfs-netcdf") as pool,
            Writes(2, limit // BLOCK_SHARE, progress) as writes,
        ):

            def start(selection: Slices, values: Values, writes: Writes, credit: float) -> None:
                begin = partial(pool.submit, self._write, selection, values)
                writes.add(begin, memory_of(values), values.size * credit)

            chunks = self._chunks or content.chunks
            copy(content, Shapes(chunks, chunks), start, size, writes, progress)

    def _write(self, selection: Slices, values: Values) -> None:
        with _written(self._place, self._declared):
            self._variable[selection or ...] = values


def _without_blosc(_path: str, declared: VariableDeclaration) -> VariableDeclaration:
    has_blosc = any(codec.name == "blosc" for codec in declared.codecs or ())
    return replace(declared, codecs=_SUBSTITUTE) if has_blosc else declared


class _NotEncoded(CorruptStore):
    """An error: netcdf-c could not store values through its blosc filter."""


@contextmanager
def _written(place: str, declared: VariableDeclaration) -> Iterator[None]:
    try:
        with translated(place):
            yield
    except CorruptStore as error:
        if any(codec.name == "blosc" for codec in declared.codecs or ()):
            raise _NotEncoded(str(error)) from error
        raise


@contextmanager
def _renamed_at_end(new: NewFile) -> Iterator[str]:
    temporary = _temporary(new)
    folder = os.path.dirname(temporary)
    _check_free(new)
    if not os.path.isdir(folder):
        raise NoContent(f"{folder}: no such directory")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise AccessDenied(f"{folder}: cannot be written: Permission denied")
    try:
        yield temporary
        _check_free(new)
        os.replace(temporary, new.path)
    except (CorruptStore, PermissionError):
        _check_disk(new)
        raise
    finally:
        remove_temporary(new)


def _check_disk(new: NewFile) -> None:
    """Raise what the operating system says of more bytes in the file, which netCDF conceals."""
    try:
        with open(_temporary(new), "ab") as file:
            file.write(bytes(_PROBE_BYTES))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise kind_of(error)(f"{new.path}: {error.strerror}") from error


def remove_temporary(new: NewFile) -> None:
    """Remove what this process has written of an incomplete file, if anything."""
    with suppress(OSError):
        os.truncate(_temporary(new), 0)  # the library may keep it open, and its space
    with suppress(FileNotFoundError):
        os.unlink(_temporary(new))


def _temporary(new: NewFile) -> str:
    folder, name = os.path.split(os.path.abspath(new.path))
    return os.path.join(folder, f".{name}.{os.getpid()}")


def _check_free(new: NewFile) -> None:
    if os.path.lexists(new.path) and not new.overwrite:
        raise ObjectExists(f"{new.path}: exists already; --overwrite replaces it")


@contextmanager
def _opened(path: str, mode: Literal["w", "r+"], new: NewFile) -> Iterator[Any]:
    with translated(new.path):
        file = netCDF4.Dataset(path, mode, format=new.kind.format)
    try:
        yield file
    except BaseException:
        netcdf_c.abandon(file)
        raise
    with translated(new.path):
        netcdf_c.close(file)


@dataclass
class _Definer:
    """A maker of groups, dimensions and variables in a new file."""

    file: Any
    new: NewFile
    notice: Notice

    def define(self, root: GroupDeclaration) -> None:
        groups = {"": self.file}
        for path, declared in groups_of(root):
            with translated(f"{self.new.path}: /{path}"):
                if path:
                    groups[path] = self.file.createGroup(path)
                group = groups[path]
                for dimension in declared.dimensions:
                    length = None if dimension.unlimited else dimension.size
                    group.createDimension(dimension.name, length)
                with netcdf_c.defining(group._grpid):
                    self._set_attributes(group, netcdf_c.GLOBAL, path, declared.attributes)
                    for variable in declared.variables:
                        self._define(group, below(path, variable.name), variable)

    def _define(self, group: Any, path: str, declared: VariableDeclaration) -> None:
        nc_type = declared.type
        assert isinstance(nc_type, NcType)
        dimensions = [_found(group, name.rpartition("/")[2]) for name in declared.dimensions]
        is_hdf5 = self.new.kind.is_hdf5
        chunks = _clipped(declared.chunk_shape or (), dimensions) if is_hdf5 else ()
        # In a netCDF file a chunk holds only the addresses of strings, so filters are useless.
        filtered = chunks and nc_type is not NcType.STRING
        # HDF5 cannot have strings without a fill value.
        filled = declared.fill_value is not Fill.NONE or nc_type is NcType.STRING
        with translated(f"{self.new.path}: /{path}"):
            variable = netcdf_c.define_variable(
                group._grpid,
                declared.name,
                nc_type,
                [dimension._dimid for dimension in dimensions],
                chunks=chunks,
                filters=self._filters(group, path, declared) if filtered else (),
                big_endian=is_hdf5 and declared.byte_order == ">",
                filled=filled,
            )
        self._set_attributes(group, variable, path, declared.attributes)

    def _set_attributes(
        self, group: Any, variable: int, path: str, attributes: tuple[Attribute, ...]
    ) -> None:
        for attribute in attributes:
            try:
                netcdf_c.set_attribute(group._grpid, variable, attribute)
            except BadValue as error:
                raise BadValue(f"{self.new.path}: /{path}: {error}") from error

    def _filters(
        self, group: Any, path: str, declared: VariableDeclaration
    ) -> list[netcdf_c.Filter]:
        """Return the filters that correspond to codecs; zlib if one of them has none."""
        found: list[netcdf_c.Filter] = []
        for codec in declared.codecs or ():
            known = filter_of_codec(codec)
            if known is None or not netcdf_c.has_filter(group._grpid, known[0]):
                what = f"netCDF has no filter for codec {codec.name!r}"
                self.notice(f"/{path}: {what}: zlib is used instead")
                return [known for codec in _SUBSTITUTE if (known := filter_of_codec(codec))]
            found.append(known)
        return found


def _clipped(chunks: Sequence[int], dimensions: Sequence[Any]) -> tuple[int, ...]:
    """Return chunks no longer than fixed dimensions, which HDF5 requires."""
    return tuple(
        chunk if dimension.isunlimited() else min(chunk, len(dimension))
        for chunk, dimension in zip(chunks, dimensions, strict=bool(chunks))
    )


def _found(group: Any, name: str) -> Any:
    while name not in group.dimensions:
        group = group.parent
    return group.dimensions[name]
