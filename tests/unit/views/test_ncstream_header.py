"""What a group shows as the header of an ncstream."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nczfs.formats.elementtypes import data_type
from nczfs.model.hierarchy import CodecSpec, Dimension, Group, Variable
from nczfs.ncstream import messages as ncs
from nczfs.ncstream.messages import DataType
from nczfs.views.ncstream.header import full_name_of, stream_header
from nczfs.views.netcdf.content import FileContent
from nczfs.views.netcdf.fitting import file_content
from nczfs.views.netcdf.kinds import SENT_NCSTREAM
from tests.support.groups import group, said, variable


def unread(variable: Variable) -> tuple[str, ...]:
    raise AssertionError(f"{variable.path} is read")


def content(of: Group) -> FileContent:
    return file_content(of, SENT_NCSTREAM, unread)


def only(of: Variable) -> ncs.Variable:
    (found,) = stream_header(content(group("", of))).root.variables
    return found


@pytest.mark.parametrize(
    ("dtype", "type_"),
    [
        ("<i2", DataType.SHORT),
        (">u8", DataType.ULONG),
        ("|b1", DataType.BYTE),
        ("<f2", DataType.FLOAT),
        ("<M8[s]", DataType.LONG),
        ("char", DataType.CHAR),
        ("<U4", DataType.STRING),
        ("|V5", DataType.OPAQUE),
    ],
)
def test_types_are_those_of_ncstream(dtype: str, type_: DataType) -> None:
    found = only(variable("v", dtype, {"x": 3}))
    assert found.type is type_
    assert [(d.name, d.length) for d in found.shape] == [("x", 3)]


def test_strings_of_any_number_are_not_read_for_a_header() -> None:
    long = variable("v", "|O", {"x": 10**12}, filters=("vlen-utf8",))
    assert only(long).type is DataType.STRING


def objects(codec: str, base: str) -> Group:
    dtype = data_type("|O", (CodecSpec(codec, {"dtype": base} if base else {}),), "v")
    fill = said("_FillValue", 7)
    of = variable("v", "<f4", {"x": 3}, attributes=(fill,))
    return group("", replace(of, array=replace(of.array, dtype=dtype)))


def test_elements_of_any_length_have_a_dimension_or_are_opaque() -> None:
    (ragged,) = stream_header(content(objects("vlen-array", "<i2"))).root.variables
    assert ragged.type is DataType.SHORT
    assert [(d.name, d.is_vlen) for d in ragged.shape] == [("x", False), ("*", True)]
    (opaque,) = stream_header(content(objects("vlen-bytes", ""))).root.variables
    assert opaque.type is DataType.OPAQUE
    assert [d.name for d in opaque.shape] == ["x"]
    assert not any(v.attributes for v in (ragged, opaque))  # _FillValue is one of their elements


@pytest.mark.parametrize(("codec", "base"), [("json2", ""), ("vlen-array", "|b1")])
def test_other_objects_are_left_out(codec: str, base: str) -> None:
    found = content(objects(codec, base))
    assert found.root.variables == ()
    assert "/v: is of type |O " in "".join(found.omitted)


def test_complex_numbers_are_structures() -> None:
    (found,) = stream_header(content(group("", variable("z", "<c8", {"x": 2})))).root.structures
    assert [(m.name, m.type) for m in found.variables] == [
        ("r", DataType.FLOAT),
        ("i", DataType.FLOAT),
    ]


def test_attributes_keep_their_types() -> None:
    of = group("", attributes=(said("title", "ü"), said("names", ("a", "b")), said("n", 2.5)))
    found = {a.name: a for a in stream_header(content(of)).root.attributes}
    assert found["title"].values == ("ü",)
    assert found["names"].values == ("a", "b")
    assert found["n"] == ncs.Attribute("n", DataType.DOUBLE, (2.5,))


def test_a_dimension_that_another_one_hides_is_private() -> None:
    x = Dimension("x", 3)
    hiding = Dimension("x", 4, group="g")
    of = group(
        "",
        group("g", variable("g/v", "<f4", {"/x": 3}), dimensions=(hiding,)),
        dimensions=(x,),
    )
    (child,) = stream_header(content(of)).root.groups
    assert [d.length for d in child.dimensions] == [4]
    assert [(d.length, d.is_private) for d in child.variables[0].shape] == [(3, True)]


def test_names_of_members_have_their_groups() -> None:
    found = content(group("", group("a", group("a/b", variable("a/b/v.w")))))
    (inner,) = found.root.groups[0].groups
    assert full_name_of(inner, inner.variables[0]) == r"a/b/v\.w"
