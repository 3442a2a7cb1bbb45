from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from nczfs.cdl.parse import Cdl, parse_cdl
from nczfs.errors import BadMetadata, Unsupported
from nczfs.model.declaration import Fill, GroupDeclaration, VariableDeclaration
from nczfs.model.dtypes import NcType
from nczfs.model.hierarchy import Attribute, CodecSpec, Dimension


def parsed(body: str) -> Cdl:
    return parse_cdl(f"netcdf a {{\n{body}\n}}\n", "a.cdl")


def attributes(text: str) -> dict[str, tuple[NcType, Any]]:
    return {a.name: (a.type, a.value) for a in parsed(text).root.attributes}


def variable(body: str) -> VariableDeclaration:
    """The first variable, in a dataset with the dimensions x (3) and u (unlimited)."""
    return parsed(f"dimensions: x = 3 ; u = UNLIMITED ; variables: {body}").root.variables[0]


def values(declaration: str, data: str) -> np.ndarray:
    """What a variable v is given, with the dimensions e (1), k (2), x (3), t and u (unlimited)."""
    dimensions = "dimensions: e = 1 ; k = 2 ; x = 3 ; t = UNLIMITED ; u = UNLIMITED ;"
    return parsed(f"{dimensions} variables: {declaration} ; data: v = {data} ;").data["v"].array


def test_a_dataset_of_nothing() -> None:
    cdl = parse_cdl("netcdf nothing {\n}\n", "x")
    assert cdl == Cdl("nothing", GroupDeclaration(""), {}, None)


def test_groups_dimensions_and_variables_are_declared_as_they_stand() -> None:
    cdl = parsed(
        """
        :title = "T" ;
        dimensions: t = UNLIMITED ; x = 3, y = 2 ;
        variables: float v(t, x), w ; v:units = "K" ; short s(y) ;
        group: g { dimensions: x = 4 ; variables: int a(x), b(/x, t), c(/g/x) ;
            group: h { :deep = 1 ; } }
        :late = 2b ;
        """
    )
    root = cdl.root
    assert root.dimensions == (
        Dimension("t", 0, unlimited=True),
        Dimension("x", 3),
        Dimension("y", 2),
    )
    assert root.attributes == (
        Attribute("title", NcType.CHAR, "T"),
        Attribute("late", NcType.BYTE, (2,)),
    )
    assert [(v.name, v.type, v.dimensions) for v in root.variables] == [
        ("v", NcType.FLOAT, ("t", "x")),
        ("w", NcType.FLOAT, ()),
        ("s", NcType.SHORT, ("y",)),
    ]
    assert root.variables[0].attributes == (Attribute("units", NcType.CHAR, "K"),)
    (group,) = root.groups
    assert group.dimensions == (Dimension("x", 4, group="g"),)
    assert [v.dimensions for v in group.variables] == [("x",), ("/x", "t"), ("/g/x",)]
    assert group.groups[0].attributes == (Attribute("deep", NcType.INT, (1,)),)


@pytest.mark.parametrize(
    ("word", "nc_type"),
    [
        *((t.value, t) for t in NcType if t is not NcType.JSON),
        ("real", NcType.FLOAT),
        ("long", NcType.INT),
        ("integer", NcType.INT),
        ("ulong", NcType.UINT),
        ("uinteger", NcType.UINT),
    ],
)
def test_types_and_their_synonyms(word: str, nc_type: NcType) -> None:
    assert variable(f"{word} v(x) ;").type is nc_type


@pytest.mark.parametrize(
    ("text", "nc_type", "value"),
    [
        ("1b", NcType.BYTE, (1,)),
        ("1S", NcType.SHORT, (1,)),
        ("1", NcType.INT, (1,)),
        ("-1l", NcType.INT, (-1,)),
        ("1LL", NcType.INT64, (1,)),
        ("1ub", NcType.UBYTE, (1,)),
        ("1US", NcType.USHORT, (1,)),
        ("1U", NcType.UINT, (1,)),
        ("1UL", NcType.UINT, (1,)),
        ("1ull", NcType.UINT64, (1,)),
        ("2147483648", NcType.UINT, (2147483648,)),
        ("-2147483649", NcType.INT64, (-2147483649,)),
        ("4294967296", NcType.UINT64, (4294967296,)),
        ("18446744073709551615", NcType.UINT64, (2**64 - 1,)),
        ("-9223372036854775808", NcType.INT64, (-(2**63),)),
        ("0x1F", NcType.INT, (31,)),
        ("0xffUS", NcType.USHORT, (255,)),
        ("010", NcType.INT, (8,)),
        ("1.5", NcType.DOUBLE, (1.5,)),
        (".5e-1", NcType.DOUBLE, (0.05,)),
        ("1.d", NcType.DOUBLE, (1.0,)),
        ("1.1f", NcType.FLOAT, (float(np.float32(1.1)),)),
        ("1f", NcType.FLOAT, (1.0,)),
        ("Infinity, -Infinity", NcType.DOUBLE, (math.inf, -math.inf)),
        ("Infinityf, -Infinityf", NcType.FLOAT, (math.inf, -math.inf)),
        ("1b, 2, 3s", NcType.INT, (1, 2, 3)),
        ("1, 2U", NcType.UINT, (1, 2)),
        ("1, 2.5f", NcType.FLOAT, (1.0, 2.5)),
        ("2.5f, 1LL, 1.", NcType.DOUBLE, (2.5, 1.0, 1.0)),
        ("'a', '\\n', '\\101', '\\xff'", NcType.BYTE, (97, 10, 65, -1)),
        ('"abc"', NcType.CHAR, "abc"),
        ('"abc", "def"', NcType.CHAR, "abcdef"),
        ('"a\\tb\\"\\\\\\101\\x42\\?"', NcType.CHAR, 'a\tb"\\AB\x7f'),
        ('"\\303\\251"', NcType.CHAR, "é"),
        ('"\\351"', NcType.CHAR, "é"),  # Latin-1, in files older than UTF-8
        ('"two\nlines"', NcType.CHAR, "two\nlines"),
        ('""', NcType.CHAR, ""),
        ("", NcType.CHAR, ""),
    ],
)
def test_attributes_have_the_type_of_their_values(text: str, nc_type: NcType, value: Any) -> None:
    assert attributes(f":a = {text} ;") == {"a": (nc_type, value)}


@pytest.mark.parametrize(
    ("text", "nc_type", "value"),
    [
        ('string :a = "x"', NcType.STRING, ("x",)),
        ('string :a = "x", "", NIL', NcType.STRING, ("x", "", "")),
        ("int :a = 1.9, -1.9", NcType.INT, (1, -1)),
        ("byte :a = 255", NcType.BYTE, (-1,)),
        ("ubyte :a = -1", NcType.UBYTE, (255,)),
        ("float :a = 0.1", NcType.FLOAT, (float(np.float32(0.1)),)),
        ("double :a = 1", NcType.DOUBLE, (1.0,)),
        ("char :a = \"ab\", 'c', 100b", NcType.CHAR, "abcd"),
    ],
)
def test_attributes_can_state_their_type(text: str, nc_type: NcType, value: Any) -> None:
    assert attributes(f"{text} ;") == {"a": (nc_type, value)}
    owned = variable(f"int v ; {text.replace(':a', 'v:a')} ;")
    assert owned.attributes == (Attribute("a", nc_type, value),)


def test_the_same_attribute_twice_is_the_later_one() -> None:
    assert attributes(":a = 1 ; :b = 2 ; :a = 3.5 ;") == {
        "a": (NcType.DOUBLE, (3.5,)),
        "b": (NcType.INT, (2,)),
    }


@pytest.mark.parametrize(
    ("written", "name"),
    [
        (r"x\ y\:z\(\)", "x y:z()"),
        (r"\1d", "1d"),
        ("a.b-c+d@e_F9", "a.b-c+d@e_F9"),
        ("naïve", "naïve"),
        ("a%09b", "a\tb"),
        ("NaN", "NaN"),
        ("int", "int"),
        ("_", "_"),
    ],
)
def test_names_lose_their_escapes(written: str, name: str) -> None:
    cdl = parsed(
        f"dimensions: {written} = 2 ; variables: int {written}({written}) ; "
        f"{written}:{written} = 5s ; data: {written} = 7, 8 ; group: {written} {{ }}"
    )
    assert cdl.root.dimensions[0].name == cdl.root.groups[0].name == name
    (found,) = cdl.root.variables
    assert (found.name, found.dimensions) == (name, (name,))
    assert found.attributes == (Attribute(name, NcType.SHORT, (5,)),)
    assert cdl.data[name].array.tolist() == [7, 8]


def test_a_word_before_a_colon_begins_a_section_unless_a_blank_is_between() -> None:
    cdl = parsed("variables: int data, group ; data :a = 1 ; group :b = 2 ; data: data = 3 ;")
    assert [v.attributes[0].name for v in cdl.root.variables] == ["a", "b"]
    assert cdl.data["data"].array == 3


def test_comments_stand_anywhere() -> None:
    cdl = parse_cdl(
        "// first\n/* second\n */netcdf a { // {\n dimensions: /**/ x = /* 3 */ 2 ; // ;\n"
        "variables: int v(x) ;\ndata:\n v = 1, // v(0)\n 2 ; /* * / */ }\n// last",
        "a.cdl",
    )
    assert cdl.data["v"].array.tolist() == [1, 2]


# Special attributes.


def test_special_attributes_are_members_of_the_declaration() -> None:
    found = variable(
        'int v(x) ; v:_Storage = "chunked" ; v:_ChunkSizes = 2 ; v:_Fletcher32 = "true" ; '
        'v:_Shuffle = "true" ; v:_DeflateLevel = 4 ; v:_Endianness = "big" ; v:_NoFill = 1 ; '
        "v:_QuantizeBitGroomNumberOfSignificantDigits = 3 ;"
    )
    assert found == VariableDeclaration(
        "v",
        NcType.INT,
        ("x",),
        (Attribute("_QuantizeBitGroomNumberOfSignificantDigits", NcType.INT, (3,)),),
        chunk_shape=(2,),
        codecs=(
            CodecSpec("shuffle", {"elementsize": 4}),
            CodecSpec("zlib", {"level": 4}),
            CodecSpec("fletcher32"),
        ),
        fill_value=Fill.NONE,
        byte_order=">",
    )


@pytest.mark.parametrize(
    ("text", "codecs"),
    [
        ("", None),
        ("v:_DeflateLevel = 0 ;", ()),
        ('v:_Shuffle = "false" ;', None),
        ("v:_ChunkSizes = 2 ;", ()),
        ('v:_Storage = "chunked" ;', ()),
        ('v:_Filter = "307,9" ;', (CodecSpec("bz2", {"level": 9}),)),
        (
            'v:_Filter = "32015,5|1, 3u" ; v:_Shuffle = 1 ;',
            (
                CodecSpec("shuffle", {"elementsize": 8}),
                CodecSpec("zstd", {"level": 5}),
                CodecSpec("zlib", {"level": 3}),
            ),
        ),
        (
            'v:_DeflateLevel = 3 ; v:_Codecs = "[{\\"id\\": \\"lz4\\", \\"acceleration\\": 2}]" ;',
            (CodecSpec("lz4", {"acceleration": 2}),),
        ),
        ('v:_Codecs = "[]" ;', ()),
    ],
)
def test_codecs_are_none_where_the_text_tells_the_form_and_names_none(
    text: str, codecs: tuple[CodecSpec, ...] | None
) -> None:
    assert variable(f"double v(x) ; {text}").codecs == codecs


@pytest.mark.parametrize("storage", ["contiguous", "compact"])
def test_what_is_not_chunked_is_one_chunk(storage: str) -> None:
    found = variable(f'int v(x, u) ; v:_Storage = "{storage}" ;')
    assert (found.chunk_shape, found.codecs) == ((3, 1), ())


@pytest.mark.parametrize(
    ("declaration", "fill"),
    [
        ("int v ;", Fill.DEFAULT),
        ("int v ; v:_FillValue = -1.5 ;", -1),
        ("float v ; v:_FillValue = 0.1 ;", float(np.float32(0.1))),
        ('char v ; v:_FillValue = "x" ;', b"x"),
        ('char v ; v:_FillValue = "" ;', b"\0"),
        ('char v ; v:_FillValue = "\\351" ;', b"\xe9"),
        ('string v ; v:_FillValue = "none" ;', "none"),
        ('int v ; v:_NoFill = "true" ; v:_FillValue = 3 ;', Fill.NONE),
    ],
)
def test_a_fill_value_has_the_type_of_its_variable(declaration: str, fill: object) -> None:
    found = variable(declaration)
    assert found.fill_value == fill
    assert [a.type for a in found.attributes if a.name == "_FillValue"] in ([], [found.type])


def test_what_a_file_says_of_itself_is_no_attribute() -> None:
    cdl = parsed(
        ':_NCProperties = "version=2" ; :_SuperblockVersion = 2 ; :_IsNetcdf4 = 1 ; '
        ':_Format = "netCDF-4 classic model" ;'
    )
    assert (cdl.root.attributes, cdl.format) == ((), "netCDF-4 classic model")


# Data.


@pytest.mark.parametrize("nc_type", [t for t in NcType if t.value.startswith(("u", "int", "sh"))])
def test_integers_keep_all_their_bits(nc_type: NcType) -> None:
    dtype = values(f"{nc_type.value} v", "0").dtype
    ends = np.iinfo(dtype)
    # Both ends in a run long enough to be read at once, and one by one.
    for count in (1, 20):
        numbers = [int(ends.min), int(ends.max), 0] * count
        found = values(f"{nc_type.value} v(t)", ", ".join(map(str, numbers)))
        assert found.dtype == dtype
        assert found.tolist() == numbers


@pytest.mark.parametrize("count", [1, 1000])
def test_numbers_of_all_spellings_are_read_in_short_and_long_lists(count: int) -> None:
    words = ["1", "-2.5", "+3e2", ".5", "4.", "_", "NaN", "Infinity", "-Infinityf", "NaNf", "1.1f"]
    words += ["010", "0x10", "'a'", "7LL", "\n  8 ", "0.125e-3"]
    expected = [1, -2.5, 300, 0.5, 4, -9, math.nan, math.inf, -math.inf, math.nan]
    expected += [float(np.float32(1.1)), 8, 16, 97, 7, 8, 0.125e-3]
    found = values("double v(t) ; v:_FillValue = -9", ",".join(words * count))
    np.testing.assert_array_equal(found, np.array(expected * count))


def test_floats_are_rounded_once() -> None:
    numbers = np.random.default_rng(0).normal(size=5000).astype("f4")
    found = values("float v(t)", ", ".join(f"{number:.9g}" for number in numbers))
    np.testing.assert_array_equal(found, numbers, strict=True)


@pytest.mark.parametrize(
    ("declaration", "filler"),
    [
        ("int v(x)", -2147483647),
        ("int v(x) ; v:_FillValue = 5", 5),
        ("double v(x)", 9.9692099683868690e36),
        ("ubyte v(x)", 255),
        ("string v(x)", ""),
        ('string v(x) ; v:_FillValue = "none"', "none"),
        ("char v(x)", b""),
        ('char v(x) ; v:_FillValue = "-"', b"-"),
        ('int v(x) ; v:_NoFill = "true"', -2147483647),
    ],
)
def test_what_is_missing_is_filler(declaration: str, filler: object) -> None:
    one = '"a"' if declaration.startswith(("char", "string")) else "1"
    found = values(declaration, f"_, {one}").tolist()
    assert found[0] == found[2] == filler
    assert found[1] in (1, "a", b"a")
    assert values(declaration, "").tolist() == [filler] * 3


def test_values_of_a_variable_without_a_list_are_not_given() -> None:
    assert parsed("variables: int v, w ; data: w = 1 ;").data.keys() == {"w"}


def test_unlimited_dimensions_are_as_long_as_the_longest_list() -> None:
    cdl = parsed(
        "dimensions: t = UNLIMITED ; x = 3 ; e = UNLIMITED ; variables: int a(t), b(t, x), c(t) ;"
        "data: a = 1 ; b = 1, 2, 3, 4 ; group: g { variables: int d(t) ; data: d = 1, 2, 3 ; }"
    )
    assert [d.size for d in cdl.root.dimensions] == [3, 3, 0]
    assert {path: data.shape for path, data in cdl.data.items()} == {
        "a": (3,),
        "b": (3, 3),
        "g/d": (3,),
    }
    fill = -2147483647
    assert cdl.data["b"].array.tolist() == [[1, 2, 3], [4, fill, fill], [fill] * 3]


@pytest.mark.parametrize(
    ("dimensions", "data", "expected"),
    [
        ("k, u", "{1, 2, 3}, {4}", [[1, 2, 3], [4, 0, 0]]),
        ("t, u", "{1, 2}, {}, {3}", [[1, 2], [0, 0], [3, 0]]),
        ("t, k, u", "{1}, {2, 3}, {4}", [[[1, 0], [2, 3]], [[4, 0], [0, 0]]]),
        ("t, u, k", "{1, 2, 3}, {4}", [[[1, 2], [3, 0]], [[4, 0], [0, 0]]]),
        ("k, t, u", "{{1}, {2, 3}}, {{4}}", [[[1, 0], [2, 3]], [[4, 0], [0, 0]]]),
        ("k, k", "{1, 2}, {3, 4}", [[1, 2], [3, 4]]),
        ("k, k", "{{1}, 2, {3}}", [[1, 2], [3, 0]]),
    ],
)
def test_runs_of_inner_unlimited_dimensions_stand_in_braces(
    dimensions: str, data: str, expected: list[Any]
) -> None:
    assert values(f"int v({dimensions}) ; v:_FillValue = 0", data).tolist() == expected


@pytest.mark.parametrize(
    ("declaration", "data", "expected"),
    [
        ("char v", "'a'", b"a"),
        ("char v", '""', b""),
        ("char v(x)", '"ab"', [b"a", b"b", b""]),
        ("char v(x)", "'a', 'b', '\\xff'", [b"a", b"b", b"\xff"]),
        ("char v(x)", '"a", "b", "c"', [b"a", b"b", b"c"]),
        ("char v(k, x)", '"abc", "d"', [[b"a", b"b", b"c"], [b"d", b"", b""]]),
        ("char v(k, x)", '"", "d"', [[b"", b"", b""], [b"d", b"", b""]]),
        ("char v(k, x)", '"abcdef"', [[b"a", b"b", b"c"], [b"d", b"e", b"f"]]),
        ("char v(k, x)", "'a', 'b', \"c\"", [[b"a", b"b", b""], [b"c", b"", b""]]),
        ("char v(t, e)", '"", "b"', [[b""], [b"b"]]),
        ("char v(t, x)", '"a", "b"', [[b"a", b"", b""], [b"b", b"", b""]]),
        ("char v(k, u)", '{"ab"}, {"c"}', [[b"a", b"b"], [b"c", b""]]),
        ('char v(k, x) ; v:_FillValue = "."', '"ab"', [[b"a", b"b", b"."], [b".", b".", b"."]]),
        ('char v(k, x) ; v:_FillValue = "."', '_, "x"', [[b"."] * 3, [b"x", b".", b"."]]),
    ],
)
def test_texts_fill_rows_of_characters(declaration: str, data: str, expected: Any) -> None:
    assert values(declaration, data).tolist() == expected


def test_strings_are_elements() -> None:
    found = values("string v(k, x)", '"a", NIL, "\\303\\251", "",\n "x, y"')
    assert found.tolist() == [["a", "", "é"], ["", "x, y", ""]]


def test_the_later_of_two_lists_counts() -> None:
    assert values("int v", "1 ; v = 2") == 2


def test_a_path_gives_values_to_a_variable_of_another_group() -> None:
    cdl = parsed(
        "group: g { variables: int v ; } group: h { variables: int w ; data: /g/v = 5 ; w = 6 ; }"
    )
    assert {path: int(data.array) for path, data in cdl.data.items()} == {"g/v": 5, "h/w": 6}


def test_a_dimension_is_the_nearest_one_upwards() -> None:
    cdl = parsed(
        "dimensions: x = 3 ; group: g { dimensions: x = 1 ; variables: int a(x), b(/x) ; "
        "data: a = 7 ; b = 7 ; group: h { variables: int c(x) ; data: c = 7 ; } }"
    )
    assert {path: data.shape for path, data in cdl.data.items()} == {
        "g/a": (1,),
        "g/b": (3,),
        "g/h/c": (1,),
    }


# Refusals.


@pytest.mark.parametrize(
    ("body", "what"),
    [
        ("dimensions: x = 2 ;\n x = 3 ;", "a.cdl:3: dimension x is declared twice"),
        ("dimensions: x = y ;", "a.cdl:2: 'y' is not a length of dimension x"),
        ("dimensions: x = 2.5 ;", "a.cdl:2: '2.5' is not a length of dimension x"),
        ("variables: int v(y) ;", "a.cdl:2: v: no dimension 'y' has been declared so far"),
        ("variables:\n int v ;\n float v ;", "a.cdl:4: variable v is declared twice"),
        ("variables: integre v ;", "a.cdl:2: 'integre' is not a type"),
        ("variables: int v", "a.cdl:3: `}` where `;` must follow the declaration"),
        ("variables: v:a = 1 ;", "a.cdl:2: no variable 'v' has been declared so far"),
        (":a = 1\n:b = 2 ;", "a.cdl:3: `:` where `;` must follow the attribute"),
        (":a = b ;", "a.cdl:2: `b` found; expected a value"),
        (":a = 08 ;", "a.cdl:2: `08` is not octal, which a leading 0 means"),
        (":a = 18446744073709551616 ;", "is too large for every integer type"),
        (":a = 256ub ;", "a.cdl:2: 256 is out of the range of ubyte"),
        (':a = 1, "x" ;', "a.cdl:2: a: texts and numbers in one attribute"),
        (":a = _ ;", "a.cdl:2: a: a fill value or NIL cannot be the value of an attribute"),
        ("int :a = ;", "a.cdl:2: a: an attribute of type int has a value"),
        ("char :a = 1 ;", "a.cdl:2: a: 1 found; expected a text in quotes"),
        ("variables: int v ; v:_FillValue = 1, 2 ;", "_FillValue: 2 values found; expected one"),
        ("variables: int v ; v:_DeflateLevel = 10 ;", "_DeflateLevel: 10 is not between 0 and 9"),
        ("variables: int v ; v:_ChunkSizes = 1 ;", "has 1 lengths, and v 0 dimensions"),
        ('variables: int v ; v:_Storage = "tape" ;', '"tape" is not one of chunked, contiguous'),
        ('variables: int v ; v:_Filter = "a" ;', '_Filter: "a" is not `ID,PARAMETER,...`'),
        ('variables: int v ; v:_Codecs = "{}" ;', '_Codecs: "{}" is not a list of codecs'),
        ('variables: int v ; v:_Codecs = "[" ;', "a.cdl:2: _Codecs: the text: not JSON"),
        ("data: v = 1 ;", "a.cdl:2: no variable 'v' has been declared so far"),
        ("variables: int v ;\ndata:\n v = 1, 2 ;", "a.cdl:2: v = ...: 2 values, but there is"),
        ("variables: byte v ; data: v = 256 ;", "a.cdl:2: 256 is out of the range of byte"),
        ('variables: int v ; data: v = "a" ;', "a text found; expected a number of type int"),
        ("variables: int v ; data: v = NaN ;", "nan found; expected a number of type int"),
        ("variables: int v ; data: v = NIL ;", "`NIL` found; expected a value of type int"),
        ("variables: string v ; data: v = 1 ;", "1 found; expected a text in quotes"),
        ("variables: int v ; data: v = {1 ;", "`;` where `}` must follow values in braces"),
        ("variables: int v ; data: v = 1 2 ;", "`2` where `;` must follow the values"),
        ("group: g {\n}\ngroup: g {\n}", "a.cdl:4: group g is declared twice"),
        ("group: g {", "a.cdl:4: the end of the text where `}` must follow the groups"),
        ("group: \\.\\. { }", "a.cdl:2: '..' cannot be the name of a group"),
        ("/* no end", "a.cdl:2: a comment does not end"),
        (':a = "no end ;', "a.cdl:2: a text does not end"),
        ("@", "a.cdl:2: '@' cannot stand here"),
        ("/ 2", "a.cdl:2: a `/` that does not begin a path"),
        ("}\nmore", "a.cdl:3: `more` after the end of the dataset"),
        (
            "dimensions: u = UNLIMITED ; k = 2 ; variables: int v(k, u) ; data: v = 1 ;",
            "`1` found; expected",
        ),
    ],
)
def test_what_is_wrong_is_told_in_a_line_with_its_place(body: str, what: str) -> None:
    with pytest.raises(BadMetadata) as caught:
        parsed(body)
    assert what in str(caught.value)
    assert str(caught.value).startswith("a.cdl:")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("body", "what"),
    [
        ("compound c { int a ; } ;", "compound types"),
        ("int enum e { a = 1 } ;", "enum types"),
        ("opaque(4) o ;", "opaque types"),
        ("int(*) v ;", "variable-length types"),
    ],
)
def test_user_defined_types_are_refused_by_name(body: str, what: str) -> None:
    with pytest.raises(Unsupported, match=rf"^a.cdl:3: {what} cannot be stored"):
        parsed(f"types:\n{body}\nvariables: int v ;")


def test_a_filter_without_a_codec_is_refused_by_its_number() -> None:
    with pytest.raises(Unsupported, match=r"^a.cdl:2: _Filter: HDF5 filter 32004 has no codec"):
        parsed('variables: int v ; v:_Filter = "32004" ;')


def test_what_is_no_cdl_is_refused_at_its_first_line() -> None:
    for text in ("", "{}", "netcdf {", "netcdf", "CDF\x01", "\ud800"):
        with pytest.raises(BadMetadata, match=r"^x:\d: "):
            parse_cdl(text, "x")


def test_groups_have_a_greatest_depth() -> None:
    for depth in (100, 101, 100_000):
        text = "netcdf a {" + "group: g {" * depth + "}" * depth + "}"
        if depth == 100:
            assert parse_cdl(text, "x").root.groups
        else:
            with pytest.raises(BadMetadata, match="groups within groups: more than 100"):
                parse_cdl(text, "x")


def test_braces_within_braces_cost_nothing() -> None:
    assert values("int v", "{" * 100_000 + "1" + "}" * 100_000) == 1


def test_absurd_lengths_are_declared_and_make_no_array() -> None:
    cdl = parsed(
        "dimensions: x = 9000000000000000000 ; y = 9000000000000000000 ; variables: "
        'char c(x, y) ; int v(y) ; data: c = "a", "b" ; v = 1 ;'
    )
    for data in cdl.data.values():
        with pytest.raises(Unsupported, match="more than CDL can give a variable"):
            _ = data.values


def test_a_rank_above_that_of_hdf5_is_refused() -> None:
    with pytest.raises(BadMetadata, match=r"v has 33 dimensions \(max 32\)"):
        parsed(f"dimensions: x = 1 ; variables: int v({', '.join('x' * 33)}) ;")
