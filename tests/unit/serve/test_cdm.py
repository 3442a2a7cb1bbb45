"""What CDM Remote keeps between requests."""

from __future__ import annotations

from contextlib import closing
from io import BytesIO
from pathlib import Path

import numpy as np

import nczfs
from nczfs.engine.options import EngineOptions
from nczfs.ncstream import Array, read
from nczfs.serve.budget import Budget
from nczfs.serve.cdm import CdmQuery, CdmRemote
from nczfs.serve.store import ServedStore
from nczfs.views.ncstream.header import stream_header
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


def test_no_piece_of_an_answer_is_longer_than_a_block(tmp_path: Path) -> None:
    """SEMANTICS V6. Structures and elements of any length are no exception."""
    table = np.dtype([("a", "i4"), ("b", "f8", (2,))])
    rows = np.zeros(1 << 19, table)
    rows["a"] = np.arange(1 << 19)
    long = np.array(["x" * 500] * 10_000, object)
    with nczfs.open(str(tmp_path / "d.zarr"), "w", format="zarr2") as made:
        made.create_variable("rows", rows.shape, table, rows, chunks=(1000,))
        made.create_variable("long", long.shape, str, long, chunks=(100,))
    with closing(ServedStore(str(tmp_path), StoreOptions(), EngineOptions())) as store:
        budget = Budget()
        remote = CdmRemote(store, budget)
        for name, expected in (("rows", rows), ("long", long)):
            pieces = list(remote.answer("d.zarr", CdmQuery("data", name), "http://x/").pieces)
            assert max(map(len, pieces)) <= budget.block_bytes
            data = BytesIO(b"".join(map(bytes, pieces)))
            header = stream_header(remote.content(store.group("d.zarr")))
            found = [each.values for each in read(data, header=header) if isinstance(each, Array)]
            assert np.array_equal(np.concatenate(found).astype(expected.dtype), expected)
