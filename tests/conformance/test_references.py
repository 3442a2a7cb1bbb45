"""Stores of references, near and over HTTP, against the half of the suite for readers."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from nczfs.testing.zmap import Populate, ZMapReadSuite
from nczfs.zmap.base import ZMap
from nczfs.zmap.registry import open_store
from tests.support.httpd import WebServer


def write_references(directory: Path, objects: Mapping[str, bytes]) -> None:
    """A document whose objects are in turn a range of a file, in line, and a whole file."""
    data = bytearray(b"head")
    references: dict[str, object] = {}
    for number, (key, content) in enumerate(objects.items()):
        if number % 3 == 0:
            references[key] = ["data.bin", len(data), len(content)]
            data += content
        elif number % 3 == 1:
            references[key] = "base64:" + base64.b64encode(content).decode()
        else:
            references[key] = [f"whole-{number}.bin"]
            (directory / f"whole-{number}.bin").write_bytes(content)
    (directory / "data.bin").write_bytes(data)
    document = {"version": 1, "refs": references}
    (directory / "refs.json").write_text(json.dumps(document))


class _References(ZMapReadSuite):
    @pytest.fixture
    def place(self) -> tuple[Path, str]:
        """A directory, and its URL."""
        raise NotImplementedError

    @pytest.fixture
    def populate(self, place: tuple[Path, str]) -> Iterator[Populate]:
        opened: list[ZMap] = []

        def make(objects: Mapping[str, bytes]) -> ZMap:
            directory, url = place
            write_references(directory, objects or {".zgroup": b""})
            if not objects:
                (directory / "refs.json").write_text('{"version": 1, "refs": {}}')
            opened.append(open_store(f"{url}/refs.json"))
            return opened[-1]

        yield make
        for zmap in opened:
            zmap.close()


class TestReferencesToFiles(_References):
    @pytest.fixture
    def place(self, tmp_path: Path) -> tuple[Path, str]:
        return tmp_path, str(tmp_path)


class TestReferencesOverHttp(_References):
    @pytest.fixture
    def place(self, nginx: WebServer) -> tuple[Path, str]:
        directory = nginx.new_directory()
        return directory, f"{nginx.url}/unlisted/{directory.name}"
