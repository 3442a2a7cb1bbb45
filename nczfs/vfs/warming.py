"""Loading chunks into the cache before programs need them, because a program asks for it."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterator
from math import prod
from typing import Any

from nczfs.engine.arrays.array import Array
from nczfs.engine.arrays.selection import Selection, select
from nczfs.engine.chunks.keeping import Keeping
from nczfs.engine.dataset import Dataset, Engine
from nczfs.errors import (
    BadArgument,
    BadSelection,
    CodecError,
    MetadataError,
    NczfsError,
    UsageError,
)
from nczfs.library.boxes import selection
from nczfs.library.resolved import At, Broken, Plain
from nczfs.model.hierarchy import Variable
from nczfs.plaindata import frozen
from nczfs.tools.cost import touched
from nczfs.vfs.conversing import Reply
from nczfs.vfs.datasets.prefixdirectory import PrefixDirectory
from nczfs.vfs.datasets.tree import DatasetsTree

log = logging.getLogger(__name__)

LINE_S = 0.5  # from one line to the next


class _Ended(Exception):
    """There is nothing more to load. The text is the state of the warming."""


@frozen
class _Place:
    """A variable in the tree of a store, or of an archive in it."""

    tree: DatasetsTree
    dataset: Dataset
    path: str

    def chosen(self, box: tuple[Any, ...] | None) -> tuple[Array, Selection] | None:
        """Return the values, and what is wanted of them; None: there are none any more.

        Raises
        ------
        BadSelection, MetadataError, StoreError.
        """
        loaded = self.dataset.load(self.path)
        if loaded is None or not isinstance(loaded.node, Variable):
            return None
        wanted = select((...,) if box is None else box, loaded.node.array.shape)
        return self.dataset.array(loaded.node), wanted


@frozen
class WarmRequest:
    """What is to be loaded: the chunks of everything at and below a path.

    Attributes
    ----------
    box : a part of a variable; None: all.
    """

    path: str
    box: tuple[Any, ...] | None

    @classmethod
    def parsed(cls, text: str) -> WarmRequest:
        """Return what a line asks for: ``{"path": PATH, "box": BOX}``. Raises BadArgument."""
        try:
            found = json.loads(text)
            path, box = found["path"], found.get("box")
            if not isinstance(path, str) or not isinstance(box, str | None):
                raise TypeError(text)
            return cls(path, None if box is None else selection(box))
        except (ValueError, KeyError, TypeError, AttributeError, UsageError) as error:
            raise BadArgument(f'write {{"path": PATH, "box": BOX}} here: {error}') from None


class Warmings:
    """The warmings of a mount that are under way. `_lock` guards the set.

    Parameters
    ----------
    find : returns the directory that shows a path as data. Raises NoSuchPath.
    """

    def __init__(self, engine: Engine, find: Callable[[str], PrefixDirectory]) -> None:
        self._engine = engine
        self._find = find
        self._lock = threading.Lock()
        self._running: set[Warming] = set()
        self._has_ended = False

    def begin(self, text: str) -> Reply:
        """Begin to load what a line asks for. Raises BadArgument."""
        warming = Warming(self._engine, self._find, WarmRequest.parsed(text), self._gone)
        with self._lock:
            self._running.add(warming)
            if self._has_ended:
                warming.end()
        warming.start()
        return warming

    def end(self) -> None:
        """End all warmings, and each one that begins."""
        with self._lock:
            self._has_ended = True
            for warming in self._running:
                warming.end()

    def close(self) -> None:
        """End all warmings, and wait for them."""
        self.end()
        with self._lock:
            running = list(self._running)
        for warming in running:
            warming.join()

    def status(self) -> list[dict[str, object]]:
        """Return the path and the percentage of each, for ``status.json``."""
        with self._lock:
            return [warming.status() for warming in self._running]

    def _gone(self, warming: Warming) -> None:
        with self._lock:
            self._running.discard(warming)


class Warming(Reply):
    """A thread that loads chunks, and keeps them on the disk as far as there is room.

    Attributes
    ----------
    state : "loading"; in the end "done", "full", "stopped" or "failed".
    """

    def __init__(
        self,
        engine: Engine,
        find: Callable[[str], PrefixDirectory],
        request: WarmRequest,
        gone: Callable[[Warming], None],
    ) -> None:
        self._engine = engine
        self._find = find
        self._request = request
        self._gone = gone
        self._keeping = Keeping(engine.cache.limit_bytes)
        self._stop = threading.Event()
        self._over = threading.Event()
        self._is_told = False
        self._total = 0
        self._done = 0
        self._failed = 0
        self._problem: str | None = None
        self._kept: int | None = None
        self.state = "loading"
        self._thread = threading.Thread(target=self._run, name="nczfs-warm", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def line(self) -> str | None:
        if self._is_told:
            return None
        self._is_told = self._over.wait(LINE_S)
        held = self._keeping.held
        found = {
            "state": self.state,
            "chunks": self._done,
            "of": self._total,
            "failed": self._failed,
            "problem": self._problem,
            "memory_bytes": held.memory_bytes,
            "disk_bytes": held.disk_bytes,
        }
        return json.dumps(found if self._kept is None else {**found, "kept": self._kept})

    def end(self) -> None:
        self._stop.set()

    def join(self) -> None:
        """Wait until it has ended."""
        self._thread.join()

    def status(self) -> dict[str, object]:
        """Return what ``status.json`` tells."""
        percent = round(100 * self._done / self._total, 1) if self._total else 0.0
        return {"path": self._request.path, "percent": percent}

    def _run(self) -> None:
        try:
            self.state = self._loaded()
        except NczfsError as error:
            self._problem, self.state = str(error), "failed"
        except Exception as error:
            log.exception("warming %s failed", self._request.path)
            self._problem, self.state = repr(error), "failed"
        finally:
            self._gone(self)
            self._over.set()

    def _loaded(self) -> str:
        """Load everything. Returns the state at the end. Raises NczfsError."""
        places = []
        try:
            for place in self._places(self._find(self._request.path)):
                places.append(place)
                self._total += self._count(place)
            for place in places:
                self._load(place)
        except _Ended as ended:
            state = str(ended)
        else:
            state = "done"
        if state != "stopped":
            self._engine.cache.settle(self._keeping)
            self._kept = sum(map(self._count_kept, places))
        return state

    def _places(self, node: PrefixDirectory) -> Iterator[_Place]:
        """Yield the variables at and below a directory."""
        if self._stop.is_set():
            raise _Ended("stopped")
        resolved = node.resolve()
        if isinstance(resolved, Broken):
            raise MetadataError(resolved.problem)
        if isinstance(resolved, At) and resolved.is_variable:
            yield _Place(node.tree, resolved.dataset, resolved.path)
        below = [each for _, each in node.listing() if isinstance(each, PrefixDirectory)]
        if self._request.box is not None:
            if isinstance(resolved, Plain) or not resolved.is_variable:
                raise BadSelection(f"{self._request.path}: only a variable has a box")
            return
        for each in below:
            try:
                yield from self._places(each)
            except MetadataError as error:
                self._note(error)

    def _count(self, place: _Place) -> int:
        chosen = place.chosen(self._request.box)
        if chosen is None:
            return 0
        array, wanted = chosen
        sides = zip(wanted.axes, array.description.grid.cuts, strict=True)
        return prod(len(touched(axis, cuts)) for axis, cuts in sides)

    def _load(self, place: _Place) -> None:
        chosen = place.chosen(self._request.box)
        if chosen is None:
            return
        array, wanted = chosen
        fresh_since = place.tree.context.fresh_since
        try:
            array.keep_selection(wanted, self._keeping, self._loaded_one, fresh_since)
        except CodecError as error:
            self._note(error)  # of all its chunks

    def _loaded_one(self, error: NczfsError | None) -> None:
        self._done += 1
        if error is not None:
            self._note(error)
        if self._stop.is_set():
            raise _Ended("stopped")
        if self._keeping.is_full:
            raise _Ended("full")

    def _note(self, error: NczfsError) -> None:
        self._failed += 1
        self._problem = self._problem or str(error)

    def _count_kept(self, place: _Place) -> int:
        chosen = place.chosen(self._request.box)
        return 0 if chosen is None else sum(chosen[0].are_kept(chosen[1]))
