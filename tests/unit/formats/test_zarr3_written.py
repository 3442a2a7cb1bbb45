"""Documents of Zarr v3 that are written: new ones, and changes of those of other programs."""

from __future__ import annotations

import base64
import json
import struct
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from nczfs.errors import NotWritable, Unsupported
from nczfs.formats.base import FormatOptions, Node
from nczfs.formats.zarr3.format import Zarr3Format
from nczfs.model.declaration import ElementType
from nczfs.model.dtypes import NcType
from nczfs.model.hierarchy import Attribute, CodecSpec, Dimension, GroupHeader, Variable
from nczfs.testing.documents import DictDocuments
from tests.unit.formats.test_zarr3_array import PLAIN, grid, sharding, transpose

FORMAT = Zarr3Format(FormatOptions())
GROUP: dict[str, Any] = {"zarr_format": 3, "node_type": "group"}


def read(documents: DictDocuments, path: str) -> Any:
    node = FORMAT.read_node(path, documents)
    assert node is not None
    return node


def written(node: Node, documents: DictDocuments) -> Any:
    """Write a node, and return its only document, parsed."""
    ((key, data),) = FORMAT.write_node(node, documents)
    documents.write([(key, data)])
    return json.loads(data)


def variable(documents: DictDocuments) -> Variable:
    found = read(documents, "v")
    assert isinstance(found, Variable)
    return found


def chain_of(wanted: ElementType, *codecs: CodecSpec) -> list[tuple[str, dict[str, Any]]]:
    stored = FORMAT.stored_type(wanted, byte_order=None, string_bytes=None)
    chain = FORMAT.codec_chain((*stored.filters, *codecs), stored.dtype)
    assert chain.zarr_format == 3
    return [(codec.name, dict(codec.configuration)) for codec in chain.codecs]


def codec(name: str, **members: Any) -> CodecSpec:
    return CodecSpec(name, MappingProxyType(members))


def test_a_new_group_is_one_document() -> None:
    node = GroupHeader("g", "zarr3", attributes=(Attribute("title", NcType.CHAR, "t"),))
    assert written(node, DictDocuments({})) == GROUP | {"attributes": {"title": "t"}}


def test_a_new_array_is_spelled_as_most_programs_read_it() -> None:
    documents = DictDocuments(
        {"v/zarr.json": PLAIN | {"codecs": ["bytes"], "dimension_names": None}}
    )
    found = variable(documents)
    dimensions = (Dimension("y", 4), Dimension("_Anonymous_Dim_6", 6, anonymous=True))
    document = written(replace(found, dimensions=dimensions), DictDocuments({}))
    assert document["codecs"] == [{"name": "bytes"}]
    assert document["data_type"] == "float32"
    assert document["chunk_key_encoding"] == {
        "name": "default",
        "configuration": {"separator": "/"},
    }
    assert document["chunk_grid"] == grid(2, 3)
    assert document["dimension_names"] == ["y", None]
    assert "storage_transformers" not in document


def test_members_that_do_not_change_stay_as_they_are_spelled() -> None:
    document = PLAIN | {
        "data_type": {"name": "float32"},
        "chunk_key_encoding": "default",
        "fill_value": "0x00000000",
        "codecs": ["bytes", {"name": "crc32c", "must_understand": True}],
        "harmless": {"must_understand": False},
        "dimension_names": ["", "x"],
        "storage_transformers": [],
        "attributes": {"n": [1], "_ARRAY_DIMENSIONS": ["a", "b"]},
    }
    documents = DictDocuments({"v/zarr.json": document})
    found = variable(documents)
    longer = replace(found, array=replace(found.array, shape=(5, 6)))
    assert written(longer, documents) == document | {"shape": [5, 6]}
    assert FORMAT.write_node(longer, documents) == ()
    titled = replace(longer, attributes=(*longer.attributes, Attribute("t", NcType.CHAR, "x")))
    attributes = {"n": [1], "t": "x", "_ARRAY_DIMENSIONS": ["a", "b"]}
    assert written(titled, documents) == document | {"shape": [5, 6], "attributes": attributes}


def test_the_copy_within_the_root_stays_when_the_root_changes() -> None:
    copy = {"kind": "inline", "must_understand": False, "metadata": {"v": PLAIN}, "odd": 1.50}
    documents = DictDocuments({"zarr.json": GROUP | {"consolidated_metadata": copy}})
    header = read(documents, "")
    changed = replace(header, attributes=(Attribute("a", NcType.INT, (1,)),))
    assert written(changed, documents) == GROUP | {
        "attributes": {"a": 1},
        "consolidated_metadata": copy,
    }


def test_shards_are_written_as_they_are_read() -> None:
    nested = sharding([2, 2], sharding([1, 2], index_location="start"))
    for shape, codecs in (
        ([4, 6], [nested]),
        ([4, 6], [transpose(1, 0), sharding([3, 2], transpose(1, 0), {"name": "bytes"})]),
        ([4, 6], [sharding([2, 3]), {"name": "crc32c"}]),
    ):
        source = PLAIN | {"chunk_grid": grid(*shape), "codecs": codecs}
        found = variable(DictDocuments({"v/zarr.json": source}))
        target = DictDocuments({})
        written(found, target)
        assert variable(target).array == found.array


def test_an_unlimited_dimension_is_listed_by_its_group() -> None:
    time = Dimension("time", 3, unlimited=True)
    documents = DictDocuments({"zarr.json": GROUP | {"attributes": {"a": 1}}})
    header = replace(read(documents, ""), dimensions=(time, Dimension("x", 2)))
    assert written(header, documents)["attributes"] == {"a": 1, "_nczfs_unlimited": ["time"]}
    assert read(documents, "").dimensions == (Dimension("time", 0, unlimited=True),)
    assert [attribute.name for attribute in read(documents, "").attributes] == ["a"]
    assert FORMAT.write_node(read(documents, ""), documents) == ()


def test_variables_of_the_group_and_below_have_its_unlimited_dimension() -> None:
    array = PLAIN | {"dimension_names": ["time", "x"]}
    documents = DictDocuments(
        {
            "zarr.json": GROUP | {"attributes": {"_nczfs_unlimited": ["time"]}},
            "v/zarr.json": array,
            "g/zarr.json": GROUP,
            "g/v/zarr.json": array,
        }
    )
    for path, group in (("v", ""), ("g/v", "g")):
        assert read(documents, path).dimensions == (
            Dimension("time", 4, unlimited=True),
            Dimension("x", 6, group=group),
        )


def test_nobody_sets_the_list_of_unlimited_dimensions_as_an_attribute() -> None:
    attribute = Attribute("_nczfs_unlimited", NcType.CHAR, "time")
    with pytest.raises(Unsupported, match="'_nczfs_unlimited' is reserved by the format"):
        FORMAT.write_node(GroupHeader("g", "zarr3", attributes=(attribute,)), DictDocuments({}))


@pytest.mark.parametrize("listed", ["time", {"time": 1}, [1, "a/b"], ["x"] * 65_537, None])
def test_a_list_of_unlimited_dimensions_that_is_none_is_a_problem(listed: Any) -> None:
    documents = DictDocuments({"zarr.json": GROUP | {"attributes": {"_nczfs_unlimited": listed}}})
    header = read(documents, "")
    assert header.dimensions == ()
    assert len(header.problems) == (listed is not None)


@pytest.mark.parametrize(("data_type", "value"), [("float32", 1.5), ("float64", np.nan)])
def test_the_fill_value_of_xarray_is_read_and_written(data_type: str, value: float) -> None:
    text = base64.b64encode(struct.pack("<d", value)).decode()
    document = PLAIN | {"data_type": data_type, "attributes": {"_FillValue": text}}
    found = variable(DictDocuments({"v/zarr.json": document}))
    (attribute,) = found.attributes
    assert attribute.type is {"float32": NcType.FLOAT, "float64": NcType.DOUBLE}[data_type]
    assert repr(attribute.value) == repr((value,))
    assert written(found, DictDocuments({}))["attributes"] == {"_FillValue": text}


def test_other_fill_values_are_read_as_they_are() -> None:
    for data_type, value in (("float32", 1.5), ("int16", -1), ("float32", "text")):
        document = PLAIN | {"data_type": data_type, "attributes": {"_FillValue": value}}
        (attribute,) = variable(DictDocuments({"v/zarr.json": document})).attributes
        assert attribute.value in (value, (value,))


@pytest.mark.parametrize("name", ["__reserved", "..."])
def test_names_that_zarr_reserves_are_refused(name: str) -> None:
    with pytest.raises(Unsupported, match=f"^{name}/zarr.json: '{name}' cannot be the name"):
        FORMAT.write_node(GroupHeader(name, "zarr3"), DictDocuments({}))
    existing = DictDocuments({f"{name}/zarr.json": GROUP})
    changed = GroupHeader(name, "zarr3", attributes=(Attribute("a", NcType.INT, (1,)),))
    assert written(changed, existing)["attributes"] == {"a": 1}


@pytest.mark.parametrize("beside", ["v/.zarray", "v/.zgroup"])
def test_a_node_of_both_versions_is_not_changed(beside: str) -> None:
    documents = DictDocuments({"v/zarr.json": PLAIN, beside: {}})
    found = variable(documents)
    changed = replace(found, attributes=(Attribute("a", NcType.INT, (1,)),))
    with pytest.raises(NotWritable, match=rf"^/v: is described twice, also by {beside}"):
        FORMAT.write_node(changed, documents)


def test_new_arrays_have_one_codec_from_array_to_bytes() -> None:
    little = ("bytes", {"endian": "little"})
    assert chain_of(NcType.FLOAT) == [little]
    assert chain_of(NcType.BYTE) == [("bytes", {})]
    assert chain_of(np.dtype(">i4")) == [("bytes", {"endian": "big"})]
    assert chain_of(NcType.STRING) == [("vlen-utf8", {})]
    assert chain_of(np.dtype([("a", "<i4")])) == [little]
    keepbits = codec("bitround", keepbits=3)
    zstd = ("zstd", {"level": 3, "checksum": False})
    chain = chain_of(NcType.FLOAT, keepbits, codec("zstd", level=3))
    assert chain == [("numcodecs.bitround", {"keepbits": 3}), little, zstd]
    given = codec("bytes", endian="big")
    assert chain_of(NcType.FLOAT, given) == [("bytes", {"endian": "big"})]


@pytest.mark.parametrize(
    ("wanted", "stored"),
    [
        (codec("gzip", level=2), ("gzip", {"level": 2})),
        (codec("zlib", level=2), ("gzip", {"level": 2})),
        (codec("bz2", level=2), ("numcodecs.bz2", {"level": 2})),
        (codec("numcodecs.zlib", level=2), ("numcodecs.zlib", {"level": 2})),
        (codec("crc32c"), ("crc32c", {})),
        (
            codec("blosc", cname="zstd", clevel=3, shuffle=-1, blocksize=0),
            (
                "blosc",
                {
                    "typesize": 4,
                    "cname": "zstd",
                    "clevel": 3,
                    "shuffle": "shuffle",
                    "blocksize": 0,
                },
            ),
        ),
    ],
)
def test_codecs_have_the_names_of_zarr_3(wanted: CodecSpec, stored: Any) -> None:
    assert chain_of(NcType.FLOAT, wanted)[1:] == [stored]


def test_the_codecs_of_netcdf_become_blosc_which_more_programs_read() -> None:
    chain = chain_of(NcType.DOUBLE, codec("shuffle", elementsize=8), codec("zlib", level=4))
    name, members = chain[1]
    assert (name, members["cname"], members["clevel"]) == ("blosc", "zlib", 4)
    assert (members["typesize"], members["shuffle"]) == (8, "shuffle")


def test_types_that_zarr_3_lacks_are_refused() -> None:
    with pytest.raises(Unsupported, match="no structured types with arrays as fields"):
        FORMAT.stored_type(np.dtype([("a", "<i4", (2,))]), byte_order=None, string_bytes=None)


def test_a_note_is_an_object_that_need_not_be_understood() -> None:
    data = json.dumps(PLAIN).encode()
    noted = FORMAT.with_note(data, "v/zarr.json", "_nczfs_n", [1, "a"])
    assert FORMAT.shape_and_note(noted, "v/zarr.json", "_nczfs_n") == ((4, 6), [1, "a"])
    assert json.loads(noted)["_nczfs_n"]["must_understand"] is False
    assert variable(DictDocuments({"v/zarr.json": noted})).problems == ()
    assert json.loads(FORMAT.with_note(noted, "v/zarr.json", "_nczfs_n", None)) == PLAIN
