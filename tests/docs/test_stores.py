"""The store that docs/stores.md shows is short, and a store like any other."""

from __future__ import annotations

import re
import sqlite3
import sys
import tomllib
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from types import ModuleType
from unittest.mock import patch

import numpy as np
import pytest

import nczfs
from nczfs.errors import Unavailable
from nczfs.testing.zmap import ZMapSuite
from nczfs.zmap import registry, url

PAGE = (Path(__file__).parents[2] / "docs" / "stores.md").read_text("utf-8")
EXAMPLE, TESTS = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
(PACKAGE,) = re.findall(r"^```toml\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def executed(name: str, source: str) -> ModuleType:
    """A module of the page, as it stands there."""
    module = ModuleType(name)
    exec(compile(source, f"docs/stores.md, {name}", "exec"), vars(module))
    return module


EXAMPLE_MODULE = executed("nczfs_sqlite", EXAMPLE)
with patch.dict(sys.modules, nczfs_sqlite=EXAMPLE_MODULE):
    TestSqlite: type[ZMapSuite] = executed("test_sqlite", TESTS).TestSqlite


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package, as if it had been installed."""
    ((scheme, place),) = tomllib.loads(PACKAGE)["project"]["entry-points"]["nczfs.zmap"].items()
    module, _, function = place.partition(":")
    assert module == EXAMPLE_MODULE.__name__

    class Installed(EntryPoint):
        def load(self) -> object:
            return getattr(EXAMPLE_MODULE, function)

    def found(group: str, name: str = scheme) -> EntryPoints:
        return EntryPoints([Installed(name, place, group)])

    monkeypatch.setattr(url, "entry_points", found)
    monkeypatch.setattr(registry, "entry_points", found)


def test_the_package_has_the_module() -> None:
    package = tomllib.loads(PACKAGE)
    assert package["tool"]["setuptools"]["py-modules"] == [EXAMPLE_MODULE.__name__]
    assert set(package["project"]) >= {"name", "version", "dependencies"}


def test_it_is_no_longer_than_a_screen_or_so() -> None:
    lines = [line for line in EXAMPLE.splitlines() if line]
    assert len(lines) <= 66
    assert max(map(len, lines)) <= 100


@pytest.mark.usefixtures("installed")
def test_an_error_of_the_library_is_one_of_ours(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=r"absent/file\.db: unable to open"):
        nczfs.open(f"sqlite://{tmp_path}/absent/file.db")


@pytest.mark.usefixtures("installed")
def test_it_opens_by_its_entry_point_and_holds_a_dataset(tmp_path: Path) -> None:
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
