"""The codec ``cast_value``: numbers as numbers of another type."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from nczfs.buffers import Values
from nczfs.codecs.arraycodec import ArrayCodec, ArraySpec, Context, StrictSettings
from nczfs.codecs.rounding import ROUNDINGS, Cast
from nczfs.messages import reason, shown
from nczfs.model.hierarchy import Json
from nczfs.model.jsonnumbers import Unfit, as_float, as_integer
from nczfs.model.smallnumbers import SMALL_NUMBERS, number_kind

_NUMPY_NAMES = (
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "float32", "float64",
)  # fmt: skip
_REAL = {name: np.dtype(name) for name in _NUMPY_NAMES} | {
    name: dtype for name, dtype in SMALL_NUMBERS.items() if number_kind(dtype) != "c"
}

_Pairs = list[tuple[Any, Any]]

PAIRS_MAX = 1024  # each is compared with all elements of a chunk


class CastValue(ArrayCodec):
    """A number becomes the one of another type that has its value.

    Some become others that a table gives, before rounding and the treatment of what is out of
    range.

    Notes
    -----
    Registry of Zarr extensions, codec ``cast_value``.
    """

    is_cheap = False

    def __init__(self, settings: StrictSettings, form: ArraySpec, context: Context) -> None:
        settings.known("data_type", "rounding", "out_of_range", "scalar_map")
        if number_kind(form.dtype) not in "iuf":
            raise settings.refused(f"it casts only real numbers, not {form.dtype}")
        target = _target(settings)
        rounding = settings.one_of("rounding", ROUNDINGS, ROUNDINGS[0])
        beyond = settings.one_of("out_of_range", ("clamp", "wrap"), None)
        if beyond == "wrap" and number_kind(target) == "f":
            raise settings.refused("out_of_range is 'wrap', and floats do not wrap")
        assert rounding is not None
        # In decoding, floats that are out of range do not wrap either.
        is_back_float = number_kind(form.dtype) == "f"
        back = None if beyond == "wrap" and is_back_float else beyond
        self._encode = Cast(target, rounding, beyond)
        self._decode = Cast(form.dtype, rounding, back)
        table = settings.members.get("scalar_map")
        self._encoded_of = _pairs(settings, table, "encode", form.dtype, target)
        self._decoded_of = _pairs(settings, table, "decode", target, form.dtype)
        self.encoded = replace(form, dtype=target, fill=self._fill(settings, form))

    def _fill(self, settings: StrictSettings, form: ArraySpec) -> Values:
        try:
            fill = self.encode(form.fill)
            back = self.decode(fill)
        except ValueError as error:
            raise settings.refused(f"the fill value cannot be cast: {reason(error)}") from error
        if not (back == form.fill or (back != back and form.fill != form.fill)):
            raise settings.refused(f"the fill value {form.fill} becomes {back}")
        return fill

    def decode(self, values: Values) -> Values:
        return _mapped(values, self._decoded_of, self._decode)

    def encode(self, values: Values) -> Values:
        return _mapped(values, self._encoded_of, self._encode)


def _mapped(values: Values, pairs: _Pairs, cast: Cast) -> Values:
    if not pairs:
        return cast(values)
    native = values.astype(values.dtype.newbyteorder("="), copy=False)
    found = np.empty(native.shape, cast.target)
    is_left = np.ones(native.shape, np.bool_)
    for given, result in pairs:
        is_given = native != native if given != given else native == given
        found[is_given & is_left] = result
        is_left &= ~is_given
    found[is_left] = cast(native[is_left])
    return found


def _target(settings: StrictSettings) -> np.dtype[Any]:
    value = settings.members.get("data_type")
    if isinstance(value, dict) and value.keys() <= {"name", "configuration"}:
        value = value.get("name") if value.get("configuration", {}) == {} else value
    target = _REAL.get(value) if isinstance(value, str) else None
    if target is None:
        raise settings.refused(f"data_type is {shown(value)}, not a type of real numbers")
    return target


def _pairs(
    settings: StrictSettings,
    table: Json,
    way: str,
    given: np.dtype[Any],
    result: np.dtype[Any],
) -> _Pairs:
    """Return the numbers that become certain others, the first ones before those that follow."""
    if table is None:
        return []
    if not isinstance(table, dict) or not table.keys() <= {"encode", "decode"}:
        raise settings.refused(f"scalar_map is {shown(table)}")
    entries = table.get(way, [])
    if not isinstance(entries, list):
        raise settings.refused(f"scalar_map: {way} is {shown(entries)}, not a list")
    if len(entries) > PAIRS_MAX:
        raise settings.refused(f"scalar_map: {way} has {len(entries)} pairs (max {PAIRS_MAX})")
    found: _Pairs = []
    for entry in entries:
        if not isinstance(entry, list) or len(entry) != 2:
            raise settings.refused(f"scalar_map: {way} has the entry {shown(entry)}, not a pair")
        found.append((scalar(settings, entry[0], given), scalar(settings, entry[1], result)))
    return found


def scalar(settings: StrictSettings, value: Json, dtype: np.dtype[Any]) -> Any:
    """Return a number of a type, as an element of an array. Raises UnknownCodec: it is none."""
    # The specification spells it with a sign in an example, and without one elsewhere.
    value = "Infinity" if value == "+Infinity" else value
    try:
        number = (as_float if number_kind(dtype) == "f" else as_integer)(value, dtype)
    except Unfit:
        raise settings.refused(f"{shown(value)} is not a number of the type {dtype}") from None
    return np.array([number]).astype(dtype)[0]
