"""A run of tests leaves the files of the person who runs them alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
SPOOLS = "tests/model/test_dataset_copied.py"
STARTS_DAEMONS = "tests/fuse/test_mount_points.py"


def test_tests_and_their_children_write_nothing_into_the_home_of_their_user(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    ours = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
    command = [sys.executable, "-m", "pytest", "-n", "0", f"--basetemp={tmp_path / 'temporary'}"]
    done = subprocess.run(
        [*command, SPOOLS, STARTS_DAEMONS, "-k", "copy or not_empty"],
        cwd=REPOSITORY,
        env=ours | {"HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert list((tmp_path / "home").iterdir()) == []
