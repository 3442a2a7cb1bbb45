"""Dependent arrays as the format reads them; the worked examples are in tests/interop."""

from __future__ import annotations

from typing import Any

import pytest

from nczfs.errors import BadMetadata, NotWritable, Unsupported
from nczfs.formats.base import FormatOptions
from nczfs.formats.zarr3.dependents import COUNT_MAX, LEVELS_MAX
from nczfs.formats.zarr3.format import Zarr3Format
from nczfs.formats.zarr3.keyencodings import keys_json, read_keys
from nczfs.model.hierarchy import ChunkKeys, Json, Variable
from nczfs.testing.documents import DictDocuments

FORMAT = Zarr3Format(FormatOptions())
DOT = {"name": "default", "configuration": {"separator": "."}}
V2 = {"name": "v2", "configuration": {"separator": "."}}
PRIMARY: dict[str, Any] = {
    "zarr_format": 3,
    "node_type": "array",
    "shape": [8, 6],
    "data_type": "uint8",
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4, 3]}},
    "chunk_key_encoding": "default",
    "fill_value": 0,
    "codecs": ["bytes"],
    "dimension_names": ["y", "x"],
}


def documents_of(declared: object, **members: Any) -> DictDocuments:
    attributes = {"units": "m", "dependent-arrays": declared}
    return DictDocuments(
        {
            "zarr.json": {"zarr_format": 3, "node_type": "group"},
            "g/zarr.json": {"zarr_format": 3, "node_type": "group"},
            "g/t/zarr.json": PRIMARY | {"attributes": attributes} | members,
        }
    )


def read(documents: DictDocuments, path: str = "g/t") -> Variable:
    node = FORMAT.read_node(path, documents)
    assert isinstance(node, Variable)
    return node


def test_a_dependent_array_is_a_node_below_its_primary_and_its_chunks_are_not() -> None:
    documents = documents_of({"mask": {"chunk_key_encoding": DOT}})
    (mask,) = read(documents).dependents
    assert (mask.path, mask.key, mask.primary) == ("g/t/mask", "g/t", "g/t")
    assert mask.array.chunk_keys.name((1, 0)) == "c.1.0"
    assert [(d.name, d.group) for d in mask.dimensions] == [("y", "g"), ("x", "g")]
    assert [(a.name, a.value) for a in mask.attributes] == [("units", "m")]
    assert read(documents, "g/t/mask") == mask
    assert FORMAT.read_node("g/t/other", documents) is None


def test_dependents_of_a_dataset_of_one_array_are_nodes_below_its_root() -> None:
    documents = DictDocuments(
        {"zarr.json": PRIMARY | {"attributes": {"dependent_arrays": {"m": {}}}}}
    )
    (m,) = read(documents, "").dependents
    assert (m.path, m.key, m.primary) == ("m", "", "")
    assert read(documents, "m") == m


def test_a_bad_entry_is_refused_alone_and_named() -> None:
    """SEMANTICS D28."""
    node = read(documents_of({"good": {"chunk_key_encoding": DOT}, "bad": {"shape": [1]}}))
    assert [each.name for each in node.dependents] == ["good"]
    (problem,) = node.problems
    assert problem.startswith("g/t/zarr.json: dependent array 'bad': ")


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ({"fill_value": None, "codecs": None}, "codecs is missing"),
        ({"zarr_format": 2}, "zarr_format is 2"),
        ({"data_type": "float32"}, "endian"),
        ({"shape": [8], "dimension_names": ["y"]}, "chunk_shape has 2"),
        ({"chunk_key_encoding": {"name": "fanout"}}, "'fanout' is not supported"),
        ({"new": {"must_understand": True}}, "'new' is unknown and must be understood"),
    ],
)
def test_the_result_must_be_a_valid_document(entry: object, problem: str) -> None:
    node = read(documents_of({"d": entry}))
    assert node.dependents == ()
    assert problem in node.problems[0]


def test_nested_declarations_are_resolved_against_the_resolved_array() -> None:
    inner = {"chunk_key_encoding": V2}
    outer = {"shape": [4, 3], "attributes": {"dependent-arrays": {"aa": inner}}}
    documents = documents_of({"a": outer})
    nested = read(documents, "g/t/a/aa")
    assert (nested.array.shape, nested.primary, nested.key) == ((4, 3), "g/t/a", "g/t")
    assert nested.attributes == ()


def test_levels_of_declarations_are_limited() -> None:
    declared: dict[str, Any] = {}
    for _ in range(LEVELS_MAX + 1):
        declared = {"a": {"attributes": {"dependent-arrays": declared}}}
    node = read(documents_of(declared))
    levels = 0
    while node.dependents:
        (node,) = node.dependents
        levels += 1
    assert levels == LEVELS_MAX
    assert "levels of dependent arrays" in node.problems[0]


def test_the_number_of_declarations_is_limited() -> None:
    node = read(documents_of({f"a{i}": {} for i in range(COUNT_MAX + 9)}))
    assert len(node.dependents) == COUNT_MAX
    assert "too many" in node.problems[0]
    assert len({id(each.attributes) for each in node.dependents}) == 1  # they share the memory


def test_a_document_that_is_inherited_too_often_is_not_multiplied() -> None:
    note = {"must_understand": False, "by": "x" * (1 << 20)}
    node = read(documents_of({f"a{i}": {} for i in range(99)}, note=note))
    assert len(node.dependents) == 31
    assert "too large" in node.problems[0]


def test_a_node_of_the_name_hides_a_dependent_array() -> None:
    documents = documents_of({"mask": {"chunk_key_encoding": DOT}})
    documents.write([("g/t/mask/zarr.json", b'{"zarr_format": 3, "node_type": "group"}')])
    assert not isinstance(FORMAT.read_node("g/t/mask", documents), Variable)


def test_the_key_may_be_spelled_with_escapes() -> None:
    documents = documents_of({"m": {}})
    text = documents.get("g/t/zarr.json")
    assert text is not None
    documents.write(
        [("g/t/zarr.json", text.replace(b"dependent-arrays", rb"dependent\u002darrays"))]
    )
    assert read(documents, "g/t/m").name == "m"


def test_a_dependent_array_never_gets_a_document() -> None:
    documents = documents_of({"mask": {"chunk_key_encoding": DOT}})
    with pytest.raises(NotWritable, match=r"g/t/zarr\.json"):
        FORMAT.write_node(read(documents, "g/t/mask"), documents)


@pytest.mark.parametrize(
    ("encoding", "name"),
    [
        ({"name": "prefix", "configuration": {"prefix": "s1/", "base_encoding": "v2"}}, "s1/1.2"),
        ({"name": "prefix", "configuration": {"prefix": "p", "base-encoding": DOT}}, "pc.1.2"),
        ({"name": "suffix", "configuration": {"suffix": ".tif"}}, "c/1/2.tif"),
        ({"name": "suffix", "configuration": {"prefix": "s1/", "base_encoding": "v2"}}, "s1/1.2"),
        (
            {
                "name": "suffix",
                "configuration": {
                    "suffix": "b",
                    "base_encoding": {
                        "name": "prefix",
                        "configuration": {"prefix": "a", "base_encoding": "default"},
                    },
                },
            },
            "ac/1/2b",
        ),
    ],
)
def test_texts_before_and_after_keys_are_read_and_written(encoding: Json, name: str) -> None:
    keys = read_keys(encoding, "zarr.json")
    assert keys.name((1, 2)) == name
    assert keys.index(name, 2) == (1, 2)
    assert keys.index(name.replace("1", "01"), 2) is None
    assert read_keys(keys_json(keys), "zarr.json") == keys


def test_numbers_in_texts_around_keys_are_no_indexes() -> None:
    keys = ChunkKeys("/", "c", "c", before="s12/", after=".v3")
    assert keys.index(keys.name((4, 5)), 2) == (4, 5)
    assert keys.index(keys.name(()), 0) == ()
    assert keys.index("s12/c/4.v3", 2) is None
    assert keys.index("s12/c", 1) is None
    assert ChunkKeys(before="10", after="01").index("101", 1) is None


@pytest.mark.parametrize(
    "configuration",
    [
        {"prefix": "../", "base_encoding": "v2"},
        {"prefix": "/", "base_encoding": "v2"},
        {"prefix": "a//", "base_encoding": "v2"},
        {"prefix": "zarr.json/", "base_encoding": "v2"},
        {"prefix": "a", "suffix": "b", "base_encoding": "v2"},
        {"base_encoding": "v2"},
        {"prefix": "a"},
        {"prefix": 1, "base_encoding": "v2"},
        {"prefix": "a", "base_encoding": "v2", "base-encoding": "v2"},
        {"prefix": "a", "base_encoding": "v2", "separator": "/"},
        {"prefix": "a" * 2000, "base_encoding": "v2"},
        {"suffix": "/zarr.json", "base_encoding": "v2"},
        {"suffix": "/..", "base_encoding": "v2"},
    ],
)
def test_impossible_texts_around_keys_are_refused(configuration: Json) -> None:
    with pytest.raises(BadMetadata):
        read_keys({"name": "prefix", "configuration": configuration}, "zarr.json")


def test_encodings_within_each_other_are_limited() -> None:
    encoding: Json = "v2"
    for _ in range(20):
        configuration: dict[str, Json] = {"prefix": "a", "base_encoding": encoding}
        encoding = {"name": "prefix", "configuration": configuration}
    with pytest.raises(BadMetadata, match="within each other"):
        read_keys(encoding, "zarr.json")
    with pytest.raises(Unsupported):
        read_keys({"name": "prefix", "configuration": {"prefix": "a", "base_encoding": "n5"}}, "z")
