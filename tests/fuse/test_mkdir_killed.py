"""A mount that is killed between two steps of a ``mkdir`` in a bucket."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

import nczfs
from tests.fuse.test_hierarchies import run
from tests.support.killedcommands import DECLARATION, is_done_before
from tests.support.mounts import mounted
from tests.support.places import bucket_of
from tests.support.servers import Faults
from tests.support.settled import files_in


@pytest.mark.parametrize("metadata_format", ["zarr2", "nczarr-L1", "nczarr-L3", "zarr3"])
def test_what_a_kill_leaves_of_a_group_is_in_nobodys_way(
    ceph_with_faults: Faults, tmp_path: Path, metadata_format: str
) -> None:
    """SEMANTICS W105."""
    place, spool = bucket_of(ceph_with_faults.server), tmp_path / "spool"
    document = tmp_path / "new.json"
    document.write_text(DECLARATION)
    is_whole = False
    for step in itertools.count():
        if is_whole:
            break
        name = f"n{step}.zarr"
        with nczfs.open(place.url_of(name), "w", format=metadata_format) as root:
            root.create_variable("other", (), "f8")
        fault = f"status:503 PUT path=/{name}/ skip={step}"
        is_whole = is_done_before(fault, ceph_with_faults, place, spool, ["mkdir"], f"{name}/v")
        with mounted(place.url, "--spool-dir", str(spool), "--views", "copy") as path:
            directory = path / "datasets" / name / "v"
            is_there = directory.exists()
            assert is_there or not is_whole
            assert (run("mkdir", directory).returncode == 0) == (not is_there)
            made = run("cp", document, directory / "info.json")
            assert (made.returncode, made.stderr) == (0, "")
        with nczfs.open(place.url_of(name)) as root:
            assert {*root.variables} == {"other", "v"}
            assert root.variables["v"].shape == (4,)
        assert place.findings(name) == []
        assert files_in(spool) == []
    assert step > 1
