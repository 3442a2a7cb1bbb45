"""The header that ``np.save`` writes: ``values.npy`` is this header and the elements."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from nczfs.model.smallnumbers import small_number

_LENGTH_BYTES = 4


def header(shape: tuple[int, ...], dtype: np.dtype[Any]) -> bytes:
    """Return the .npy header of an array in C order, in the oldest possible version.

    Source: NEP 1 and ``numpy.lib.format``; `np.save` tries the versions in the same order.
    """
    if small_number(dtype) is not None:
        # The format has no names for them: np.load gives raw bytes, to be viewed as their type.
        dtype = np.dtype(f"V{dtype.itemsize}")
    fields = {
        "descr": np.lib.format.dtype_to_descr(dtype),
        "fortran_order": False,
        "shape": shape,
    }
    for write in (
        np.lib.format.write_array_header_1_0,
        np.lib.format.write_array_header_2_0,
    ):
        buffer = io.BytesIO()
        try:
            write(buffer, fields)
        except ValueError:  # too long, or names of fields that are not Latin-1
            continue
        return buffer.getvalue()
    return _header_3_0(fields)


def _header_3_0(fields: dict[str, Any]) -> bytes:
    """Return a header of version 3.0, whose text is UTF-8; numpy has no public function for it."""
    text = "".join(f"{name!r}: {value!r}, " for name, value in sorted(fields.items()))
    data = f"{{{text}}}".encode()
    start = np.lib.format.magic(3, 0)
    padding = -(len(start) + _LENGTH_BYTES + len(data) + 1) % np.lib.format.ARRAY_ALIGN
    data += b" " * padding + b"\n"
    return start + len(data).to_bytes(_LENGTH_BYTES, "little") + data
