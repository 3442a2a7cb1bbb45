"""What all tests share: a home of their own, long forms, quiet logs, reference files of others."""

from __future__ import annotations

import gc
import logging
import os
import re
import tempfile
from collections.abc import Generator, Iterator
from importlib.util import find_spec
from pathlib import Path

import h5py  # noqa: F401 - before netCDF4, whose HDF5 may be a newer one: that is a warning
import hypothesis
import pytest

from tests.support import runs

# A busy machine is no defect.
hypothesis.settings.register_profile("nczfs", deadline=None)
hypothesis.settings.load_profile("nczfs")

LATE = re.compile("the server has not answered yet")
"""A warning that any test may cause on a busy machine."""

if find_spec("tests.support.servers") is not None:
    pytest_plugins = ["tests.support.servers"]

REFERENCE_DATA = "NCZFS_REFERENCE_DATA"
PROGRAMS_CACHE = "NCZFS_TEST_PROGRAMS"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="run the long forms of tests too")


def pytest_report_header() -> str:
    place = os.environ.get(REFERENCE_DATA)
    if place:
        return f"reference files of other programs: {place}"
    return f"{REFERENCE_DATA} is not set: tests that read other programs' files do not run"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say in a line which tests other programs' files were missing for."""
    if os.environ.get(REFERENCE_DATA):
        return
    reasons = (f"{REFERENCE_DATA} is not set", "got empty parameter set")  # it has no files
    reports = terminalreporter.stats.get("skipped", [])
    left_out = [each for each in reports if any(reason in str(each.longrepr) for reason in reasons)]
    if left_out:
        terminalreporter.write_line(
            f"not run: {len(left_out)} tests of other programs' files ({REFERENCE_DATA} is not set)"
        )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--long"):
        dropped = [item for item in items if item.get_closest_marker("long")]
        config.hook.pytest_deselected(items=dropped)
        items[:] = [item for item in items if not item.get_closest_marker("long")]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the collector of garbage from what the whole run needs, which is a million objects."""
    gc.disable()
    found = yield
    gc.collect()
    gc.freeze()
    gc.enable()
    return found


@pytest.fixture(scope="session", autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keeps the spool, logs, caches and configuration of the person who runs the tests out of them.

    Programs that tests install once, such as servers, stay where they are for the next run. All
    else that tests start or make, save pytest's own directory, goes with the run.
    """
    programs = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv(PROGRAMS_CACHE, os.environ.get(PROGRAMS_CACHE) or programs)
        for kind in ("STATE", "CACHE", "CONFIG", "DATA"):
            environment.setenv(f"XDG_{kind}_HOME", str(home / kind.lower()))
        for name, value in runs.begin(tmp_path_factory.getbasetemp()).items():
            environment.setenv(name, value)
        environment.setattr(tempfile, "tempdir", None)  # which remembers $TMPDIR
        yield


@pytest.fixture(scope="session")
def reference_data() -> Path:
    """The directory of other programs' files; a test that needs it does not run without."""
    place = os.environ.get(REFERENCE_DATA)
    if not place:
        pytest.skip(f"{REFERENCE_DATA} is not set")
    return Path(place)


@pytest.fixture
def lasting_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    """Documents of a near store are not compared again, however slow the machine is."""
    monkeypatch.setattr("nczfs.engine.metadata.documents.NEAR_TTL_S", 3600.0)


class ExpectedWarnings:
    """Patterns of log warnings that a test announces."""

    def __init__(self) -> None:
        self._patterns: list[re.Pattern[str]] = []

    def add(self, pattern: str) -> None:
        """Accept warnings and errors that contain a match of `pattern`."""
        self._patterns.append(re.compile(pattern))

    def accept(self, message: str) -> bool:
        return any(pattern.search(message) for pattern in self._patterns)


@pytest.fixture(autouse=True)
def expected_warnings(caplog: pytest.LogCaptureFixture) -> Iterator[ExpectedWarnings]:
    """Fails a test in which something is logged as a warning that it did not announce."""
    expected = ExpectedWarnings()
    yield expected
    stray = [
        f"{record.name}: {record.getMessage()}"
        for when in ("setup", "call")
        for record in caplog.get_records(when)
        if record.levelno >= logging.WARNING
        and record.name.partition(".")[0] == "nczfs"
        and not expected.accept(record.getMessage())
        and not LATE.search(record.getMessage())
    ]
    if stray:
        pytest.fail("unexpected warnings in the log:\n" + "\n".join(stray))
