"""Casts, scaling, rounding and packing of numbers are exact to the bit, or errors."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nczfs.buffers import Values
from nczfs.codecs.rounding import ROUNDINGS, Cast
from nczfs.errors import CodecError, CorruptChunk, UnknownCodec
from nczfs.model.smallnumbers import SMALL_NUMBERS, bits_of, number_kind
from tests.unit.codecs.v3arrays import LITTLE, Word, codec, dtype_of, pipeline3, same_bits

INTEGERS = ["int2", "int4", "int8", "int16", "int32", "int64"]
INTEGERS += [f"u{name}" for name in INTEGERS]
SMALL_FLOATS = [name for name, dtype in SMALL_NUMBERS.items() if number_kind(dtype) == "f"]
FLOATS = [*SMALL_FLOATS, "float16", "float32", "float64"]


@cache
def finite(name: str) -> list[Fraction]:
    """All finite numbers of a float type of at most two bytes, in order."""
    dtype = dtype_of(name)
    codes = np.arange(1 << bits_of(dtype), dtype=f"u{dtype.itemsize}")
    with np.errstate(all="ignore"):
        numbers = codes.view(dtype).astype("f8")
    return sorted({Fraction(float(number)) for number in numbers if np.isfinite(number)})


def nearest(exact: Fraction, lower: Fraction, upper: Fraction, rounding: str) -> Fraction | None:
    """Where rounding goes between two neighbours; None: to the even one."""
    match rounding:
        case "towards-zero":
            return upper if exact < 0 else lower
        case "towards-positive":
            return upper
        case "towards-negative":
            return lower
    if exact - lower != upper - exact:
        return lower if exact - lower < upper - exact else upper
    if rounding == "nearest-away":
        return lower if exact < 0 else upper
    return None


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("name", [*SMALL_FLOATS, "float16"])
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_number_between_two_floats_becomes_one_of_them_as_the_rounding_says(
    name: str, rounding: str, data: st.DataObject
) -> None:
    numbers = finite(name)
    place = data.draw(st.integers(0, len(numbers) - 2))
    lower, upper = numbers[place], numbers[place + 1]
    part = data.draw(st.sampled_from([Fraction(1, 2), Fraction(1, 4), Fraction(3, 4), Fraction(0)]))
    exact = lower + (upper - lower) * part
    given_number = float(exact)
    assert Fraction(given_number) == exact
    found = Cast(dtype_of(name), rounding)(np.array([given_number]))[0]
    if float(np.float32(given_number)) == given_number:
        narrow = Cast(dtype_of(name), rounding)(np.array([given_number], "f4"))
        assert narrow.tobytes() == found.tobytes()
    wanted = lower if part == 0 else nearest(exact, lower, upper, rounding)
    if wanted is None:
        codes = [np.array([float(each)]).astype(found.dtype) for each in (lower, upper)]
        even = [each for each in codes if each.view(f"u{found.itemsize}")[0] % 2 == 0]
        assert found == even[0][0]
    else:
        assert Fraction(float(found)) == wanted


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize(("source", "target"), [("f8", "f4"), ("i8", "f8"), ("u8", "f4")])
@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_wide_numbers_are_rounded_as_the_rounding_says(
    source: str, target: str, rounding: str, data: st.DataObject
) -> None:
    if source == "f8":
        number: Any = data.draw(st.floats(-1e30, 1e30, allow_subnormal=False))
    else:
        low = -(2**63) if source == "i8" else 0
        number = data.draw(st.integers(low, low + 2**64 - 1))
    exact = Fraction(number)
    found = Cast(np.dtype(target), rounding)(np.array([number], source))[0]
    kind = found.dtype.type
    near = kind(float(number)) if source == "f8" else np.array([number], source).astype(target)[0]
    steps = [np.nextafter(near, kind(-np.inf)), near, np.nextafter(near, kind(np.inf))]
    exact_steps = [Fraction(float(step)) for step in steps]
    if exact in exact_steps:
        assert Fraction(float(found)) == exact
        return
    lower = max(step for step in exact_steps if step < exact)
    upper = min(step for step in exact_steps if step > exact)
    wanted = nearest(exact, lower, upper, rounding)
    assert Fraction(float(found)) == (Fraction(float(near)) if wanted is None else wanted)


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("name", INTEGERS)
@settings(max_examples=60, deadline=None)
@given(number=st.floats(-1e25, 1e25) | st.integers(-600, 600).map(lambda n: n / 2))
def test_floats_become_integers_clamped_wrapped_or_refused(
    name: str, rounding: str, number: float
) -> None:
    dtype = dtype_of(name)
    bits = bits_of(dtype)
    low = -(1 << (bits - 1)) if number_kind(dtype) == "i" else 0
    high = low + (1 << bits) - 1
    exact = Fraction(number)
    floor = math.floor(exact)
    if exact == floor:
        whole = floor
    else:
        found = nearest(exact, Fraction(floor), Fraction(floor + 1), rounding)
        whole = int(floor + floor % 2 if found is None else found)
    values = np.array([number])
    assert int(Cast(dtype, rounding, "clamp")(values)[0]) == min(max(whole, low), high)
    assert int(Cast(dtype, rounding, "wrap")(values)[0]) == (whole - low) % (1 << bits) + low
    if low <= whole <= high:
        assert int(Cast(dtype, rounding)(values)[0]) == whole
    else:
        with pytest.raises(ValueError, match=f"out of the range of {name}"):
            Cast(dtype, rounding)(values)


@pytest.mark.parametrize("target", INTEGERS)
@pytest.mark.parametrize("source", INTEGERS)
def test_integers_become_integers_clamped_wrapped_or_refused(source: str, target: str) -> None:
    kinds = [dtype_of(name) for name in (source, target)]
    (low, high), (least, most) = (
        (-(1 << (bits_of(kind) - 1)), (1 << (bits_of(kind) - 1)) - 1)
        if number_kind(kind) == "i"
        else (0, (1 << bits_of(kind)) - 1)
        for kind in kinds
    )
    some = {low, low + 1, max(low, -1), 0, 1, high - 1, high, min(high, 127)}
    numbers = sorted(some | set(range(low, high + 1))) if high < 128 else sorted(some)
    values = np.array(numbers).astype(kinds[0]) if high < 2**63 else np.array(numbers, kinds[0])
    if kinds[0] == kinds[1]:
        return
    clamped = Cast(kinds[1], out_of_range="clamp")(values)
    assert [int(each) for each in clamped] == [min(max(n, least), most) for n in numbers]
    wrapped = Cast(kinds[1], out_of_range="wrap")(values)
    span = most - least + 1
    assert [int(each) for each in wrapped] == [(n - least) % span + least for n in numbers]
    if least <= low and high <= most:
        assert [int(each) for each in Cast(kinds[1])(values)] == numbers
    else:
        with pytest.raises(ValueError, match=f"out of the range of {target}"):
            Cast(kinds[1])(values)


@pytest.mark.parametrize(
    ("target", "number", "out_of_range", "wanted"),
    [
        ("float16", 1e9, "clamp", np.inf), ("float16", -1e9, "clamp", -np.inf),
        ("float32", 1e39, "clamp", np.inf), ("float8_e4m3fn", 1e9, "clamp", 448.0),
        ("float8_e4m3fn", -1e9, "clamp", -448.0), ("float4_e2m1fn", 100, "clamp", 6.0),
        ("float8_e8m0fnu", -5, "clamp", 2.0**-127), ("float8_e8m0fnu", 0, "clamp", 2.0**-127),
        ("float8_e8m0fnu", 1e300, "clamp", 2.0**127), ("bfloat16", 1e39, "clamp", np.inf),
        ("float16", 65519.9, None, 65504.0), ("float16", 65520, None, None),
        ("float32", 3.4028235677973366e38, None, None), ("float4_e2m1fn", 7.0, None, None),
        ("float4_e2m1fn", 6.9, None, 6.0), ("float6_e3m2fn", np.nan, "clamp", None),
        ("float4_e2m1fn", np.inf, "clamp", None), ("int8", np.nan, "clamp", None),
        ("int8", np.inf, "clamp", None), ("float8_e8m0fnu", 0, None, None),
    ],
)  # fmt: skip
def test_numbers_beyond_a_type_are_clamped_or_refused(
    target: str, number: float, out_of_range: str | None, wanted: float | None
) -> None:
    cast = Cast(dtype_of(target), out_of_range=out_of_range)
    if wanted is None:
        with pytest.raises(ValueError, match=target):
            cast(np.array([number], "f8"))
    else:
        assert float(cast(np.array([number], "f8"))[0]) == wanted


@pytest.mark.parametrize("target", ["bfloat16", "float16"])
def test_singles_beyond_two_bytes_are_clamped_or_refused(target: str) -> None:
    values = np.array([1, -3.4028235e38], "f4")
    with pytest.raises(ValueError, match=f"out of the range of {target}"):
        Cast(dtype_of(target))(values)
    clamped = Cast(dtype_of(target), out_of_range="clamp")(values)
    assert clamped.astype("f8").tolist() == [1, -np.inf]


def test_nan_infinity_and_the_sign_of_zero_stay() -> None:
    values = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, -1e-30], "f8")
    for target in ("float32", "float16", "bfloat16", "float8_e5m2"):
        found = Cast(dtype_of(target))(values).astype("f8")
        assert np.isnan(found[0])
        assert found[1:3].tolist() == [np.inf, -np.inf]
        assert np.signbit(found[3:]).tolist() == [True, False, True]


def cast_value(target: str, **others: Any) -> Word:
    return codec("cast_value", data_type=target, **others)


def test_the_example_of_scaled_floats_with_nan() -> None:
    chain = [
        codec("scale_offset", offset=-10, scale=0.1),
        cast_value(
            "uint8",
            rounding="nearest-even",
            scalar_map={"encode": [["NaN", 0]], "decode": [[0, "NaN"]]},
        ),
        "bytes",
    ]
    ours = pipeline3("f8", (5,), *chain, fill=np.nan)
    values = np.array([0, 2540, np.nan, 14, 26], "f8")
    data = ours.encode(values)
    assert list(data) == [1, 255, 0, 2, 4]
    assert np.array_equal(ours.decode(data)[:3], [0, 2540, np.nan], equal_nan=True)


def test_the_example_of_what_numpy_does() -> None:
    table = {"encode": [["NaN", 0], ["+Infinity", 0], ["-Infinity", 0]]}
    chain = [
        cast_value("uint8", rounding="towards-zero", out_of_range="wrap", scalar_map=table),
        "bytes",
    ]
    values = np.array([np.nan, np.inf, -np.inf, 300.7, -1.5, 7], "f8")
    assert list(pipeline3("f8", (6,), *chain).encode(values)) == [0, 0, 0, 44, 255, 7]


def test_the_example_of_a_moved_range() -> None:
    chain = [codec("scale_offset", offset=1000), cast_value("uint8"), "bytes"]
    ours = pipeline3("u2", (3,), *chain, fill=1000)
    values = np.array([1000, 1255, 1001], "u2")
    assert ours.encode(values) == bytes([0, 255, 1])
    assert same_bits(ours.decode(ours.encode(values)), values)
    with pytest.raises(CodecError, match=r"'cast_value' cannot encode .* 256 is out of the range"):
        ours.encode(np.array([1000, 1256, 1001], "u2"))
    with pytest.raises(CodecError, match=r"'scale_offset' cannot encode .* 999 less 1000"):
        ours.encode(np.array([1000, 999, 1001], "u2"))


def test_the_first_of_two_pairs_for_a_number_counts() -> None:
    table = {"encode": [[1, 7], [1, 8]], "decode": [[7, 1], [7, 2]]}
    ours = pipeline3("i4", (3,), cast_value("int8", scalar_map=table), "bytes")
    assert ours.encode(np.array([1, 2, 0], "i4")) == bytes([7, 2, 0])
    assert ours.decode(bytes([7, 2, 0])).tolist() == [1, 2, 0]


def test_stored_numbers_that_do_not_cast_are_a_corrupt_chunk() -> None:
    ours = pipeline3("u1", (2,), cast_value("int16"), LITTLE)
    with pytest.raises(CorruptChunk, match="'cast_value': -1 is out of the range of uint8"):
        ours.decode(np.array([3, -1], "<i2").tobytes())


@pytest.mark.parametrize(
    ("dtype", "word", "fill", "message"),
    [
        ("f8", cast_value("int8"), np.nan, "the fill value cannot be cast"),
        ("f8", cast_value("int8"), 0.25, "the fill value 0.25 becomes 0"),
        ("f8", cast_value("complex64"), 0, "not a type of real numbers"),
        ("c8", cast_value("float32"), 0, "casts only real numbers"),
        ("f8", cast_value("float32", out_of_range="wrap"), 0, "floats do not wrap"),
        ("f8", cast_value("int8", rounding="up"), 0, "rounding is 'up'; it must be"),
        ("f8", cast_value("int8", mode=1), 0, "its setting 'mode' is unknown"),
        ("f8", cast_value("int8", scalar_map={"encode": [[1]]}), 0, "not a pair"),
        ("f8", cast_value("int8", scalar_map={"x": []}), 0, "scalar_map is"),
        ("f8", cast_value("int8", scalar_map={"encode": [["NaN", 300]]}), 0, "300 is not a number"),
        ("i4", codec("scale_offset", scale=0), 0, "cannot be undone"),
        ("i4", codec("scale_offset", offset=0.5), 0, "0.5 is not a number of the type int32"),
        ("u1", codec("scale_offset", offset=5), 0, "the fill value: 0 less 5"),
        ("f4", codec("scale_offset", scale=2, x=1), 0, "its setting 'x' is unknown"),
        ("b1", codec("bitround", keepbits=1), 0, "rounds no numbers"),
        ("f4", codec("bitround"), 0, "keepbits is missing"),
        ("f4", codec("bitround", keepbits=24), 0, "keepbits is 24, and a number has 23"),
        ("f4", codec("bitround", keepbits=3, mode=1), 0, "its setting 'mode' is unknown"),
    ],
)  # fmt: skip
def test_what_a_codec_of_numbers_cannot_do_is_refused(
    dtype: str, word: Word, fill: float, message: str
) -> None:
    with pytest.raises(UnknownCodec, match=message):
        pipeline3(dtype, (3,), word, LITTLE, fill=fill)


@pytest.mark.parametrize("name", ["int4", "uint4", "int8", "uint8", "int32", "uint64", "int64"])
@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_scaled_integers_are_exact_or_an_error(name: str, data: st.DataObject) -> None:
    dtype = dtype_of(name)
    bits = bits_of(dtype)
    low = -(1 << (bits - 1)) if number_kind(dtype) == "i" else 0
    within = st.integers(low, low + (1 << bits) - 1)
    near = st.integers(max(low, -3), 3).filter(bool)
    offset, number = data.draw(within), data.draw(within)
    scale = data.draw(near | within.filter(bool))
    word = codec("scale_offset", offset=offset, scale=scale)
    ours = pipeline3(name, (1,), word, codec("bytes", endian="little"), fill=offset)
    values = np.array([number], dtype) if bits >= 8 else np.array([number], "i1").astype(dtype)
    moved = number - offset
    is_kept = all(low <= each < low + (1 << bits) for each in (moved, moved * scale))
    if is_kept:
        assert ours.decode(ours.encode(values))[0] == values[0]
    else:
        with pytest.raises(CodecError, match="is no number of the type"):
            ours.encode(values)


@pytest.mark.parametrize("name", FLOATS)
def test_scaled_floats_are_computed_in_their_own_type(name: str) -> None:
    dtype = dtype_of(name)
    ours = pipeline3(name, (2,), codec("scale_offset", offset=1, scale=2), LITTLE, fill=2)
    values = np.array([2, 2 if name == "float8_e8m0fnu" else 1.5]).astype(dtype)
    assert same_bits(ours.decode(ours.encode(values)), values)


def test_scaled_floats_that_overflow_are_an_error_and_special_ones_stay() -> None:
    ours = pipeline3("f4", (3,), codec("scale_offset", scale=10), LITTLE)
    with pytest.raises(CodecError, match="overflow"):
        ours.encode(np.array([1, 2, 3e38], "f4"))
    special = np.array([np.nan, np.inf, -np.inf], "f4")
    assert same_bits(ours.decode(ours.encode(special)), special)
    bytes_of_two = pipeline3("bfloat16", (1,), codec("scale_offset", scale=10), LITTLE)
    with pytest.raises(CodecError, match="out of the range of bfloat16"):
        bytes_of_two.encode(np.array([3e38]).astype(SMALL_NUMBERS["bfloat16"]))


BITROUND = codec("bitround", keepbits=3)


def test_the_samples_of_bitround() -> None:
    floats = np.array([0, 0.1, 1.2, 12.3, 123.4, 1234.5, np.nan, np.inf, -np.inf], "f4")
    wanted = bytes.fromhex(
        "00000000 0000d03d 0000a03f 00004041 0000f042 0000a044 0000c07f 0000807f 000080ff"
    )
    assert pipeline3("f4", (9,), BITROUND, LITTLE).encode(floats) == wanted
    integers = np.array([0, 1, 10, 11, 100, 123, 200, 208, 209, 255], "u1")
    assert pipeline3("u1", (10,), BITROUND, "bytes").encode(integers) == bytes.fromhex(
        "00010a0c6080c0c0e0e0"
    )


@pytest.mark.parametrize("dtype", ["i1", "i2", "i8"])
def test_negative_integers_are_rounded_as_positive_ones(dtype: str) -> None:
    least = int(np.iinfo(dtype).min)
    values = np.array([-1, -11, -100, 100, 11, least, -least - 1], dtype)
    ours = pipeline3(dtype, (7,), BITROUND, LITTLE)
    found = ours.decode(ours.encode(values)).tolist()
    assert found[:6] == [-1, -12, -96, 96, 12, least]
    assert found[6] == -least - -least // 8


@pytest.mark.parametrize("dtype", ["f2", "f8", "c8", "bfloat16", "complex_bfloat16", "M8[s]"])
def test_bitround_keeps_the_leading_bits_of_every_type_of_numbers(dtype: str) -> None:
    values = np.arange(40).astype(dtype_of(dtype))
    found = pipeline3(dtype, (40,), codec("bitround", keepbits=2), LITTLE).encode(values)
    twice = pipeline3(dtype, (40,), LITTLE).decode(found)
    assert not same_bits(twice, values)
    assert pipeline3(dtype, (40,), codec("bitround", keepbits=2), LITTLE).encode(twice) == found


PACKED = ["b1", "i1", "u2", "i4", "f4", "f8", "c8", *[
    name for name in SMALL_NUMBERS if name != "float8_e8m0fnu"]]  # fmt: skip


@pytest.mark.parametrize("padding", ["none", "first_byte", "last_byte"])
@pytest.mark.parametrize("name", PACKED)
def test_packed_numbers_are_unpacked(name: str, padding: str) -> None:
    dtype = dtype_of(name)
    values: Values = np.arange(21).reshape(3, 7) % 3
    values = (values - (number_kind(dtype) in "if")).astype(dtype)
    ours = pipeline3(name, (3, 7), codec("packbits", padding_encoding=padding))
    data = ours.encode(values)
    bits = 21 * bits_of(dtype) * (2 if number_kind(dtype) == "c" else 1)
    assert len(data) == -(-bits // 8) + (padding != "none")
    assert same_bits(ours.decode(data), values)
    if padding == "first_byte":
        assert data[0] == -bits % 8
    elif padding == "last_byte":
        assert data[-1] == -bits % 8


@pytest.mark.parametrize("name", ["int8", "uint16", "float32", "complex64", "bfloat16"])
def test_packed_whole_bytes_are_little_endian(name: str) -> None:
    values = np.arange(5).astype(dtype_of(name))
    packed = pipeline3(name, (5,), codec("packbits")).encode(values)
    assert packed == pipeline3(name, (5,), LITTLE).encode(values)


def test_packed_booleans_are_those_of_numcodecs() -> None:
    values = np.array([True, *[False] * 7, True])
    ours = pipeline3("b1", (9,), codec("packbits", padding_encoding="first_byte"))
    assert ours.encode(values) == bytes([7, 128, 128])


def test_packed_halves_of_bytes_begin_with_the_lower_one() -> None:
    values = np.array([1, -2, 3], "i1").astype(SMALL_NUMBERS["int4"])
    assert pipeline3("int4", (3,), codec("packbits")).encode(values) == bytes([0xE1, 0x03])


@pytest.mark.parametrize("name", ["i2", "u2", "int4", "f4"])
def test_some_bits_of_numbers_are_packed_and_signed_ones_extended(name: str) -> None:
    dtype = dtype_of(name)
    ours = pipeline3(name, (4,), codec("packbits", first_bit=1, last_bit=2))
    codes = np.array([0, 2, 4, 6], f"u{dtype.itemsize}")
    wanted = codes.copy()
    if number_kind(dtype) == "i":
        wanted[2:] |= np.array((1 << bits_of(dtype)) - 8, codes.dtype)
    data = ours.encode(codes.view(dtype))
    assert data == bytes([0b11100100])
    assert same_bits(ours.decode(data), wanted.view(dtype))


@pytest.mark.parametrize(
    ("word", "message"),
    [
        (codec("packbits", first_bit=3, last_bit=2), "the bits 3 to 2"),
        (codec("packbits", last_bit=32), "the bits 0 to 32 of numbers that have 32"),
        (codec("packbits", padding_encoding="start_byte"), "padding_encoding is 'start_byte'"),
        (codec("packbits", x=1), "its setting 'x' is unknown"),
    ],
)
def test_bits_that_a_number_does_not_have_are_refused(word: Word, message: str) -> None:
    with pytest.raises(UnknownCodec, match=message):
        pipeline3("i4", (4,), word)


def test_a_wrong_count_of_padding_is_a_corrupt_chunk() -> None:
    ours = pipeline3("b1", (9,), codec("packbits", padding_encoding="last_byte"))
    with pytest.raises(CorruptChunk, match="6 bits of padding are claimed, and there are 7"):
        ours.decode(bytes([128, 128, 6]))
    with pytest.raises(CorruptChunk, match="2 bytes, and a chunk has 3"):
        ours.decode(bytes([128, 128]))


@pytest.mark.parametrize("name", SMALL_NUMBERS)
@pytest.mark.parametrize("endian", ["little", "big"])
def test_small_numbers_are_stored_in_either_byte_order(name: str, endian: str) -> None:
    dtype = SMALL_NUMBERS[name]
    values = (np.arange(6).reshape(2, 3) % 2 + 1).astype(dtype)
    ours = pipeline3(name, (2, 3), codec("bytes", endian=endian), fill=1)
    part = values.view("u2") if dtype.itemsize > 1 else values.view("u1")
    data = part.astype(part.dtype.newbyteorder(">" if endian == "big" else "<")).tobytes()
    assert ours.encode(values) == data
    assert same_bits(ours.decode(data), values)


def test_bits_beyond_a_small_number_are_ignored() -> None:
    ours = pipeline3("int4", (3,), "bytes")
    found = ours.decode(bytes([0xFF, 0x0F, 0x71]))
    assert found.astype("i1").tolist() == [-1, -1, 1]
    assert found.tobytes() == bytes([0x0F, 0x0F, 0x01])
    assert ours.encode(np.array([0xFF, 0x0F, 0x71], "u1").view(found.dtype)) == found.tobytes()
