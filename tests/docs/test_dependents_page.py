"""docs/dependent-arrays.md: what it lets readers try does what it says, on the demo's dataset."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import nczfs
from nczfs.cli.demo import SAMPLE
from tests.support.mounts import mounted
from tests.support.pages import blocks, check_session

PAGE = Path(__file__).resolve().parents[2] / "docs/dependent-arrays.md"


def test_its_commands_its_python_and_its_shell_do_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(SAMPLE, tmp_path / "ostia.zarr")
    monkeypatch.chdir(tmp_path)
    (mask,) = (block for block in blocks(PAGE, "json") if "sea ice" in block)
    Path("mask.json").write_text(mask)
    (session,) = blocks(PAGE, "console")
    check_session(session, capsys, monkeypatch)
    (code,) = blocks(PAGE, "python")
    exec(compile(code, str(PAGE), "exec"), {})
    (script,) = blocks(PAGE, "sh")
    with mounted(tmp_path, "-o", "write_dependents", expect=r"ESTALE: flag/info\.json") as mount:
        done = subprocess.run(
            ["sh", "-ec", script], cwd=mount, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")
    with nczfs.open("ostia3.zarr") as root:
        for name, ones in (("latitude", 18), ("longitude", 0)):
            primary: Any = root[name]
            assert primary.dependents["flag"][...].sum() == ones
