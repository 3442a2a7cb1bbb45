"""A directory, and the store in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nczfs.zmap.directory import DirectoryZMap


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "root"
    path.mkdir()
    return path


@pytest.fixture
def zmap(root: Path) -> Iterator[DirectoryZMap]:
    zmap = DirectoryZMap(root)
    yield zmap
    zmap.close()
