"""Real numbers of one type as numbers of another: rounding, ranges, wrapping.

Notes
-----
Registry of Zarr extensions, codec ``cast_value``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final

import numpy as np

from nczfs.buffers import Values
from nczfs.codecs.codec import Flat
from nczfs.model.smallnumbers import bits_of, number_kind, small_number
from nczfs.plaindata import frozen

ROUNDINGS: Final = (
    "nearest-even", "towards-zero", "towards-positive", "towards-negative", "nearest-away",
)  # fmt: skip


@frozen
class Cast:
    """How numbers become numbers of another type.

    Attributes
    ----------
    target : the type, in this machine's byte order.
    rounding : of numbers between two of the type, one of `ROUNDINGS`.
    out_of_range : "clamp", "wrap" (integers alone), or None: such numbers are an error.
    """

    target: np.dtype[Any]
    rounding: str = "nearest-even"
    out_of_range: str | None = None

    def __call__(self, values: Values) -> Values:
        """Return the numbers in the type `target`.

        Raises
        ------
        ValueError : a number is out of range, or the type has no such NaN or infinity.
        """
        if values.dtype == self.target:
            return values
        if _is_always_exact(values.dtype, self.target):
            return values.astype(self.target)
        flat = _wide(np.ascontiguousarray(values).reshape(-1))
        if number_kind(self.target) == "f":
            is_direct = values.dtype.kind == "f" and values.itemsize <= 4
            found = self._as_floats(flat, is_direct=is_direct)
        elif flat.dtype.kind == "f":
            found = self._as_integers(flat)
        else:
            found = self._as_other_integers(flat)
        return found.reshape(values.shape)

    def _as_other_integers(self, flat: Flat) -> Flat:
        low, high = _bounds(self.target)
        is_out = (flat < low) | (flat > high)
        if is_out.any():
            if self.out_of_range is None:
                raise _out_of_range(flat, is_out, self.target)
            if self.out_of_range == "clamp":
                edges = np.iinfo(flat.dtype)
                flat = np.clip(flat, max(low, edges.min), min(high, edges.max))
        return _wrapped(flat, self.target)

    def _as_integers(self, flat: Flat) -> Flat:
        if not (finite := np.isfinite(flat)).all():
            raise ValueError(f"{flat[~finite][0]} has no value in {_name(self.target)}")
        rounded = _ROUND[self.rounding](flat)
        low, high = _bounds(self.target)
        # The bounds are powers of two, which floats have exactly.
        is_low, is_high = rounded < float(low), rounded >= float(high + 1)
        is_out = is_low | is_high
        if is_out.any() and self.out_of_range is None:
            raise _out_of_range(flat, is_out, self.target)
        # An exact remainder, whose size is below 2^64.
        size = np.fmod(np.abs(rounded), 2.0**64).astype(np.uint64)
        found = _wrapped(np.where(rounded < 0, np.uint64(0) - size, size), self.target)
        if self.out_of_range == "clamp":
            found[is_low] = low
            found[is_high] = high
        return found

    def _as_floats(self, flat: Flat, *, is_direct: bool) -> Flat:
        """Return floats. `is_direct`: those given are no wider than float32."""
        if flat.dtype.kind == "f":
            _check_special(flat, self.target)
        is_nearest = self.rounding == "nearest-even" and self.target.itemsize == 2
        if is_nearest and is_direct:
            # ml_dtypes goes through float32, which would round wider numbers twice.
            with np.errstate(over="ignore", under="ignore"):
                found = flat.astype(self.target)
            is_out = np.isinf(found) & np.isfinite(flat)
        elif self.target.itemsize > 2:
            found, is_out = _between_floats(flat, self.target, self.rounding)
        else:
            found, is_out = _between_listed(flat, self.target, self.rounding)
        if is_out.any():
            if self.out_of_range is None:
                raise _out_of_range(flat, is_out, self.target)
            listed = _has_infinity(self.target)
            edges = (-np.inf, np.inf) if listed else _edges(self.target)
            found[is_out & (flat < 0)] = edges[0]
            is_high = is_out & (flat > 0)
            found[is_high] = edges[1]
            if not listed:
                # A type without zero has numbers out of range next to it.
                found[is_out & (np.abs(flat) < edges[1])] = edges[0]
        return found.astype(self.target, copy=False)


def _is_always_exact(source: np.dtype[Any], target: np.dtype[Any]) -> bool:
    if small_number(source) is not None and target.kind == "f" and target.itemsize in (4, 8):
        return small_number(target) is None
    if small_number(source) is not None or small_number(target) is not None:
        return False
    is_wide = source.kind in "iu" and source.itemsize == 8 and target.kind == "f"
    return np.can_cast(source, target, "safe") and not is_wide


def _wide(flat: Flat) -> Flat:
    """Return the numbers in a type that has them all: long doubles for integers beyond floats."""
    kind = number_kind(flat.dtype)
    if kind == "f":
        return flat.astype(np.float64, copy=False)
    if small_number(flat.dtype) is not None:
        return flat.astype(np.int8 if kind == "i" else np.uint8)
    return flat


def _bounds(dtype: np.dtype[Any]) -> tuple[int, int]:
    bits = bits_of(dtype)
    if number_kind(dtype) == "i":
        return -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    return 0, (1 << bits) - 1


def _wrapped(flat: Flat, target: np.dtype[Any]) -> Flat:
    """Return the integers of a type that agree with some modulo a power of two."""
    if small_number(target) is None:
        return flat.astype(target)
    mask = np.uint8((1 << bits_of(target)) - 1)
    found: Flat = (flat.astype(np.uint8) & mask).view(target)
    return found


def _away(flat: Flat) -> Flat:
    whole = np.trunc(flat)
    is_half = np.abs(flat - whole) >= 0.5
    found: Flat = np.where(is_half, whole + np.copysign(1, flat), whole)
    return found


_ROUND: Final[dict[str, Callable[[Flat], Flat]]] = {
    "nearest-even": np.rint,
    "towards-zero": np.trunc,
    "towards-positive": np.ceil,
    "towards-negative": np.floor,
    "nearest-away": _away,
}


def _check_special(flat: Flat, target: np.dtype[Any]) -> None:
    for is_special, name in ((np.isnan, "NaN"), (np.isinf, "infinity")):
        found = is_special(flat)
        if found.any():
            with np.errstate(all="ignore"):
                kept = is_special(flat[found][:1].astype(target).astype(np.float64))
            if not kept.all():
                raise ValueError(f"{name} has no value in {_name(target)}")


def _has_infinity(target: np.dtype[Any]) -> bool:
    with np.errstate(all="ignore"):
        return bool(np.isinf(np.array([np.inf]).astype(target).astype(np.float64))[0])


def _edges(target: np.dtype[Any]) -> tuple[float, float]:
    numbers = _listed(target)[0]
    return float(numbers[1]), float(numbers[-2])


def _between_floats(
    flat: Flat, target: np.dtype[Any], rounding: str
) -> tuple[Flat, np.ndarray[Any, np.dtype[np.bool_]]]:
    """Round to a type of four or eight bytes; return the numbers, and which are out of range."""
    exact = flat.astype(np.longdouble) if flat.dtype.kind in "iu" else flat
    with np.errstate(all="ignore"):
        near = flat.astype(target)
        is_out = np.isinf(near) & np.isfinite(exact)
        back = near.astype(exact.dtype)
        is_up, is_down = back > exact, back < exact
        up, down = np.nextafter(near, target.type(np.inf)), np.nextafter(near, -target.type(np.inf))
        lower, upper = np.where(is_up, down, near), np.where(is_down, up, near)
        if rounding == "towards-zero":
            near = np.where(exact < 0, upper, lower)
        elif rounding == "towards-positive":
            near = upper
        elif rounding == "towards-negative":
            near = lower
        elif rounding == "nearest-away":
            to_lower = exact - lower.astype(exact.dtype)
            to_upper = upper.astype(exact.dtype) - exact
            is_tie = (to_lower == to_upper) & (is_up | is_down)
            near = np.where(is_tie, np.where(exact < 0, lower, upper), near)
        limit = np.exp2(np.finfo(target).maxexp, dtype=exact.dtype)
        is_out = np.isfinite(exact) & ((np.abs(exact) >= limit) | np.isinf(near))
    return near, is_out


@cache
def _listed(target: np.dtype[Any]) -> tuple[Flat, Flat]:
    """Return all finite numbers of a type of at most two bytes, and which are even.

    The first and the last are beyond the type: where its next number would be.
    """
    codes = np.arange(1 << (bits_of(target)), dtype=f"u{target.itemsize}")
    with np.errstate(all="ignore"):
        numbers = codes.view(target).astype(np.float64)
    is_kept = np.isfinite(numbers) & ~((numbers == 0) & np.signbit(numbers))
    codes, numbers = codes[is_kept], numbers[is_kept]
    order = np.argsort(numbers)
    codes, numbers = codes[order], numbers[order]
    if numbers[0] > 0:  # powers of two alone
        below, above = 0.0, 2 * numbers[-1]
    else:
        below, above = 2 * numbers[0] - numbers[1], 2 * numbers[-1] - numbers[-2]
    is_even = codes % 2 == 0
    return (
        np.concatenate(([below], numbers, [above])),
        np.concatenate(([not is_even[0]], is_even, [not is_even[-1]])),
    )


def _between_listed(
    flat: Flat, target: np.dtype[Any], rounding: str
) -> tuple[Flat, np.ndarray[Any, np.dtype[np.bool_]]]:
    """Round to a type of at most two bytes; return floats, and which are out of range."""
    numbers, is_even = _listed(target)
    if flat.dtype.kind in "iu":
        # Rounding to odd keeps what follows exact; such numbers are beyond all but bfloat16.
        flat = _to_odd(flat)
    finite = np.isfinite(flat)
    clipped = np.clip(np.where(finite, flat, numbers[1]), numbers[0], numbers[-1])
    place = np.clip(np.searchsorted(numbers, clipped, "right") - 1, 0, numbers.size - 2)
    lower, upper = numbers[place], numbers[place + 1]
    is_exact = clipped == lower
    match rounding:
        case "towards-zero":
            goes_up = clipped < 0
        case "towards-positive":
            goes_up = np.ones(clipped.shape, np.bool_)
        case "towards-negative":
            goes_up = np.zeros(clipped.shape, np.bool_)
        case _:
            to_lower, to_upper = clipped - lower, upper - clipped
            tied = clipped > 0 if rounding == "nearest-away" else is_even[place + 1]
            goes_up = (to_upper < to_lower) | ((to_upper == to_lower) & tied)
    place = np.where(goes_up & ~is_exact, place + 1, place)
    found = np.copysign(numbers[place], np.where(numbers[place] == 0, flat, numbers[place]))
    is_out = finite & ((place == 0) | (place == numbers.size - 1))
    return np.where(finite, found, flat), is_out


def _to_odd(flat: Flat) -> Flat:
    """Return integers as floats: where one has too many bits, with its last bit set."""
    if flat.dtype.itemsize < 8:
        return flat.astype(np.float64)
    low = np.bitwise_and(flat, flat.dtype.type(0xFFF)) != 0
    is_long = (flat > 2**53) | (flat < -(2**53)) if flat.dtype.kind == "i" else flat > 2**53
    cut = np.bitwise_and(flat, ~flat.dtype.type(0xFFF))
    marked = np.where(is_long & low, cut | flat.dtype.type(0x800), flat)
    return marked.astype(np.float64)


def _out_of_range(flat: Flat, is_out: Values, target: np.dtype[Any]) -> ValueError:
    return ValueError(f"{flat[is_out][0]} is out of the range of {_name(target)}")


def _name(dtype: np.dtype[Any]) -> str:
    return small_number(dtype) or dtype.name
