"""The conformance suite of stores, for every backend and every wrapper.

A backend's own test class holds its fixture and its `peek`, nothing else::

    class TestMyZMap(ZMapSuite):
        @pytest.fixture
        def zmap(self, tmp_path: Path) -> Iterator[ZMap]: ...

        def peek(self, zmap: ZMap, key: Key) -> bytes | None: ...

A read-only store runs `ZMapReadSuite`, which needs one fixture that makes a store of given objects.

::

    base       what a test class provides; samples     the keys and bytes of the tests
    reading    one object; listing     what is found below a prefix
    writing    what one writer keeps, replaces and deletes; copying     of objects that are there
    racing     many threads at once; keeping     times and markers
"""

from __future__ import annotations

from nczfs.testing.zmap.base import Populate
from nczfs.testing.zmap.copying import CopyingTests
from nczfs.testing.zmap.keeping import KeepingTests
from nczfs.testing.zmap.listing import ListingTests
from nczfs.testing.zmap.racing import RacingTests
from nczfs.testing.zmap.reading import ReadingTests
from nczfs.testing.zmap.samples import ODD_KEYS, K
from nczfs.testing.zmap.writing import WritingTests

__all__ = ["ODD_KEYS", "K", "Populate", "ZMapReadSuite", "ZMapSuite"]


class ZMapReadSuite(ReadingTests, ListingTests):
    """The suite for every store, including read-only ones."""


class ZMapSuite(ZMapReadSuite, WritingTests, CopyingTests, KeepingTests, RacingTests):
    """The suite for writable stores."""
