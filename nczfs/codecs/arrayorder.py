"""Codecs that change the shape of an array and leave its elements: transpose, reshape."""

from __future__ import annotations

from itertools import pairwise
from math import prod

import numpy as np

from nczfs.buffers import Values
from nczfs.codecs.arraycodec import ArrayCodec, ArraySpec, Context, StrictSettings
from nczfs.messages import shown
from nczfs.model.hierarchy import Json


class Transpose(ArrayCodec):
    """Dimension i of the encoded array is dimension ``order[i]`` of the decoded one."""

    def __init__(self, settings: StrictSettings, form: ArraySpec, context: Context) -> None:
        settings.known("order")
        self._order = _permutation(settings, len(form.shape))
        self._inverse = tuple(sorted(range(len(self._order)), key=self._order.__getitem__))
        self.encoded = form.of_shape(tuple(form.shape[place] for place in self._order))

    def decode(self, values: Values) -> Values:
        return values.transpose(self._inverse)

    def encode(self, values: Values) -> Values:
        return values.transpose(self._order)


def _permutation(settings: StrictSettings, ndim: int) -> tuple[int, ...]:
    order = settings.members.get("order")
    # Words of data from before the standard.
    if order == "C":
        return tuple(range(ndim))
    if order == "F":
        return tuple(reversed(range(ndim)))
    numbers = _numbers(order)
    if numbers is not None and sorted(numbers) == list(range(ndim)):
        return tuple(numbers)
    raise settings.refused(f"order is {shown(order)}, not a permutation of {ndim} dimensions")


def _numbers(value: Json) -> list[int] | None:
    """Return a list of whole numbers; None: it is something else."""
    if not isinstance(value, list):
        return None
    numbers = [each for each in value if isinstance(each, int) and not isinstance(each, bool)]
    return numbers if len(numbers) == len(value) else None


class Reshape(ArrayCodec):
    """Another shape of the same elements in C order."""

    def __init__(self, settings: StrictSettings, form: ArraySpec, context: Context) -> None:
        settings.known("shape")
        self._form = form
        self.encoded = form.of_shape(_reshaped(settings, form.shape))

    def decode(self, values: Values) -> Values:
        return self.encoded.plain(values).reshape(self._form.shape)

    def encode(self, values: Values) -> Values:
        return np.ascontiguousarray(values).reshape(self.encoded.shape)


def _reshaped(settings: StrictSettings, given: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of the encoded array.

    Notes
    -----
    Registry of Zarr extensions, codec ``reshape``.
    """
    value = settings.members.get("shape")
    if not isinstance(value, list):
        raise settings.refused(f"shape is {shown(value)}, not a list")
    entries = [_entry(settings, entry, len(given)) for entry in value]
    merged = [place for entry in entries if isinstance(entry, list) for place in entry]
    if any(a >= b for a, b in pairwise(merged)):
        raise settings.refused(f"shape {shown(value)} names dimensions out of order")
    lengths = [
        prod(given[place] for place in entry) if isinstance(entry, list) else entry
        for entry in entries
    ]
    if lengths.count(-1) > 1:
        raise settings.refused(f"shape {shown(value)} has more than one -1")
    if -1 in lengths:
        others = prod(length for length in lengths if length != -1)
        lengths[lengths.index(-1)] = prod(given) // others
    shape = tuple(lengths)
    if prod(shape) != prod(given):
        raise settings.refused(f"shape {shown(value)} does not fit a chunk of {shown(list(given))}")
    for place, entry in enumerate(entries):
        if isinstance(entry, list) and entry:
            before, after = given[: entry[0]], given[entry[-1] + 1 :]
            if prod(shape[:place]) != prod(before) or prod(shape[place + 1 :]) != prod(after):
                raise settings.refused(
                    f"shape {shown(value)} moves the dimensions {shown(value[place])} of a chunk "
                    f"of {shown(list(given))}"
                )
    return shape


def _entry(settings: StrictSettings, entry: Json, ndim: int) -> int | list[int]:
    """Return a length, -1 or the dimensions that one of the encoded array consists of."""
    if isinstance(entry, int) and not isinstance(entry, bool) and (entry > 0 or entry == -1):
        return entry
    places = _numbers(entry)
    if places is None or not all(0 <= place < ndim for place in places):
        raise settings.refused(f"shape has the entry {shown(entry)}")
    return places
