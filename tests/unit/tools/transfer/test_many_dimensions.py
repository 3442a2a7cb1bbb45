"""Copies of groups that declare very many dimensions."""

from __future__ import annotations

import json
from pathlib import Path

import nczfs
from tests.support.calls import counted_calls
from tests.support.copies import copied


def declaring(place: Path, count: int) -> str:
    """A dataset whose root and a group in it declare so many dimensions each."""
    dimensions = {f"d{number}": number + 1 for number in range(count)}
    for path, groups in (".", ["g"]), ("g", []):
        node = place / path
        node.mkdir(parents=True)
        (node / ".zgroup").write_text('{"zarr_format": 2}')
        attributes = {"_nczarr_group": {"dimensions": dimensions, "arrays": [], "groups": groups}}
        if groups:
            attributes["_nczarr_superblock"] = {"version": "2.0.0"}
        (node / ".zattrs").write_text(json.dumps(attributes))
    return str(place)


def test_twice_as_many_dimensions_take_twice_the_work(tmp_path: Path) -> None:
    work = []
    for count in (300, 600):
        source, target = declaring(tmp_path / f"s{count}", count), str(tmp_path / f"t{count}")
        with counted_calls() as calls:
            copied(source, target)
        work.append(calls.total())
        with nczfs.open(target) as root:
            assert len(root.dimensions) == len(root["g"].dimensions) == count
    assert work[1] < 2.3 * work[0], work
