"""A store whose times have whole seconds, as those of S3."""

from __future__ import annotations

from dataclasses import replace

from nczfs.zmap.base import Features, Stat
from nczfs.zmap.keys import Key
from nczfs.zmap.memory import MemoryZMap

SECOND_NS = 1_000_000_000


class WholeSeconds(MemoryZMap):
    """A store in memory whose objects have the time at which their second began."""

    @property
    def features(self) -> Features:
        return replace(super().features, time_step_ns=SECOND_NS)

    def stat(self, key: Key) -> Stat:
        stat = super().stat(key)
        assert stat.mtime_ns is not None
        return stat._replace(mtime_ns=stat.mtime_ns // SECOND_NS * SECOND_NS)
