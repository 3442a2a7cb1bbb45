"""The codec ``scale_offset``: numbers less an offset, times a factor, in their own type."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from nczfs.buffers import Values
from nczfs.codecs.arraycodec import ArrayCodec, ArraySpec, Context, StrictSettings
from nczfs.codecs.castvalue import scalar
from nczfs.codecs.rounding import Cast
from nczfs.messages import reason
from nczfs.model.smallnumbers import bits_of, number_kind, small_number


class ScaleOffset(ArrayCodec):
    """Numbers less an offset, times a factor; what the type does not have is an error.

    Notes
    -----
    Registry of Zarr extensions, codec ``scale_offset``.
    """

    is_cheap = False

    def __init__(self, settings: StrictSettings, form: ArraySpec, context: Context) -> None:
        settings.known("offset", "scale")
        kind = number_kind(form.dtype)
        if kind not in "iuf":
            raise settings.refused(f"it scales only real numbers, not {form.dtype}")
        offset = _given(settings, "offset", form.dtype, 0)
        scale = _given(settings, "scale", form.dtype, 1)
        if scale == 0 or not np.isfinite(float(scale)) or not np.isfinite(float(offset)):
            raise settings.refused(f"offset {offset} and scale {scale} cannot be undone")
        self._arithmetic: _Floats | _Integers = (
            _Floats(form, float(offset), float(scale))
            if kind == "f"
            else _Integers(form, int(offset), int(scale))
        )
        try:
            fill = self.encode(form.fill.reshape(1)).reshape(())
        except (ValueError, FloatingPointError) as error:
            raise settings.refused(f"the fill value: {reason(error)}") from error
        self.encoded = replace(form, fill=fill)

    def decode(self, values: Values) -> Values:
        return self._arithmetic.decode(values)

    def encode(self, values: Values) -> Values:
        return self._arithmetic.encode(values)


def _given(settings: StrictSettings, name: str, dtype: np.dtype[Any], default: int) -> Any:
    value = settings.members.get(name)
    return default if value is None else scalar(settings, value, dtype)


class _Floats:
    """The arithmetic of floats: rounded after each step, and an error where it overflows."""

    def __init__(self, form: ArraySpec, offset: float, scale: float) -> None:
        # A type of few bits is computed in doubles, and each result rounded: never twice wrong.
        self._cast = Cast(form.dtype) if small_number(form.dtype) is not None else None
        work = np.dtype(np.float64) if self._cast else form.dtype
        self._offset = work.type(offset)
        self._scale = work.type(scale)
        self._work = work

    def decode(self, values: Values) -> Values:
        with np.errstate(over="raise", divide="ignore", invalid="ignore", under="ignore"):
            divided = self._rounded(self._wide(values) / self._scale)
            return self._rounded(self._wide(divided) + self._offset)

    def encode(self, values: Values) -> Values:
        with np.errstate(over="raise", divide="ignore", invalid="ignore", under="ignore"):
            moved = self._rounded(self._wide(values) - self._offset)
            return self._rounded(self._wide(moved) * self._scale)

    def _wide(self, values: Values) -> Values:
        return values.astype(self._work, copy=False)

    def _rounded(self, values: Values) -> Values:
        return values if self._cast is None else self._cast(values)


class _Integers:
    """The arithmetic of integers: an error where a result has no place, or is no integer."""

    def __init__(self, form: ArraySpec, offset: int, scale: int) -> None:
        small = small_number(form.dtype) is not None
        self._native = form.dtype
        kind = number_kind(form.dtype)
        self._work = np.dtype(f"{kind}1") if small else form.dtype
        bits = bits_of(form.dtype)
        self._low = -(1 << (bits - 1)) if kind == "i" else 0
        self._high = self._low + (1 << bits) - 1
        self._offset, self._scale = offset, scale

    def encode(self, values: Values) -> Values:
        work = values.astype(self._work, copy=False).reshape(-1)
        low, high = self._low + self._offset, self._high + self._offset
        _check((work >= low) & (work <= high), work, f"less {self._offset}")
        moved = work - self._work.type(self._offset)
        low, high = self._before_product()
        _check((moved >= low) & (moved <= high), moved, f"times {self._scale}")
        scaled = moved * self._work.type(self._scale)
        found: Values = scaled.astype(self._native, copy=False).reshape(values.shape)
        return found

    def decode(self, values: Values) -> Values:
        work = values.astype(self._work, copy=False).reshape(-1)
        scale = self._work.type(self._scale)
        with np.errstate(over="ignore"):  # of the least integer by -1, which is found below
            divided = work // scale
            is_kept = divided * scale == work
        if self._scale == -1:
            is_kept &= work != self._low
        _check(is_kept, work, f"divided by {self._scale}")
        low, high = self._low - self._offset, self._high - self._offset
        _check((divided >= low) & (divided <= high), divided, f"plus {self._offset}")
        moved = divided + self._work.type(self._offset)
        found: Values = moved.astype(self._native, copy=False).reshape(values.shape)
        return found

    def _before_product(self) -> tuple[int, int]:
        """Return the least and the greatest integer whose product with the factor has a place."""
        edges = (self._low, self._high) if self._scale > 0 else (self._high, self._low)
        low = -(-edges[0] // self._scale)
        high = edges[1] // self._scale
        return max(low, self._low), min(high, self._high)


def _check(is_kept: Values, values: Values, what: str) -> None:
    if not is_kept.all():
        raise ValueError(f"{values[~is_kept].reshape(-1)[0]} {what} is no number of the type")
