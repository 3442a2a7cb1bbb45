from __future__ import annotations

import math
from typing import Any

import pytest

from nczfs.cdl.printer import header
from nczfs.cdl.values import attribute_number, data_number, escaped_name, quoted
from nczfs.model.dtypes import NcType
from nczfs.testing.documents import DictDocuments, read_group


def zarray(shape: list[int], dtype: Any = "<i4", **members: Any) -> dict[str, Any]:
    return {"zarr_format": 2, "shape": shape, "chunks": shape, "dtype": dtype} | members


def nczarr(group: dict[str, Any], **attributes: Any) -> dict[str, Any]:
    return {**attributes, "_nczarr_group": group, "_nczarr_superblock": {}}


def refers(*names: str, **attributes: Any) -> dict[str, Any]:
    return {**attributes, "_nczarr_array": {"dimension_references": list(names)}}


GROUP = {"zarr_format": 2}
NESTED: dict[str, object] = {
    ".zgroup": GROUP,
    ".zattrs": nczarr(
        {
            "dimensions": {"t": {"size": 4, "unlimited": 1}, "x": 3},
            "arrays": ["v", "s"],
            "groups": ["g1", "g 2", "empty"],
        },
        title="T",
        n=[1, 2],
    ),
    "v/.zarray": zarray([4, 3], "<f4"),
    "v/.zattrs": refers("/t", "/x", units="K", one=1.0, j={"a": [1.50]}),
    "s/.zarray": zarray([], "|S8"),
    "s/.zattrs": refers(),
    "g1/.zgroup": GROUP,
    "g1/.zattrs": nczarr({"dimensions": {"x": 4}, "arrays": ["q"], "groups": ["sub"]}, ga="att"),
    "g1/q/.zarray": zarray([3, 4, 4]),
    "g1/q/.zattrs": refers("/x", "/g1/x", "/t"),
    "g1/sub/.zgroup": GROUP,
    "g1/sub/.zattrs": nczarr({"dimensions": {"z": 2}, "arrays": ["w"]}),
    "g1/sub/w/.zarray": zarray([4, 3, 2], "<u2"),
    "g1/sub/w/.zattrs": refers("/g1/x", "/x", "/g1/sub/z"),
    "g 2/.zgroup": GROUP,
    "g 2/.zattrs": nczarr({"dimensions": {}, "arrays": ["y"]}),
    "g 2/y/.zarray": zarray([2], "|b1"),
    "g 2/y/.zattrs": refers("/g1/sub/z"),
    "empty/.zgroup": GROUP,
    "empty/.zattrs": nczarr({}),
}

# As ncdump 4.9.0 prints the netCDF-4 file that ncgen makes of this text, but for the remark on a
# type, and for "/g1/sub/z", which ncdump calls "/z".
NESTED_TEXT = """\
netcdf a\\ b {
dimensions:
\tt = UNLIMITED ; // (4 currently)
\tx = 3 ;
variables:
\tfloat v(t, x) ;
\t\tv:units = "K" ;
\t\tv:one = 1. ;
\t\tv:j = "{\\"a\\": [1.5]}" ;
\tstring s ;

// global attributes:
\t\t:title = "T" ;
\t\t:n = 1, 2 ;

group: g1 {
  dimensions:
  \tx = 4 ;
  variables:
  \tint q(/x, x, t) ;

  // group attributes:
  \t\t:ga = "att" ;

  group: sub {
    dimensions:
    \tz = 2 ;
    variables:
    \tushort w(x, /x, z) ;
    } // group sub
  } // group g1

group: g\\ 2 {
  variables:
  \tubyte y(/g1/sub/z) ; // |b1
  } // group g\\ 2

group: empty {
  } // group empty
}
"""


def test_groups_dimensions_and_attributes_are_printed_as_ncdump_does() -> None:
    assert header(read_group(DictDocuments(NESTED)), name="a b") == NESTED_TEXT


def test_an_empty_group_has_two_lines() -> None:
    assert header(read_group(DictDocuments({".zgroup": GROUP})), name="c") == "netcdf c {\n}\n"


def test_a_group_below_is_the_root_of_its_own_text() -> None:
    whole = read_group(DictDocuments(NESTED))
    text = header(whole.groups[0], name="g1")
    # Dimensions of groups above are declared in it; where the name is taken, by their length.
    assert text.splitlines()[1:7] == [
        "dimensions:",
        "\tx = 4 ;",
        "\t_Anonymous_Dim_3 = 3 ;",
        "\tt = UNLIMITED ; // (4 currently)",
        "variables:",
        "\tint q(_Anonymous_Dim_3, x, t) ;",
    ]
    assert "ushort w(x, _Anonymous_Dim_3, z) ;" in text


def test_dimensions_of_pure_zarr_are_declared_where_their_variables_lie() -> None:
    documents: dict[str, object] = {
        ".zgroup": GROUP,
        "a/.zarray": zarray([3, 5]),
        "a/.zattrs": {"_ARRAY_DIMENSIONS": ["x", "y"]},
        "b/.zarray": zarray([4, 4]),
        "g/.zgroup": GROUP,
        "g/c/.zarray": zarray([3, 7]),
        "g/c/.zattrs": {"_ARRAY_DIMENSIONS": ["x", "k"]},
        "g/d/.zarray": zarray([9]),
        "g/e/.zarray": zarray([2]),
        "g/e/.zattrs": {"_ARRAY_DIMENSIONS": ["x"]},
    }
    assert (
        header(read_group(DictDocuments(documents)), name="p")
        == """\
netcdf p {
dimensions:
\tx = 3 ;
\ty = 5 ;
\t_Anonymous_Dim_4 = 4 ;
\t_Anonymous_Dim_9 = 9 ;
\t_Anonymous_Dim_2 = 2 ;
variables:
\tint a(x, y) ;
\tint b(_Anonymous_Dim_4, _Anonymous_Dim_4) ;

group: g {
  dimensions:
  \tx = 3 ;
  \tk = 7 ;
  variables:
  \tint c(x, k) ;
  \tint d(_Anonymous_Dim_9) ;
  \tint e(_Anonymous_Dim_2) ;
  } // group g
}
"""
    )


@pytest.mark.parametrize(
    ("dtype", "line"),
    [
        ("|b1", "\tubyte v(x) ; // |b1"),
        ("<f2", "\tfloat v(x) ; // <f2"),
        ("<M8[ns]", "\tint64 v(x) ; // <M8[ns]"),
        ("<c8", "\t// <c8 v(x) ;"),
        ("|V3", "\t// |V3 v(x) ;"),
        ([["a", "<i4"], ["b", "<f8"]], '\t// [["a","<i4"],["b","<f8"]] v(x) ;'),
        ("<U5", "\tstring v(x) ;"),
    ],
)
def test_types_that_netcdf_lacks_are_close_ones_or_comments(dtype: Any, line: str) -> None:
    documents: dict[str, object] = {
        ".zgroup": GROUP,
        "v/.zarray": zarray([3], dtype),
        "v/.zattrs": {"_ARRAY_DIMENSIONS": ["x"], "units": "K"},
    }
    lines = header(read_group(DictDocuments(documents)), name="t").splitlines()
    assert line in lines
    mark = "// " if line.startswith("\t//") else ""
    assert f'\t{mark}\tv:units = "K" ;' in lines


def test_what_cannot_be_read_is_a_comment() -> None:
    documents: dict[str, object] = {".zgroup": GROUP, "v/.zarray": b"{\n'"}
    assert "\n// v cannot be read: v/.zarray: not JSON" in header(
        read_group(DictDocuments(documents)), name="t"
    )


@pytest.mark.parametrize(
    ("number", "nc_type", "text"),
    [
        (1.0, NcType.FLOAT, "1.f"),
        (1e10, NcType.FLOAT, "1.e+10f"),
        (1e-5, NcType.FLOAT, "1.e-05f"),
        (123456789.0, NcType.FLOAT, "1.234568e+08f"),
        (1e6, NcType.FLOAT, "1000000.f"),
        (math.nan, NcType.FLOAT, "NaNf"),
        (-math.inf, NcType.FLOAT, "-Infinityf"),
        (1.0, NcType.DOUBLE, "1."),
        (math.pi, NcType.DOUBLE, "3.14159265358979"),
        (1e15, NcType.DOUBLE, "1.e+15"),
        (123456789012.0, NcType.DOUBLE, "123456789012."),
        (math.inf, NcType.DOUBLE, "Infinity"),
        (-1, NcType.BYTE, "-1b"),
        (1, NcType.UBYTE, "1UB"),
        (-3, NcType.SHORT, "-3s"),
        (5, NcType.USHORT, "5US"),
        (-7, NcType.INT, "-7"),
        (7, NcType.UINT, "7U"),
        (-(2**63), NcType.INT64, "-9223372036854775808LL"),
        (2**64 - 1, NcType.UINT64, "18446744073709551615ULL"),
    ],
)
def test_numbers_of_attributes_are_printed_as_ncdump_4_9_0_does(
    number: float, nc_type: NcType, text: str
) -> None:
    assert attribute_number(number, nc_type) == text


@pytest.mark.parametrize(
    ("number", "nc_type", "text"),
    [
        (1.0, NcType.FLOAT, "1"),
        (1 / 3, NcType.FLOAT, "0.3333333"),
        (math.nan, NcType.FLOAT, "NaNf"),
        (-math.inf, NcType.FLOAT, "-Infinityf"),
        (1 / 3, NcType.DOUBLE, "0.333333333333333"),
        (math.nan, NcType.DOUBLE, "NaN"),
        (math.inf, NcType.DOUBLE, "Infinity"),
        (-1, NcType.BYTE, "-1"),
        (2**64 - 1, NcType.UINT64, "18446744073709551615"),
    ],
)
def test_values_are_printed_as_ncdump_4_9_0_does(number: float, nc_type: NcType, text: str) -> None:
    assert data_number(number, nc_type) == text


def test_names_are_escaped_as_ncdump_4_9_0_does() -> None:
    assert escaped_name("".join(map(chr, range(33, 127)))) == (
        r"\!\"\#\$%\&\'\(\)\*+\,-./0123456789\:\;\<\=\>\?@ABCDEFGHIJKLMNOPQRSTUVWXYZ\[\\\]\^_\`"
        r"abcdefghijklmnopqrstuvwxyz\{\|\}\~"
    )
    assert escaped_name("1d") == r"\1d"
    assert escaped_name("wéird na:me") == r"wéird\ na\:me"
    assert escaped_name("a\tb") == "a%09b"


def test_text_is_escaped_as_ncdump_4_9_0_does() -> None:
    assert quoted("".join(map(chr, range(1, 40)))) == (
        r'"\001\002\003\004\005\006\007\b\t\n\v\f\r\016\017\020\021\022\023\024\025\026\027\030'
        r"\031\032\033\034\035\036\037 !\"#$%&\'" + '"'
    )
    assert quoted("\\\x7fé\0b\0\0") == r'"\\\177é\000b"'
