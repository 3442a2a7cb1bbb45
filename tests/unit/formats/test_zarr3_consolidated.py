"""Consolidated metadata of Zarr v3, which lie in the document of the root."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nczfs.errors import BadMetadata
from nczfs.formats.base import FormatOptions
from nczfs.formats.consolidated import ConsolidatedDocuments, ConsolidatedFormat
from nczfs.formats.registry import FORMATS
from nczfs.formats.zarr3.consolidated import FORM
from nczfs.model.hierarchy import GroupHeader, Variable
from nczfs.testing.documents import DictDocuments

GROUP: dict[str, Any] = {"zarr_format": 3, "node_type": "group", "attributes": {"a": 1}}
ARRAY: dict[str, Any] = {
    "zarr_format": 3,
    "node_type": "array",
    "shape": [2],
    "data_type": "int8",
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2]}},
    "chunk_key_encoding": "default",
    "fill_value": 0,
    "codecs": ["bytes"],
}


def inline(metadata: Any, **members: Any) -> dict[str, Any]:
    return {"kind": "inline", "must_understand": False, "metadata": metadata} | members


EMPTY = inline({})
SINGLE = {"zarr.json": GROUP, "g/zarr.json": GROUP, "g/v/zarr.json": ARRAY}
COPY = inline({"g": GROUP | {"consolidated_metadata": EMPTY}, "g/v": ARRAY})
ROOT = GROUP | {"consolidated_metadata": COPY}


def encoded(value: Any) -> bytes:
    return json.dumps(value).encode()


def parsed(data: bytes | None) -> Any:
    assert data is not None
    return json.loads(data)


def test_the_documents_within_the_root_are_found() -> None:
    found = FORM.read(encoded(ROOT))
    assert found is not None
    assert found.nodes == {"", "g", "g/v"}
    assert found.keys == ("g/zarr.json", "g/v/zarr.json")
    assert parsed(found.text("g/v/zarr.json")) == ARRAY
    assert parsed(found.text("g/zarr.json")) == GROUP  # without the empty copy of zarr-python
    assert found.text("h/zarr.json") is None
    assert found.has_answer("g/zarr.json")
    assert not found.has_answer("h/zarr.json")
    assert not found.has_answer("zarr.json")


@pytest.mark.parametrize(
    ("members", "has_copy"),
    [
        ({}, False),
        ({"consolidated_metadata": None}, False),
        ({"consolidated_metadata": EMPTY}, True),
        ({"attributes": {"consolidated_metadata": COPY}}, False),
    ],
)
def test_a_root_may_have_no_copy_or_an_empty_one(members: Any, has_copy: bool) -> None:
    data = encoded(GROUP | members)
    assert FORM.read(data) is None
    assert FORM.has_copy(data) is has_copy


@pytest.mark.parametrize(
    ("copy", "message"),
    [
        (inline({"v": ARRAY}, kind="elsewhere"), "kind is '\"elsewhere\"', not 'inline'"),
        ({"metadata": {"v": ARRAY}}, "kind is None"),
        ({"kind": "inline"}, "metadata is missing"),
        ({"kind": "inline", "metadata": []}, "not an object"),
        (3, "not an object"),
    ],
)
def test_a_copy_of_another_kind_is_refused(copy: Any, message: str) -> None:
    with pytest.raises(BadMetadata, match=rf"^zarr\.json: consolidated_metadata: .*{message}"):
        FORM.read(encoded(GROUP | {"consolidated_metadata": copy}))


def test_the_root_is_read_whatever_its_copy_holds() -> None:
    broken = (
        b'{"zarr_format": 3, "node_type": "group", "consolidated_metadata": {"a": [1, nonsense}}'
    )
    for data in (encoded(GROUP | {"consolidated_metadata": 3}), broken.replace(b"[", b"")):
        documents = DictDocuments({"zarr.json": data})
        found = FORMATS.detect(documents, FormatOptions())
        assert found is not None
        assert isinstance(found.read_node("", documents), GroupHeader)


def test_a_copy_is_made_of_all_documents() -> None:
    data = FORM.made_of({key: encoded(value) for key, value in SINGLE.items()})
    assert parsed(data) == GROUP | {"consolidated_metadata": inline({"g": GROUP, "g/v": ARRAY})}
    again = FORM.made_of({"zarr.json": data, "g/zarr.json": encoded(ROOT)})
    assert parsed(again)["consolidated_metadata"] == inline({"g": GROUP})
    with pytest.raises(BadMetadata, match=r"^zarr\.json: is missing"):
        FORM.made_of({"g/zarr.json": encoded(GROUP)})


def test_a_copy_is_amended_and_everything_else_stays() -> None:
    root = GROUP | {"consolidated_metadata": COPY | {"more": 1}, "x": {"must_understand": False}}
    new = GROUP | {"attributes": {"b": 2}}
    changed = {"g/v/zarr.json": None, "h/zarr.json": encoded(new), "zarr.json": encoded(new)}
    data = parsed(FORM.updated(encoded(root), changed))
    copy = data.pop("consolidated_metadata")
    assert data == GROUP | {"x": {"must_understand": False}}
    assert copy["more"] == 1
    assert list(copy["metadata"]) == ["g", "h"]
    assert copy["metadata"]["h"] == new


def test_an_emptied_root_is_the_root_without_its_copy() -> None:
    assert parsed(FORM.emptied(encoded(ROOT))) == GROUP


def test_nodes_are_read_from_the_copy_alone() -> None:
    documents = DictDocuments({"zarr.json": ROOT})
    found = FORMATS.detect(documents, FormatOptions())
    assert found is not None
    copied = ConsolidatedFormat(found)
    assert copied.names_below("", documents) == ("g",)
    assert copied.names_below("g", documents) == ("v",)
    documents.asked.clear()
    assert isinstance(copied.read_node("g/v", documents), Variable)
    header = copied.read_node("g", documents)
    assert isinstance(header, GroupHeader)
    assert header.attributes[0].name == "a"
    assert set(documents.asked) == {"zarr.json"}


def test_a_copy_is_stale_where_a_document_differs() -> None:
    for single, is_stale in ((GROUP, False), (GROUP | {"attributes": {}}, True)):
        store = DictDocuments({"zarr.json": ROOT, "g/zarr.json": single})
        copy = FORM.read(encoded(ROOT))
        assert copy is not None
        view = ConsolidatedDocuments(store, FORM, copy)
        assert view.is_stale("g/zarr.json", store.get("g/zarr.json")) is is_stale
    nested = encoded(GROUP | {"consolidated_metadata": EMPTY})
    assert not view.is_stale("g/zarr.json", nested)


def test_a_large_copy_is_not_parsed_to_read_the_root() -> None:
    nodes = inline({f"v{number}": ARRAY for number in range(30_000)})
    documents = DictDocuments({"zarr.json": GROUP | {"consolidated_metadata": nodes}})
    options = FormatOptions(document_bytes_max=1 << 20)
    found = FORMATS.detect(documents, options)  # its own members are few, and within the limit
    assert found is not None
    assert isinstance(found.read_node("", documents), GroupHeader)
    copied = ConsolidatedFormat(found)
    assert isinstance(copied.read_node("v29999", documents), Variable)
