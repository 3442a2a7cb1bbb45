"""A zip archive that is flushed by each change: who reads the file sees it at once."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from nczfs.testing.zmap import ZMapSuite
from nczfs.zmap.base import ZMap
from nczfs.zmap.keys import Key
from nczfs.zmap.prompt import Prompt
from nczfs.zmap.zip.creating import create_archive
from nczfs.zmap.zip.local import LocalZipOptions, LocalZipZMap


class TestPromptZip(ZMapSuite):
    page_keys = 20  # it has no pages, and each object is a commit
    path: Path

    @pytest.fixture
    def zmap(self, tmp_path: Path) -> Iterator[ZMap]:
        self.path = tmp_path / "data.zip"
        create_archive(str(self.path), "root")
        zmap = Prompt(LocalZipZMap(self.path, LocalZipOptions()))
        yield zmap
        zmap.close()

    def peek(self, zmap: ZMap, key: Key) -> bytes | None:
        with zipfile.ZipFile(self.path) as archive:
            return archive.read(key) if key in archive.namelist() else None
