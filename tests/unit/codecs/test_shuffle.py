"""The shuffle filter, which HDF5, netcdf-c and numcodecs each treat in their own way."""

from __future__ import annotations

import numcodecs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nczfs.codecs.bytefilters import Shuffle
from nczfs.codecs.codec import CodecSettings, Size, from_buffer
from nczfs.model.hierarchy import Json


def shuffle(**members: Json) -> Shuffle:
    return Shuffle(CodecSettings("shuffle", members))


@given(item=st.integers(1, 40), data=st.binary(max_size=600))
def test_it_undoes_itself_whatever_the_length(item: int, data: bytes) -> None:
    codec = shuffle(elementsize=item)
    shuffled = codec.encode(from_buffer(data))
    assert codec.decode(shuffled, Size.exactly(len(data))).tobytes() == data


@pytest.mark.parametrize("item", [2, 3, 4, 8, 16, 100])
def test_whole_items_are_shuffled_as_numcodecs_does(item: int) -> None:
    data = np.random.default_rng(item).integers(0, 256, 50 * item, "u1")
    expected = np.asarray(numcodecs.Shuffle(item).encode(data)).tobytes()
    assert shuffle(elementsize=item).encode(data).tobytes() == expected


def test_what_is_left_over_behind_whole_items_stays_as_it_is() -> None:
    codec = shuffle(elementsize=4)
    assert codec.encode(from_buffer(b"abcdABCDxyz")).tobytes() == b"aAbBcCdDxyz"
    assert codec.decode(from_buffer(b"aAbBcCdDxyz"), Size.exactly(11)).tobytes() == b"abcdABCDxyz"


@pytest.mark.parametrize("item", [0, 1, "0", "1", -4])
def test_items_of_no_or_one_byte_are_not_shuffled(item: Json) -> None:
    assert shuffle(elementsize=item).encode(from_buffer(b"abcdefgh")).tobytes() == b"abcdefgh"


def test_items_have_four_bytes_where_nothing_is_said() -> None:
    assert shuffle().encode(from_buffer(b"abcdABCD")).tobytes() == b"aAbBcCdD"
