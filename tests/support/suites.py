"""Test suites of other programs, run with their temporary files where we want them.

zarr-python has its tests in its source distribution, xarray and fsspec in their packages, and
CPython beside its library. What they need besides is installed once, into a directory of the
user's cache that nobody else imports from.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from importlib.metadata import version
from pathlib import Path
from xml.etree import ElementTree

# Without what they depend on, of which most is here: pytest would be another one.
PLUGINS = (
    *("pytest-asyncio>=1.2,<2", "tomlkit>=0.13", "dask>=2025.1"),
    *("click", "cloudpickle", "importlib-metadata<8", "locket", "partd", "pyyaml", "toolz", "zipp"),
)
RUN_S = 3000
CONFIGURATION = """\
[pytest]
asyncio_mode = auto
asyncio_default_fixture_loop_scope = function
filterwarnings = ignore
timeout = 300
"""


class Kind(Enum):
    PASSED = "passed"
    SKIPPED = "skipped"
    FAILED = "failed"
    ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a test ended, and the reason unless it passed."""

    kind: Kind
    message: str = ""


Outcomes = Mapping[str, Outcome]


class Suites:
    """The suites, ready to be run.

    Parameters
    ----------
    home : the directory that `installed` made.
    """

    def __init__(self, home: Path) -> None:
        self._plugins = home / "plugins"
        self.zarr = home / "zarr"

    def by_pytest(self, place: Path, *arguments: str) -> Outcomes:
        """Run tests by pytest, with the package of zarr's tests as the working directory.

        Parameters
        ----------
        place : a directory for temporary files; what is made there is left.
        """
        with tempfile.TemporaryDirectory() as aside:
            configuration, found = Path(aside, "pytest.ini"), Path(aside, "found.xml")
            configuration.write_text(CONFIGURATION)
            command: list[str | Path] = [sys.executable, "-m", "pytest", "-n", "2", "-q"]
            command += ["-p", "no:cacheprovider", "-c", configuration, "--rootdir", self.zarr]
            command += ["--junitxml", found, "--basetemp", place / "pytest", *arguments]
            environment = {
                "PYTHONPATH": str(self._plugins),
                "HYPOTHESIS_STORAGE_DIRECTORY": aside,
            }
            return _run(command, self.zarr, place, found, environment)

    def of_python(self, place: Path, *arguments: str) -> Outcomes:
        """Run modules of CPython's own tests.

        Parameters
        ----------
        place : as of `by_pytest`.
        arguments : of ``python -m test``.
        """
        with tempfile.TemporaryDirectory() as aside:
            found = Path(aside, "found.xml")
            python = getattr(sys, "_base_executable", sys.executable)
            command = [python, "-m", "test", "--tempdir", place, "--junit-xml", found, *arguments]
            return _run(command, Path("/"), place, found, {})


def installed() -> Suites:
    """The suites, installed when they are asked for for the first time."""
    wanted = (f"zarr=={version('zarr')}", *PLUGINS)
    digest = hashlib.sha256(repr((wanted, sys.version)).encode()).hexdigest()[:12]
    cache = Path(os.environ["NCZFS_TEST_PROGRAMS"])
    home = cache / f"nczfs-suites-{digest}"
    cache.mkdir(parents=True, exist_ok=True)
    with open(f"{home}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # of two first runs at once, one installs
        if not home.exists():
            with tempfile.TemporaryDirectory(dir=cache, prefix="nczfs-suites-") as making:
                _install(Path(making, "made"), *wanted)
                os.rename(Path(making, "made"), home)
    return Suites(home)


def _install(home: Path, zarr: str, *plugins: str) -> None:
    home.mkdir()
    _pip("install", "--no-deps", "--target", home / "plugins", *plugins)
    _pip("download", "--no-deps", "--no-binary", "zarr", "--dest", home, zarr)
    (archive,) = home.glob("zarr-*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(home, filter="data")
    (home / archive.name.removesuffix(".tar.gz")).rename(home / "zarr")
    archive.unlink()


def _pip(*words: str | Path) -> None:
    command = [sys.executable, "-m", "pip", *words, "--quiet", "--disable-pip-version-check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not done.returncode, f"pip {words[0]} failed:\n{done.stderr}"


def _run(
    command: Sequence[str | Path],
    directory: Path,
    place: Path,
    found: Path,
    environment: Mapping[str, str],
) -> Outcomes:
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "AWS_"))}
    done = subprocess.run(
        command,
        cwd=directory,
        env=inherited | {**environment, "TMPDIR": str(place)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        timeout=RUN_S,
    )
    assert found.exists(), f"no result, exit status {done.returncode}:\n{done.stdout}{done.stderr}"
    outcomes = {_name(case): _outcome(case) for case in ElementTree.parse(found).iter("testcase")}
    assert outcomes, f"no test was found:\n{done.stdout}{done.stderr}"
    return outcomes


def _name(case: ElementTree.Element) -> str:
    return ".".join(filter(None, (case.get("classname"), case.get("name"))))


def _outcome(case: ElementTree.Element) -> Outcome:
    for child in case:
        message = child.get("message") or child.text or ""
        if child.tag in {"failure", "error"}:
            return Outcome(Kind.FAILED, message)
        if child.tag == "skipped":
            return Outcome(Kind.SKIPPED, message)
    return Outcome(Kind.PASSED)
