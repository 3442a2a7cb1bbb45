"""Test suites of other programs find in ``objects/`` what they find in a tmpfs."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support import fsspec_local
from tests.support.places import Place, bucket_of, directory_at
from tests.support.runs import memory
from tests.support.settled import settled
from tests.support.suites import Kind, Outcome, Outcomes, Suites, installed

pytestmark = [pytest.mark.long, pytest.mark.timeout(6000)]

ABSENT = Outcome(Kind.ABSENT)
REFUSED = r"EPERM|EINVAL"  # what programs try that SEMANTICS refuses, and the log tells

ZARR = (
    *("test_group.py", "test_array.py", "test_api.py", "test_v2.py", "test_tree.py"),
    *(f"test_store/test_{name}.py" for name in ("core", "local", "object", "wrapper", "zip")),
)
XARRAY = ("--pyargs", "xarray.tests.test_backends", "-k", "zarr or Zarr")
PYTHON = ("test_os", "test_shutil", "test_tempfile", "test_mmap", "test_io")


@dataclass(frozen=True)
class Difference:
    """Tests that cannot end in ``objects/`` as they do elsewhere.

    Attributes
    ----------
    tests, message : patterns of their names, and of what they then say.
    sentence : of SEMANTICS that says so.
    """

    tests: str
    kind: Kind
    message: str
    sentence: str

    def explains(self, name: str, outcome: Outcome) -> bool:
        """Whether a test ended so by this."""
        return (
            outcome.kind is self.kind
            and re.search(self.tests, name) is not None
            and re.search(self.message, outcome.message) is not None
        )


SYMBOLIC_LINKS = Difference("", Kind.SKIPPED, "sym(bolic )?link", "L2")
EXTENDED_ATTRIBUTES = Difference("", Kind.SKIPPED, "extended attribute", "L2")
FIFOS = Difference("copyfile_named_pipe", Kind.SKIPPED, r"mkfifo.*Operation not permitted", "L2")
SAME_FILE = Difference(r"LinkTests", Kind.FAILED, "False is not true", "L2")
SAME_INODE = Difference(
    "test_dont_copy_file_onto_link_to_itself", Kind.FAILED, "SameFileError not raised", "L2"
)
SOCKETS = Difference("test_multiprocessing.*forkserver", Kind.FAILED, "PermissionError", "L2")


@pytest.fixture(scope="module")
def suites() -> Suites:
    return installed()


@pytest.fixture(params=("directory", "ceph"))
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "directory":
        return directory_at(tmp_path / "store")
    return bucket_of(request.getfixturevalue(request.param))


@pytest.fixture
def objects(place: Place, tmp_path: Path) -> Iterator[Path]:
    with settled(place.url, tmp_path / "spool", expect=REFUSED) as mount:
        yield mount.path / "objects"


def assert_the_same(
    run: Callable[[Path], Outcomes], objects: Path, differences: Sequence[Difference] = ()
) -> None:
    """Run tests with their files in memory and in ``objects/``, and compare how they end.

    Each of the differences must be met.
    """
    with tempfile.TemporaryDirectory(dir=memory()) as elsewhere:
        expected = run(Path(elsewhere))
    found = run(objects)
    passed = sum(outcome.kind is Kind.PASSED for outcome in expected.values())
    assert passed > len(expected) / 2, [*expected.items()][:10]
    met = set()
    strange = []
    for name in sorted(expected.keys() | found.keys()):
        before, now = expected.get(name, ABSENT), found.get(name, ABSENT)
        if before.kind is now.kind:
            continue
        reasons = {each for each in differences if each.explains(name, now)}
        met |= reasons
        if not reasons:
            strange.append(f"{name}: {before} elsewhere, here {now}")
    assert not strange, "\n".join(strange)
    assert met == set(differences)


@pytest.mark.parametrize("place", ["directory"], indirect=True)
def test_the_suite_of_zarr_python(suites: Suites, objects: Path) -> None:
    """SEMANTICS L2."""
    paths = [f"tests/{name}" for name in ZARR]
    assert_the_same(lambda place: suites.by_pytest(place, *paths), objects, [SOCKETS])


@pytest.mark.parametrize("place", ["ceph"], indirect=True)
def test_the_suite_of_zarr_python_in_a_bucket(suites: Suites, objects: Path) -> None:
    paths = ["tests/test_store/test_local.py", "tests/test_group.py", "-k", "local"]
    assert_the_same(lambda place: suites.by_pytest(place, *paths), objects)


@pytest.mark.parametrize("place", ["directory"], indirect=True)
def test_the_tests_of_xarray_for_zarr(suites: Suites, objects: Path) -> None:
    assert_the_same(lambda place: suites.by_pytest(place, *XARRAY), objects)


def test_the_suite_of_fsspec_for_file_systems(suites: Suites, objects: Path) -> None:
    path = fsspec_local.__file__
    assert_the_same(lambda place: suites.by_pytest(place, path), objects)


@pytest.mark.parametrize("place", ["directory"], indirect=True)
def test_the_tests_of_python_for_files(suites: Suites, objects: Path) -> None:
    """SEMANTICS L2, L8."""
    differences = [SYMBOLIC_LINKS, EXTENDED_ATTRIBUTES, FIFOS, SAME_FILE, SAME_INODE]
    assert_the_same(lambda place: suites.of_python(place, *PYTHON), objects, differences)


@pytest.mark.parametrize("place", ["ceph"], indirect=True)
def test_the_tests_of_python_for_files_in_a_bucket(suites: Suites, objects: Path) -> None:
    """SEMANTICS L2."""
    differences = [SYMBOLIC_LINKS, EXTENDED_ATTRIBUTES, FIFOS, SAME_INODE]
    modules = ("test_shutil", "test_tempfile")
    assert_the_same(lambda place: suites.of_python(place, *modules), objects, differences)
