"""Commands that meet hostile documents and shards of Zarr v3 end, in little memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.bounded import watched
from tests.support.hostile_zarr3 import DOCUMENTS, VALUES, write_hostile

MEMORY_MAX_MIB = 256.0
CPU_MAX_S = 1.0  # in which no other thread gets its turn

SETUP = """
import contextlib, io
from nczfs.cli.main import main
command, *words = sys.argv[1:]
"""
ACT = """
out, errors = io.StringIO(), io.StringIO()
with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
    with contextlib.suppress(SystemExit):
        main([command, *words])
said = out.getvalue() + errors.getvalue()
assert "Traceback" not in said, said
with open(words[-1] + ".said", "w") as file:
    file.write(said)
"""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("hostile") / "store"
    write_hostile(directory)
    return directory


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("verify", []),
        ("cp", ["--skip-unsupported"]),
        ("export", ["--skip-unsupported"]),
    ],
    ids=lambda word: word if isinstance(word, str) else "",
)
def test_a_command_meets_all_of_them_in_little_memory(
    written: Path, tmp_path: Path, command: str, options: list[str]
) -> None:
    """SEMANTICS A5, A7."""
    source = str(written / "d.zarr")
    goal = [str(tmp_path / "out")] if command in {"cp", "export"} else []
    took = watched(SETUP, ACT, command, *options, source, *goal)
    assert took.grown_mib < MEMORY_MAX_MIB
    assert took.longest_s < CPU_MAX_S
    said = Path(f"{goal[0] if goal else source}.said").read_text()
    # Too many names of dimensions are ignored: the array can be read and copied.
    wanted = (
        [*DOCUMENTS, *VALUES] if command == "verify" else [n for n in DOCUMENTS if n != "names"]
    )
    assert [name for name in wanted if f"/{name}" not in said] == []
