"""What is written is what is read, in every layout, over nothing and over anything else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nczfs.formats.attributes import untyped
from nczfs.formats.base import FormatOptions, MetadataFormat, Node
from nczfs.formats.registry import FORMATS
from nczfs.model.dtypes import CODE_OF_NC_TYPE, DEFAULT_FILL, DataType, NcType, VlenKind
from nczfs.model.hierarchy import (
    ArrayDescription,
    Attribute,
    CodecSpec,
    Dimension,
    GroupHeader,
    Variable,
)
from nczfs.testing.documents import DictDocuments

OPTIONS = FormatOptions()
EARLY = ("nczarr-L2U", "nczarr-L1")
PURE = ("zarr2", "zarr3")
NUMBERS = tuple(CODE_OF_NC_TYPE)

names = st.text("abcXYZ019_é漢", min_size=1, max_size=8).filter(lambda n: not n.startswith("_"))
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


def numbers(nc_type: NcType) -> st.SearchStrategy[Any]:
    code = CODE_OF_NC_TYPE[nc_type]
    if code.startswith("f"):
        exact = st.floats(width=32 if code == "f4" else 64)
        return exact | st.sampled_from([DEFAULT_FILL[nc_type], 0.1 if code == "f8" else 1.0])
    limits = np.iinfo(code)
    return st.integers(int(limits.min), int(limits.max))


def values(nc_type: NcType) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(numbers(nc_type), min_size=1, max_size=4).map(tuple)


@st.composite
def typed_attributes(draw: st.DrawFn, strings: bool) -> tuple[Attribute, ...]:
    """Attributes whose types are kept beside them."""
    found: list[Attribute] = []
    for name in draw(st.lists(names, max_size=5, unique=True)):
        kinds = [NcType.CHAR, *NUMBERS, *([NcType.STRING] if strings else [])]
        nc_type = draw(st.sampled_from(kinds))
        if nc_type is NcType.CHAR:
            found.append(Attribute(name, nc_type, draw(texts)))
        elif nc_type is NcType.STRING:
            items = draw(st.lists(texts, min_size=1, max_size=3))
            found.append(Attribute(name, nc_type, tuple(items)))
        else:
            found.append(Attribute(name, nc_type, draw(values(nc_type))))
    return tuple(found)


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
).filter(lambda value: "inf" not in repr(value))


@st.composite
def untyped_attributes(draw: st.DrawFn) -> tuple[Attribute, ...]:
    """Attributes of pure Zarr, which has the types of JSON."""
    found = draw(st.dictionaries(names, json, max_size=5))
    one_of_many = {name: value for name, value in found.items() if not is_list_of_one(value)}
    return tuple(untyped(name, value) for name, value in one_of_many.items())


def is_list_of_one(value: object) -> bool:
    return isinstance(value, list) and len(value) == 1 and not isinstance(value[0], list | dict)


def attributes(name: str) -> st.SearchStrategy[tuple[Attribute, ...]]:
    return untyped_attributes() if name in PURE else typed_attributes(name not in EARLY)


@st.composite
def groups(draw: st.DrawFn, name: str, path: str) -> GroupHeader:
    found = draw(attributes(name))
    if name in PURE:
        return GroupHeader(path, name, (), found)
    members = draw(st.lists(names, max_size=6, unique=True))
    half = len(members) // 2
    lengths = draw(st.dictionaries(names, st.integers(0, 70000), max_size=4))
    unlimited = st.booleans() if name not in EARLY else st.just(False)
    dimensions = [Dimension(n, size, draw(unlimited), path) for n, size in lengths.items()]
    return GroupHeader(
        path, name, tuple(dimensions), found, tuple(members[:half]), tuple(members[half:])
    )


@st.composite
def variables(draw: st.DrawFn, found: MetadataFormat, declared: GroupHeader) -> Variable:
    """Variables of a group, over the dimensions that it declares; pure Zarr declares none."""
    if found.name in PURE:
        lengths = draw(st.dictionaries(names, st.integers(0, 70000), max_size=3))
        dimensions = tuple(Dimension(n, size, group="g") for n, size in lengths.items())
    else:
        some = st.sampled_from(declared.dimensions) if declared.dimensions else st.nothing()
        dimensions = tuple(draw(st.lists(some, max_size=3)) if declared.dimensions else ())
    kinds = [NcType.CHAR, *NUMBERS, *([] if found.name in EARLY else [NcType.STRING])]
    nc_type = draw(st.sampled_from(kinds))
    stored = found.stored_type(
        nc_type,
        byte_order=draw(st.sampled_from([None, "<", ">"])),
        string_bytes=draw(st.sampled_from([None, 2, 7])),
    )
    array = ArrayDescription(
        tuple(d.size for d in dimensions),
        tuple(draw(st.integers(1, 16)) for _ in dimensions),
        stored.dtype,
        # Zarr v3 has no arrays without a fill value.
        draw((st.nothing() if found.name == "zarr3" else st.none()) | fills(nc_type, stored.dtype)),
        found.codec_chain(
            (*stored.filters, *draw(st.lists(codecs, max_size=3))),
            stored.dtype,
            draw(st.sampled_from(["C", "F"])),
        ),
        found.chunk_keys(draw(st.sampled_from([".", "/"]))),
    )
    return Variable("g/v", "g/v", found.name, array, dimensions, draw(attributes(found.name)))


codecs = st.sampled_from(
    [
        CodecSpec("shuffle"),
        CodecSpec("zlib", {"level": 3}),
        CodecSpec("blosc", {"cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0}),
        CodecSpec("fletcher32"),
    ]
)


def fills(nc_type: NcType, dtype: DataType) -> st.SearchStrategy[Any]:
    if dtype.vlen is VlenKind.TEXT:
        return texts
    if nc_type in (NcType.CHAR, NcType.STRING):
        fitting = texts.map(str.encode).filter(lambda text: len(text) <= dtype.item_size)
        return fitting.map(lambda text: text.rstrip(b"\0"))
    # This double is how netcdf-c prints its default, and is read as that one.
    return numbers(nc_type).filter(lambda n: nc_type is not NcType.DOUBLE or n != 9.96921e36)


def in_order(node: Node) -> str:
    """A node as text that can be compared, NaN and all; attributes by name."""
    return repr(replace(node, attributes=tuple(sorted(node.attributes, key=lambda a: a.name))))


@pytest.mark.parametrize("name", FORMATS.names)
@settings(max_examples=40)
@given(data=st.data())
def test_a_written_hierarchy_is_read_back_and_not_written_again(
    name: str, data: st.DataObject
) -> None:
    found = FORMATS.named(name, OPTIONS)
    documents = DictDocuments({})
    root = data.draw(groups(name, ""))
    group = data.draw(groups(name, "g"))
    nodes: list[Node] = [root, group, data.draw(variables(found, group))]
    for node in nodes:
        documents.write(found.write_node(node, documents))
    again = FORMATS.detect(documents, OPTIONS)
    assert again is not None
    assert again.name == name
    for node in nodes:
        assert repr(again.read_node(node.path, documents)) == repr(node)
        assert again.write_node(node, documents) == ()


@settings(max_examples=40)
@given(data=st.data())
def test_typed_attributes_keep_their_values_in_pure_zarr_and_have_the_types_of_json(
    data: st.DataObject,
) -> None:
    wanted = data.draw(typed_attributes(strings=True))
    name = data.draw(st.sampled_from(PURE))
    found, documents = FORMATS.named(name, OPTIONS), DictDocuments({})
    documents.write(found.write_node(GroupHeader("", name, attributes=wanted), documents))
    read = found.read_node("", documents)
    assert read is not None
    by_name = {each.name: each for each in read.attributes}
    assert [*by_name] == [each.name for each in wanted]
    for each in wanted:
        again = by_name[each.name]
        assert again.type is type_in_json(each), each
        if each.type in CODE_OF_NC_TYPE:
            code = CODE_OF_NC_TYPE[each.type]
            np.testing.assert_array_equal(np.array(again.value, code), np.array(each.value, code))
        else:
            assert again.value in (each.value, *only(each.value))


def type_in_json(attribute: Attribute) -> NcType:
    """The type that the value of an attribute has without the one that NCZarr keeps beside it."""
    if attribute.type in (NcType.FLOAT, NcType.DOUBLE):
        return NcType.DOUBLE
    if attribute.type is NcType.STRING and only(attribute.value):
        return NcType.CHAR
    if attribute.type in (NcType.CHAR, NcType.STRING):
        return attribute.type
    numbers = np.array(attribute.value, object)
    ranges = {each: np.iinfo(CODE_OF_NC_TYPE[each]) for each in JSON_INTEGERS}
    fitting = (t for t, r in ranges.items() if r.min <= min(numbers) and max(numbers) <= r.max)
    return next(fitting)


def only(value: object) -> tuple[object, ...]:
    """The one member of a tuple, as a tuple."""
    return value if isinstance(value, tuple) and len(value) == 1 else ()


JSON_INTEGERS = (NcType.INT, NcType.UINT, NcType.INT64, NcType.UINT64)


@pytest.mark.parametrize("name", FORMATS.names)
@settings(max_examples=40)
@given(data=st.data())
def test_a_node_written_over_another_one_is_what_is_read(name: str, data: st.DataObject) -> None:
    found = FORMATS.named(name, OPTIONS)
    documents = DictDocuments({})
    group = data.draw(groups(name, "g"))
    sequence: list[Node] = [
        data.draw(groups(name, "g")),
        group,
        data.draw(variables(found, group)),
        data.draw(variables(found, group)),
    ]
    documents.write(found.write_node(GroupHeader("", name), documents))
    for node in sequence:
        documents.write(found.write_node(node, documents))
        read = found.read_node(node.path, documents)
        assert read is not None
        assert in_order(read) == in_order(node)


def test_what_a_new_node_reads_the_same_without_is_written_after_it() -> None:
    documents = DictDocuments({"old/.zattrs": {"stale": 1}})
    found = FORMATS.named("zarr2", OPTIONS)
    for path, order in (("", (".zgroup", ".zattrs")), ("old", ("old/.zattrs", "old/.zgroup"))):
        written = found.write_node(GroupHeader(path, "zarr2"), documents)
        assert tuple(key for key, _ in written) == order
        documents.write(written)


@pytest.mark.parametrize("name", [name for name in FORMATS.names if name != "zarr3"])
def test_what_makes_a_node_visible_is_written_last(name: str) -> None:
    found = FORMATS.named(name, OPTIONS)
    documents = DictDocuments({})
    title = Attribute("title", NcType.CHAR, "t")
    group = found.write_node(GroupHeader("", name, (), (title,)), documents)
    keys = [key for key, _ in group]
    assert (keys[0], keys[-1]) == (".zattrs", ".zgroup")
    documents.write(group)
    array = ArrayDescription(
        (), (), stored_as(found, NcType.INT), 0, found.codec_chain((), stored_as(found, NcType.INT))
    )
    variable = found.write_node(Variable("v", "v", name, array, ()), documents)
    keys = [key for key, _ in variable]
    assert (keys[0], keys[-1]) == ("v/.zattrs", "v/.zarray")


def stored_as(found: MetadataFormat, nc_type: NcType) -> DataType:
    return found.stored_type(nc_type, byte_order=None, string_bytes=None).dtype


TYPES: list[tuple[Any, object]] = [
    (np.dtype(bool), True),
    (np.dtype("f2"), 0.1),
    (np.dtype("c8"), complex(1.5, float("nan"))),
    (np.dtype("c16"), complex(float("-inf"), 0.1)),
    (np.dtype("M8[ns]"), np.datetime64("NaT", "ns")),
    (np.dtype("m8[25ms]"), np.array(7, "m8[25ms]")[()]),
    (np.dtype("U5"), "é漢"),
    (np.dtype("V4"), b"a\0b\0"),
    (np.dtype("S6"), b"\xff\0\x01"),
    (np.dtype(">u2"), 513),
    (np.dtype("O"), "text"),
]


@pytest.mark.parametrize(("wanted", "fill"), TYPES, ids=lambda value: str(value)[:12])
def test_pure_zarr_has_all_types_of_numpy(wanted: np.dtype[Any], fill: object) -> None:
    read = written_and_read(wanted, fill)
    assert repr(read.array.fill_value) == repr(rounded(fill, wanted))
    if wanted.kind != "O":
        assert read.array.dtype.stored == wanted


def test_a_structured_type_has_the_fill_value_of_its_fields() -> None:
    wanted = np.dtype([("a", "<i2"), ("b", [("c", ">f4"), ("d", "S3")]), ("e", "u1", (2, 2))])
    fill = np.array((1, (2.5, b"xy"), [[1, 2], [3, 4]]), wanted)[()]
    read = written_and_read(wanted, fill)
    assert read.array.dtype.stored == wanted
    assert isinstance(read.array.fill_value, np.void)
    assert read.array.fill_value.tobytes() == fill.tobytes()


def rounded(fill: object, dtype: np.dtype[Any]) -> object:
    return float(np.float16(fill)) if dtype == np.dtype("f2") else fill  # type: ignore[arg-type]


def written_and_read(wanted: np.dtype[Any], fill: object) -> Variable:
    found = FORMATS.named("zarr2", OPTIONS)
    stored = found.stored_type(wanted, byte_order=None, string_bytes=None)
    chain = found.codec_chain(stored.filters, stored.dtype)
    array = ArrayDescription((3,), (2,), stored.dtype, fill, chain)
    variable = Variable("v", "v", "zarr2", array, (Dimension("x", 3),))
    documents = DictDocuments({})
    documents.write(found.write_node(variable, documents))
    read = found.read_node("v", documents)
    assert isinstance(read, Variable)
    assert read.problems == ()
    assert found.write_node(read, documents) == ()
    return read
