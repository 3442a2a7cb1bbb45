"""The datasets of the matrix."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tests.interop.matrix.model import Case, Codec, Dim, Fill, Grp, Values, Var

ZLIB = {"id": "zlib", "level": 4}
INTEGERS = ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8")
DEFAULT_FILL = {"i2": -32767, "i4": -2147483647, "f4": 9.969209968386869e36}


def ramp(shape: tuple[int, ...], dtype: str) -> Values:
    """Values that differ from each other and from every fill value."""
    count = int(np.prod(shape))
    return (
        (np.arange(count) * 3 % 251 - (0 if dtype[0] == "u" else 100)).astype(dtype).reshape(shape)
    )


def texts(*values: str) -> Values:
    return np.array(values, object)


def shuffle(dtype: str) -> Codec:
    return {"id": "shuffle", "elementsize": np.dtype(dtype).itemsize}


def numbers(name: str, codes: tuple[str, ...]) -> Case:
    """The ends of every type, and the numbers that arithmetic treats apart."""
    made = []
    for code in codes:
        if code[0] == "f":
            info = np.finfo(code)
            ends = [info.max, info.smallest_normal, info.smallest_subnormal, -1 / 3]
            awkward = [np.nan, -0.0, np.inf, -np.inf]
            made.append(Var(code, ("x",), code, np.array(ends, code)))
            made.append(Var(f"{code}_awkward", ("x",), code, np.array(awkward, code)))
        else:
            limits = np.iinfo(code)
            values = np.array([limits.min, limits.max, 0, 1], code)
            made.append(Var(code, ("x",), code, values))
    return Case(name, Grp(dims=(Dim("x", 4),), vars=tuple(made)))


def ranks() -> Case:
    """From a scalar to four dimensions, the last chunk of each dimension cut by the edge."""
    sizes = {"a": 5, "b": 3, "c": 4, "d": 2}
    chunks = {"a": 2, "b": 2, "c": 3, "d": 2}
    made = []
    for rank, dtype in enumerate(("i4", "i2", "f4", "f8", "u8")):
        names = tuple("abcd"[:rank])
        shape = tuple(sizes[name] for name in names)
        chunk_shape = tuple(chunks[name] for name in names)
        made.append(Var(f"r{rank}", names, dtype, ramp(shape, dtype), chunk_shape))
    dims = tuple(Dim(name, size) for name, size in sizes.items())
    return Case("ranks", Grp(dims=dims, vars=tuple(made)))


def missing() -> Case:
    """Chunks that nobody wrote hold the fill value, of whatever kind."""
    unwritten = frozenset({(0, 1), (2, 0)})

    def variable(name: str, dtype: str, fill: Any, shown: Any) -> Var:
        values = ramp((5, 4), dtype)
        values[0:2, 3:4] = shown
        values[4:5, 0:3] = shown
        return Var(name, ("y", "x"), dtype, values, (2, 3), fill=fill, unwritten=unwritten)

    made = (
        variable("zero", "i4", 0, 0),
        variable("negative", "i2", -999, -999),
        variable("fraction", "f4", np.float32(-999.9), np.float32(-999.9)),
        variable("huge", "f8", 1e20, 1e20),
        variable("not_a_number", "f8", np.nan, np.nan),
        variable("largest", "u8", 2**64 - 1, 2**64 - 1),
    )
    return Case("missing", Grp(dims=(Dim("y", 5), Dim("x", 4)), vars=made))


def default_fill() -> Case:
    """Chunks that nobody wrote, of variables that name no fill value: netCDF's default."""
    made = []
    for code in ("i2", "i4", "f4"):
        values = ramp((4,), code)
        values[2:] = DEFAULT_FILL[code]
        made.append(Var(code, ("x",), code, values, (2,), unwritten=frozenset({(1,)})))
    return Case("default-fill", Grp(dims=(Dim("x", 4),), vars=tuple(made)))


def no_fill() -> Case:
    """A variable without a fill value, wholly written."""
    made = Var("v", ("x",), "f4", ramp((4,), "f4"), fill=Fill.NONE)
    return Case("no-fill", Grp(dims=(Dim("x", 4),), vars=(made,)))


def unlimited() -> Case:
    """Records: one unlimited dimension, two of them, and one shared by two variables."""
    dims = (Dim("time", 3, unlimited=True), Dim("n", 2, unlimited=True), Dim("x", 2))
    made = (
        Var("time", ("time",), "f8", ramp((3,), "f8"), (2,), attributes={"units": "days"}),
        Var("v", ("time", "x"), "f4", ramp((3, 2), "f4"), (1, 2)),
        Var("two", ("time", "n"), "i2", ramp((3, 2), "i2"), (2, 1)),
    )
    return Case("unlimited", Grp(dims=dims, vars=made))


def characters() -> Case:
    dims = (Dim("n", 2), Dim("length", 3))
    made = (
        Var("word", ("length",), "S1", np.array(list("abc"), "S1")),
        Var("words", ("n", "length"), "S1", np.array([list("xyz"), [b"q", b"", b""]], "S1")),
    )
    return Case("characters", Grp(dims=dims, vars=made))


def strings() -> Case:
    made = (
        Var("ascii", ("x",), "str", texts("a", "", "with blank"), (2,)),
        Var("unicode", ("x",), "str", texts("é", "漢字", "Größe"), (2,)),
    )
    return Case("strings", Grp(dims=(Dim("x", 3),), vars=made))


def number_attributes() -> Case:
    """Attributes of every numeric type, one number and several."""
    attributes: dict[str, object] = {}
    for code in INTEGERS:
        attributes[f"{code}_one"] = np.dtype(code).type(np.iinfo(code).max)
        attributes[f"{code}_many"] = np.array([1, 2, 3], code)
    for code in ("f4", "f8"):
        attributes[f"{code}_one"] = np.dtype(code).type(1 / 3)
        attributes[f"{code}_whole"] = np.dtype(code).type(2)
        attributes[f"{code}_many"] = np.array([0.1, 1e30, -2.5], code)
    return attributed("number-attributes", attributes)


def infinite_attributes() -> Case:
    """What JSON has no numbers for."""
    many = np.array([1.5, np.nan, np.inf, -np.inf])
    return attributed("infinite-attributes", {"one": np.float32(np.nan), "many": many})


def mixed_attributes() -> Case:
    """Lists whose first number says less than the others: whole, then not; small, then large."""
    attributes = {
        "floats": np.array([1.0, 2.5]),
        "longs": np.array([1, 5_000_000_000], "i8"),
        "largest": np.array([0, 2**64 - 1], "u8"),
    }
    return attributed("mixed-attributes", attributes)


def text_attributes() -> Case:
    attributes = {
        "plain": "degrees north",
        "quoted": 'a "b" \\ c',
        "lines": "one\ntwo\tthree",
    }
    return attributed("text-attributes", attributes)


def unicode_attributes() -> Case:
    return attributed("unicode-attributes", {"text": "Größe 漢字"})


def text_lists() -> Case:
    return attributed("text-lists", {"several": ["one", "two"]})


def empty_text() -> Case:
    return attributed("empty-text", {"empty": ""})


def json_texts() -> Case:
    """Texts that are JSON themselves."""
    return attributed(
        "json-texts",
        {
            "number": "12",
            "version": "1.50",
            "word": "true",
            "list": "[1, 2]",
            "quotes": '"x"',
            "document": '{"a": [1, 2]}',
        },
    )


def attributed(name: str, attributes: Mapping[str, object]) -> Case:
    """The attributes, on the root and on a variable."""
    made = Var("v", ("x",), "i4", ramp((2,), "i4"), attributes=attributes)
    return Case(name, Grp(dims=(Dim("x", 2),), vars=(made,), attributes=attributes))


def groups() -> Case:
    """Nested groups: inherited dimensions, names used again, a group without anything."""
    inner = Grp(
        "inner",
        vars=(Var("deep", ("y", "x"), "f4", ramp((4, 3), "f4")),),
        attributes={"depth": np.int32(2)},
    )
    outer = Grp(
        "outer",
        dims=(Dim("y", 4),),
        vars=(Var("v", ("y",), "f8", ramp((4,), "f8")), Var("w", ("x",), "i4", ramp((3,), "i4"))),
        attributes={"title": "a group"},
        groups=(inner,),
    )
    return Case(
        "groups",
        Grp(
            dims=(Dim("x", 3), Dim("y", 2)),
            vars=(Var("v", ("y", "x"), "i2", ramp((2, 3), "i2")),),
            groups=(outer, Grp("empty")),
        ),
    )


def coded(name: str, *codecs: Codec) -> Case:
    """A variable in two dimensions, its last chunks cut by the edge, behind codecs."""
    made = Var("v", ("y", "x"), "i4", ramp((20, 30), "i4"), (16, 16), codecs)
    return Case(name, Grp(dims=(Dim("y", 20), Dim("x", 30)), vars=(made,)))


def of_type(name: str, *variables: tuple[str, Values]) -> Case:
    """Variables of types that netCDF does not have."""
    made = tuple(
        Var(
            f"v{dtype.strip('?]').replace('[', '_')}",
            ("x",),
            dtype,
            values,
            fill=np.zeros((), dtype)[()],
        )
        for dtype, values in variables
    )
    return Case(name, Grp(dims=(Dim("x", 3),), vars=made))


CASES = (
    numbers("small-numbers", ("i1", "u1")),
    numbers("numbers", (*INTEGERS[2:], "f4", "f8")),
    ranks(),
    missing(),
    default_fill(),
    no_fill(),
    unlimited(),
    characters(),
    strings(),
    number_attributes(),
    infinite_attributes(),
    mixed_attributes(),
    text_attributes(),
    unicode_attributes(),
    text_lists(),
    empty_text(),
    json_texts(),
    groups(),
    coded("zlib", ZLIB),
    coded("shuffle-zlib", shuffle("i4"), ZLIB),
    coded("blosc", {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0}),
    coded("zstd", {"id": "zstd", "level": 3}),
    coded("bz2", {"id": "bz2", "level": 9}),
    of_type("booleans", ("?", np.array([True, False, True]))),
    of_type("halves", ("f2", np.array([1.5, -0.0, np.inf], "f2"))),
    of_type("complex", ("c8", ramp((3,), "c8")), ("c16", ramp((3,), "c16") * 1j)),
    of_type("times", ("M8[s]", np.array(["2000-01-01", "NaT", "1969-07-20"], "M8[s]"))),
    of_type("bytes", ("S3", np.array([b"abc", b"", b"x"], "S3"))),
    of_type("unicode", ("U3", np.array(["é", "", "漢字x"], "U3"))),
)
