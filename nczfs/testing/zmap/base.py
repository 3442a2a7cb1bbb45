"""What a test class of a store provides."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import ClassVar, TypeAlias

import pytest

from nczfs.zmap.base import ZMap
from nczfs.zmap.keys import Key, parse_key

Populate: TypeAlias = Callable[[Mapping[str, bytes]], ZMap]


class StoreTests:
    """Tests of a store that is filled in another way."""

    key_beside_prefix: ClassVar[bool] = True
    """Whether ``a`` and ``a/b`` can both be objects of the store."""
    page_keys: ClassVar[int] = 1000
    """How many keys a listing gets from the store at a time, at most."""

    @pytest.fixture
    def populate(self) -> Populate:
        """Make a store of exactly the given objects; called once in a test."""
        raise NotImplementedError("override the fixture `populate`")


class WritableStoreTests(StoreTests, ABC):
    """Tests of a store that can be written to."""

    @pytest.fixture
    def zmap(self) -> ZMap:
        """Return an empty store."""
        raise NotImplementedError("override the fixture `zmap`")

    @abstractmethod
    def peek(self, zmap: ZMap, key: Key) -> bytes | None:
        """Read an object without the store; None: there is none."""

    def peek_unflushed(self, zmap: ZMap, key: Key) -> bytes | None:
        """Read as `peek` does what other processes see without a flush."""
        return self.peek(zmap, key)

    @pytest.fixture
    def populate(self, zmap: ZMap) -> Populate:
        """Write the objects into the empty store."""

        def write_all(objects: Mapping[str, bytes]) -> ZMap:
            for key, data in objects.items():
                zmap.write(parse_key(key), data)
            return zmap

        return write_all
