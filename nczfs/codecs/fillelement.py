"""The fill value of an array as an element of it."""

from __future__ import annotations

import numpy as np

from nczfs.buffers import Values
from nczfs.model.dtypes import VlenKind, ZeroBytes, ZeroText
from nczfs.model.hierarchy import ArrayDescription

_EMPTY_OF: dict[VlenKind, object] = {
    VlenKind.TEXT: "",
    VlenKind.BYTES: b"",
    VlenKind.JSON: None,
}


def fill_element(array: ArrayDescription) -> Values:
    """Return the fill value as a rank-0 array of the array's native dtype; zeros if undefined."""
    dtype = array.dtype
    if dtype.vlen is not None:
        element = np.empty(1, object)
        fill = array.fill_value
        if dtype.vlen is VlenKind.ARRAY:
            element[0] = np.empty(0, dtype.base)
        elif fill is None or isinstance(fill, ZeroText | ZeroBytes):
            element[0] = _EMPTY_OF[dtype.vlen]
        else:
            element[0] = fill
        return element.reshape(())
    element = np.zeros((), dtype.native)
    if array.fill_value is not None:
        element[()] = array.fill_value
    return element


def is_all(values: Values, element: Values) -> bool:
    """Return whether all elements of an array have the bits of one, whose dtype they have.

    Bits, not values: NaN equals no NaN, and -0.0 is not 0.0.
    """
    bits = element.tobytes()
    if values[(0,) * values.ndim].tobytes() != bits:
        return False
    size = len(bits)
    item = np.dtype(f"u{size}" if size in (1, 2, 4, 8) else (np.void, size))
    items = np.ascontiguousarray(values).reshape(-1).view(item)
    return bool((items == np.frombuffer(bits, item)[0]).all())
