"""Which group or array an object belongs to, by its name."""

from __future__ import annotations

import pytest

from nczfs.vfs.datasets.nodeprefix import node_prefix


@pytest.mark.parametrize(
    ("key", "node"),
    [
        ("d.zarr/v/0.0.1", "d.zarr/v"),
        ("d.zarr/v/0/0/1", "d.zarr/v"),
        ("d.zarr/v/c/0/1", "d.zarr/v"),
        ("d.zarr/v/c.0.1", "d.zarr/v"),
        ("d.zarr/v/c", "d.zarr/v"),
        ("d.zarr/v/.zarray", "d.zarr/v"),
        ("d.zarr/v/zarr.json", "d.zarr/v"),
        ("d.zarr/.zmetadata", "d.zarr"),
        (".nczgroup", ""),
        ("0.0", ""),
        ("notes/readme.txt", "notes/readme.txt"),
        ("d.zarr.zip", "d.zarr.zip"),
    ],
)
def test_a_name_tells_the_node(key: str, node: str) -> None:
    """SEMANTICS O14."""
    assert node_prefix(key) == node
