"""The objects that releases of netcdf-c wrote, and what they mean."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from nczfs.formats.base import FormatOptions
from nczfs.formats.registry import FORMATS
from nczfs.model.dtypes import DEFAULT_FILL, NcType
from nczfs.model.hierarchy import Dimension, GroupHeader, Variable
from nczfs.testing.documents import DictDocuments, read_group

ZGROUP: dict[str, Any] = {"zarr_format": 2}


def zarray(shape: list[int], dtype: str = "<i4", **members: Any) -> dict[str, Any]:
    plain = {"fill_value": None, "order": "C", "compressor": None, "filters": None}
    return {"zarr_format": 2, "shape": shape, "dtype": dtype, "chunks": shape} | plain | members


L1: dict[str, object] = {
    ".nczarr": {"zarr_format": 2, "nczarr_version": "1.0.0"},
    ".zgroup": ZGROUP,
    ".nczgroup": {"dims": {"lat": 8}, "vars": ["lat"], "groups": ["g1"]},
    ".zattrs": {"_NCProperties": "version=2,netcdf=4.8.1-development,nczarr=1.0.0"},
    ".nczattrs": {"types": {"_NCProperties": ">S1"}},
    "lat/.zarray": zarray([8], fill_value=-1),
    "lat/.nczarray": {"dimrefs": ["/lat"], "storage": "chunked"},
    "lat/.zattrs": {"_FillValue": -1, "lat_attr": "latitude"},
    "lat/.nczattrs": {"types": {"_FillValue": ">i4", "lat_attr": ">S1"}},
    "g1/.zgroup": ZGROUP,
    "g1/.nczgroup": {"dims": {"lon": 10}, "vars": ["pos"], "groups": []},
    "g1/pos/.zarray": zarray([8, 10]),
    "g1/pos/.nczarray": {"dimrefs": ["/lat", "/g1/lon"], "storage": "chunked"},
}

L2U: dict[str, object] = {
    ".zgroup": ZGROUP
    | {
        "_NCZARR_SUPERBLOCK": {"version": "2.0.0"},
        "_NCZARR_GROUP": {"dims": {"time": 2, "lat": 3}, "vars": ["v", "s", "c"], "groups": ["g1"]},
    },
    ".zattrs": """{"title": "probe", "ga": [1,2],
        "_NCProperties": "version=2,netcdf=4.9.0,nczarr=2.0.0", "_NCZARR_ATTR":
        {"types": {"title": "<U1", "ga": "<i4", "_NCProperties": "<U1"}}}""",
    "v/.zarray": zarray([2, 3], "<i2", fill_value=-32767)
    | {"_NCZARR_ARRAY": {"dimrefs": ["/time", "/lat"], "storage": "chunked"}},
    "v/.zattrs": """{"units": "K", "byteatt": 1, "nanatt": NaN, "inf": -Infinity,
        "json": {"a": [1,2]}, "num": "12", "tru": "true", "quoted": "\\"x\\"",
        "_ARRAY_DIMENSIONS": ["time","lat"], "_NCZARR_ATTR": {"types": {"units": "<U1",
        "byteatt": "<i1", "nanatt": "<f8", "inf": "<f8", "json": "<U1", "num": "<U1",
        "tru": "<U1", "quoted": "<U1"}}}""",
    "s/.zarray": zarray([1]) | {"_NCZARR_ARRAY": {"dimrefs": [], "storage": "scalar"}},
    "s/.zattrs": {"_ARRAY_DIMENSIONS": [], "_NCZARR_ATTR": {}},
    "c/.zarray": zarray([3], "<U1", fill_value="")
    | {"_NCZARR_ARRAY": {"dimrefs": ["/lat"], "storage": "chunked"}},
    "g1/.zgroup": ZGROUP | {"_NCZARR_GROUP": {"dims": {"gd": 2}, "vars": ["x"], "groups": []}},
    "g1/x/.zarray": zarray([2, 3])
    | {"_NCZARR_ARRAY": {"dimrefs": ["/g1/gd", "/lat"], "storage": "chunked"}},
}

L2L: dict[str, object] = {
    ".zgroup": ZGROUP
    | {
        "_nczarr_superblock": {"version": "2.0.0"},
        "_nczarr_group": {"dims": {"d0": 2, "d1": 4}, "vars": ["v"], "groups": []},
    },
    ".zattrs": {"_nczarr_attr": {"types": {}}},
    "v/.zarray": zarray([2, 4])
    | {"_nczarr_array": {"dimrefs": ["/d0", "/d1"], "storage": "chunked"}},
    "v/.zattrs": {
        "_FillValue": -1,
        "_ARRAY_DIMENSIONS": ["d0", "d1"],
        "_nczarr_attr": {"types": {"_FillValue": "<i4"}},
    },
}

TIME = {"size": 2, "unlimited": 1}
L3: dict[str, object] = {
    ".zgroup": ZGROUP,
    ".zattrs": {
        "_NCProperties": "version=2,netcdf=4.10.1,nczarr=2.0.0",
        "pif": 3.14159,
        "title": "probe",
        "_nczarr_group": {
            "dimensions": {"time": TIME, "lat": 3},
            "arrays": ["v", "s", "c", "f"],
            "groups": ["g1"],
        },
        "_nczarr_superblock": {"version": "2.0.0"},
        "_nczarr_attr": {"types": {"pif": "<f4", "title": ">S1", "_nczarr_group": "|J0"}},
    },
    "v/.zarray": zarray(
        [2, 3],
        "<i2",
        fill_value=-32767,
        compressor={"id": "zlib", "level": 4},
        filters=[{"id": "shuffle", "elementsize": 0}],
    ),
    "v/.zattrs": {
        "strs": ["abc", "de"],
        "str1": "solo",
        "num": 12,
        "tru": True,
        "arr": [1, 2],
        "nanatt": "NaN",
        "_ARRAY_DIMENSIONS": ["time", "lat"],
        "_nczarr_array": {"dimension_references": ["/time", "/lat"], "storage": "chunked"},
        "_nczarr_attr": {
            "types": {
                "strs": "|S128",
                "str1": "|S128",
                "num": ">S1",
                "tru": ">S1",
                "arr": ">S1",
                "nanatt": "<f8",
                "_nczarr_array": "|J0",
            }
        },
    },
    "s/.zarray": zarray([1], "<f8", fill_value=9.96921e36),
    "s/.zattrs": {
        "_ARRAY_DIMENSIONS": ["_scalar_"],
        "_nczarr_array": {"dimension_references": [], "scalar": 1, "storage": "chunked"},
    },
    "c/.zarray": zarray([3], ">S1", fill_value=""),
    "c/.zattrs": {"_nczarr_array": {"dimension_references": ["/lat"], "storage": "chunked"}},
    "f/.zarray": zarray([3], "|S6", fill_value=""),
    "f/.zattrs": {"_nczarr_array": {"dimension_references": ["/lat"], "storage": "chunked"}},
    "g1/.zgroup": ZGROUP,
    "g1/.zattrs": {
        "_nczarr_group": {"dimensions": {"gd": 2, "lat": 4}, "arrays": ["x", "y"], "groups": []}
    },
    "g1/x/.zarray": zarray([2, 3]),
    "g1/x/.zattrs": {"_nczarr_array": {"dimension_references": ["/g1/gd", "/lat"]}},
    "g1/y/.zarray": zarray([4]),
    "g1/y/.zattrs": {"_nczarr_array": {"dimension_references": ["/g1/lat"]}},
}


def variable(documents: dict[str, object], path: str) -> Variable:
    store = DictDocuments(documents)
    found = FORMATS.detect(store, FormatOptions())
    assert found is not None
    node = found.read_node(path, store)
    assert isinstance(node, Variable)
    assert node.problems == ()
    return node


def header(documents: dict[str, object], path: str = "") -> GroupHeader:
    store = DictDocuments(documents)
    found = FORMATS.detect(store, FormatOptions())
    assert found is not None
    node = found.read_node(path, store)
    assert isinstance(node, GroupHeader)
    return node


def names(node: Variable) -> list[tuple[str, str]]:
    return [(d.group, d.name) for d in node.dimensions]


@pytest.mark.parametrize(
    ("documents", "layout"),
    [(L1, "nczarr-L1"), (L2U, "nczarr-L2U"), (L2L, "nczarr-L2l"), (L3, "nczarr-L3")],
    ids=["L1", "L2U", "L2l", "L3"],
)
def test_every_layout_is_read_without_a_problem(documents: dict[str, object], layout: str) -> None:
    group = read_group(DictDocuments(documents))
    groups = [group, *group.groups]
    variables = [v for g in groups for v in g.variables]
    assert {g.header.format for g in groups} | {v.format for v in variables} == {layout}
    assert not any(g.header.problems for g in groups)
    assert not any(v.problems for v in variables)
    assert all(not d.anonymous for v in variables for d in v.dimensions)
    assert all(not g.broken for g in groups)


def test_the_first_layout_keeps_documents_of_its_own() -> None:
    assert header(L1).dimensions == (Dimension("lat", 8),)
    assert (header(L1).arrays, header(L1).groups) == (("lat",), ("g1",))
    assert names(variable(L1, "g1/pos")) == [("", "lat"), ("g1", "lon")]
    fill, text = variable(L1, "lat").attributes
    assert (fill.type, fill.value) == (NcType.INT, (-1,))
    assert (text.type, text.value) == (NcType.CHAR, "latitude")


def test_the_first_release_called_two_documents_otherwise_and_wrote_lists() -> None:
    old = dict(L1)
    old["lat/.nczvar"] = old.pop("lat/.nczarray")
    old["lat/.nczattr"] = old.pop("lat/.nczattrs")
    old["lat/.zarray"] = zarray([8], fill_value=[-1])
    old["lat/.zattrs"] = {"_FillValue": [-1], "lat_attr": ["latitude"]}
    new, node = variable(L1, "lat"), variable(old, "lat")
    assert node == new


def test_upper_case_keys_in_the_zarr_documents() -> None:
    assert header(L2U).arrays == ("v", "s", "c")
    assert [a.name for a in header(L2U).attributes] == ["title", "ga"]
    node = variable(L2U, "v")
    assert {a.name: (a.type, a.value) for a in node.attributes if a.name != "nanatt"} == {
        "units": (NcType.CHAR, "K"),
        "byteatt": (NcType.BYTE, (1,)),
        "inf": (NcType.DOUBLE, (-np.inf,)),
        "json": (NcType.CHAR, '{"a": [1,2]}'),
        "num": (NcType.CHAR, "12"),
        "tru": (NcType.CHAR, "true"),
        "quoted": (NcType.CHAR, '"x"'),
    }
    assert names(variable(L2U, "g1/x")) == [("g1", "gd"), ("", "lat")]


def test_text_of_4_9_0_and_before_has_one_byte_an_element() -> None:
    for documents in (L2U, {**L1, "c/.zarray": zarray([8], "<U1", fill_value="")}):
        dtype = variable(documents, "c").array.dtype
        assert (dtype.stored, dtype.nc_type) == (np.dtype("S1"), NcType.CHAR)
        assert dtype.typestr == "<U1"
    # In Zarr as everybody else writes it, it has four.
    pure: dict[str, object] = {".zgroup": ZGROUP, "c/.zarray": zarray([3], "<U1", fill_value="")}
    assert variable(pure, "c").array.dtype.stored == np.dtype("<U1")
    for version, stored in (("4.9.0", "S1"), ("4.8.1", "S1"), ("4.9.1", "<U1"), ("4.10.0", "<U1")):
        properties = {"_NCProperties": f"version=2,netcdf={version},nczarr=2.0.0"}
        node = variable({**pure, ".zattrs": properties}, "c")
        assert node.array.dtype.stored == np.dtype(stored)


@pytest.mark.parametrize("documents", [L2U, L3], ids=["L2U", "L3"])
def test_a_scalar_is_stored_with_one_element_and_has_no_dimension(
    documents: dict[str, object],
) -> None:
    node = variable(documents, "s")
    assert (node.array.shape, node.array.chunk_shape, node.dimensions) == ((), (), ())
    assert node.array.chunk_keys.name(()) == "0"


@pytest.mark.parametrize(
    "attributes",
    [
        {"_nczarr_array": {"dimension_references": [], "scalar": 1, "storage": "chunked"}},
        {"_nczarr_array": {"dimension_references": [], "scalar": 0}},
        {"_nczarr_array": {"storage": "scalar"}},
        {"_ARRAY_DIMENSIONS": ["_scalar_"]},
    ],
)
def test_a_scalar_is_marked_in_one_of_three_ways(attributes: dict[str, object]) -> None:
    assert variable({**L3, "s/.zattrs": attributes}, "s").array.shape == ()


def test_a_scalar_flag_on_an_array_is_a_problem() -> None:
    documents = {**L3, "s/.zarray": zarray([2], "<f8")}
    store = DictDocuments(documents)
    found = FORMATS.detect(store, FormatOptions())
    assert found is not None
    node = found.read_node("s", store)
    assert isinstance(node, Variable)
    assert node.array.shape == (2,)
    assert node.problems[0] == "s/.zarray: marked as a scalar, but the shape is [2]"


def test_lower_case_keys_in_the_zarr_documents() -> None:
    assert [d.name for d in header(L2L).dimensions] == ["d0", "d1"]
    node = variable(L2L, "v")
    assert names(node) == [("", "d0"), ("", "d1")]
    assert node.array.fill_value is None
    assert node.attributes[0].value == (-1,)


def test_all_keys_in_the_attributes() -> None:
    root = header(L3)
    assert root.dimensions == (Dimension("time", 2, unlimited=True), Dimension("lat", 3))
    assert (root.arrays, root.groups) == (("v", "s", "c", "f"), ("g1",))
    assert [(a.name, a.type) for a in root.attributes] == [
        ("pif", NcType.FLOAT),
        ("title", NcType.CHAR),
    ]
    node = variable(L3, "v")
    assert node.dimensions == root.dimensions
    assert node.array.codecs.codecs[0].configuration == {"elementsize": 2}
    assert {a.name: a.value for a in node.attributes if a.type is NcType.CHAR} == {
        "num": "12",
        "tru": "true",
        "arr": "[1,2]",
    }
    assert {a.name: a.value for a in node.attributes if a.type is NcType.STRING} == {
        "strs": ("abc", "de"),
        "str1": ("solo",),
    }
    assert names(variable(L3, "g1/x")) == [("g1", "gd"), ("", "lat")]
    assert names(variable(L3, "g1/y")) == [("g1", "lat")]


def test_text_and_strings_differ_by_the_byte_order() -> None:
    assert variable(L3, "c").array.dtype.nc_type is NcType.CHAR
    assert variable(L3, "f").array.dtype.nc_type is NcType.STRING
    assert variable({**L3, "f/.zarray": zarray([3], "|S1")}, "f").array.dtype.nc_type is (
        NcType.STRING
    )


def test_the_default_fill_value_is_exact() -> None:
    assert variable(L3, "s").array.fill_value == DEFAULT_FILL[NcType.DOUBLE]
    chosen = {**L3, "s/.zattrs": {"_FillValue": 9.96921e36, "_nczarr_array": {"scalar": 1}}}
    assert variable(chosen, "s").array.fill_value == 9.96921e36


def test_keys_are_case_sensitive() -> None:
    text = json.dumps(L3[".zattrs"]).replace("_nczarr_group", "_Nczarr_Group")
    assert header({**L3, ".zattrs": text}).arrays is None


def test_a_sub_group_opened_as_the_root_keeps_the_names() -> None:
    for documents in (L1, L2U, L3):
        below = {
            key.removeprefix("g1/"): value
            for key, value in documents.items()
            if key.startswith("g1/")
        }
        group = read_group(DictDocuments(below))
        assert group.header.format.startswith("nczarr-L")
        found = {v.name: [d.name for d in v.dimensions] for v in group.variables}
        if documents is L1:
            assert found == {"pos": ["lat", "lon"]}
        elif documents is L2U:
            assert found == {"x": ["gd", "lat"]}
        else:
            # Here another "lat" is visible, with another length.
            assert found == {"x": ["gd", "_Anonymous_Dim_3"], "y": ["lat"]}
        assert all(d.group == "" for v in group.variables for d in v.dimensions)
        assert all(v.problems == () for v in group.variables)


def test_an_array_opened_as_the_root_keeps_its_type_and_names() -> None:
    below = {key.removeprefix("c/"): v for key, v in L3.items() if key.startswith("c/")}
    node = variable(below, "")
    assert node.array.dtype.nc_type is NcType.CHAR
    assert names(node) == [("", "lat")]


def test_what_another_program_added_is_read_as_pure_zarr() -> None:
    added = {
        **L3,
        "new/.zarray": zarray([3, 5]),
        "new/.zattrs": {"_ARRAY_DIMENSIONS": ["lat", "k"]},
        "g2/.zgroup": ZGROUP,
    }
    assert names(variable(added, "new")) == [("", "lat"), ("", "k")]
    assert header(added, "g2").arrays is None


def test_a_reference_that_does_not_fit_is_a_problem_of_its_variable_alone() -> None:
    documents = {
        **L3,
        "g1/y/.zattrs": {"_nczarr_array": {"dimension_references": ["/g1/gd"]}},
        "g1/x/.zattrs": {"_nczarr_array": {"dimension_references": "?"}},
    }
    group = read_group(DictDocuments(documents)).groups[0]
    assert [d.name for v in group.variables for d in v.dimensions] == [
        "_Anonymous_Dim_2",
        "_Anonymous_Dim_3",
        "_Anonymous_Dim_4",
    ]
    assert group.variables[0].problems[0].startswith("g1/x/.zattrs: the dimension references")
    assert group.variables[1].problems == (
        "g1/y/.zattrs: dimension '/g1/gd' has length 2, and the shape has 4; it has no name here",
    )


def test_broken_attributes_leave_the_array() -> None:
    store = DictDocuments({**L3, "v/.zattrs": b'{"units": "K"'})
    found = FORMATS.detect(store, FormatOptions())
    assert found is not None
    node = found.read_node("v", store)
    assert isinstance(node, Variable)
    assert node.attributes == ()
    assert [d.name for d in node.dimensions] == ["_Anonymous_Dim_2", "_Anonymous_Dim_3"]
    (problem,) = node.problems
    assert problem.startswith("v/.zattrs: not JSON at character 13")


def test_a_broken_member_does_not_hide_the_others() -> None:
    group = read_group(DictDocuments({**L3, "v/.zarray": b'{"shape": ['}))
    assert [v.name for v in group.variables] == ["s", "c", "f"]
    ((name, why),) = group.broken
    assert name == "v"
    assert why.startswith("v/.zarray: not JSON at character 11")


@pytest.mark.parametrize(
    "info",
    [5, [], "x", {"arrays": 5, "dimensions": 7, "groups": {}}, {"arrays": ["..", "v", "v"]}],
)
def test_a_nonsensical_group_is_shown_with_problems(info: object) -> None:
    node = header({**L3, ".zattrs": {"_nczarr_superblock": {}, "_nczarr_group": info}})
    assert node.problems
    assert all(problem.startswith(".zattrs: ") for problem in node.problems)


def test_a_name_listed_as_array_and_group_is_an_array() -> None:
    info = {"arrays": ["v"], "groups": ["v", "g1"]}
    node = header({**L3, ".zattrs": {"_nczarr_superblock": {}, "_nczarr_group": info}})
    assert (node.arrays, node.groups) == (("v",), ("g1",))
    assert len(node.problems) == 1


def test_attributes_without_types_are_read_by_their_values() -> None:
    attrs: tuple[object, ...] = ({}, {"types": 5}, [], {"types": {"a": 5}})
    for attr in attrs:
        node = header(
            {**L3, "g1/.zattrs": {"a": 1.5, "_nczarr_group": {}, "_nczarr_attr": attr}}, "g1"
        )
        assert [(a.type, a.value) for a in node.attributes] == [(NcType.DOUBLE, (1.5,))]


def test_dimensions_of_a_group_are_read_once_and_again_when_they_change() -> None:
    store = DictDocuments(L3)
    found = FORMATS.detect(store, FormatOptions())
    assert found is not None
    for path in ("v", "c", "f"):
        found.read_node(path, store)
    text = json.dumps(L3[".zattrs"]).replace('"lat": 3', '"lat": 9')
    longer = DictDocuments({**L3, ".zattrs": text, "c/.zarray": zarray([9], ">S1")})
    node = found.read_node("c", longer)
    assert isinstance(node, Variable)
    assert node.dimensions == (Dimension("lat", 9),)


def test_read_as_pure_zarr_the_xarray_names_count_and_types_still_do() -> None:
    store = DictDocuments(L3)
    found = FORMATS.detect(store, FormatOptions(pure=True))
    assert found is not None
    assert found.name == "zarr2"
    v, s, c = (found.read_node(path, store) for path in ("v", "s", "c"))
    assert isinstance(v, Variable)
    assert [(d.name, d.unlimited) for d in v.dimensions] == [("time", False), ("lat", False)]
    assert {a.name: a.value for a in v.attributes}["num"] == ("12",)
    assert isinstance(s, Variable)
    assert s.array.shape == ()
    assert isinstance(c, Variable)
    assert c.array.dtype.nc_type is NcType.STRING
    found = FORMATS.detect(store, FormatOptions(pure=True, xarray=False))
    assert found is not None
    v = found.read_node("v", store)
    assert isinstance(v, Variable)
    assert [d.name for d in v.dimensions] == ["_Anonymous_Dim_2", "_Anonymous_Dim_3"]


def test_an_array_ends_where_its_unlimited_dimension_does() -> None:
    header = {"dimensions": {"t": {"size": 2, "unlimited": 1}, "x": 3}, "arrays": ["v"]}
    documents = DictDocuments(
        {
            ".zgroup": ZGROUP,
            ".zattrs": {"_nczarr_superblock": {"version": "2.0.0"}, "_nczarr_group": header},
            "v/.zarray": zarray([5, 3]) | {"chunks": [1, 3]},
            "v/.zattrs": {"_nczarr_array": {"dimension_references": ["/t", "/x"]}},
        }
    )
    (v,) = read_group(documents).variables
    assert v.array.shape == (2, 3)
    assert v.array.chunk_shape == (1, 3)
    assert [(d.name, d.size, d.unlimited) for d in v.dimensions] == [
        ("t", 2, True),
        ("x", 3, False),
    ]
    assert v.problems == (
        "v/.zattrs: dimension '/t' has length 2, and the shape has 5; the rest is ignored",
    )
