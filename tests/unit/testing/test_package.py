"""The package of suites says what it needs."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("package", ["hypothesis", "pytest"])
def test_without_its_extra_the_import_names_the_extra(package: str) -> None:
    code = f"import sys; sys.modules[{package!r}] = None; import nczfs.testing.faults"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1] == (
        f"ModuleNotFoundError: nczfs.testing needs {package}: pip install 'nczfs[testing]'"
    )
