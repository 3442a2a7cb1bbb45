"""The header that ``np.save`` writes: ``values.npy`` is it and the elements."""

from __future__ import annotations

import io
from typing import Any

import numpy as np


def header(shape: tuple[int, ...], dtype: np.dtype[Any]) -> bytes:
    """The .npy header of an array in C order, in the oldest version of the format that fits.

    Source: NEP 1 and ``numpy.lib.format``; `np.save` tries the versions in the same order.
    """
    fields = {
        "descr": np.lib.format.dtype_to_descr(dtype),
        "fortran_order": False,
        "shape": shape,
    }
    buffer = io.BytesIO()
    try:
        np.lib.format.write_array_header_1_0(buffer, fields)
    except ValueError:
        buffer = io.BytesIO()
        np.lib.format.write_array_header_2_0(buffer, fields)
    return buffer.getvalue()
