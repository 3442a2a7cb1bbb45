"""netCDF's quantisation by BitRound: fewer bits of a float are kept, so that it compresses.

netcdf-c has no codec for it: values are rounded before they are stored, and an attribute of the
variable gives the number of bits (``nc_def_var_quantize``, mode ``NC_QUANTIZE_BITROUND``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from nczfs.buffers import Values
from nczfs.errors import UsageError
from nczfs.model.dtypes import DataType, NcType
from nczfs.model.hierarchy import Attribute, CodecSpec, Variable

CODEC = "bitround"
ATTRIBUTE = "_QuantizeBitRoundNumberOfSignificantBits"

_MANTISSA_BITS = {4: 23, 8: 52}


def split_off(
    codecs: Iterable[CodecSpec], dtype: DataType, place: str
) -> tuple[tuple[CodecSpec, ...], Attribute | None]:
    """Return the codecs without ``bitround``, and the attribute that NCZarr uses instead.

    Raises
    ------
    UsageError : the elements are not floats, or have fewer bits.
    """
    kept = tuple(codec for codec in codecs if codec.name != CODEC)
    bits = [codec.configuration.get("keepbits") for codec in codecs if codec.name == CODEC]
    if not bits:
        return kept, None
    most = _MANTISSA_BITS.get(dtype.item_size) if dtype.stored.kind == "f" else None
    if most is None or not isinstance(bits[0], int) or not 1 <= bits[0] <= most:
        raise UsageError(f"{place}: bitround keeps 1 to {most or 0} bits of {dtype.typestr}")
    return kept, Attribute(ATTRIBUTE, NcType.INT, (bits[0],))


def rounding_of(variable: Variable) -> Callable[[Values], Values] | None:
    """Return the rounding of a variable's values before they are stored; None: none."""
    dtype = variable.array.dtype
    most = _MANTISSA_BITS.get(dtype.item_size) if dtype.stored.kind == "f" else None
    for attribute in variable.attributes:
        if attribute.name == ATTRIBUTE and most is not None and isinstance(attribute.value, tuple):
            bits = attribute.value[0] if len(attribute.value) == 1 else None
            if isinstance(bits, int) and 1 <= bits < most:
                return _Rounding(bits, most, variable.array.fill_value)
    return None


class _Rounding:
    """Rounding to the nearest, ties to even. NaN, infinities and fill values stay unchanged."""

    def __init__(self, bits: int, mantissa_bits: int, fill_value: object) -> None:
        self._drop = mantissa_bits - bits
        self._fill_value = fill_value

    def __call__(self, values: Values) -> Values:
        native = values.dtype
        unsigned = np.dtype(f"u{native.itemsize}")
        one, drop = unsigned.type(1), unsigned.type(self._drop)
        pattern = np.ascontiguousarray(values).view(unsigned)
        half = (one << (drop - one)) - one + ((pattern >> drop) & one)
        rounded = ((pattern + half) >> drop << drop).view(native)
        kept = ~np.isfinite(values)
        if isinstance(self._fill_value, float):
            kept |= values == native.type(self._fill_value)
        return np.where(kept, values, rounded)
