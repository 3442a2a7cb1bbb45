from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from nczfs.engine.chunks.fill import fill_chunk
from nczfs.formats.base import FormatOptions
from nczfs.formats.jsontext import Real, Word
from nczfs.formats.problems import Problems
from nczfs.formats.zarr2.array import Dialect, read_array
from nczfs.model.dtypes import DEFAULT_FILL, EmptyArray, NcType
from nczfs.model.hierarchy import ArrayDescription


def array_of(dtype: Any, fill: Any, **how: Any) -> tuple[ArrayDescription, tuple[str, ...]]:
    filters = how.pop("filters", None)
    document = {"zarr_format": 2, "shape": [3], "chunks": [2], "dtype": dtype, "fill_value": fill}
    if filters:
        document["filters"] = [{"id": name, "dtype": "<i4"} for name in filters]
    problems = Problems()
    array = read_array(document, "v/.zarray", FormatOptions(), Dialect(**how), problems)
    return array, problems.as_tuple()


def filled(dtype: Any, fill: Any, **how: Any) -> Any:
    """The fill value, after a look whether chunks can be filled with it."""
    array, problems = array_of(dtype, fill, **how)
    assert problems == ()
    fill_chunk(array, (0,))
    return array.fill_value


@pytest.mark.parametrize(
    ("dtype", "fill", "value"),
    [
        ("<i4", -9, -9),
        ("<i4", [-9], -9),
        ("<i4", 3.0, 3),
        ("<i4", "-9", -9),
        ("<i8", -(2**63), -(2**63)),
        ("<u8", 2**64 - 1, 2**64 - 1),
        ("<f8", 1, 1.0),
        ("<f8", "1.5", 1.5),
        ("<f8", "Infinity", math.inf),
        ("<f4", "-infinityf", -math.inf),
        ("<f4", Word("-inf"), -math.inf),
        ("<f4", 0.1, float(np.float32(0.1))),
        ("<f2", 1.5, 1.5),
        ("|b1", True, True),
        ("|b1", 0, False),
        ("<c8", [1.5, "Infinity"], complex(1.5, math.inf)),
        ("<c8", 2, 2 + 0j),
        ("<c8", [2], 2 + 0j),
        ("|S4", "YWI=", b"ab"),
        ("|S4", "YWIAAA==", b"ab"),
        ("|S4", "", b""),
        ("|S4", 0, b""),
        ("|S4", "a b!", b"a b!"),
        ("<U4", "äb", "äb"),
        ("<U4", 0, ""),
        ("|V3", "YWIA", b"ab\0"),
        ("|V3", 0, b"\0\0\0"),
        ("<M8[s]", 5, np.datetime64(5, "s")),
        (">m8[25ms]", 2, np.timedelta64(50, "ms")),
        ("<i4", None, None),
        ("<f8", [None], None),
    ],
)
def test_every_type_has_its_forms(dtype: str, fill: Any, value: Any) -> None:
    assert filled(dtype, fill) == value


@pytest.mark.parametrize("fill", ["NaN", "nan", "NANF", [Real("NaN")], Real("NaN")])
def test_nan_is_spelled_in_many_ways(fill: Any) -> None:
    assert math.isnan(filled("<f4", fill))


def test_complex_nan_keeps_its_other_part() -> None:
    value = filled("<c16", [1.5, "NaN"])
    assert value.real == 1.5
    assert math.isnan(value.imag)


def test_dates_may_be_not_a_time() -> None:
    assert np.isnat(filled("<M8[ns]", "NaT"))
    assert np.isnat(filled(">M8[ns]", -(2**63)))


def test_a_structured_fill_value_is_base64_of_the_item() -> None:
    value = filled([["a", ">i2"], ["b", "|S2"]], "AAd4AA==")
    assert value.tolist() == (7, b"x")
    assert filled([["a", ">i2"]], 0).tolist() == (0,)


@pytest.mark.parametrize(
    ("codec", "fill", "value"),
    [
        ("vlen-utf8", "x", "x"),
        ("vlen-utf8", 0, ""),
        ("vlen-bytes", "YWI=", b"ab"),
        ("vlen-bytes", 0, b""),
        ("vlen-array", 0, EmptyArray("0")),
        ("vlen-array", "", EmptyArray('""')),
        ("vlen-array", [], EmptyArray("[]")),
        ("json2", "x", "x"),
        ("json2", {"a": 1}, {"a": 1}),
    ],
)
def test_objects_have_fill_values_too(codec: str, fill: Any, value: Any) -> None:
    assert filled("|O", fill, filters=[codec]) == value


def test_netcdf_c_writes_text_where_others_write_base64() -> None:
    assert filled("|S4", "YWI=") == b"ab"
    assert filled("|S4", "YWI=", literal_text=True) == b"YWI="


@pytest.mark.parametrize(
    ("dtype", "fill"),
    [
        ("|i1", 255),
        ("|u1", -1),
        ("<i4", 1.5),
        ("<i4", "NaN"),
        ("<i4", {"a": 1}),
        ("<i4", [1, 2]),
        ("<i4", 10**900),
        ("<f4", 1e300),
        ("<f8", 10**900),
        ("<f8", True),
        ("<f8", "word"),
        ("|b1", 2),
        ("|b1", "true"),
        ("<c8", [1, 2, 3]),
        ("<c8", ["x", 0]),
        ("|S2", "YWJj"),
        ("|S2", 5),
        ("<U2", "abc"),
        ("<U2", 5),
        ("|V2", "no base64"),
        ("<M8[s]", "2000-01-01"),
        ("<M8[s]", 2**63),
    ],
)
def test_what_does_not_fit_is_a_problem_and_undefined(dtype: str, fill: Any) -> None:
    array, problems = array_of(dtype, fill)
    assert array.fill_value is None
    (problem,) = problems
    assert problem.startswith("v/.zarray: fill_value ")
    assert problem.endswith("taken as undefined")


@pytest.mark.parametrize(("dtype", "nc_type"), [("<f4", NcType.FLOAT), (">f8", NcType.DOUBLE)])
def test_the_printed_default_fill_value_is_the_exact_one(dtype: str, nc_type: NcType) -> None:
    assert filled(dtype, 9.96921e36) == DEFAULT_FILL[nc_type]
    # With a _FillValue attribute somebody chose these digits.
    assert filled(dtype, 9.96921e36, own_fill=True) == np.dtype(dtype).type(9.96921e36)
