"""The content of a netCDF file: what a group shows, before any format makes bytes of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np

from nczfs.model.dtypes import NcType
from nczfs.model.hierarchy import Attribute, Variable
from nczfs.plaindata import frozen


@frozen
class FileDimension:
    """A dimension of a netCDF file.

    Attributes
    ----------
    group : path in the file of the group that defines it; "" is the root.
    """

    name: str
    size: int
    unlimited: bool = False
    group: str = ""


@frozen
class Compound:
    """A compound type, which the root of the file names.

    Attributes
    ----------
    dtype : structured, in native byte order, without gaps.
    """

    name: str
    dtype: np.dtype[Any]


@frozen
class Opaque:
    """A type of bytes without meaning to netCDF, which the root of the file names.

    Attributes
    ----------
    size : of an element; 0: each has its own, in a stream that is sent.
    """

    name: str
    size: int


FileType: TypeAlias = "NcType | Compound | Opaque"


@frozen
class Elements:
    """Values that are made of an array's chunks on demand.

    Attributes
    ----------
    variable : of the dataset.
    cell : dtype of one element of the array in the file, in native byte order; as wide as the last
        dimension of the file's variable if text became characters. object: elements of any length,
        which are read when they are sent.
    """

    variable: Variable
    cell: np.dtype[Any]


@frozen
class Texts:
    """Values of strings, read when the content was made; in C order.

    In a variable of type CHAR each is a row of characters: UTF-8, with NULs up to the length of the
    last dimension.
    """

    variable: Variable
    values: tuple[str, ...]


@frozen
class FileVariable:
    """A variable of a netCDF file.

    Attributes
    ----------
    type : CHAR if text became characters, STRING if it did not.
    dimensions : those of the file, slowest first, including one for characters of text.
    attributes : everything that a reader sees, in order; a `_FillValue` has the type of the
        variable.
    is_ragged : whether each element is an array of any length of the type, as only streams that are
        sent have it.
    """

    name: str
    type: FileType
    dimensions: tuple[FileDimension, ...]
    attributes: tuple[Attribute, ...]
    values: Elements | Texts
    is_ragged: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of each dimension."""
        return tuple(dimension.size for dimension in self.dimensions)


@frozen
class FileGroup:
    """A group of a netCDF file.

    Attributes
    ----------
    path : in the file; "" is the root.
    dimensions : those that it defines.
    """

    path: str
    dimensions: tuple[FileDimension, ...] = ()
    attributes: tuple[Attribute, ...] = ()
    variables: tuple[FileVariable, ...] = ()
    groups: tuple[FileGroup, ...] = ()

    @property
    def name(self) -> str:
        """The name within its group."""
        return self.path.rpartition("/")[2]


@frozen
class FileContent:
    """The content of a netCDF file.

    Attributes
    ----------
    root : its attributes name what was left out, in `nczfs_omitted`.
    omitted : a line for each member that the format cannot hold, and why; without those that
        cannot be read.
    """

    root: FileGroup
    omitted: tuple[str, ...] = ()

    def groups(self) -> Iterator[FileGroup]:
        """Yield every group, each before those below it."""
        waiting = [self.root]
        while waiting:
            group = waiting.pop()
            yield group
            waiting += reversed(group.groups)

    def variables(self) -> Iterator[FileVariable]:
        """Yield the variables of every group."""
        for group in self.groups():
            yield from group.variables
