"""The data types of Zarr v3, each with values that it holds and with fill values."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from nczfs.model.smallnumbers import SMALL_NUMBERS

Values = np.ndarray[Any, np.dtype[Any]]
Fills = Mapping[str, tuple[Any, Any]]
"""By a label: the JSON of a document, and the element."""


@dataclass(frozen=True, slots=True)
class Element:
    """A data type.

    Attributes
    ----------
    data_type : as a document has it.
    sample : makes a number of values, of few bits: floats and integers survive most codecs.
    """

    name: str
    data_type: Any
    dtype: np.dtype[Any]
    sample: Callable[[int], Values]
    fills: Fills

    @property
    def is_object(self) -> bool:
        """Whether the elements are of variable length."""
        return self.dtype.hasobject

    def fill(self, label: str) -> Any:
        """The element that a fill value is."""
        value = self.fills[label][1]
        return value if self.is_object else np.asarray(value).astype(self.dtype)[()]

    @property
    def kind(self) -> str:
        """As numpy calls it; "small" for a number that numpy does not have."""
        return "small" if self.name in SMALL_NUMBERS else self.dtype.kind


def integer(name: str) -> Element:
    dtype = np.dtype(name)
    info = np.iinfo(dtype)
    return Element(
        name,
        name,
        dtype,
        lambda count: (np.arange(count) % 90 + 1).astype(dtype),
        {"zero": (0, 0), "some": (7, 7), "odd": (int(info.max), info.max)},
    )


def real(name: str, bits: str) -> Element:
    """Numbers with a float's signs, and with fill values that JSON has no numbers for.

    Parameters
    ----------
    bits : a NaN other than the usual one.
    """
    dtype = np.dtype(name)
    (payload,) = np.array([int(bits, 16)], f"u{dtype.itemsize}").view(dtype)
    return Element(
        name,
        name,
        dtype,
        lambda count: ((np.arange(count) % 60 + 1) / 4 * (-1) ** np.arange(count)).astype(dtype),
        {
            "zero": (0.0, 0.0),
            "some": (-9.5, -9.5),
            "negative zero": (-0.0, -0.0),
            "infinity": ("-Infinity", -np.inf),
            "NaN": ("NaN", np.nan),
            "odd": (bits, payload),
        },
    )


def complex_(name: str) -> Element:
    dtype = np.dtype(name)
    return Element(
        name,
        name,
        dtype,
        lambda count: ((np.arange(count) % 60 + 1) * (0.25 - 1j)).astype(dtype),
        {
            "zero": ([0.0, 0.0], 0),
            "some": ([1.5, -2.0], 1.5 - 2j),
            "odd": (["NaN", "-Infinity"], complex(np.nan, -np.inf)),
        },
    )


def small(name: str) -> Element:
    """A number of ml_dtypes."""
    dtype = SMALL_NUMBERS[name]
    values = np.array([1, 0, 1], np.float32) if "int" not in name else np.array([1, 0, 1])
    if name == "float8_e8m0fnu":  # powers of two alone
        values = np.array([1, 2, 4], np.float32)
    fills: Fills = {"zero": (0, 0), "some": (1, 1)}
    if name.startswith("complex"):
        fills = {"zero": ([0.0, 0.0], 0), "some": ([1.0, 0.0], 1)}
    elif name == "float8_e8m0fnu":
        fills = {"some": (1.0, 1)}
    elif "float" in name:
        fills = {"zero": (0.0, 0), "some": (1.0, 1)}
    return Element(name, name, dtype, lambda count: np.resize(values, count).astype(dtype), fills)


def cells(name: str, data_type: Any, code: str, texts: tuple[Any, ...], fill: Any) -> Element:
    """Texts or bytes of a fixed length, or records."""
    dtype = np.dtype(code)
    some = np.array(texts[0], dtype)

    def json_of(element: Any) -> Any:
        return str(element) if dtype.kind == "U" else base64.b64encode(element.tobytes()).decode()

    return Element(
        name,
        data_type,
        dtype,
        lambda count: np.resize(np.array(texts, dtype), count),
        {
            "zero": (fill(np.zeros((), dtype)), np.zeros((), dtype)[()]),
            "some": (json_of(some), some[()]),
        },
    )


def base64_of(element: Any) -> str:
    return base64.b64encode(element.tobytes()).decode()


def time(name: str, code: str) -> Element:
    dtype = np.dtype(f"{code}[25ms]")
    zero, some, odd = np.array([0, -77, -(2**63)]).view(dtype)
    return Element(
        name,
        {"name": name, "configuration": {"unit": "ms", "scale_factor": 25}},
        dtype,
        lambda count: np.arange(1, count + 1).view(dtype),
        {
            "zero": (0, zero),
            "some": (-77, some),
            "odd": ("NaT", odd),
        },
    )


def objects(name: str, values: tuple[Any, ...], fills: Fills) -> Element:
    def sample(count: int) -> Values:
        made = np.empty(count, object)
        made[:] = [values[i % len(values)] for i in range(count)]
        return made

    return Element(name, name, np.dtype(object), sample, fills)


RECORD = [["a", "int32"], ["b", "float64"], ["c", "uint8"]]
RECORD_DTYPE = np.dtype([("a", "<i4"), ("b", "<f8"), ("c", "u1")])


def record(name: str, fields: list[Any]) -> Element:
    values = np.array([(1, 0.5, 3), (-2, 1e300, 255)], RECORD_DTYPE)
    zero, some = np.zeros((), RECORD_DTYPE), values[0]

    def json_of(element: Any) -> Any:
        if name == "struct":
            return {field: element[field].item() for field in RECORD_DTYPE.names or ()}
        return base64_of(element)

    return Element(
        name,
        {"name": name, "configuration": {"fields": fields}},
        RECORD_DTYPE,
        lambda count: np.resize(values, count),
        {"zero": (json_of(zero), zero[()]), "some": (json_of(some), some)},
    )


def raw_bits() -> Element:
    return Element(
        "r24",
        "r24",
        np.dtype("V3"),
        lambda count: np.resize(np.frombuffer(b"abc\0\xff\x01", "V3"), count),
        {"zero": ([0, 0, 0], np.void(b"\0\0\0")), "some": ([1, 0, 255], np.void(b"\x01\0\xff"))},
    )


def boolean() -> Element:
    return Element(
        "bool",
        "bool",
        np.dtype(bool),
        lambda count: np.arange(count) % 3 == 0,
        {"zero": (False, False), "some": (True, True)},
    )


def of_length(name: str, length: int) -> dict[str, Any]:
    return {"name": name, "configuration": {"length_bytes": length}}


ELEMENTS = (
    boolean(),
    *(integer(f"{sign}int{bits}") for bits in (8, 16, 32, 64) for sign in ("", "u")),
    real("float16", "0x7e01"),
    real("float32", "0x7fc00123"),
    real("float64", "0xfff8000000000001"),
    complex_("complex64"),
    complex_("complex128"),
    objects("string", ("ascii", "", "é漢字", "\0"), {"zero": ("", ""), "some": ("none", "none")}),
    objects("bytes", (b"ab\0", b"", b"\xff"), {"zero": ("", b""), "some": ("AP8=", b"\0\xff")}),
    cells(
        "fixed_length_utf32",
        of_length("fixed_length_utf32", 12),
        "<U3",
        ("é漢字", "", "abc"),
        lambda _: "",
    ),
    cells(
        "null_terminated_bytes",
        of_length("null_terminated_bytes", 3),
        "S3",
        (b"abc", b"", b"x"),
        base64_of,
    ),
    cells("raw_bytes", of_length("raw_bytes", 3), "V3", (b"abc", b"\0\xff\1", b"x\0\0"), base64_of),
    raw_bits(),
    time("numpy.datetime64", "M8"),
    time("numpy.timedelta64", "m8"),
    record("structured", RECORD),
    record("struct", [{"name": name, "data_type": inner} for name, inner in RECORD]),
    *map(small, SMALL_NUMBERS),
)
