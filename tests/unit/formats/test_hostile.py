"""Documents that were damaged: each is read or refused, soon, and nothing else happens."""

from __future__ import annotations

import json
import random
import time
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nczfs.cdl import printer as cdl
from nczfs.errors import MetadataError
from nczfs.formats.attributes import attribute_text
from nczfs.formats.base import FormatOptions
from nczfs.formats.consolidated import ConsolidatedDocuments
from nczfs.formats.registry import FORMATS
from nczfs.formats.zarr2.consolidated import FORM, KEY, read_consolidated
from nczfs.model.hierarchy import Attribute, Variable
from nczfs.testing.documents import DictDocuments, read_group
from tests.unit.formats.test_nczarr import L1, L2L, L2U, L3

LAYOUTS = [L1, L2U, L2L, L3]
PIECES = [
    b'"', b"{", b"}", b"[", b"]", b",", b":", b"\\", b"-", b"1e999", b"9" * 30, b"null", b"NaN",
    b"true", b'"..":', b'"a/b"', b"\x00", b"\xff", b"\\ud800", b"[" * 200, b"{}", b'"|O"',
    b'"<U999999999"', b'[["a","<i4"]]', b'"<M8[ns]"', b"1.5", b"18446744073709551616", b'"_nczarr_',
]  # fmt: skip


def damaged(document: bytes, chance: random.Random) -> bytes:
    """A document with some bytes changed, dropped, doubled, or replaced by awkward ones."""
    data = bytearray(document)
    for _ in range(chance.randint(1, 4)):
        start = chance.randrange(len(data) + 1)
        stop = min(len(data), start + chance.choice([0, 0, 1, 1, 3, 20]))
        match chance.randrange(4):
            case 0:
                data[start:stop] = chance.choice(PIECES)
            case 1:
                del data[start:stop]
            case 2:
                data[start:start] = data[start:stop]
            case _:
                data[start:stop] = chance.randbytes(stop - start)
    return bytes(data)


def documents_of(layout: dict[str, object]) -> dict[str, bytes]:
    store = DictDocuments(layout)
    return {key: store.get(key) or b"" for key in store.keys()}  # noqa: SIM118 - not a dict


def look_at_everything(documents: dict[str, bytes]) -> None:
    """All that can be asked of a dataset; whatever may be refused is refused by a MetadataError."""
    store = DictDocuments(documents)
    try:
        found = FORMATS.detect(store, FormatOptions())
    except MetadataError:
        return
    if found is None:
        return
    paths = sorted({key.rpartition("/")[0] for key in documents})
    for path in paths:
        try:
            node = found.read_node(path, store)
        except MetadataError:
            continue
        if node is None:
            continue
        for attribute in node.attributes:
            attribute_text(attribute).encode()
        assert all(isinstance(problem, str) for problem in node.problems)
        if isinstance(node, Variable):
            repr(node.array.fill_value)
            assert len(node.dimensions) == len(node.array.shape)
            sizes = tuple(dimension.size for dimension in node.dimensions)
            assert sizes == node.array.shape
    if ".zarray" not in documents:
        cdl.header(read_group(store), name="x").encode()


def damage(seed: int) -> dict[str, bytes]:
    chance = random.Random(seed)
    documents = documents_of(LAYOUTS[seed % len(LAYOUTS)])
    key = chance.choice(list(documents))
    return {**documents, key: damaged(documents[key], chance)}


def survives(seeds: range) -> None:
    slowest = 0.0
    for seed in seeds:
        documents = damage(seed)
        begin = time.process_time()
        look_at_everything(documents)
        slowest = max(slowest, time.process_time() - begin)
    assert slowest < 1


def test_damaged_documents_are_read_or_refused_within_a_second() -> None:
    survives(range(1500))


@pytest.mark.long
def test_ten_thousand_damaged_documents_are_read_or_refused_within_a_second() -> None:
    tracemalloc.start()
    try:
        survives(range(1500, 11500))
        assert tracemalloc.get_traced_memory()[1] < 256 << 20
    finally:
        tracemalloc.stop()


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(min_value=-(2**70), max_value=2**70)
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["|O", "<f8", "<U3", "|S4", "<M8[s]", "vlen-utf8", "/lat", "NaN", "YWI="]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=12,
)
MEMBERS = ["shape", "chunks", "dtype", "fill_value", "filters", "compressor", "order",
           "zarr_format", "dimension_separator"]  # fmt: skip
KEYS = ["_nczarr_group", "_nczarr_array", "_nczarr_attr", "_nczarr_superblock",
        "_ARRAY_DIMENSIONS", "_NCProperties", "_FillValue", "a"]  # fmt: skip


@given(st.dictionaries(st.sampled_from(MEMBERS), json_values, max_size=3), json_values)
def test_any_value_of_any_member_of_an_array_is_read_or_refused(
    members: dict[str, object], attribute: object
) -> None:
    array = json.loads(documents_of(L3)["v/.zarray"]) | members
    attributes = json.loads(documents_of(L3)["v/.zattrs"]) | {"a": attribute}
    documents = {"v/.zarray": dumped(array), "v/.zattrs": dumped(attributes)}
    look_at_everything({**documents_of(L3), **documents})


@given(st.dictionaries(st.sampled_from(KEYS), json_values))
def test_any_value_of_any_key_of_nczarr_is_read_or_refused(members: dict[str, object]) -> None:
    for key in (".zattrs", "v/.zattrs"):
        attributes = json.loads(documents_of(L3)[key]) | members
        look_at_everything({**documents_of(L3), key: dumped(attributes)})


@given(st.binary())
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for key in (".zattrs", ".zgroup", "v/.zarray", "v/.zattrs", "g1/.zattrs"):
        look_at_everything({**documents_of(L3), key: data})


@given(json_values)
def test_any_consolidated_document_is_read_or_refused(value: object) -> None:
    for document in (value, {"zarr_consolidated_format": 1, "metadata": value}):
        try:
            found = read_consolidated(dumped(document))
        except MetadataError:
            continue
        view = ConsolidatedDocuments(DictDocuments({KEY: document}), FORM, found)
        for key in found.keys:
            view.get(key)


def test_the_attribute_that_names_an_unusable_type_is_read_without() -> None:
    documents = documents_of(L3)
    types = b'{"types": {"title": "<i4", "pif": "|S9999999999"}}'
    documents[".zattrs"] = documents[".zattrs"].replace(b'{"types": {', types[:-1] + b', "x": {')
    store = DictDocuments(documents)
    found = FORMATS.detect(store, FormatOptions())
    assert found is not None
    node = found.read_node("", store)
    assert node is not None
    assert all(isinstance(attribute, Attribute) for attribute in node.attributes)


def dumped(value: object) -> bytes:
    return json.dumps(value).encode()
