from __future__ import annotations

from typing import Any

import pytest

from nczfs.errors import Unsupported
from nczfs.formats.hdf5_filters import codec_of_filter, filter_of_codec
from nczfs.model.hierarchy import CodecSpec

BOTH_WAYS: list[tuple[int, tuple[int, ...], str, dict[str, Any]]] = [
    (1, (6,), "zlib", {"level": 6}),
    (2, (4,), "shuffle", {"elementsize": 4}),
    (2, (), "shuffle", {"elementsize": 0}),
    (3, (), "fletcher32", {}),
    (4, (32, 8), "szip", {"mask": 32, "pixels-per-block": 8}),
    (307, (9,), "bz2", {"level": 9}),
    (
        32001,
        (0, 0, 0, 256, 4, 2, 5),
        "blosc",
        {"cname": "zstd", "clevel": 4, "shuffle": 2, "blocksize": 256},
    ),
    (32015, (3,), "zstd", {"level": 3}),
    (32015, (2**32 - 5,), "zstd", {"level": -5}),
]


@pytest.mark.parametrize(("number", "parameters", "name", "configuration"), BOTH_WAYS)
def test_a_filter_and_its_codec_are_made_of_each_other(
    number: int, parameters: tuple[int, ...], name: str, configuration: dict[str, Any]
) -> None:
    codec = codec_of_filter(number, parameters)
    assert (codec.name, dict(codec.configuration)) == (name, configuration)
    assert filter_of_codec(codec) == (number, parameters)


def test_what_a_file_keeps_beyond_the_codec_is_left_out() -> None:
    # HDF5 adds to szip what follows from the array, and to Blosc versions and the item size.
    assert codec_of_filter(4, (141, 32, 32, 100)).configuration == {
        "mask": 141,
        "pixels-per-block": 32,
    }
    assert codec_of_filter(32001, (2, 2, 4, 65536, 5, 1, 1)).configuration == {
        "cname": "lz4",
        "clevel": 5,
        "shuffle": 1,
        "blocksize": 65536,
    }


def test_parameters_left_out_have_the_defaults_of_the_plugins() -> None:
    assert codec_of_filter(307, ()).configuration == {"level": 9}
    assert codec_of_filter(32015, ()).configuration == {"level": 3}
    assert codec_of_filter(32001, (0, 0, 4, 0)).configuration == {
        "cname": "blosclz",
        "clevel": 5,
        "shuffle": 1,
        "blocksize": 0,
    }


@pytest.mark.parametrize(
    ("configuration", "parameters"),
    [
        ({"level": "5"}, (5,)),  # netcdf-c 4.9 wrote numbers as text
        ({}, (1,)),
        ({"level": None}, (1,)),
        ({"level": "high"}, (1,)),
    ],
)
def test_the_members_of_a_codec_are_read_leniently(
    configuration: dict[str, Any], parameters: tuple[int, ...]
) -> None:
    assert filter_of_codec(CodecSpec("zlib", configuration)) == (1, parameters)


@pytest.mark.parametrize("name", ["gzip", "lz4", "delta", "vlen-utf8", ""])
def test_codecs_that_hdf5_does_not_have_have_no_filter(name: str) -> None:
    assert filter_of_codec(CodecSpec(name, {"level": 1})) is None


@pytest.mark.parametrize(
    ("number", "parameters", "why"),
    [
        (32004, (), "HDF5 filter 32004 has no codec (there are: 1 zlib, 2 shuffle,"),
        (1, (), "HDF5 filter 1 (zlib) does not take the parameters []"),
        (3, (1,), "HDF5 filter 3 (fletcher32) does not take the parameters [1]"),
        (307, (2**32,), "HDF5 filter 307 (bz2) does not take the parameters [4294967296]"),
        (307, (-1,), "HDF5 filter 307 (bz2) does not take"),
        (32001, (0, 0, 4, 0, 5, 1, 6), "there is no compressor with the number 6"),
    ],
)
def test_what_has_no_codec_is_refused_by_its_name(
    number: int, parameters: tuple[int, ...], why: str
) -> None:
    with pytest.raises(Unsupported) as caught:
        codec_of_filter(number, parameters)
    assert why in str(caught.value)
