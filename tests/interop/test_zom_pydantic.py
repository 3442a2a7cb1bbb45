"""Hierarchies of other programs' stores, through pydantic-zarr's models and back.

The reference data are named by ``NCZFS_REFERENCE_DATA`` alone.
"""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pydantic_zarr.v2
import pydantic_zarr.v3
import pytest

from nczfs.errors import MetadataError, NotADataset
from nczfs.formats.registry import FORMATS
from nczfs.zom import ArrayV2, ArrayV3, Node, dumps, from_store, loads
from tests.support.reference import reference_root

ROOT = reference_root()

REFUSED = {
    "gdal-zarr/nczarr_v2.zarr": "unknown members of .zarray, which Zarr v2 permits",
    "zarr/v2-foreign-keys/data.zarr": "the same",
    "zarr/v3-fill/data.zarr": "fill values of complex numbers, which are lists",
    "zarr/v3-must-understand/data.zarr": "unknown members that need not be understood",
    "zarr/v3-shorthand/data.zarr": "must_understand of a codec",
}
"""What pydantic-zarr 0.9 does not read."""


def stores(root: Path) -> list[Path]:
    """The directories with the root of a hierarchy."""
    places = {path.parent for name in FORMATS.nodes for path in root.rglob(name)}
    return sorted(place for place in places if places.isdisjoint(place.parents))


def through_pydantic(node: Node) -> Node:
    models: ModuleType = pydantic_zarr.v2 if node.zarr_format == 2 else pydantic_zarr.v3
    model = models.ArraySpec if isinstance(node, ArrayV2 | ArrayV3) else models.GroupSpec
    return loads(model.model_validate_json(dumps(node)).model_dump_json())


@pytest.mark.skipif(ROOT is None, reason="NCZFS_REFERENCE_DATA is not set")
def test_every_hierarchy_is_the_same_after_pydantic_zarr() -> None:
    assert ROOT is not None
    refused, equal = set(), 0
    for store in stores(ROOT):
        try:
            node = from_store(str(store)).node
        except (MetadataError, NotADataset):  # made to be broken
            continue
        try:
            assert through_pydantic(node) == node, store
            equal += 1
        except ValueError:  # that of pydantic is one
            refused.add(store.relative_to(ROOT).as_posix())
    assert refused == set(REFUSED)
    assert equal > 60
