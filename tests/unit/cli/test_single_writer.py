"""``--single-writer``, on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

import pytest

from nczfs.buffers import Buffer
from nczfs.cli.main import main
from nczfs.engine.lease.contention import LEASE
from nczfs.zmap.base import Version, WriteOptions
from nczfs.zmap.directory import DirectoryZMap
from nczfs.zmap.keys import Key


def test_commands_take_a_lease_where_conditions_do_not_hold_unless_told_to_trust(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SEMANTICS W45."""
    leased: list[bool] = []
    write = DirectoryZMap.write

    def noted(
        zmap: DirectoryZMap, key: Key, data: Buffer, **options: Unpack[WriteOptions]
    ) -> Version:
        leased.append((tmp_path / "x.zarr" / LEASE).exists())
        return write(zmap, key, data, **options)

    monkeypatch.setattr(DirectoryZMap, "write", noted)
    target = str(tmp_path / "x.zarr")
    assert main(["create", target]) == 0
    assert not any(leased)
    monkeypatch.setattr("nczfs.zmap.directory.store.can_lock", lambda _: False)
    leased.clear()
    assert main(["create", "--overwrite", "--single-writer", "trust", target]) == 0
    assert not any(leased)
    leased.clear()
    assert main(["create", "--overwrite", target]) == 0
    assert leased[-1]
    assert not (tmp_path / "x.zarr" / LEASE).exists()
    leased.clear()
    assert main(["rm", "-r", target]) == 0
    assert leased == [False, True]  # the claim, and that it holds
