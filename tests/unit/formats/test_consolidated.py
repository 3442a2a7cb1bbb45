from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterable
from typing import Any

import pytest

from nczfs.errors import BadMetadata
from nczfs.formats.base import FormatOptions
from nczfs.formats.consolidated import ConsolidatedDocuments, ConsolidatedFormat
from nczfs.formats.registry import FORMATS
from nczfs.formats.zarr2.consolidated import (
    FORM,
    KEY,
    consolidated_document,
    read_consolidated,
    updated_document,
)
from nczfs.model.dtypes import NcType
from nczfs.model.hierarchy import GroupHeader, Variable
from nczfs.testing.documents import DictDocuments, read_group

ARRAY = {"zarr_format": 2, "shape": [2], "chunks": [2], "dtype": "<f4", "fill_value": 1.5}
METADATA: dict[str, Any] = {
    ".zgroup": {"zarr_format": 2, "consolidated_metadata": {"metadata": {}}},
    ".zattrs": {"title": "t", "x": 1.50},
    "g/.zgroup": {"zarr_format": 2},
    "g/v/.zarray": ARRAY,
    "g/v/.zattrs": {"units": "K"},
}


def document(metadata: object, version: object = 1) -> bytes:
    return json.dumps({"metadata": metadata, "zarr_consolidated_format": version}).encode()


def overlay(inner: DictDocuments) -> ConsolidatedDocuments:
    return ConsolidatedDocuments(inner, FORM, read_consolidated(document(METADATA)))


def test_a_hierarchy_is_read_from_one_document() -> None:
    inner = DictDocuments({})
    group = read_group(overlay_with_keys(inner))
    assert [g.name for g in group.groups] == ["g"]
    assert group.groups[0].variables[0].attributes[0].value == "K"
    assert group.header.problems == ()
    assert {key for key in inner.asked if key.endswith((".zarray", ".zgroup", ".zattrs"))} == set()


def overlay_with_keys(inner: DictDocuments) -> DictDocuments:
    view = overlay(inner)

    class WithKeys(DictDocuments):
        def get(self, key: str) -> bytes | None:
            return view.get(key)

        def keys(self) -> tuple[str, ...]:
            return tuple(METADATA)

    return WithKeys({})


def test_what_a_known_node_lacks_is_absent_without_a_question() -> None:
    inner = DictDocuments({"g/.zattrs": {"late": 1}})
    assert overlay(inner).get("g/.zattrs") is None
    assert inner.asked == []


def test_nodes_that_it_does_not_know_are_asked_of_the_store() -> None:
    inner = DictDocuments({"new/.zarray": ARRAY, ".other": {}})
    view = overlay(inner)
    assert view.get("new/.zarray") is not None
    assert view.get(".other") is not None
    assert not view.has_answer("new/.zarray")


def test_the_whole_dataset_is_one_question() -> None:
    inner = DictDocuments({KEY: document(METADATA)})
    options = FormatOptions()
    view = overlay(inner)
    detected = FORMATS.detect(view, options)
    assert detected is not None
    found = ConsolidatedFormat(detected)
    assert found.name == "zarr2"
    assert found.keys("g/v") == (KEY,)
    node = found.read_node("g/v", inner)
    assert isinstance(node, Variable)
    assert node.attributes[0].value == "K"
    assert found.read_node("g/v/w", inner) is None
    assert set(inner.asked) == {KEY, "g/v/w/.zarray", "g/v/w/.zgroup"}


def test_when_it_changes_or_goes_away_its_nodes_do_too() -> None:
    single = {"g/v/.zarray": ARRAY | {"shape": [4]}}
    options = FormatOptions()
    detected = FORMATS.detect(overlay(DictDocuments({})), options)
    assert detected is not None
    found = ConsolidatedFormat(detected)

    def length(documents: dict[str, object]) -> int:
        node = found.read_node("g/v", DictDocuments({**single, **documents}))
        assert isinstance(node, Variable)
        return node.array.shape[0]

    newer = METADATA | {"g/v/.zarray": ARRAY | {"shape": [3]}}
    assert length({KEY: document(METADATA)}) == 2
    assert length({KEY: document(newer)}) == 3
    assert length({}) == 4
    assert length({KEY: b"broken"}) == 4


def test_only_what_is_not_known_is_fetched() -> None:
    fetched: list[str] = []

    class Fetching(DictDocuments):
        def fetch(self, keys: Iterable[str]) -> None:
            fetched.extend(keys)

    overlay(Fetching({})).fetch([".zattrs", "g/v/.zarray", "new/.zarray", "zarr.json", ".other"])
    assert fetched == ["new/.zarray", ".other"]


def test_numbers_keep_their_spelling() -> None:
    data = document(METADATA).replace(b'"x": 1.5', b'"x": 1.50, "w": 007')
    view = ConsolidatedDocuments(DictDocuments({}), FORM, read_consolidated(data))
    assert view.get(".zattrs") == b'{"title": "t", "x": 1.50, "w": 007}'


def test_a_stale_document_is_noticed() -> None:
    view = overlay(DictDocuments({}))
    assert not view.is_stale("g/v/.zarray", json.dumps(ARRAY, indent=4).encode())
    assert view.is_stale("g/v/.zarray", json.dumps(ARRAY | {"shape": [3]}).encode())
    assert view.is_stale("g/v/.zarray", None)
    assert view.is_stale("g/v/.zarray", b"broken")
    assert view.is_stale("new/.zarray", b'{"a": 1}')
    assert not view.is_stale("new/.zarray", None)
    assert not view.is_stale("g/.zattrs", b"{}")


def test_nan_and_additions_of_zarr_python_are_not_stale() -> None:
    data = document(METADATA).replace(b'"x": 1.5', b'"x": NaN')
    view = ConsolidatedDocuments(DictDocuments({}), FORM, read_consolidated(data))
    assert not view.is_stale(".zattrs", b'{"title": "t",   "x": NaN}')
    assert view.is_stale(".zattrs", b'{"title": "t",   "x": 1.5}')
    assert not view.is_stale(".zgroup", b'{"zarr_format": 2}')


def test_an_attribute_may_be_called_like_that_addition() -> None:
    metadata = METADATA | {".zattrs": {"consolidated_metadata": 1}}
    found = read_consolidated(document(metadata))
    assert found.text(".zattrs") == b'{"consolidated_metadata": 1}'


def test_a_broken_document_breaks_its_node_alone() -> None:
    data = document(METADATA).replace(b'{"units": "K"}', b'{"units" "K"}')
    view = ConsolidatedDocuments(DictDocuments({}), FORM, read_consolidated(data))
    found = FORMATS.detect(view, FormatOptions())
    assert found is not None
    assert found.read_node("g", view) is not None
    node = found.read_node("g/v", view)
    assert node is not None
    assert node.problems[0].startswith("g/v/.zattrs: not JSON")


def test_it_tells_the_names_below_a_group() -> None:
    inner = FORMATS.detect(overlay(DictDocuments({})), FormatOptions())
    assert inner is not None
    found = ConsolidatedFormat(inner)
    store = DictDocuments({KEY: document({**METADATA, "a/.zarray": ARRAY})})
    assert found.names_below("", store) == ("a", "g")
    assert found.names_below("g", store) == ("v",)
    assert found.names_below("g/v", store) == ()
    assert found.names_below("", DictDocuments({})) is None


def test_a_hundred_thousand_arrays_take_little_more_memory_than_their_text() -> None:
    array = json.dumps(ARRAY, indent=4)
    pieces = (f'"g/v{n}/.zarray": {array}, "g/v{n}/.zattrs": {{}}' for n in range(100_000))
    data = ('{"metadata": {' + ", ".join(pieces) + '}, "zarr_consolidated_format": 1}').encode()
    tracemalloc.start()
    try:
        found = read_consolidated(data)
        kept, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(found.nodes) == 100_000
    assert found.text("g/v99999/.zarray") == array.encode()
    assert kept < 100 << 20
    assert peak < 150 << 20
    assert kept < found.nbytes


def test_its_nodes_are_those_with_more_than_attributes() -> None:
    found = read_consolidated(document({**METADATA, "x/.zattrs": {}}))
    assert found.nodes == {"", "g", "g/v"}


@pytest.mark.parametrize(
    "data",
    [
        b"[]",
        b"{",
        document({}),
        document([]),
        document(METADATA, 2),
        document(METADATA, "1"),
        document(METADATA, True),
        b'{"metadata": {".zgroup": {}}}',
    ],
)
def test_other_documents_are_refused(data: bytes) -> None:
    with pytest.raises(BadMetadata, match=rf"^\{KEY}: "):
        read_consolidated(data)


def test_documents_are_consolidated_in_their_order_and_as_they_are_spelled() -> None:
    documents = {
        ".zgroup": b'{"zarr_format":2}',
        ".zattrs": b'{"n": 007, "x": 1.50, "e": "\xc3\xa9"}',
        ".nczgroup": b"{}",
        "v/0": b"\0",
        "v/.zarray": b'{"shape": [2]}',
    }
    text = (
        '{"metadata": {".zgroup": {"zarr_format": 2}, ".zattrs": {"n": "007", "x": 1.50, '
        '"e": "é"}, "v/.zarray": {"shape": [2]}}, "zarr_consolidated_format": 1}'
    )
    assert consolidated_document(documents) == text.encode()


def test_an_update_replaces_removes_and_appends_and_keeps_the_rest() -> None:
    stored = (
        b'{"metadata": {"b/.zattrs": {"x": 1.50}, ".zgroup": {"zarr_format": 2}, '
        b'"c/.zarray": {}}, "zarr_consolidated_format": 1, "made_by": "other"}'
    )
    changed = {
        "a/.zattrs": b'{"new": 1.0}',
        "c/.zarray": None,
        "gone/.zattrs": None,
        ".zgroup": b'{"zarr_format": 2, "more": 1}',
        ".nczattrs": b"{}",
    }
    assert updated_document(stored, changed) == (
        b'{"metadata": {"b/.zattrs": {"x": 1.50}, ".zgroup": {"zarr_format": 2, "more": 1}, '
        b'"a/.zattrs": {"new": 1.0}}, "zarr_consolidated_format": 1, "made_by": "other"}'
    )


def test_a_consolidated_format_writes_single_documents_by_the_rules_of_its_inner_one() -> None:
    inner = FORMATS.detect(DictDocuments({".zgroup": {"zarr_format": 2}}), FormatOptions())
    assert inner is not None
    outer = ConsolidatedFormat(inner)
    store = DictDocuments({KEY: document(METADATA)})
    new = GroupHeader("g", "zarr2")
    assert outer.write_node(new, store) == inner.write_node(new, store) != ()
    types = [f.stored_type(NcType.INT, byte_order=">", string_bytes=None) for f in (outer, inner)]
    assert types[0] == types[1]
