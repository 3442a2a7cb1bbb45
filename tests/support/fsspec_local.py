"""fsspec's suite for file systems, on its local one: pytest is given this file by its path."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from fsspec import AbstractFileSystem
from fsspec.implementations.local import LocalFileSystem, make_path_posix
from fsspec.tests import abstract


class LocalFixtures(abstract.AbstractFixtures):  # type: ignore[misc]  # fsspec has no types
    @pytest.fixture
    def fs(self) -> AbstractFileSystem:
        return LocalFileSystem(auto_mkdir=True)

    @pytest.fixture
    def fs_path(self, tmp_path: Path) -> str:
        return str(tmp_path)

    @pytest.fixture
    def fs_sanitize_path(self) -> Callable[[str], str]:
        sanitize: Callable[[str], str] = make_path_posix
        return sanitize


class TestCopy(abstract.AbstractCopyTests, LocalFixtures):  # type: ignore[misc]
    pass


class TestGet(abstract.AbstractGetTests, LocalFixtures):  # type: ignore[misc]
    pass


class TestPut(abstract.AbstractPutTests, LocalFixtures):  # type: ignore[misc]
    pass


class TestOpen(abstract.AbstractOpenTests, LocalFixtures):  # type: ignore[misc]
    pass


class TestPipe(abstract.AbstractPipeTests, LocalFixtures):  # type: ignore[misc]
    pass
