"""The strings of a variable, which are read when its netCDF file is made."""

from __future__ import annotations

from typing import Any

import numpy as np

from nczfs.engine.dataset import Dataset
from nczfs.engine.options import Tally
from nczfs.errors import Unsupported
from nczfs.model.boxes import Box
from nczfs.model.hierarchy import Variable
from nczfs.views.netcdf.types import TEXTS_BYTES_MAX


def texts_of(dataset: Dataset, variable: Variable) -> tuple[str, ...]:
    """Return all strings of a variable, in C order, without NULs at their ends.

    Raises
    ------
    Unsupported : they are too large together. CodecError : they cannot be decoded.
    StoreError : the store could not be asked.
    """
    array, shape = dataset.array(variable), variable.array.shape
    if not variable.array.size:
        return ()  # numpy has no empty array of just any shape
    array.require_codecs()
    values: np.ndarray[Any, np.dtype[Any]] = np.empty(shape, variable.array.dtype.native)
    array.read_box(Box((0,) * len(shape), shape), values, Tally())
    found: list[str] = []
    room = TEXTS_BYTES_MAX
    for value in values.reshape(-1).tolist():
        text = plain_text(value)
        room -= len(text)
        if room < 0:
            raise Unsupported(f"has strings of more than {TEXTS_BYTES_MAX} bytes")
        found.append(text)
    return tuple(found)


def plain_text(value: object) -> str:
    """Return a string as netCDF has it: without NULs at its end."""
    if isinstance(value, bytes):
        return value.rstrip(b"\0").decode("utf-8", "replace")
    return "" if value is None else str(value)
