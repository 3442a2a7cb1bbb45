"""Types of HDF5 for those of netCDF."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from h5py import h5g, h5p, h5r, h5s, h5t

from nczfs.model.dtypes import CODE_OF_NC_TYPE, NcType
from nczfs.model.printing import encoded
from nczfs.views.netcdf.content import Compound, FileType, Opaque

REFERENCE: Final = np.dtype("O", metadata={"ref": h5r.Reference})
REFERENCES: Final = np.dtype("O", metadata={"vlen": REFERENCE})
TEXT: Final = np.dtype("O", metadata={"vlen": str})

# As the dimension scales of HDF5 have it, including its padding.
USE: Final = np.dtype(
    {
        "names": ["dataset", "dimension"],
        "formats": [REFERENCE, np.dtype("<u4")],
        "offsets": [0, 8],
        "itemsize": 16,
    }
)


def fixed_text(nbytes: int, *, is_ascii: bool = True) -> h5t.TypeStringID:
    """Return the type of text of a number of bytes, at least one."""
    found = h5t.C_S1.copy()
    found.set_size(nbytes)
    found.set_strpad(h5t.STR_NULLTERM)
    found.set_cset(h5t.CSET_ASCII if is_ascii else h5t.CSET_UTF8)
    return found


def any_text() -> h5t.TypeStringID:
    """Return the type of strings."""
    return h5t.py_create(TEXT, logical=True)


def number_type(dtype: np.dtype[Any]) -> h5t.TypeID:
    """Return the type of numbers of numpy."""
    return h5t.py_create(dtype)


class FileTypes:
    """The types of variables. The root has names for compounds.

    A variable of a compound without a name is invisible to programs with netCDF-C 4.9.

    Parameters
    ----------
    root : of the file.
    lcpl : of new links.
    """

    def __init__(self, root: h5g.GroupID, lcpl: h5p.PropLCID) -> None:
        self._root = root
        self._lcpl = lcpl
        self._named: dict[str, h5t.TypeID] = {}

    def find(self, type_: FileType) -> h5t.TypeID:
        """Return the type of a variable's elements."""
        match type_:
            case Compound():
                return self._compound(type_)
            case Opaque():
                # h5netcdf 1.8 cannot open a file that names an opaque type; without a name,
                # netCDF-C shows all of it but for the variable.
                return h5t.create(h5t.OPAQUE, type_.size)
            case NcType.CHAR:
                return fixed_text(1)
            case NcType.STRING:
                return any_text()
            case _:
                return number_type(np.dtype(CODE_OF_NC_TYPE[type_]))

    def _compound(self, type_: Compound) -> h5t.TypeID:
        if type_.name not in self._named:
            found = h5t.create(h5t.COMPOUND, type_.dtype.itemsize)
            assert type_.dtype.fields is not None
            for name, (member, offset, *_) in type_.dtype.fields.items():
                found.insert(encoded(name), offset, _member(member))
            found.commit(self._root, encoded(type_.name), self._lcpl)
            self._named[type_.name] = found
        return self._named[type_.name]


def _member(dtype: np.dtype[Any]) -> h5t.TypeID:
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return h5t.array_create(fixed_text(1) if base.kind == "S" else number_type(base), shape)
    if dtype.kind == "S":  # h5netcdf 1.8 takes a single character for an array, and fails
        return h5t.array_create(fixed_text(1), (1,))
    return number_type(dtype)


def simple_space(
    shape: tuple[int, ...], limits: tuple[int | None, ...] | None = None
) -> h5s.SpaceID:
    """Return the space of a shape; a limit of None is unlimited."""
    if not shape:
        return h5s.create(h5s.SCALAR)
    if limits is None:
        return h5s.create_simple(shape)
    return h5s.create_simple(shape, tuple(h5s.UNLIMITED if n is None else n for n in limits))
