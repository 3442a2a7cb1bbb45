"""The store that docs/stores.md shows is short, and a store like any other."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import nczfs
from nczfs.testing.zmap import ZMapSuite
from nczfs.zmap import registry, url
from nczfs.zmap.base import ZMap
from nczfs.zmap.keys import Key

PAGE = (Path(__file__).parents[2] / "docs" / "stores.md").read_text("utf-8")
EXAMPLE, TEST_CLASS = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def example() -> ModuleType:
    module = ModuleType("nczfs_sqlite")
    exec(compile(EXAMPLE, "docs/stores.md", "exec"), vars(module))
    return module


class TestTheExample(ZMapSuite):
    @pytest.fixture
    def zmap(self, example: ModuleType, tmp_path: Path) -> Iterator[ZMap]:
        shown = dict(vars(example), pytest=pytest, ZMapSuite=object)
        exec(compile(TEST_CLASS, "docs/stores.md", "exec"), shown)
        self.shown = shown["TestSqlite"]()
        zmap: ZMap = example.SqliteZMap(tmp_path / "file.db")
        yield zmap
        zmap.close()

    def peek(self, zmap: ZMap, key: Key) -> bytes | None:
        found: bytes | None = self.shown.peek(zmap, key)
        return found


def test_it_is_no_longer_than_a_screen_or_so() -> None:
    lines = [line for line in EXAMPLE.splitlines() if line]
    assert len(lines) <= 60
    assert max(map(len, lines)) <= 100


def test_it_opens_by_its_entry_point_and_holds_a_dataset(
    example: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Installed(EntryPoint):
        def load(self) -> object:
            return example.open_sqlite

    def found(group: str, name: str = "sqlite") -> EntryPoints:
        return EntryPoints([Installed(name, "nczfs_sqlite:open_sqlite", group)])

    monkeypatch.setattr(url, "entry_points", found)
    monkeypatch.setattr(registry, "entry_points", found)
    place = f"sqlite://{tmp_path}/file.db"
    with nczfs.open(place, "w") as dataset:
        dataset.create_dimension("x", 3)
        variable = dataset.create_variable("v", ("x",), "i4")
        variable[:] = np.arange(3)
    with nczfs.open(place) as dataset:
        assert dataset.variables["v"][:].tolist() == [0, 1, 2]
    with sqlite3.connect(tmp_path / "file.db") as connection:
        (count,) = connection.execute(
            "SELECT count(*) FROM objects WHERE key LIKE 'v/%'"
        ).fetchone()
    connection.close()
    assert count >= 2
