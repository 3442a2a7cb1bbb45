"""What is missing, and made by another client: `.nczfs/refresh` shows it at once."""

from __future__ import annotations

from pathlib import Path

import pytest

import nczfs
from tests.support.settled import settled


@pytest.mark.parametrize(
    ("refreshed", "paths"),
    [
        ("objects/new.zarr", ["objects/new.zarr", "datasets/new.zarr"]),
        ("datasets/new.zarr", ["datasets/new.zarr", "objects/new.zarr"]),
        ("objects/far/below/new.zarr", ["objects/far", "datasets/far/below/new.zarr/v"]),
        ("datasets/d.zarr/w", ["datasets/d.zarr/w/values.raw", "objects/d.zarr/w"]),
        ("", ["objects/new.zarr", "datasets/new.zarr"]),
    ],
)
def test_what_another_client_has_made_is_there_after_a_refresh(
    tmp_path: Path, refreshed: str, paths: list[str]
) -> None:
    """SEMANTICS N2."""
    store = tmp_path / "store"
    store.mkdir()
    with nczfs.open(str(store / "d.zarr"), "w") as root:
        root.create_variable("v", (4,), "i4", fillvalue=0)
    options = ("--metadata-ttl", "1h", "--negative-metadata-ttl", "1h")
    with settled(store, tmp_path / "spool", *options) as mount:
        for path in paths:
            assert not (mount.path / path).exists()
        target = store / (refreshed.partition("/")[2] or "new.zarr")
        target.parent.mkdir(parents=True, exist_ok=True)
        is_variable = target.name == "w"
        place, name, mode = (target.parent, "w", "r+") if is_variable else (target, "v", "w")
        with nczfs.open(str(place), mode) as root:
            root.create_variable(name, (4,), "i4", fillvalue=0)
        for path in paths:
            assert not (mount.path / path).exists(), "or else this shows nothing"
        (mount.path / ".nczfs/refresh").write_text(f"{refreshed}\n")
        for path in paths:
            assert (mount.path / path).exists()
