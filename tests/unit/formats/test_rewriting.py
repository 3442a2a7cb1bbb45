"""Other programs' documents, changed in one place."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from nczfs.errors import BadMetadata, Unsupported
from nczfs.formats.base import FormatOptions, MetadataFormat, Node
from nczfs.formats.registry import FORMATS
from nczfs.model.dtypes import NcType
from nczfs.model.hierarchy import Attribute, Dimension, GroupHeader, Json, Variable
from nczfs.testing.documents import DictDocuments

ZARRAY = (
    b'{"zarr_format": 2, "shape": [4], "dtype": "<f8", "chunks": [2], "fill_value": 9.96921e+36, '
    b'"order": "C", "compressor": {"id": "zlib", "level": "5"}, '
    b'"filters": [{"id": "shuffle", "elementsize": 0}], "mine": {"b": 1, "a": [1.50]}}'
)
L3: dict[str, object] = {
    ".zgroup": b'{"zarr_format": 2}',
    ".zattrs": b'{"_NCProperties": "version=2,netcdf=4.10.1,nczarr=2.0.0", "pi": 3.14159, '
    b'"_nczarr_group": {"dimensions": {"x": {"size": 4, "unlimited": 1, "by": "me"}, "y": 3}, '
    b'"arrays": ["v","s"], "groups": ["g"], "more": 1}, "_nczarr_superblock": {"version": "2.0.0"},'
    b' "_nczarr_attr": {"types": {"_NCProperties": ">S1", "pi": "<f8", "_nczarr_group": "|J0", '
    b'"_nczarr_superblock": "|J0", "_nczarr_attr": "|J0"}, "also": "mine"}}',
    "v/.zarray": ZARRAY,
    "v/.zattrs": b'{"units": "K", "num": 007, "r": 1.50, "nan": NaN, "tru": true, '
    b'"_ARRAY_DIMENSIONS": ["x"], "_QuantizeBitGroomNumberOfSignificantDigits": 3, '
    b'"_nczarr_array": {"dimension_references": ["/x"], "storage": "chunked", "own": 1}, '
    b'"_nczarr_attr": {"types": {"units": ">S1", "num": ">S1", "r": ">f4", "nan": "<f8", '
    b'"tru": ">S1", "_nczarr_array": "|J0", "_nczarr_attr": "|J0"}}}',
    "s/.zarray": b'{"zarr_format": 2, "shape": [1], "dtype": "<i4", "chunks": [1], '
    b'"fill_value": null, "order": "C", "compressor": null, "filters": null}',
    "s/.zattrs": b'{"_ARRAY_DIMENSIONS": ["_scalar_"], "_nczarr_array": {"dimension_references": '
    b'[], "scalar": 1, "storage": "chunked"}, "_nczarr_attr": {"types": {}}}',
    "g/.zgroup": b'{"zarr_format": 2}',
}


NESTED: Json = []
for _ in range(200):
    NESTED = [NESTED]


def opened(
    documents: dict[str, object], options: FormatOptions | None = None
) -> tuple[MetadataFormat, DictDocuments]:
    store = DictDocuments(documents)
    found = FORMATS.detect(store, options or FormatOptions())
    assert found is not None
    return found, store


def variable(found: MetadataFormat, store: DictDocuments, path: str) -> Variable:
    node = found.read_node(path, store)
    assert isinstance(node, Variable)
    return node


def group(found: MetadataFormat, store: DictDocuments, path: str) -> GroupHeader:
    node = found.read_node(path, store)
    assert isinstance(node, GroupHeader)
    return node


def with_attribute(node: Node, attribute: Attribute) -> Node:
    others = [a for a in node.attributes if a.name != attribute.name]
    return replace(node, attributes=(*others, attribute))


def text_of(documents: dict[str, object], key: str) -> str:
    data = documents[key]
    assert isinstance(data, bytes)
    return data.decode()


def test_a_changed_attribute_leaves_all_others_as_they_are_spelled() -> None:
    found, store = opened(L3)
    node = with_attribute(variable(found, store, "v"), Attribute("units", NcType.CHAR, "°C"))
    ((key, data),) = found.write_node(node, store)
    assert key == "v/.zattrs"
    expected = text_of(L3, key).replace('"units": "K"', '"units": "°C"').replace("007", '"007"')
    assert data.decode() == expected


def test_new_attributes_stand_before_what_the_format_adds_and_so_do_their_types() -> None:
    found, store = opened(L3)
    for path in ("", "v", "s"):
        node = found.read_node(path, store)
        assert node is not None
        ((_, data),) = found.write_node(
            with_attribute(node, Attribute("new", NcType.SHORT, (1, 2))), store
        )
        members = json.loads(data)
        own = [name for name in members if name.startswith("_nczarr")]
        assert list(members)[-len(own) - 1 :][: len(own) + 1] in (
            ["new", *own],
            ["_ARRAY_DIMENSIONS", *own],
        )
        types = members["_nczarr_attr"]["types"]
        assert types["new"] == "<i2"
        assert not any(name.startswith("_nczarr") for name in list(types)[: [*types].index("new")])


def test_a_removed_attribute_takes_its_type_along() -> None:
    found, store = opened(L3)
    node = variable(found, store, "v")
    left = tuple(a for a in node.attributes if a.name != "r")
    ((_, data),) = found.write_node(replace(node, attributes=left), store)
    members = json.loads(data)
    assert "r" not in members
    assert "r" not in members["_nczarr_attr"]["types"]
    assert members["_nczarr_array"]["own"] == 1


def test_a_grown_variable_keeps_the_spelling_of_codecs_and_fill_value() -> None:
    found, store = opened(L3)
    node = variable(found, store, "v")
    (x,) = node.dimensions
    grown = replace(node, array=replace(node.array, shape=(9,)), dimensions=(replace(x, size=9),))
    ((key, data),) = found.write_node(grown, store)
    assert (key, data.decode()) == (
        "v/.zarray",
        text_of(L3, "v/.zarray").replace('"shape": [4]', '"shape": [9]'),
    )
    root = group(found, store, "")
    sizes = tuple(replace(d, size=9) if d.name == "x" else d for d in root.dimensions)
    ((key, data),) = found.write_node(replace(root, dimensions=sizes), store)
    expected = text_of(L3, ".zattrs").replace(
        '{"size": 4, "unlimited": 1, "by": "me"}', '{"size": 9, "unlimited": 1}'
    )
    assert (key, data.decode()) == (".zattrs", expected)


def test_new_members_of_a_group_leave_the_rest_alone() -> None:
    found, store = opened(L3)
    root = group(found, store, "")
    assert root.arrays is not None
    wanted = replace(
        root,
        arrays=(*root.arrays, "w"),
        dimensions=(*root.dimensions, Dimension("z", 7)),
    )
    ((_, data),) = found.write_node(wanted, store)
    expected = text_of(L3, ".zattrs").replace('["v","s"]', '["v","s","w"]')
    assert data.decode() == expected.replace('"y": 3}', '"y": 3, "z": 7}')


def test_a_scalar_keeps_the_form_that_it_has() -> None:
    found, store = opened(L3)
    scalar = variable(found, store, "s")
    assert scalar.array.shape == ()
    ((key, data),) = found.write_node(
        replace(scalar, array=replace(scalar.array, fill_value=5)), store
    )
    assert (key, json.loads(data)["shape"], json.loads(data)["fill_value"]) == ("s/.zarray", [1], 5)
    foreign: dict[str, object] = {**L3, "s/.zarray": ZARRAY.replace(b"[4]", b"[]")}
    foreign["s/.zarray"] = text_of(foreign, "s/.zarray").replace("[2]", "[]").encode()
    found, store = opened(foreign)
    scalar = variable(found, store, "s")
    ((_, data),) = found.write_node(
        replace(scalar, array=replace(scalar.array, fill_value=5.0)), store
    )
    assert json.loads(data)["shape"] == []


def test_a_fill_value_attribute_keeps_the_printed_default_from_counting_as_a_number() -> None:
    found, store = opened(L3)
    node = variable(found, store, "v")
    fill = node.array.fill_value
    assert isinstance(fill, float)
    assert fill != 9.96921e36
    store.write(
        found.write_node(
            with_attribute(node, Attribute("_FillValue", NcType.DOUBLE, (fill,))), store
        )
    )
    assert variable(found, store, "v").array.fill_value == fill


def test_a_document_of_another_release_keeps_its_place() -> None:
    old: dict[str, Any] = {
        "zarr_format": 2, "shape": [4], "dtype": "<i4", "chunks": [4], "fill_value": None,
        "order": "C", "compressor": None, "filters": None,
        "_NCZARR_ARRAY": {"dimrefs": ["/x"], "storage": "chunked"},
    }  # fmt: skip
    attributes = {"a": 1, "_NCZARR_ATTR": {"types": {"a": "<i2"}}}
    found, store = opened({**L3, "v/.zarray": old, "v/.zattrs": attributes})
    node = variable(found, store, "v")
    renamed = replace(node, dimensions=(Dimension("t", 4, unlimited=True),))
    store.write(found.write_node(with_attribute(renamed, Attribute("b", NcType.BYTE, (1,))), store))
    array, attrs = (json.loads(store.get(f"v/{n}") or b"") for n in (".zarray", ".zattrs"))
    assert array["_NCZARR_ARRAY"]["dimrefs"] == ["/t"]
    assert attrs["_NCZARR_ATTR"]["types"] == {"a": "<i2", "b": "<i1"}
    assert not [name for name in attrs if name.startswith("_nczarr")]


def test_names_of_another_release_inside_of_a_member_are_kept() -> None:
    info = {"dims": {"x": 4}, "vars": ["v"], "groups": []}
    documents: dict[str, Any] = {
        **L3,
        ".zattrs": {"_nczarr_group": info, "_nczarr_superblock": {"version": "2.0.0"}},
        "v/.zattrs": {"_nczarr_array": {"dimrefs": ["/x"]}},
    }
    found, store = opened(documents)
    root = group(found, store, "")
    store.write(
        found.write_node(replace(root, dimensions=(Dimension("y", 2), *root.dimensions)), store)
    )
    v = variable(found, store, "v")
    turned = replace(v, dimensions=(Dimension("y", 2),), array=replace(v.array, shape=(2,)))
    store.write(found.write_node(turned, store))
    assert group(found, store, "").dimensions == (Dimension("y", 2), Dimension("x", 4))
    assert variable(found, store, "v").dimensions == (Dimension("y", 2),)
    attributes = json.loads(store.get(".zattrs") or b"")
    assert attributes["_nczarr_group"] == {**info, "dims": {"y": 2, "x": 4}}


def test_only_the_documents_of_the_layout_are_asked_for() -> None:
    found, store = opened(L3)
    for path in ("", "v"):
        node = found.read_node(path, store)
        assert node is not None
        store.asked.clear()
        found.write_node(with_attribute(node, Attribute("a", NcType.INT, (1,))), store)
        own = {".zarray", ".zgroup", ".zattrs"}
        other = {"zarr.json"}  # whether another version of Zarr describes the node, too
        assert {key.rpartition("/")[2] for key in store.asked} == own | other


def test_read_as_pure_zarr_the_types_of_nczarr_follow_and_its_other_members_stay() -> None:
    found, store = opened(L3, FormatOptions(pure=True))
    node = variable(found, store, "v")
    left = tuple(a for a in node.attributes if a.name != "r")
    changed = with_attribute(
        replace(node, attributes=left), Attribute("units", NcType.STRING, ("m",))
    )
    store.write(found.write_node(with_attribute(changed, Attribute("n", NcType.INT, (5,))), store))
    members = json.loads(store.get("v/.zattrs") or b"", parse_constant=str)
    assert (
        members["_nczarr_array"]
        == json.loads(text_of(L3, "v/.zattrs").replace("007", "7"), parse_constant=str)[
            "_nczarr_array"
        ]
    )
    types = members["_nczarr_attr"]["types"]
    assert (types["units"], types["n"], "r" in types) == (">S1", "<i4", False)


def test_a_foreign_document_keeps_a_bare_nan_a_reader_without_types_needs() -> None:
    documents: dict[str, object] = {
        ".zgroup": b'{"zarr_format": 2}',
        ".zattrs": b'{"missing_value": NaN, "units": "K"}',
    }
    found, store = opened(documents)
    node = group(found, store, "")
    store.write(found.write_node(with_attribute(node, Attribute("t", NcType.CHAR, "x")), store))
    assert store.get(".zattrs") == b'{"missing_value": NaN, "units": "K", "t": "x"}'


def test_a_broken_document_is_not_overwritten() -> None:
    found, store = opened({".zgroup": b'{"zarr_format": 2}', ".zattrs": b'{"a": '})
    node = group(found, store, "")
    assert found.write_node(node, store) == ()
    with pytest.raises(BadMetadata, match=r"^\.zattrs: not JSON .* repair or delete it"):
        found.write_node(with_attribute(node, Attribute("b", NcType.INT, (1,))), store)


def test_a_root_without_its_group_document_gets_one() -> None:
    found, store = opened({".zattrs": b'{"a": 1}'})
    assert found.write_node(group(found, store, ""), store) == ((".zgroup", b'{"zarr_format": 2}'),)


def test_what_was_left_by_a_creation_that_broke_off_is_no_part_of_the_new_node() -> None:
    found, store = opened({**L3, "w/.zattrs": b'{"old": 1}'})
    v = variable(found, store, "v")
    store.write(found.write_node(replace(v, path="w", key="w"), store))
    again = variable(found, store, "w")
    assert [a.name for a in again.attributes] == [a.name for a in v.attributes]


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (
            GroupHeader("v", "nczarr-L3", arrays=(), groups=()),
            "^/v: there is a variable of that name; delete it first",
        ),
        (
            GroupHeader("g", "nczarr-L3", (Dimension("x", 1, group="g"),)),
            r"^g/\.zgroup: a group that lists no members cannot declare dimensions",
        ),
        (
            GroupHeader("n", "nczarr-L3", (), (Attribute("_nczarr_group", NcType.CHAR, ""),)),
            r"^n/\.zattrs: '_nczarr_group' is reserved by the format",
        ),
        (
            GroupHeader("n", "nczarr-L3", (), (Attribute("a", NcType.CHAR, "\udc80"),)),
            r"^n/\.zattrs: .* is not Unicode text",
        ),
        (
            GroupHeader("n", "nczarr-L3", (), (Attribute("a", NcType.JSON, NESTED),)),
            r"^n/\.zattrs: nested more than 100 levels deep; the document was not written",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_written_is_refused_by_name(node: Node, message: str) -> None:
    found, store = opened(L3)
    with pytest.raises(Unsupported, match=message):
        found.write_node(node, store)


def test_below_the_root_of_a_dataset_no_new_references_are_written() -> None:
    inner = {
        ".zgroup": {"zarr_format": 2},
        ".zattrs": {"_nczarr_group": {"dimensions": {"x": 4}, "arrays": ["v"], "groups": []}},
        "v/.zarray": ZARRAY,
        "v/.zattrs": {"_nczarr_array": {"dimension_references": ["/outer/x"]}},
    }
    found, store = opened(inner)
    node = variable(found, store, "v")
    assert found.write_node(node, store) == ()
    store.write(found.write_node(with_attribute(node, Attribute("a", NcType.INT, (1,))), store))
    with pytest.raises(Unsupported, match=r"^w/\.zarray: .* open it at its root"):
        found.write_node(replace(node, path="w", key="w"), store)
    assert "_nczarr_superblock" not in json.loads(store.get(".zattrs") or b"")
