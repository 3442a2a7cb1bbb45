"""The documents of new nodes, word by word: what other programs see."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nczfs.errors import Unsupported
from nczfs.formats.base import FormatOptions, MetadataFormat
from nczfs.formats.registry import FORMATS
from nczfs.model.dtypes import NcType
from nczfs.model.hierarchy import (
    ArrayDescription,
    Attribute,
    CodecSpec,
    Dimension,
    GroupHeader,
    Variable,
)
from nczfs.testing.documents import DictDocuments

TIME = Dimension("time", 2, unlimited=True)
LON = Dimension("lon", 5, group="g")
ATTRIBUTES = (
    Attribute("units", NcType.CHAR, "12"),
    Attribute("f", NcType.FLOAT, (float(np.float32(0.1)),)),
    Attribute("d", NcType.DOUBLE, (1.0, float("nan"))),
    Attribute("s", NcType.STRING, ("abc", "é")),
    Attribute("none", NcType.INT, ()),
)


def named(name: str, **options: Any) -> MetadataFormat:
    return FORMATS.named(name, FormatOptions(**options))


def written(found: MetadataFormat, node: GroupHeader | Variable) -> dict[str, str]:
    documents = found.write_node(node, DictDocuments({}))
    return {key: data.decode() for key, data in documents}


def variable(
    found: MetadataFormat,
    nc_type: NcType,
    dimensions: tuple[Dimension, ...],
    fill: object,
    attributes: tuple[Attribute, ...] = (),
    codecs: tuple[CodecSpec, ...] = (),
) -> Variable:
    dtype = found.stored_type(nc_type, byte_order=None, string_bytes=4).dtype
    chain = found.codec_chain(codecs, dtype)
    shape = tuple(d.size for d in dimensions)
    array = ArrayDescription(shape, tuple(1 for _ in shape), dtype, fill, chain)
    return Variable("g/v", "g/v", found.name, array, dimensions, attributes)


def test_l3_groups() -> None:
    root = GroupHeader(
        "",
        "nczarr-L3",
        (TIME, Dimension("lat", 3)),
        (Attribute("title", NcType.CHAR, "t"),),
        (),
        ("g",),
    )
    assert written(named("nczarr-L3"), root) == {
        ".zattrs": '{"title": "t", "_nczarr_group": {"dimensions": {"time": {"size": 2, '
        '"unlimited": 1}, "lat": 3}, "arrays": [], "groups": ["g"]}, "_nczarr_superblock": '
        '{"version": "2.0.0"}, "_nczarr_attr": {"types": {"title": ">S1", "_nczarr_group": "|J0", '
        '"_nczarr_superblock": "|J0", "_nczarr_attr": "|J0"}}}',
        ".zgroup": '{"zarr_format": 2}',
    }
    assert written(named("nczarr-L3"), GroupHeader("g", "nczarr-L3"))["g/.zattrs"] == (
        '{"_nczarr_group": {"dimensions": {}, "arrays": [], "groups": []}, "_nczarr_attr": '
        '{"types": {"_nczarr_group": "|J0", "_nczarr_attr": "|J0"}}}'
    )


def test_l3_variable() -> None:
    found = named("nczarr-L3")
    codecs = (CodecSpec("shuffle"), CodecSpec("zlib", {"level": 4}))
    assert written(found, variable(found, NcType.SHORT, (TIME, LON), -1, ATTRIBUTES, codecs)) == {
        "g/v/.zattrs": '{"units": "12", "f": 0.1, "d": [1.0,"NaN"], "s": ["abc","é"], "none": "", '
        '"_ARRAY_DIMENSIONS": ["time","lon"], "_nczarr_array": {"dimension_references": '
        '["/time","/g/lon"], "storage": "chunked"}, "_nczarr_attr": {"types": {"units": ">S1", '
        '"f": "<f4", "d": "<f8", "s": "|S3", "none": ">S1", "_nczarr_array": "|J0", '
        '"_nczarr_attr": "|J0"}}}',
        "g/v/.zarray": '{"zarr_format": 2, "shape": [2,5], "dtype": "<i2", "chunks": [1,1], '
        '"fill_value": -1, "order": "C", "compressor": {"id": "zlib", "level": 4}, '
        '"filters": [{"id": "shuffle", "elementsize": 2}]}',
    }


def test_l3_scalar() -> None:
    found = named("nczarr-L3")
    assert written(found, variable(found, NcType.CHAR, (), b"x")) == {
        "g/v/.zattrs": '{"_ARRAY_DIMENSIONS": ["_scalar_"], "_nczarr_array": '
        '{"dimension_references": [], "scalar": 1, "storage": "chunked"}, "_nczarr_attr": '
        '{"types": {"_nczarr_array": "|J0", "_nczarr_attr": "|J0"}}}',
        "g/v/.zarray": '{"zarr_format": 2, "shape": [1], "dtype": ">S1", "chunks": [1], '
        '"fill_value": "x", "order": "C", "compressor": null, "filters": null}',
    }


def test_l2_has_the_group_and_the_array_in_the_documents_of_zarr() -> None:
    for name, own in (("nczarr-L2l", "_nczarr"), ("nczarr-L2U", "_NCZARR")):
        found = named(name)
        block, member, info, types = (
            f"{own}_{word}".upper() if own.isupper() else f"{own}_{word}"
            for word in ("superblock", "group", "array", "attr")
        )
        root = GroupHeader("", name, (Dimension("x", 3),), (), ("v",), ())
        assert written(found, root) == {
            ".zattrs": f'{{"{types}": {{"types": {{}}}}}}',
            ".zgroup": f'{{"zarr_format": 2, "{block}": {{"version": "2.0.0"}}, "{member}": '
            '{"dims": {"x": 3}, "vars": ["v"], "groups": []}}',
        }
        text = ">S1" if name == "nczarr-L2l" else "<U1"
        assert written(found, variable(found, NcType.CHAR, (), b"", ATTRIBUTES[:1])) == {
            "g/v/.zattrs": '{"units": "12", "_ARRAY_DIMENSIONS": ["_scalar_"], '
            f'"{types}": {{"types": {{"units": "{text}"}}}}}}',
            "g/v/.zarray": f'{{"zarr_format": 2, "shape": [1], "dtype": "{text}", "chunks": [1], '
            '"fill_value": "", "order": "C", "compressor": null, "filters": null, '
            f'"{info}": {{"dimrefs": [], "scalar": 1, "storage": "scalar"}}}}',
        }


def test_l1_has_documents_of_its_own() -> None:
    found = named("nczarr-L1")
    root = GroupHeader("", "nczarr-L1", (Dimension("x", 3),), ATTRIBUTES[:1], ("v",), ())
    assert written(found, root) == {
        ".zattrs": '{"units": "12"}',
        ".nczgroup": '{"dims": {"x": 3}, "vars": ["v"], "groups": []}',
        ".nczattrs": '{"types": {"units": "<U1"}}',
        ".nczarr": '{"zarr_format": 2, "nczarr_version": "1.0.0"}',
        ".zgroup": '{"zarr_format": 2}',
    }
    assert written(found, variable(found, NcType.INT, (Dimension("x", 3),), 0)) == {
        "g/v/.zattrs": '{"_ARRAY_DIMENSIONS": ["x"]}',
        "g/v/.nczarray": '{"dimrefs": ["/x"], "storage": "chunked"}',
        "g/v/.nczattrs": '{"types": {}}',
        "g/v/.zarray": '{"zarr_format": 2, "shape": [3], "dtype": "<i4", "chunks": [1], '
        '"fill_value": 0, "order": "C", "compressor": null, "filters": null}',
    }


def test_pure_zarr_has_nothing_but_names_of_dimensions() -> None:
    found = named("zarr2")
    assert written(found, GroupHeader("", "zarr2")) == {
        ".zattrs": "{}",
        ".zgroup": '{"zarr_format": 2}',
    }
    assert written(found, variable(found, NcType.STRING, (LON,), b"ab", ATTRIBUTES[:2])) == {
        "g/v/.zattrs": '{"units": "12", "f": 0.1, "_ARRAY_DIMENSIONS": ["lon"]}',
        "g/v/.zarray": '{"zarr_format": 2, "shape": [5], "dtype": "|S4", "chunks": [1], '
        '"fill_value": "YWIAAA==", "order": "C", "compressor": null, "filters": null}',
    }
    scalar = written(found, variable(found, NcType.DOUBLE, (), float("nan")))
    assert scalar["g/v/.zattrs"] == '{"_ARRAY_DIMENSIONS": []}'
    assert '"shape": [], ' in scalar["g/v/.zarray"]
    assert '"fill_value": "NaN"' in scalar["g/v/.zarray"]


def test_dimensions_without_names_are_not_named_in_pure_zarr() -> None:
    found = named("zarr2")
    without = variable(found, NcType.INT, (Dimension("_Anonymous_Dim_5", 5, anonymous=True),), 0)
    assert written(found, without)["g/v/.zattrs"] == "{}"


@pytest.mark.parametrize("name", ["nczarr-L3", "zarr2"])
def test_without_the_xarray_convention_no_names_are_written_for_it(name: str) -> None:
    found = named(name, xarray=False)
    documents = written(found, variable(found, NcType.INT, (TIME,), 0))
    assert "_ARRAY_DIMENSIONS" not in documents["g/v/.zattrs"]


@pytest.mark.parametrize("name", ["nczarr-L3", "nczarr-L2l", "nczarr-L2U", "nczarr-L1"])
@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"a": [1, 2]}, '{"a": [1,2]}'),
        ([1, "a"], '[1,"a"]'),
        ([], "[]"),
        (True, "true"),
        (None, "null"),
    ],
)
def test_json_is_stored_so_that_netcdf_c_has_its_text(name: str, value: Any, text: str) -> None:
    found = named(name)
    documents = DictDocuments({})
    node = GroupHeader("", name, (), (Attribute("j", NcType.JSON, value),))
    documents.write(found.write_node(node, documents))
    read = found.read_node("", documents)
    assert read is not None
    assert read.attributes == (Attribute("j", NcType.CHAR, text),)
    assert found.write_node(node, documents) == ()


@pytest.mark.parametrize("name", ["nczarr-L2U", "nczarr-L1"])
def test_early_layouts_refuse_what_their_readers_do_not_know(name: str) -> None:
    found = named(name)
    with pytest.raises(Unsupported, match=r"^\.zgroup: .* no unlimited dimensions \(time\).*L3"):
        written(found, GroupHeader("", name, (TIME,)))
    with pytest.raises(Unsupported, match=r"^\.zattrs: attribute 's': .* no lists .*nczarr-L3"):
        written(found, GroupHeader("", name, (), ATTRIBUTES))
    one = Attribute("s", NcType.STRING, ("solo",))
    assert '"s": "<U1"' in str(written(found, GroupHeader("", name, (), (one,))))


def test_a_fill_value_that_is_no_text_is_refused_where_only_text_is_stored() -> None:
    found = named("nczarr-L3")
    with pytest.raises(Unsupported, match=r"^g/v/\.zarray: the fill value b'\\xff' is not UTF-8"):
        written(found, variable(found, NcType.CHAR, (), b"\xff"))


def test_members_that_are_not_told_stay() -> None:
    found = named("nczarr-L3")
    documents = DictDocuments({})
    documents.write(found.write_node(GroupHeader("", "nczarr-L3", (), (), ("v",), ()), documents))
    changed = GroupHeader("", "nczarr-L3", (Dimension("x", 1),), ATTRIBUTES[:1])
    documents.write(found.write_node(changed, documents))
    read = found.read_node("", documents)
    assert isinstance(read, GroupHeader)
    assert (read.arrays, read.dimensions) == (("v",), (Dimension("x", 1),))
