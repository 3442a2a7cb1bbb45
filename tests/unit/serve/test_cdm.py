"""What CDM Remote keeps between requests."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import nczfs
from nczfs.engine.options import EngineOptions
from nczfs.serve.budget import Budget
from nczfs.serve.cdm import CdmRemote
from nczfs.serve.store import ServedStore
from nczfs.zmap.registry import StoreOptions


def test_what_a_group_shows_is_made_again_only_if_the_group_has_changed(tmp_path: Path) -> None:
    place = str(tmp_path / "d.zarr")
    with nczfs.open(place, "w", format="zarr3") as made:
        made.create_dimension("x", 2)
        made.create_variable("v", ("x",), "f4", attributes={"units": "K"})
        made.create_group("g").create_variable("v", ("x",), "i2")
    options = EngineOptions(metadata_ttl_s=0.0)
    with closing(ServedStore(str(tmp_path), StoreOptions(), options)) as store:
        remote = CdmRemote(store, Budget())
        first = remote.content(store.group("d.zarr"))
        inner = remote.content(store.group("d.zarr/g"))
        assert remote.content(store.group("d.zarr")) is first
        assert remote.content(store.group("d.zarr/g")) is inner
        with nczfs.open(place, "r+") as opened:
            opened.variables["v"].attrs["units"] = "m"
        (v,) = remote.content(store.group("d.zarr")).root.variables
        assert [a.value for a in v.attributes if a.name == "units"] == ["m"]
        assert remote.content(store.group("d.zarr/g")) is inner
