"""docs/xarray.md: its Python runs, and its tables have the arguments that there are."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from nczfs.library.xarray.groups import open_group

PAGE = (Path(__file__).resolve().parents[2] / "docs/xarray.md").read_text("utf-8")


def test_its_python_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.M | re.S)
    exec(compile(code, "docs/xarray.md", "exec"), {})


def test_its_table_has_every_argument_of_the_engine() -> None:
    own = {*inspect.signature(open_group).parameters}
    own -= {"place", "decoding"}
    assert {*re.findall(r"^\| `(\w+)` \|", PAGE, re.M)} == own
