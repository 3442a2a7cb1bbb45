"""The open dataset behind lazy arrays: opened again where it is needed and not open."""

from __future__ import annotations

import os
import pickle
import threading
import weakref
from collections import OrderedDict

from nczfs.engine.dataset import Engine
from nczfs.engine.options import EngineOptions
from nczfs.errors import UsageError
from nczfs.library.api import OpenDataset
from nczfs.library.opening import open_with
from nczfs.library.origin import Origin

SHARED_MAX = 16
"""Datasets that a process keeps open for arrays that come and go, as those of Dask's tasks do."""

ENGINES_MAX = 4


class ReopeningSource:
    """An open dataset that can be pickled, and that opens itself again after it was closed.

    Copies in one other process share one dataset, and so do those of a process that was forked.

    Parameters
    ----------
    origin : None: it cannot be opened again.
    opened : None: it is opened when it is first needed.
    """

    def __init__(self, origin: Origin | None, opened: OpenDataset | None = None) -> None:
        self._origin = origin
        self._opened = opened
        self._process = os.getpid()

    @property
    def dataset(self) -> OpenDataset:
        """The dataset, which is open.

        Raises
        ------
        UsageError : it was closed, and cannot be opened again. Otherwise as `nczfs.open`.
        """
        opened = self._opened
        if opened is not None and self._process == os.getpid() and not opened.is_closed:
            return opened
        if self._origin is None:
            raise UsageError("the dataset was closed, and was not opened by a URL")
        self._opened, self._process = _shared(self._origin), os.getpid()
        return self._opened

    @property
    def url(self) -> str | None:
        """What it was opened by."""
        return None if self._origin is None else self._origin.url

    def close(self) -> None:
        """Close the dataset, until it is needed again."""
        opened, self._opened = self._opened, None
        if opened is not None and self._process == os.getpid():
            opened.close()

    def __reduce__(self) -> tuple[type[ReopeningSource], tuple[Origin]]:
        if self._origin is None:
            raise UsageError("a dataset that was not opened by a URL cannot be pickled")
        return ReopeningSource, (self._origin,)


def opened_at(origin: Origin) -> OpenDataset:
    """Open a dataset for reading; its store is closed when nothing holds the dataset any more."""
    opened = open_with(_engine(origin.options or EngineOptions()), origin.url, origin.store_options)
    weakref.finalize(opened, opened.engine_dataset.zmap.close).atexit = False
    return opened


_lock = threading.Lock()  # guards the dicts
_datasets: OrderedDict[bytes, OpenDataset] = OrderedDict()
_engines: OrderedDict[EngineOptions, Engine] = OrderedDict()


def _shared(origin: Origin) -> OpenDataset:
    """Return the dataset of this process that was opened from an origin."""
    key = pickle.dumps(origin)
    with _lock:
        opened = _datasets.get(key)
    if opened is not None and not opened.is_closed:
        return opened
    new = opened_at(origin)
    with _lock:
        opened = _datasets.get(key)
        if opened is None or opened.is_closed:
            opened = _datasets[key] = new
        _datasets.move_to_end(key)
        while len(_datasets) > SHARED_MAX:
            _datasets.popitem(last=False)  # those who use it still hold it
    if opened is not new:  # another thread was faster
        new.close()
    return opened


def _engine(options: EngineOptions) -> Engine:
    """Return the engine of all datasets with the same options: their threads, and their memory.

    It is not closed: it ends with the last dataset that uses it.
    """
    with _lock:
        engine = _engines.get(options)
        if engine is None:
            engine = _engines[options] = Engine(options)
        _engines.move_to_end(options)
        while len(_engines) > ENGINES_MAX:
            _engines.popitem(last=False)
        return engine


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()
    _datasets.clear()
    _engines.clear()


os.register_at_fork(after_in_child=_after_fork)
