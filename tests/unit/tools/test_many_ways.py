"""Groups that links in a directory multiply: forty directories, and a million million paths."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nczfs.cli.main import main
from nczfs.testing.datasets import put_group
from nczfs.zmap.registry import open_store

LEVELS = 40


@pytest.fixture
def many_ways(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A dataset of forty groups, each with two links to the next one."""
    for limit in ("engine.metadata.room", "tools.verify.nodes", "cli.tree"):
        monkeypatch.setattr(f"nczfs.{limit}.GROUPS_MAX", 200)
    store = open_store(str(tmp_path))
    for name in ("d", *(f"d/l{level}" for level in range(LEVELS))):
        put_group(store, name, {})
    for level in range(LEVELS - 1):
        for link in "ab":
            os.symlink(f"../l{level + 1}", tmp_path / f"d/l{level}" / link)
    return tmp_path / "d"


@pytest.mark.parametrize(
    ("command", "status", "message"),
    [
        ("info", 0, "there are over 200 groups"),
        ("dump", 0, ""),
        ("tree", 1, "over 200 groups are not drawn"),
        ("verify", 1, "over 200 groups, which are not checked"),
        ("du", 1, "symbolic links lead to this directory over 64 times"),
    ],
)
def test_a_command_ends_with_a_message(
    many_ways: Path,
    capsys: pytest.CaptureFixture[str],
    command: str,
    status: int,
    message: str,
) -> None:
    found = main([command, str(many_ways)])
    printed = capsys.readouterr()
    assert found == status
    assert message in printed.err + printed.out
