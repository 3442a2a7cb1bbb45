"""A mount that is killed between two steps of an ``info.json`` that is copied into a bucket."""

from __future__ import annotations

import itertools
from contextlib import closing
from pathlib import Path

import pytest

import nczfs
from nczfs.zmap.keys import ROOT
from nczfs.zmap.registry import open_store
from tests.fuse.test_hierarchies import run
from tests.support.killedcommands import DECLARATION, is_copied_before
from tests.support.mounts import mounted
from tests.support.places import bucket_of
from tests.support.servers import Faults
from tests.support.settled import files_in

FORMATS = ("zarr2", "nczarr-L1", "nczarr-L3", "zarr3")


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
@pytest.mark.parametrize("metadata_format", FORMATS)
def test_a_kill_leaves_the_group_or_the_variable_and_the_same_copy_completes_it(
    ceph_with_faults: Faults, tmp_path: Path, metadata_format: str, method: str
) -> None:
    """SEMANTICS W13."""
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
            root.create_group("v").attrs["title"] = "T"
        fault = f"status:503 {method} path=/{name}/ skip={step}"
        copy = f"{name}/v/info.json"
        is_whole = is_copied_before(fault, ceph_with_faults, place, spool, document, copy)
        _check_left(place.url_of(name), is_whole=is_whole)
        with mounted(place.url, "--spool-dir", str(spool), "--views", "copy") as path:
            again = run("cp", document, path / "datasets" / copy)
            assert (again.returncode, again.stderr) == (0, "")
        _check_left(place.url_of(name), is_whole=True)
        with closing(open_store(place.url_of(name))) as store:
            assert {"v/.zgroup", "v/.nczgroup"}.isdisjoint(
                str(stat.key) for stat in store.list(ROOT)
            )
        assert place.findings(name) == []
        assert files_in(spool) == []
    assert step > (1 if method == "PUT" else 0)


def _check_left(url: str, *, is_whole: bool) -> None:
    """The node is the group, or the variable, with the attributes of the group."""
    with nczfs.open(url) as root:
        assert root.variables["other"].shape == ()
        if "v" in root.variables:
            assert root.variables["v"].shape == (4,)
            assert root["v"].attrs["units"] == "m"
        else:
            assert not is_whole
            assert "v" in root.groups
        assert root["v"].attrs["title"] == "T"
