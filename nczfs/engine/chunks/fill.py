"""The fill value of an array: its element, whole chunks of it, and whether values are it."""

from __future__ import annotations

import numpy as np

from nczfs.engine.chunks.loaded import Values
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


def fill_chunk(array: ArrayDescription) -> Values:
    """Return a chunk of fill: one element, broadcast, so that a hole takes no memory."""
    return np.broadcast_to(fill_element(array), array.chunk_shape)


def is_fill(array: ArrayDescription, values: Values) -> bool:
    """Return whether all values are fill, and a missing chunk reads the same."""
    # Without a fill value, what other programs read from a missing chunk is undefined.
    if values.dtype.hasobject or values.size == 0 or array.fill_value is None:
        return False
    # Bits, not values: NaN equals no NaN, and -0.0 is not 0.0.
    fill = fill_element(array).tobytes()
    if values[(0,) * values.ndim].tobytes() != fill:
        return False
    size = len(fill)
    item = np.dtype(f"u{size}" if size in (1, 2, 4, 8) else (np.void, size))
    items = np.ascontiguousarray(values).reshape(-1).view(item)
    return bool((items == np.frombuffer(fill, item)[0]).all())
