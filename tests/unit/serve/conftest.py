"""What the tests of the service share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.served import Served, served


@pytest.fixture(scope="module")
def service(store: Path) -> Iterator[Served]:
    """A service of the store of the module."""
    with served(store) as running:
        yield running
