from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nczfs.cdl.data import DataStyle, data_text
from nczfs.cdl.leaves import dtype_of
from nczfs.cdl.parse import Cdl, parse_cdl
from nczfs.cdl.printer import PrintedVariable, Style, header, text
from nczfs.cdl.values import Digits
from nczfs.formats.names import below
from nczfs.model.declaration import GroupDeclaration
from nczfs.model.dtypes import CODE_OF_NC_TYPE, DataType, NcType, VlenKind
from nczfs.model.hierarchy import (
    ArrayDescription,
    Attribute,
    ChunkKeys,
    CodecChain,
    CodecSpec,
    Dimension,
    Group,
    GroupHeader,
    Variable,
)
from nczfs.model.printing import encoded

Values = np.ndarray[Any, np.dtype[Any]]

EXACT = Digits(9, 17)


def data_type(nc_type: NcType, byte_order: str = "<") -> DataType:
    if nc_type is NcType.STRING:
        return DataType("|O", np.dtype(object), VlenKind.TEXT, nc_type)
    stored = np.dtype("S1" if nc_type is NcType.CHAR else byte_order + CODE_OF_NC_TYPE[nc_type])
    return DataType(stored.str, stored, nc_type=nc_type)


def declared(
    path: str,
    dtype: DataType,
    dimensions: tuple[Dimension, ...],
    attributes: tuple[Attribute, ...] = (),
    codecs: tuple[CodecSpec, ...] = (),
) -> Variable:
    shape = tuple(dimension.size for dimension in dimensions)
    chunks = tuple(max(1, size) for size in shape)
    chain = CodecChain(2, codecs)
    array = ArrayDescription(shape, chunks, dtype, 0, chain, ChunkKeys())
    return Variable(path, path, "zarr2", array, dimensions, attributes)


def shown(
    values: Any,
    nc_type: NcType = NcType.INT,
    *,
    unlimited: tuple[bool, ...] = (),
    attributes: tuple[Attribute, ...] = (),
    style: DataStyle = DataStyle(),  # noqa: B008 - frozen
    indent: str = "",
    block: int = 1000,
) -> str:
    """The text of the values of a variable `v`, which come in blocks."""
    array = np.asarray(values, dtype_of(nc_type))
    dimensions = tuple(Dimension(f"d{i}", size) for i, size in enumerate(array.shape))
    variable = declared("v", data_type(nc_type), dimensions, attributes)
    printed = PrintedVariable(variable, nc_type, unlimited or (False,) * array.ndim, False, indent)
    flat = array.reshape(-1)
    blocks = (flat[start : start + block] for start in range(0, flat.size, block))
    return "".join(data_text(printed, blocks, style))


def filled(value: Any, nc_type: NcType) -> tuple[Attribute, ...]:
    return (Attribute("_FillValue", nc_type, value if nc_type is NcType.CHAR else (value,)),)


# As ncdump 4.9.0 prints them.


def test_a_scalar_and_a_row_follow_their_name() -> None:
    assert shown(5) == "\n v = 5 ;\n"
    assert shown([1, 2, 3]) == "\n v = 1, 2, 3 ;\n"


def test_each_row_has_a_line() -> None:
    assert shown([[1, 2], [3, 4]]) == "\n v =\n  1, 2,\n  3, 4 ;\n"


def test_lines_are_broken_before_their_greatest_length() -> None:
    text = shown(list(range(100, 200)), style=DataStyle(line_length=40))
    lines = text.splitlines()
    assert lines[1:4] == [
        " v = 100, 101, 102, 103, 104, 105, ",
        "    106, 107, 108, 109, 110, 111, ",
        "    112, 113, 114, 115, 116, 117, ",
    ]
    assert max(map(len, lines)) <= 40


def test_groups_are_indented_but_not_their_rows() -> None:
    assert shown([[1, 2], [3, 4]], indent="  ") == "\n   v =\n  1, 2,\n  3, 4 ;\n"


def test_a_variable_without_elements_has_no_text() -> None:
    assert shown(np.zeros((3, 0))) == ""


@pytest.mark.parametrize(
    ("values", "nc_type", "text"),
    [
        ([1 / 3, 1e10, 1e-5, 100000], NcType.FLOAT, "0.3333333, 1e+10, 1e-05, 100000"),
        ([1 / 3, 1e15, -0.0], NcType.DOUBLE, "0.333333333333333, 1e+15, -0"),
        ([math.nan, math.inf, -math.inf], NcType.FLOAT, "NaNf, Infinityf, -Infinityf"),
        ([math.nan, math.inf, -math.inf], NcType.DOUBLE, "NaN, Infinity, -Infinity"),
        ([2**64 - 1, 0], NcType.UINT64, "18446744073709551615, 0"),
        (["a", "", 'é"\n'], NcType.STRING, '"a", _, "é\\"\\n"'),
    ],
)
def test_values_are_spelled_as_their_type_is(values: Any, nc_type: NcType, text: str) -> None:
    assert shown(values, nc_type) == f"\n v = {text} ;\n"


@pytest.mark.parametrize(
    ("values", "nc_type", "attributes", "text"),
    [
        ([1, -2147483647], NcType.INT, (), "1, _"),
        ([1, -2147483647], NcType.INT, filled(1, NcType.INT), "_, -2147483647"),
        ([-127, 1], NcType.BYTE, (), "-127, 1"),
        ([255, 1], NcType.UBYTE, (), "255, 1"),
        ([-127, 1], NcType.BYTE, filled(-127, NcType.BYTE), "_, 1"),
        ([9.96921e36, 1], NcType.FLOAT, (), "_, 1"),
        ([1, 1 + 2**-23, 1 + 2**-21], NcType.FLOAT, filled(1, NcType.FLOAT), "_, _, 1"),
        ([math.nan, 1], NcType.DOUBLE, filled(math.nan, NcType.DOUBLE), "_, 1"),
        ([math.inf, -math.inf], NcType.FLOAT, filled(math.inf, NcType.FLOAT), "_, -Infinityf"),
        (["x", ""], NcType.STRING, filled("x", NcType.STRING), '_, ""'),
        # Of another type than the variable it means nothing.
        ([7, 1], NcType.INT, filled(7, NcType.SHORT), "7, 1"),
    ],
)
def test_fill_values_are_underscores(
    values: Any, nc_type: NcType, attributes: tuple[Attribute, ...], text: str
) -> None:
    assert shown(values, nc_type, attributes=attributes) == f"\n v = {text} ;\n"


def test_characters_are_texts_without_the_nuls_at_their_end() -> None:
    rows = np.array([b"abc", b"d", b""], "S3").view("S1").reshape(3, 3)
    assert shown(rows, NcType.CHAR) == '\n v =\n  "abc",\n  "d",\n  "" ;\n'
    assert shown([b"\xc3", b"\xa9", b"\0", b"'"], NcType.CHAR) == '\n v = "\\303\\251\\000\\\'" ;\n'
    assert shown(b"x", NcType.CHAR) == '\n v = "x" ;\n'


def test_nuls_are_printed_where_a_reader_would_put_something_else() -> None:
    rows = [[b"a", b""], [b"b", b"c"]]
    fill = (Attribute("_FillValue", NcType.CHAR, "."),)
    assert '"a\\000"' in shown(rows, NcType.CHAR, attributes=fill)
    assert '{"a\\000"}' in shown(rows, NcType.CHAR, unlimited=(False, True))
    assert shown([b"a", b""], NcType.CHAR, unlimited=(True,)) == '\n v = "a\\000" ;\n'


def test_runs_of_inner_unlimited_dimensions_have_braces() -> None:
    values = np.arange(8).reshape(2, 2, 2)
    assert shown(values, unlimited=(True, True, True)) == (
        "\n v =\n  {{0, 1},\n  {2, 3}},\n  {{4, 5},\n  {6, 7}} ;\n"
    )
    assert shown(values, unlimited=(True, False, True)) == (
        "\n v =\n  {0, 1},\n  {2, 3},\n  {4, 5},\n  {6, 7} ;\n"
    )
    assert shown(values, unlimited=(True, True, False)) == (
        "\n v =\n  {0, 1,\n  2, 3},\n  {4, 5,\n  6, 7} ;\n"
    )


def test_comments_tell_the_indices_of_values_or_rows() -> None:
    values = [[1, 2], [3, 4]]
    assert shown(values, style=DataStyle(full=True)).splitlines()[2:] == [
        "  1,   // v(0,0)",
        "    2,  // v(0,1)",
        "    3,   // v(1,0)",
        "    4;  // v(1,1)",
        "    ",
    ]
    assert "4;  // v(2,2)" in shown(values, style=DataStyle(full=True, fortran=True))
    assert shown(values, style=DataStyle(brief=True)).splitlines()[2:4] == [
        "  // v(0, 0-1)",
        "    1, 2,",
    ]
    assert "// v(1-2 ,2)" in shown(values, style=DataStyle(brief=True, fortran=True))


@pytest.mark.parametrize(
    ("c_format", "nc_type", "text"),
    [
        ("%8.3f", NcType.FLOAT, "   1.500,    2.000"),
        ("%04d", NcType.INT, "0001, 0002"),
        ("%ld", NcType.INT64, "1, 2"),
        # What does not fit the type, or is more than one number, is not followed.
        ("%d", NcType.FLOAT, "1.5, 2"),
        ("%s", NcType.INT, "1, 2"),
        ("%d%d", NcType.INT, "1, 2"),
        ("%1000000000d", NcType.INT, "1, 2"),
        ("%*d", NcType.INT, "1, 2"),
    ],
)
def test_a_variable_can_say_how_its_numbers_look(c_format: str, nc_type: NcType, text: str) -> None:
    attributes = (Attribute("C_format", NcType.CHAR, c_format),)
    assert shown([1.5, 2], nc_type, attributes=attributes) == f"\n v = {text} ;\n"


def test_asked_for_digits_come_before_a_format() -> None:
    attributes = (Attribute("C_format", NcType.CHAR, "%8.3f"),)
    style = DataStyle(Digits(float=3))
    assert shown([1.23456], NcType.FLOAT, attributes=attributes, style=style) == "\n v = 1.23 ;\n"


# Whatever is printed.


@pytest.mark.parametrize("nc_type", [NcType.INT, NcType.CHAR, NcType.STRING, NcType.DOUBLE])
@pytest.mark.parametrize(
    "style", [DataStyle(), DataStyle(line_length=20), DataStyle(full=True), DataStyle(brief=True)]
)
def test_the_blocks_in_which_values_come_do_not_show(nc_type: NcType, style: DataStyle) -> None:
    values: Any = np.arange(60).reshape(3, 4, 5)
    if nc_type is NcType.CHAR:
        values = np.where(values % 7 < 3, b"", b"a")
    if nc_type is NcType.STRING:
        values = values.astype(str).astype(object)
    texts = {
        shown(values, nc_type, unlimited=(True, False, True), style=style, block=block)
        for block in (1, 2, 3, 5, 7, 60)
    }
    assert len(texts) == 1


def test_texts_that_are_no_utf_8_come_out_as_they_are() -> None:
    variable = declared("v", DataType("|S2", np.dtype("S2"), nc_type=NcType.STRING), ())
    printed = PrintedVariable(variable, NcType.STRING, (), False, "")
    text = "".join(data_text(printed, [np.array([b"\xe9"])], DataStyle()))
    assert encoded(text) == b'\n v = "\xe9" ;\n'


@pytest.mark.parametrize(
    ("dtype", "nc_type", "values", "text"),
    [
        ("|b1", NcType.UBYTE, [True, False], "1, 0"),
        ("<f2", NcType.FLOAT, [1.5, 2], "1.5, 2"),
        ("<M8[s]", NcType.INT64, [5, 6], "5, 6"),
        ("<m8[ns]", NcType.INT64, [5, "NaT"], "5, -9223372036854775808"),
        ("<U3", NcType.STRING, ["é", ""], '"é", _'),
    ],
)
def test_values_of_types_that_netcdf_lacks_are_those_of_the_close_type(
    dtype: str, nc_type: NcType, values: list[Any], text: str
) -> None:
    array = np.array(values, dtype)
    variable = declared("v", DataType(dtype, array.dtype), (Dimension("x", 2),))
    printed = PrintedVariable(variable, nc_type, (False,), False, "")
    assert "".join(data_text(printed, [array], DataStyle())) == f"\n v = {text} ;\n"


# Random datasets, printed and read again.

NUMBERS = tuple(CODE_OF_NC_TYPE)
TYPES = (*NUMBERS, NcType.CHAR, NcType.STRING)
TYPE_NAMES = frozenset({t.value for t in NcType} | {"real", "long", "integer", "ulong", "uinteger"})

# Control characters are as ncdump prints them, but "%" in front of them has no escape.
LETTERS = st.characters(exclude_categories=["Cs"], exclude_characters="/%\0")
NAMES = st.text(LETTERS, min_size=1, max_size=6).filter(
    lambda name: name[0] not in "+-.@" and name not in TYPE_NAMES
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8).map(
    lambda text: text.rstrip("\0")
)


def numbers(nc_type: NcType) -> st.SearchStrategy[Any]:
    dtype = np.dtype(CODE_OF_NC_TYPE[nc_type])
    if dtype.kind == "f":
        return st.floats(width=32 if dtype.itemsize == 4 else 64)
    ends = np.iinfo(dtype)
    return st.integers(int(ends.min), int(ends.max))


@st.composite
def attributes(draw: st.DrawFn) -> tuple[Attribute, ...]:
    found: list[Attribute] = []
    for name in draw(st.lists(NAMES, unique=True, max_size=2)):
        nc_type = draw(st.sampled_from(TYPES))
        if nc_type is NcType.CHAR:
            found.append(Attribute(name, nc_type, draw(TEXTS)))
        else:
            items = TEXTS if nc_type is NcType.STRING else numbers(nc_type)
            value = tuple(draw(st.lists(items, min_size=1, max_size=3)))
            found.append(Attribute(name, nc_type, value))
    return tuple(found)


@st.composite
def arrays(draw: st.DrawFn, nc_type: NcType, shape: tuple[int, ...], fill: Any) -> Values:
    items: st.SearchStrategy[Any] = TEXTS
    if nc_type is NcType.CHAR:
        items = st.binary(min_size=1, max_size=1)
    elif nc_type is not NcType.STRING:
        items = numbers(nc_type)
    size = math.prod(shape)
    flat = draw(st.lists(items | st.just(fill), min_size=size, max_size=size))
    array = np.empty(size, dtype_of(nc_type))
    array[:] = flat
    return array.reshape(shape)


@st.composite
def groups(draw: st.DrawFn, path: str, above: Mapping[str, Dimension], depth: int) -> Any:
    """A group, and the values of its variables by their path."""
    values: dict[str, Values] = {}
    names = draw(st.lists(NAMES, unique=True, max_size=3))
    dimensions = tuple(
        Dimension(name, draw(st.integers(0, 3)), draw(st.booleans()), path) for name in names
    )
    seen = {**above, **{dimension.name: dimension for dimension in dimensions}}
    variables: list[Variable] = []
    for name in draw(st.lists(NAMES, unique=True, max_size=3)):
        nc_type = draw(st.sampled_from(TYPES))
        chosen = draw(st.lists(st.sampled_from(sorted(seen)), max_size=3)) if seen else []
        shape = tuple(seen[word].size for word in chosen)
        fill: Any = draw(TEXTS) if nc_type is NcType.STRING else b"."
        given: tuple[Attribute, ...] = draw(attributes())
        if nc_type in CODE_OF_NC_TYPE:
            fill = draw(numbers(nc_type))
        if draw(st.booleans()):
            given += filled(fill.decode() if nc_type is NcType.CHAR else fill, nc_type)
        variable = declared(
            below(path, name),
            data_type(nc_type, draw(st.sampled_from("<>"))),
            tuple(seen[word] for word in chosen),
            given,
            draw(st.sampled_from([(), (CodecSpec("zlib", {"level": 3}), CodecSpec("fletcher32"))])),
        )
        variables.append(variable)
        values[variable.path] = draw(arrays(nc_type, shape, fill))
    children: list[Group] = []
    for name in draw(st.lists(NAMES, unique=True, max_size=2)) if depth else ():
        child, inner = draw(groups(below(path, name), seen, depth - 1))
        children.append(child)
        values |= inner
    head = GroupHeader(path, "nczarr-L3", dimensions, draw(attributes()))
    return Group(head, dimensions, tuple(variables), tuple(children)), values


def printed_text(group: Group, values: Mapping[str, Values]) -> str:
    def data(printed: PrintedVariable) -> Iterator[str]:
        flat = values[printed.variable.path].reshape(-1)
        return data_text(printed, [flat] if flat.size else [], DataStyle(EXACT))

    return "".join(text(group, name="n", style=Style(EXACT, specials=True), data=data))


@given(groups("", {}, 2))
def test_what_is_printed_is_read_again(sample: tuple[Group, dict[str, Values]]) -> None:
    group, values = sample
    cdl = parse_cdl(printed_text(group, values), "n.cdl")
    assert cdl.name == "n"
    used = {
        (dimension.group, dimension.name)
        for variable in variables_of(group)
        if variable.array.size
        for dimension in variable.dimensions
    }
    assert_same(cdl, cdl.root, group, used)
    for path, array in values.items():
        if array.size:
            np.testing.assert_array_equal(cdl.data[path].array, array, strict=True)
        else:
            assert path not in cdl.data


def variables_of(group: Group) -> Iterator[Variable]:
    yield from group.variables
    for child in group.groups:
        yield from variables_of(child)


def assert_same(
    cdl: Cdl, found: GroupDeclaration, group: Group, used: set[tuple[str, str]]
) -> None:
    assert found.name == group.name
    # NaN is no equal of itself.
    assert repr(found.attributes) == repr(group.header.attributes)
    assert found.dimensions == tuple(
        dataclasses.replace(d, size=d.size if not d.unlimited or (d.group, d.name) in used else 0)
        for d in group.dimensions
    )
    assert len(found.variables) == len(group.variables)
    for mine, variable in zip(found.variables, group.variables, strict=True):
        array = variable.array
        assert (mine.name, mine.type) == (variable.name, array.dtype.nc_type)
        assert repr(mine.attributes) == repr(variable.attributes)
        assert [reference.rpartition("/")[2] for reference in mine.dimensions] == [
            dimension.name for dimension in variable.dimensions
        ]
        assert mine.chunk_shape == array.chunk_shape
        assert mine.codecs == array.codecs.codecs
        assert mine.byte_order in (None, array.dtype.stored.str[0])
    assert len(found.groups) == len(group.groups)
    for inner, child in zip(found.groups, group.groups, strict=True):
        assert_same(cdl, inner, child, used)


def test_a_variable_named_like_a_section_can_be_read_again() -> None:
    variable = declared("data", data_type(NcType.INT), (), (Attribute("a", NcType.INT, (1,)),))
    lines = header(Group(GroupHeader("", "zarr2"), (), (variable,)), name="n").splitlines()
    assert "\t\tdata :a = 1 ;" in lines
