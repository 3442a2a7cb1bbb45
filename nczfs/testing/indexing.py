"""Random indices and their meaning for a numpy array, as a reference for reading and writing."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from hypothesis import strategies as st

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"


@st.composite
def indices(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[object, ...]:
    """Draw an index of any kind: integers, slices, lists, masks, an ellipsis, or fewer of them."""
    count = draw(st.integers(0, len(shape)))
    front = [draw(along(length)) for length in shape[:count]]
    if draw(st.booleans()):
        behind = draw(st.integers(0, len(shape) - count))
        return (*front, ..., *(draw(along(length)) for length in shape[len(shape) - behind :]))
    return tuple(front)


def along(length: int) -> st.SearchStrategy[object]:
    """Draw an index for one dimension."""
    kinds: list[st.SearchStrategy[object]] = [
        st.slices(length),
        st.lists(st.booleans(), min_size=length, max_size=length).map(lambda m: np.array(m, bool)),
    ]
    if length:
        position = st.integers(-length, length - 1)
        kinds += [
            position,
            position.map(np.int16),
            position.map(np.array),
            st.lists(position, max_size=length + 2),
            st.lists(position, min_size=1, max_size=length + 2).map(np.array),
        ]
    return st.one_of(kinds)


def result_shape(shape: tuple[int, ...], index: tuple[object, ...]) -> tuple[int, ...]:
    """Return the shape that an index selects if each part works on its own dimension."""
    positions, dropped = _positions(shape, index)
    return tuple(len(found) for d, found in enumerate(positions) if d not in dropped)


def read(array: Array, index: tuple[object, ...]) -> Array:
    """Return what an index selects of an array."""
    positions, _ = _positions(array.shape, index)
    found = array[np.ix_(*positions)]
    return found.reshape(result_shape(array.shape, index))


def write(array: Array, index: tuple[object, ...], values: Array) -> None:
    """Assign to what an index selects; the last value stays at repeated positions."""
    positions, dropped = _positions(array.shape, index)
    wide = np.broadcast_to(values, result_shape(array.shape, index))
    array[np.ix_(*positions)] = np.expand_dims(wide, tuple(sorted(dropped)))


@st.composite
def narrowed(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Draw a shape that broadcasts to another one."""
    kept = shape[draw(st.integers(0, len(shape))) :]
    if draw(st.booleans()):
        kept = shape
    return tuple(draw(st.sampled_from((length, 1))) for length in kept)


@st.composite
def values_of(draw: st.DrawFn, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Draw values of any bits, including NaNs with payloads, and also few and simple ones."""
    count = int(np.prod(shape, dtype=np.int64))
    if dtype.kind == "b":
        flags = draw(st.lists(st.booleans(), min_size=count, max_size=count))
        return np.array(flags, bool).reshape(shape)
    seed = draw(st.integers(0, 2**32 - 1))
    data = np.random.default_rng(seed).bytes(count * dtype.itemsize)
    if draw(st.booleans()):
        data = bytes([draw(st.sampled_from((0, 1, 128, 255)))]) * len(data)
    return np.frombuffer(data, dtype).reshape(shape)


def same_bits(one: object, other: object) -> bool:
    """Return whether two arrays have the same type, shape and bits."""
    right = np.asarray(other)
    # A text scalar is as long as its text, not as its stored cell.
    left = np.asarray(one, right.dtype if isinstance(one, np.character) else None)
    return (left.dtype, left.shape, left.tobytes()) == (right.dtype, right.shape, right.tobytes())


def _positions(shape: tuple[int, ...], index: tuple[object, ...]) -> tuple[list[Array], set[int]]:
    dots = next((i for i, part in enumerate(index) if part is Ellipsis), None)
    parts = list(index)
    if dots is not None:
        missing = len(shape) - (len(index) - 1)
        parts[dots : dots + 1] = [slice(None)] * missing
    parts += [slice(None)] * (len(shape) - len(parts))
    found: list[Array] = []
    dropped = set()
    for d, (part, length) in enumerate(zip(parts, shape, strict=True)):
        every = np.arange(length)
        if isinstance(part, slice):
            found.append(every[part])
        elif np.ndim(np.asarray(part)) == 0:
            dropped.add(d)
            found.append(every[[np.asarray(part)]])
        else:
            chosen = np.asarray(part)
            found.append(every[chosen if chosen.size else chosen.astype(np.int64)])
    return found, dropped
