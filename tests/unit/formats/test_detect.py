from __future__ import annotations

import pytest

from nczfs.errors import BadMetadata, Unsupported, UsageError
from nczfs.formats.base import FormatOptions
from nczfs.formats.registry import FORMATS, options_of
from nczfs.model.hierarchy import GroupHeader, Variable
from nczfs.testing.documents import DictDocuments

ARRAY = {"zarr_format": 2, "shape": [2], "chunks": [2], "dtype": "<i4", "fill_value": 0}
GROUP = {"zarr_format": 2}
GROUP_3 = {"zarr_format": 3, "node_type": "group"}


def name_of(documents: dict[str, object], options: FormatOptions | None = None) -> str | None:
    found = FORMATS.detect(DictDocuments(documents), options or FormatOptions())
    return found.name if found is not None else None


@pytest.mark.parametrize(
    ("documents", "name"),
    [
        ({}, None),
        ({"a/.zgroup": GROUP, "a/.zattrs": {}, "b": b"x"}, None),
        ({".zgroup": GROUP}, "zarr2"),
        ({".zarray": ARRAY}, "zarr2"),
        ({".zattrs": {"a": 1}}, "zarr2"),
        ({"zarr.json": GROUP_3}, "zarr3"),
        ({"zarr.json": GROUP_3, ".zattrs": {}}, "zarr3"),
        ({"zarr.json": GROUP_3, ".zgroup": GROUP, ".zattrs": {"_nczarr_group": {}}}, "zarr3"),
        ({".zgroup": GROUP, ".zattrs": {"_NCProperties": "version=2,netcdf=4.10.1"}}, "zarr2"),
        ({".zgroup": GROUP, ".nczarr": {}}, "nczarr-L1"),
        ({".zgroup": GROUP, ".nczgroup": {"dims": {}}}, "nczarr-L1"),
        ({".zgroup": GROUP | {"_NCZARR_SUPERBLOCK": {}}}, "nczarr-L2U"),
        ({".zgroup": GROUP | {"_NCZARR_GROUP": {}}}, "nczarr-L2U"),
        ({".zarray": ARRAY | {"_NCZARR_ARRAY": {}}}, "nczarr-L2U"),
        ({".zgroup": GROUP | {"_nczarr_superblock": {}}}, "nczarr-L2l"),
        ({".zgroup": GROUP, ".zattrs": {"_nczarr_superblock": {}}}, "nczarr-L3"),
        ({".zgroup": GROUP, ".zattrs": {"_nczarr_group": {}}}, "nczarr-L3"),
        ({".zarray": ARRAY, ".zattrs": {"_nczarr_array": {}}}, "nczarr-L3"),
        ({".zgroup": GROUP, ".zattrs": {"_Nczarr_Group": {}}}, "zarr2"),
        ({".zgroup": b"broken", ".zattrs": {"_nczarr_superblock": {}}}, "nczarr-L3"),
        ({".zgroup": GROUP, ".zattrs": b"broken"}, "zarr2"),
    ],
)
def test_the_keys_at_the_root_tell_the_format(
    documents: dict[str, object], name: str | None
) -> None:
    assert name_of(documents) == name


def test_only_root_keys_are_asked_for() -> None:
    for root in ({}, {".zgroup": GROUP}, {".zarray": ARRAY}):
        documents = DictDocuments(root)
        FORMATS.detect(documents, FormatOptions())
        assert set(documents.asked) <= set(FORMATS.at_root)


def test_a_root_of_another_version_is_refused() -> None:
    with pytest.raises(BadMetadata, match=r"^zarr\.json: zarr_format is missing$"):
        name_of({".zgroup": GROUP, "zarr.json": b"{}"})
    with pytest.raises(Unsupported, match=r"^zarr\.json: zarr_format is 4, not 3$"):
        name_of({"zarr.json": GROUP_3 | {"zarr_format": 4}})
    with pytest.raises(Unsupported, match=r"^\.zgroup: zarr_format is 3, not 2$"):
        name_of({".zgroup": {"zarr_format": 3}})


def test_a_broken_array_at_the_root_is_an_error() -> None:
    with pytest.raises(BadMetadata, match=r"^\.zarray: not JSON"):
        name_of({".zarray": b"{'a': 1}"})


def test_the_url_can_ask_for_pure_zarr() -> None:
    documents: dict[str, object] = {".zgroup": GROUP, ".zattrs": {"_nczarr_superblock": {}}}
    assert name_of(documents, options_of(frozenset({"zarr"}))) == "zarr2"
    assert name_of(documents, options_of(frozenset({"nczarr", "file"}))) == "nczarr-L3"


@pytest.mark.parametrize(
    ("modes", "xarray", "pure"),
    [
        ("", True, False),
        ("nczarr s3", True, False),
        ("zarr", True, True),
        ("xarray", True, True),
        ("noxarray", False, True),
        ("nczarr noxarray", False, True),
    ],
)
def test_mode_words_mean_what_netcdf_c_makes_of_them(modes: str, xarray: bool, pure: bool) -> None:
    assert options_of(frozenset(modes.split())) == FormatOptions(xarray=xarray, pure=pure)


def test_a_root_may_be_an_array() -> None:
    documents = DictDocuments({".zarray": ARRAY, ".zattrs": {"_ARRAY_DIMENSIONS": ["x"]}})
    found = FORMATS.detect(documents, FormatOptions())
    assert found is not None
    node = found.read_node("", documents)
    assert isinstance(node, Variable)
    assert (node.path, node.key, node.dimensions[0].name) == ("", "", "x")


def test_an_array_wins_over_a_group_at_one_place() -> None:
    documents = DictDocuments({".zgroup": GROUP, "a/.zgroup": GROUP, "a/.zarray": ARRAY})
    found = FORMATS.detect(documents, FormatOptions())
    assert found is not None
    assert isinstance(found.read_node("a", documents), Variable)


def test_a_prefix_without_a_document_of_its_own_is_no_node() -> None:
    documents = DictDocuments({".zgroup": GROUP, "a/.zattrs": {}, "a/b/.zgroup": GROUP})
    found = FORMATS.detect(documents, FormatOptions())
    assert found is not None
    assert found.read_node("a", documents) is None
    assert isinstance(found.read_node("a/b", documents), GroupHeader)


def test_formats_of_new_datasets_have_the_names_by_which_they_are_told() -> None:
    netcdf = ("nczarr-L3", "nczarr-L2l", "nczarr-L2U", "nczarr-L1")
    assert FORMATS.names == ("zarr3", *netcdf, "zarr2")
    for name in FORMATS.names:
        assert FORMATS.named(name, FormatOptions()).name == name
    assert FORMATS.named("nczarr", FormatOptions()).name == "nczarr-L3"
    assert FORMATS.named("zarr", FormatOptions()).name == "zarr2"


def test_an_unknown_format_is_refused_with_a_list_of_the_known_ones() -> None:
    with pytest.raises(
        UsageError, match=r"'hdf5' is not a metadata format.* zarr3, nczarr-L3, .*, zarr2, nczarr"
    ):
        FORMATS.named("hdf5", FormatOptions())
