"""The JSON of hierarchies: read, checked, brought into normal form, and written."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from nczfs.errors import BadMetadata
from nczfs.formats.zom.nodes import ArrayV2, ArrayV3, GroupV2, Node
from nczfs.formats.zom.reading import checked, read
from nczfs.formats.zom.text import TextLimits, dumps, loads
from nczfs.formats.zom.writing import json_of
from tests.support.zom import nodes

A2: dict[str, Any] = {
    "zarr_format": 2,
    "attributes": {},
    "shape": [4, 6],
    "chunks": [2, 3],
    "dtype": "|u1",
    "compressor": None,
    "fill_value": 0,
    "order": "C",
    "filters": None,
}
A3: dict[str, Any] = {
    "zarr_format": 3,
    "node_type": "array",
    "attributes": {},
    "shape": [4, 6],
    "data_type": "uint8",
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2, 3]}},
    "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
    "fill_value": 0,
    "codecs": [{"name": "bytes"}],
}
SHARDS = {
    "name": "sharding_indexed",
    "configuration": {
        "chunk_shape": [1, 1],
        "codecs": ["bytes", {"name": "GZip", "configuration": {"level": 1}}],
        "index_codecs": [{"name": "bytes"}, "crc32c"],
    },
}


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(nodes())
def test_a_hierarchy_is_the_same_after_its_json(node: Node) -> None:
    assert loads(dumps(node)) == checked(node) == node
    assert loads(dumps(node), strict=True) == node


@pytest.mark.parametrize(
    ("given_json", "pointer", "meant"),
    [
        (A2 | {"filters": {}}, "/filters", A2),
        (A2 | {"compressor": {}}, "/compressor", A2),
        (A2 | {"dtype": "uint8"}, "/dtype", A2),
        (A2 | {"dtype": "float64"}, "/dtype", A2 | {"dtype": "<f8"}),
        (A3 | {"storage_transformers": None}, "/storage_transformers", A3),
        (A3 | {"data_type": "|u1"}, "/data_type", A3),
        (
            A3 | {"data_type": "int16", "codecs": ["bytes"]},
            "/codecs/0",
            A3
            | {
                "data_type": "int16",
                "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
            },
        ),
        (
            A3 | {"codecs": [SHARDS]},
            "/codecs/0/configuration/codecs/1",
            A3
            | {
                "codecs": [
                    SHARDS
                    | {
                        "configuration": {
                            "chunk_shape": [1, 1],
                            "codecs": [
                                {"name": "bytes"},
                                {"name": "gzip", "configuration": {"level": 1}},
                            ],
                            "index_codecs": [
                                {"name": "bytes", "configuration": {"endian": "little"}},
                                {"name": "crc32c"},
                            ],
                        }
                    }
                ]
            },
        ),
    ],
)
def test_slips_are_corrected_and_noticed_and_refused_when_strict(
    given_json: Any, pointer: str, meant: Any
) -> None:
    heard: list[str] = []
    assert json_of(read(given_json, notice=heard.append)) == meant
    assert any(line.startswith(f"{pointer}: ") for line in heard)
    with pytest.raises(BadMetadata, match=f"^{pointer}: ") as refused:
        read(given_json, strict=True)
    assert refused.value.pointer == pointer


@pytest.mark.parametrize(
    ("wrong", "pointer"),
    [
        ({"zarr_format": 4}, "/zarr_format"),
        ({"zarr_format": True}, "/zarr_format"),
        ({}, "/zarr_format"),
        (A2 | {"shape": [2**63, 1]}, "/shape"),
        (A2 | {"shape": 4}, "/shape"),
        (A2 | {"chunks": [0, 3]}, "/chunks"),
        (A2 | {"chunks": [2]}, "/chunks"),
        (A2 | {"dtype": "<i3"}, "/dtype"),
        (A2 | {"dtype": "|O"}, "/dtype"),
        (A2 | {"filters": [{"no": "id"}]}, "/filters/0"),
        (A2 | {"dimension_separator": "-"}, "/dimension_separator"),
        (A2 | {"members": {}}, "/members"),
        (A2 | {"attributes": {"a": {1: 2}}}, "/attributes/a"),
        (A2 | {"attributes": {"a/b": [0, {1}]}}, "/attributes/a~1b/1"),
        (A3 | {"fill_value": 256}, "/fill_value"),
        (A3 | {"fill_value": None}, "/fill_value"),
        (A3 | {"codecs": [{"name": "bytes", "more": 1}]}, "/codecs/0"),
        (A3 | {"node_type": "both"}, "/node_type"),
        (A3 | {"chunk_grid": {"name": "regular", "configuration": {}}}, "/chunk_grid"),
        (A3 | {"chunk_key_encoding": {"name": "v2", "configuration": {"a": 1}}}, "/chunk_key_enc"),
        (A3 | {"dimension_names": ["x", 1]}, "/dimension_names/1"),
        ({"zarr_format": 2, "members": {".zarray": {"zarr_format": 2}}}, "/members/.zarray"),
        ([], ""),
    ],
)
def test_what_is_wrong_is_named_by_its_pointer(wrong: Any, pointer: str) -> None:
    with pytest.raises(BadMetadata) as refused:
        read(wrong)
    assert refused.value.pointer.startswith(pointer)
    assert str(refused.value).startswith(f"{refused.value.pointer or 'the root'}: ")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"zarr_format": 2, "zarr_format": 3}', "more than once"),
        ("[" * 2000 + "]" * 2000, "nested"),
        ("[" + "[],".join([""] * 300_000) + "[]]", "members"),
        ("1" * 5000, "digits"),
        ('{"zarr_format": 2, "attributes": {"a": NaN}}', "NaN is not JSON"),
        ('{"zarr_format": 2, "attributes": {"a": 1e999}}', "beyond all floats"),
        ('{"zarr_format": 2, "attributes": {"a": "\\ud800"}}', "half of a character"),
        ('{"zarr_format": 2', "not JSON at line 1, column 18"),
        ('"' + "x" * (2 << 20) + '"', "are not read"),
        (b'{"\xff": 1}', "byte 2 is not UTF-8"),
        ("", "not JSON"),
    ],
)
def test_hostile_text_is_refused_in_little_memory(text: str | bytes, why: str) -> None:
    limits = TextLimits(bytes_max=2 << 20, members_max=1 << 16)
    tracemalloc.start()
    try:
        with pytest.raises(BadMetadata, match=why):
            loads(text, limits=limits)
        assert tracemalloc.get_traced_memory()[1] < 32 << 20
    finally:
        tracemalloc.stop()


def test_a_million_values_are_refused_before_they_are_built() -> None:
    text = '{"zarr_format": 2, "attributes": {"a": [' + "0," * 1_000_000 + "0]}}"
    tracemalloc.start()
    try:
        with pytest.raises(BadMetadata, match="has more than 524288 members"):
            loads(text)
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


def test_a_pair_of_surrogates_is_one_character() -> None:
    node = loads('{"zarr_format": 2, "attributes": {"a": "\\ud83d\\ude00 \\\\ud800"}}')
    assert node.attributes == {"a": "\U0001f600 \\ud800"}


def test_the_spelling_of_python_does_not_count() -> None:
    attributes: Any = {"a": (1, float("-inf"), (True,))}
    node = ArrayV2((4,), (2,), "<f4", float("nan"), attributes=attributes)
    assert json_of(checked(node))["fill_value"] == "NaN"
    assert json_of(checked(node))["attributes"] == {"a": [1, "-Infinity", [True]]}


def test_members_that_are_unknown_are_not_the_same_as_none() -> None:
    assert loads('{"zarr_format": 2, "members": null}') == GroupV2(None)
    assert loads('{"zarr_format": 2, "members": {}}') == GroupV2({})
    assert json.loads(dumps(GroupV2(None)))["members"] is None


def test_a_node_of_v3_without_a_type_is_known_by_its_shape() -> None:
    array = read({name: value for name, value in A3.items() if name != "node_type"})
    assert isinstance(array, ArrayV3)


def test_the_name_of_the_text_begins_messages() -> None:
    with pytest.raises(BadMetadata, match=r"^a\.json: /zarr_format: is missing"):
        loads("{}", "a.json")
