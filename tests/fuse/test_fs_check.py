"""A checker of file systems finds in ``objects/`` what the semantics state, and nothing else."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.support.places import Place, bucket_of, directory_at
from tests.support.settled import settled

FS_CHECK = Path(__file__).parent.parent / "tools/fs-check"
STATED = ["symlink, readlink", "hard link", "user xattr"]  # SEMANTICS L2
# A link is refused; a name is removed by one program while another looks at it.
EXPECTED = r"EPERM|getattr\(\d+\): ESTALE"
LINE = re.compile(r"^(PASS|FAIL|SKIP|HANG) (\S+)", re.MULTILINE)
WAITS_S = 1500  # the longest of all checks, half of it


STORES = ("directory", "ceph")


@pytest.fixture(params=STORES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "directory":
        return directory_at(tmp_path / "store")
    return bucket_of(request.getfixturevalue(request.param))


@pytest.mark.timeout(4000)
@pytest.mark.parametrize(
    ("place", "steps"),
    [
        ("directory", 5000),
        ("ceph", 1000),
        *(pytest.param(store, 100_000, marks=pytest.mark.long) for store in STORES),
    ],
    indirect=["place"],
)
def test_a_file_is_what_the_same_calls_make_of_bytes_in_memory(
    place: Place, tmp_path: Path, steps: int
) -> None:
    """SEMANTICS L2, O6, O7."""
    with settled(place.url, tmp_path / "spool") as mount:
        found, printed = _checked(mount.path / "objects", "posix,model", WAITS_S, steps)
        assert found == {"posix": "FAIL", "model": "PASS"}, printed
        failed = re.findall(r"^  FAIL (.*?)  ", printed, re.MULTILINE)
        assert failed == STATED, printed
    assert place.objects() == {}


@pytest.mark.long
@pytest.mark.timeout(4000)
def test_loads_of_many_kinds_find_no_other_difference(place: Place, tmp_path: Path) -> None:
    """SEMANTICS L2, O6."""
    with settled(place.url, tmp_path / "spool", expect=EXPECTED) as mount:
        found, printed = _checked(mount.path / "objects", "all", 10, 0)
        assert {check for check, outcome in found.items() if outcome != "PASS"} == {"posix"}, (
            printed
        )
    assert place.objects() == {}


def _checked(directory: Path, checks: str, time_s: int, steps: int) -> tuple[dict[str, str], str]:
    """The outcome of each check, and all that was printed."""
    done = subprocess.run(
        [FS_CHECK, "-w", "-t", str(time_s), "-s", checks, directory],
        env=os.environ | ({"FS_CHECK_STEPS": str(steps)} if steps else {}),
        capture_output=True,
        text=True,
        check=False,
    )
    return {check: outcome for outcome, check in LINE.findall(done.stdout)}, done.stdout
