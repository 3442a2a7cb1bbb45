"""The arrays of the matrix: every pair of two properties occurs, or every combination of four."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import Any

from allpairspy import AllPairs

from tests.interop.zarr3.arrays import (
    DTYPE,
    SIZE,
    Array,
    Chain,
    Geometry,
    Keys,
    Layout,
    Level,
    word,
)
from tests.interop.zarr3.elements import ELEMENTS, Element

GZIP = word("gzip", level=1)
ZSTD = word("zstd", level=3, checksum=False)
CRC32C = word("crc32c")


def blosc(name: str, compressor: str, shuffle: str) -> Chain:
    configuration = {"cname": compressor, "clevel": 5, "shuffle": shuffle, "blocksize": 0}
    return Chain(name, after=(word("blosc", typesize=SIZE, **configuration),))


def numcodecs(name: str, **configuration: Any) -> Chain:
    """A codec of bytes that zarr-python takes from numcodecs."""
    return Chain(f"numcodecs.{name}", after=(word(f"numcodecs.{name}", **configuration),))


def numcodecs_of_values(name: str, suits: str, **configuration: Any) -> Chain:
    codec = word(f"numcodecs.{name}", **configuration)
    is_wide = name in ("astype", "fixedscaleoffset")
    return Chain(f"numcodecs.{name}", suits, before=(codec,), has_wide_numbers=is_wide)


NUMBERS = "biufc"
TRANSPOSE = word("transpose", order=[1, 0])

CHAINS = (
    Chain("no compression"),
    Chain("big-endian", is_big=True, after=(ZSTD,)),
    Chain("gzip", after=(GZIP,)),
    Chain("zstd", after=(ZSTD,)),
    Chain("zstd with a checksum", after=(word("zstd", level=-2, checksum=True),)),
    blosc("blosc lz4", "lz4", "shuffle"),
    blosc("blosc zstd by bits", "zstd", "bitshuffle"),
    blosc("blosc zlib alone", "zlib", "noshuffle"),
    Chain("crc32c", after=(CRC32C,)),
    Chain("gzip, crc32c", after=(GZIP, CRC32C)),
    Chain("transpose", before=(TRANSPOSE,), after=(ZSTD,)),
    Chain("packbits", "biu", serializer=word("packbits")),
    Chain("packbits with padding", "b", serializer=word("packbits", padding_encoding="first_byte")),
    Chain("bitround", "f", before=(word("bitround", keepbits=7),), after=(ZSTD,)),
    Chain(
        "cast_value",
        "iuf",
        before=(word("cast_value", data_type="float64"),),
        after=(ZSTD,),
        has_wide_numbers=True,
    ),
    Chain("scale_offset", "iuf", before=(word("scale_offset", offset=1, scale=2),), after=(ZSTD,)),
    Chain("reshape", NUMBERS, before=(word("reshape", shape=[-1]),), after=(GZIP,)),
    numcodecs("zlib", level=4),
    numcodecs("bz2", level=1),
    numcodecs("lzma", preset=1),
    numcodecs("lz4", acceleration=1),
    numcodecs("adler32"),
    numcodecs("crc32"),
    numcodecs("fletcher32"),
    numcodecs("jenkins_lookup3"),
    Chain(
        "numcodecs.shuffle",
        "iufcMm",
        after=(word("numcodecs.shuffle", elementsize=SIZE), word("numcodecs.zlib", level=4)),
    ),
    numcodecs_of_values("delta", "iuf", dtype=DTYPE),
    numcodecs_of_values("bitround", "f", keepbits=7),
    numcodecs_of_values("quantize", "f", digits=3, dtype=DTYPE),
    numcodecs_of_values("fixedscaleoffset", "f", offset=1, scale=4, dtype=DTYPE, astype="<i2"),
    numcodecs_of_values("astype", "iuf", encode_dtype="<f8", decode_dtype=DTYPE),
    numcodecs_of_values("packbits", "b"),
)
CHANGING = frozenset(
    {
        "bitround",
        "cast_value",
        "scale_offset",
        "numcodecs.delta",
        "numcodecs.bitround",
        "numcodecs.quantize",
        "numcodecs.fixedscaleoffset",
        "numcodecs.astype",
    }
)
"""Chains that store other numbers, which not every fill value survives."""

COMMON = ("no compression", "big-endian", "gzip", "zstd", "blosc lz4", "gzip, crc32c", "transpose")
"""Chains that all programs know."""

LAYOUTS = (
    Layout("no shards"),
    Layout("shards", (Level(),)),
    Layout("shards without a checksum", (Level(has_checksum=False),)),
    Layout("shards with the index first", (Level(at_end=False),)),
    Layout("shards with a bare index first", (Level(at_end=False, has_checksum=False),)),
    Layout("nested shards", (Level(), Level(3))),
    Layout("nested shards, the inner index first", (Level(), Level(at_end=False))),
    Layout("transposed shards", (Level(),), before=(TRANSPOSE,)),
    Layout("compressed shards", (Level(),), after=(GZIP,)),
)

FILLS = ("zero", "some", "odd", "NaN", "infinity", "negative zero")

KEYS = (
    Keys("default", "/", "keys c/0/0"),
    Keys("default", ".", "keys c.0.0"),
    Keys("v2", ".", "keys 0.0"),
    Keys("v2", "/", "keys 0/0"),
)

GEOMETRIES = (
    Geometry("two dimensions", (7, 5), (2, 3)),
    Geometry("one dimension", (9,), (4,)),
    Geometry("three dimensions", (3, 2, 5), (1, 2, 4)),
    Geometry("a wide one", (5, 13), (2, 2)),
    Geometry("no elements", (0, 3), (1, 2)),
    Geometry("no dimension", (), ()),
)

NAMES = ("y", "x", None)


def fits(row: list[Any]) -> bool:
    """Whether the properties chosen so far go together: an element, a chain, a layout, a fill."""
    if len(row) < 2:
        return True
    element, chain, *others = row
    if not takes(chain, element):
        return False
    if others and chain.name == "reshape" and others[0].name == "transposed shards":
        return False
    return len(others) < 2 or (others[1] in element.fills and survives(others[1], chain, element))


def takes(chain: Chain, element: Element) -> bool:
    is_vlen = element.is_object
    if chain.name == "big-endian":  # numbers of one byte have no order, texts neither
        return element.dtype.kind in "iufcMmU" and element.dtype.itemsize > 1
    if chain.name.startswith("blosc"):
        return not is_vlen
    if chain.name in ("numcodecs.fixedscaleoffset", "numcodecs.quantize"):
        return element.name in ("float32", "float64")
    if chain.name == "numcodecs.astype" and element.dtype.itemsize == 1:
        return False  # zarr-python drops the byte order of the wider numbers
    return not chain.suits or (not is_vlen and element.kind in chain.suits)


def survives(fill: str, chain: Chain, element: Element) -> bool:
    if chain.name not in CHANGING:
        return True
    return fill == "some" or (fill == "zero" and element.dtype.kind == "f")


def covering() -> Iterator[Array]:
    """Every pair of an element, a chain, a layout and a fill value that go together.

    What all programs know is paired by itself, too: elsewhere, what a program refuses hides much.
    """
    for factors in (common(), [list(ELEMENTS), list(CHAINS), list(LAYOUTS), list(FILLS)]):
        yield from AllPairs(factors, filter_func=fits)


def few() -> Iterator[Any]:
    """Every property, and the pairs of what all programs know with some data types."""
    some = ("uint8", "int32", "float32", "float64", "complex64")
    factors = common()
    factors[0] = [element for element in ELEMENTS if element.name in some]
    yield from AllPairs(factors, filter_func=fits)
    for number, element in enumerate(ELEMENTS):
        yield suitable([element], CHAINS, number)
    for number, chain in enumerate(CHAINS):
        yield suitable(ELEMENTS, [chain], number)


def suitable(elements: Sequence[Element], chains: Sequence[Chain], number: int) -> list[Any]:
    """A combination that fits; the number varies which."""
    factors = [elements, chains, LAYOUTS, FILLS]
    turned = ([*items[number % len(items) :], *items] for items in factors)
    return next(row for row in map(list, product(*turned)) if fits(row))


def common() -> list[list[Any]]:
    return [
        [element for element in ELEMENTS if element.kind in NUMBERS],
        [chain for chain in CHAINS if chain.name in COMMON],
        list(LAYOUTS),
        list(FILLS),
    ]


def every() -> Iterator[Any]:
    """Every combination of what all programs know."""
    return filter(fits, map(list, product(*common())))


def arrays(rows: Iterable[Any]) -> list[Array]:
    """Each row in one of the geometries and with one of the chunk keys, in turn."""
    return [arranged(number, *row) for number, row in enumerate(rows)]


def arranged(number: int, element: Element, chain: Chain, layout: Layout, fill: str) -> Array:
    turned = TRANSPOSE in (*chain.before, *layout.before)
    possible = GEOMETRIES[:1] if turned else GEOMETRIES[:-1] if layout.levels else GEOMETRIES
    geometry = possible[number % 11 % len(possible)]
    rank = len(geometry.shape)
    names = ("a",) * rank if number % 13 == 5 else (None, NAMES[:rank])[number % 2]
    keys = KEYS[number % len(KEYS)]
    # In groups, because a group of many arrays is slow to write.
    return Array(f"g{number // 20}/a{number}", element, chain, layout, fill, keys, geometry, names)
