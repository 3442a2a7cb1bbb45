"""Other programs' documents survive when one of their members is changed here.

The reference data are named by ``NCZFS_REFERENCE_DATA`` alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from nczfs.errors import MetadataError
from nczfs.formats.base import FormatOptions, MetadataFormat, Node
from nczfs.formats.jsontext import compact, parse_object
from nczfs.formats.registry import FORMATS
from nczfs.model.dtypes import NcType
from nczfs.model.hierarchy import Attribute
from nczfs.testing.documents import DictDocuments, documents_in

PLACE = os.environ.get("NCZFS_REFERENCE_DATA")
ROOT = Path(PLACE or ".")
# Its own notes: "deliberately invalid JSON".
BROKEN = "array_attrs.zarr"

READINGS = {
    "as-it-is": FormatOptions(),
    "pure": FormatOptions(pure=True),
    "without-xarray": FormatOptions(xarray=False, pure=True),
}


def stores() -> list[Path]:
    """The roots of all Zarr v2 datasets: directories with a document, and zip archives."""
    if not PLACE:
        return []
    with_document = {f.parent for name in (".zgroup", ".zarray") for f in ROOT.rglob(name)}
    # Nodes that Zarr v3 describes as well are not changed (SEMANTICS W65).
    with_document = {place for place in with_document if not (place / "zarr.json").exists()}
    roots = {p for p in with_document if with_document.isdisjoint(p.parents)}
    archives = {p for p in ROOT.rglob("*.zip") if "v3" not in p.as_posix()}
    return sorted(place for place in roots | archives if place.name != BROKEN)


def stores_of_zarr_3() -> list[Path]:
    if not PLACE:
        return []
    places = {file.parent for file in ROOT.rglob("zarr.json")}
    # Nodes that Zarr v2 describes as well are not changed (SEMANTICS W65).
    old = (".zgroup", ".zarray")
    places = {place for place in places if not any((place / name).exists() for name in old)}
    return sorted(place for place in places if places.isdisjoint(place.parents))


def nodes(found: MetadataFormat, documents: DictDocuments) -> Iterator[Node]:
    for path in sorted({key.rpartition("/")[0] for key in documents.keys()}):  # noqa: SIM118
        try:
            node = found.read_node(path, documents)
        except MetadataError:
            continue
        if node is not None:
            yield node


def spelled(data: bytes | None) -> list[tuple[str, str]]:
    """The members of a document in their order, each as it is spelled."""
    members = parse_object(data, "k")[0] if data is not None else {}
    return [(name, compact(value)) for name, value in members.items()]


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("store", stores(), ids=lambda p: p.relative_to(ROOT).as_posix())
def test_only_what_changes_is_written(store: Path, reading: str) -> None:
    options = READINGS[reading]
    documents = documents_in(store)
    found = FORMATS.detect(documents, options)
    assert found is not None
    seen = list(nodes(found, documents))
    assert seen
    for node in seen:
        assert found.write_node(node, documents) == ()
        new = Attribute("new here", NcType.SHORT, (1, 2))
        wanted = replace(node, attributes=(*node.attributes, new))
        written = dict(found.write_node(wanted, documents))
        prefix = f"{node.path}/" if node.path else ""
        assert set(written) <= {f"{prefix}.zattrs", f"{prefix}.nczattrs", f"{prefix}.nczattr"}
        before = spelled(documents.get(f"{prefix}.zattrs"))
        after = [
            member for member in spelled(written[f"{prefix}.zattrs"]) if member[0] != "new here"
        ]
        types = ("_nczarr_attr", "_NCZARR_ATTR")
        assert [m for m in after if m[0] not in types] == [m for m in before if m[0] not in types]
        copy = documents_in(store)
        copy.write(written.items())
        again = found.read_node(node.path, copy)
        assert again is not None
        assert repr(again.attributes[: len(node.attributes)]) == repr(node.attributes)
        assert again.attributes[-1].value == (1, 2)
        assert repr(replace(again, attributes=())) == repr(replace(node, attributes=()))


@pytest.mark.parametrize(
    "store", stores_of_zarr_3(), ids=lambda place: place.relative_to(ROOT).as_posix()
)
def test_only_what_changes_is_written_in_zarr_3(store: Path) -> None:
    documents = documents_in(store)
    found = FORMATS.detect(documents, FormatOptions())
    assert found is not None
    seen = list(nodes(found, documents))
    assert seen
    for node in seen:
        assert found.write_node(node, documents) == ()
        new = Attribute("new here", NcType.SHORT, (1, 2))
        wanted = replace(node, attributes=(*node.attributes, new))
        ((key, data),) = found.write_node(wanted, documents)
        assert key == f"{node.path}/zarr.json".lstrip("/")
        before, after = dict(spelled(documents.get(key))), dict(spelled(data))
        attributes = parse_object(data, key)[0]["attributes"]
        assert isinstance(attributes, dict)
        kept = {name: value for name, value in attributes.items() if name != "new here"}
        assert after | {"attributes": compact(kept)} == {"attributes": "{}", **before}
        copy = documents_in(store)
        copy.write([(key, data)])
        again = found.read_node(node.path, copy)
        assert again is not None
        changed = {attribute.name: attribute for attribute in again.attributes}
        assert changed.pop("new here").value == (1, 2)
        assert repr(tuple(changed.values())) == repr(node.attributes)
        assert repr(replace(again, attributes=())) == repr(replace(node, attributes=()))
