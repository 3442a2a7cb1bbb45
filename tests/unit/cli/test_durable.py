"""``--durable``, on the command line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nczfs.cli.main import main


def test_what_a_command_wrote_survives_a_power_failure_when_that_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    assert main(["create", str(tmp_path / "quick.zarr")]) == 0
    assert synced == []
    assert main(["create", "--durable", str(tmp_path / "safe.zarr")]) == 0
    assert len(synced) > 1
