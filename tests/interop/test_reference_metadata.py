"""The metadata that other programs wrote are read as their notes say.

The reference data are named by ``NCZFS_REFERENCE_DATA`` alone.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nczfs.cdl.printer import header
from nczfs.errors import BadMetadata
from nczfs.formats.base import FormatOptions
from nczfs.formats.consolidated import ConsolidatedDocuments
from nczfs.formats.registry import FORMATS
from nczfs.formats.zarr2.consolidated import FORM, KEY, read_consolidated
from nczfs.model.hierarchy import Group, Variable
from nczfs.testing.documents import DictDocuments, documents_in, read_group

PLACE = os.environ.get("NCZFS_REFERENCE_DATA")
ROOT = Path(PLACE or ".")

CDL = {
    "nczarr_test/ref_oldkeys.file.zip": "nczarr_test/ref_oldkeys.cdl",
    "nczarr_test/ref_oldformat.zip": "nczarr_test/ref_oldformat.cdl",
    "old-releases/v4.9.2-ref_oldformat.zip": "old-releases/v4.9.2-ref_oldformat.cdl",
    "nczarr_test/ref_byte.zarr.zip": "nczarr_test/ref_byte.cdl",
    "nczarr_test/ref_power_901_constants_orig.zip": "nczarr_test/ref_power_901_constants.cdl",
}
LAYOUTS = {
    "nczarr_test/ref_oldkeys.file.zip": "nczarr-L2l",
    "nczarr_test/ref_oldformat.zip": "nczarr-L3",
    "old-releases/v4.9.2-ref_oldformat.zip": "nczarr-L1",
    "nczarr_test/ref_byte.zarr.zip": "zarr2",
    "nczarr_test/ref_power_901_constants_orig.zip": "zarr2",
}
STALE = {"group_with_zmetadata.zarr": ["foo/unexpected/.zattrs"]}
# Its own notes: "deliberately invalid JSON: must fail softly".
REFUSED_BY_GDAL = {"array_attrs.zarr"}


def zarr_cases() -> list[Path]:
    return sorted(ROOT.glob("zarr/v2-*")) if PLACE else []


def gdal_cases(pattern: str = "*.zarr") -> list[Path]:
    return sorted(ROOT.glob(f"gdal-zarr/{pattern}")) if PLACE else []


def cdl_cases() -> list[str]:
    return list(CDL) if PLACE else []


def variables_in(group: Group) -> Iterator[Variable]:
    yield from group.variables
    for child in group.groups:
        yield from variables_in(child)


def nodes_in(documents: DictDocuments) -> dict[str, Variable]:
    """All variables by path; "@" is an array at the root."""
    found = FORMATS.detect(documents, FormatOptions())
    assert found is not None
    root = found.read_node("", documents)
    if isinstance(root, Variable):
        return {"@": root}
    return {variable.path: variable for variable in variables_in(read_group(documents))}


def header_lines(text: str) -> list[str]:
    """The lines of CDL without values, virtual attributes, blanks and the name of the file."""
    lines: list[str] = []
    in_data = False
    for line in text.splitlines()[1:]:
        if re.match(r"\s*data:", line):
            in_data = True
        elif re.match(r"\s*(group:|\})", line):
            in_data = False
        if not in_data and line.strip() and not re.search(r":_(Storage|ChunkSizes|Format) =", line):
            lines.append(line.strip())
    # A heading that only virtual attributes stood below.
    while lines[-2:] == ["// global attributes:", "}"]:
        del lines[-2]
    return lines


@pytest.mark.parametrize("case", cdl_cases())
def test_headers_are_those_that_ncdump_printed(case: str) -> None:
    place = ROOT / "netcdf-c"
    group = read_group(documents_in(place / case))
    expected = (place / CDL[case]).read_text()
    assert header_lines(header(group, name="x")) == header_lines(expected)
    assert group.header.format == LAYOUTS[case]
    assert not any(variable.problems for variable in variables_in(group))


@pytest.mark.parametrize("case", zarr_cases(), ids=lambda case: case.name)
def test_arrays_of_zarr_python_and_tensorstore_are_what_they_say(case: Path) -> None:
    expected = json.loads((case / "expected.json").read_text())
    found = nodes_in(documents_in(case / expected["store"]))
    missing = [name for name in expected["arrays"] if name not in found]
    assert missing == []
    for name, told in expected["arrays"].items():
        variable = found[name]
        assert variable.problems == ()
        assert list(variable.array.shape) == told["shape"]
        typestr = variable.array.dtype.typestr
        if typestr.startswith("["):
            assert json.loads(typestr) == told["dtype"]
        elif typestr != "|O":
            # Some tell the type of the values that were read, in this machine's byte order.
            native = np.dtype(told["dtype"]).newbyteorder("=")
            assert np.dtype(typestr).newbyteorder("=") == native
        for attribute in variable.attributes:
            if attribute.name in told.get("attributes", {}):
                assert plain_value(attribute.value) == told["attributes"][attribute.name]


def plain_value(value: Any) -> Any:
    return value if not isinstance(value, tuple) else value[0] if len(value) == 1 else list(value)


def consolidated_cases() -> list[Path]:
    # What kerchunk calls .zmetadata is another format.
    found = sorted(path.parent for path in ROOT.rglob(KEY)) if PLACE else []
    return [place for place in found if "kerchunk" not in place.as_posix()]


@pytest.mark.parametrize(
    "case", consolidated_cases(), ids=lambda case: case.relative_to(ROOT).as_posix()
)
def test_consolidated_metadata_say_the_same_as_the_single_documents(case: Path) -> None:
    store = documents_in(case)
    data = store.get(KEY)
    assert data is not None
    view = ConsolidatedDocuments(store, FORM, read_consolidated(data))
    keys = view.consolidated_keys()
    stale = [key for key in keys if view.is_stale(key, store.get(key))]
    assert stale == STALE.get(case.name, [])
    found = FORMATS.detect(view, FormatOptions())
    assert found is not None
    for path, variable in nodes_in(store).items():
        assert repr(found.read_node(path, view)) == repr(variable)


@pytest.mark.parametrize("case", gdal_cases(), ids=lambda case: case.name)
def test_the_edge_cases_of_gdal_open_or_are_refused(case: Path) -> None:
    documents = documents_in(case)
    if case.name in REFUSED_BY_GDAL:
        with pytest.raises(BadMetadata, match=r"^\.zarray: not JSON at character"):
            FORMATS.detect(documents, FormatOptions())
        return
    found = nodes_in(documents)
    arrays = [key for key in documents.keys() if key.rpartition("/")[2] == ".zarray"]  # noqa: SIM118
    assert len(found) == len(arrays)
    assert all(variable.problems == () for variable in found.values())


@pytest.mark.parametrize("case", gdal_cases("nczarr_v2.zarr"), ids=lambda case: case.name)
def test_nczarr_of_4_8_1_in_nested_groups(case: Path) -> None:
    root = read_group(documents_in(case))
    assert root.header.format == "nczarr-L2U"
    (outer,) = root.groups
    (inner,) = outer.groups
    dset2, dset3 = inner.variables
    assert [(d.group, d.name) for d in dset2.dimensions] == [
        ("MyGroup", "lat"),
        ("MyGroup", "lon"),
    ]
    assert [(d.group, d.name) for d in dset3.dimensions] == [
        ("MyGroup/Group_A", "lat"),
        ("MyGroup/Group_A", "lon"),
    ]


@pytest.mark.parametrize("case", gdal_cases("compound_*.zarr"), ids=lambda case: case.name)
def test_structured_types_of_gdal_are_packed(case: Path) -> None:
    for variable in nodes_in(documents_in(case)).values():
        stored = variable.array.dtype.stored
        assert stored.names is not None
        assert stored.itemsize == sum(stored[name].itemsize for name in stored.names)
