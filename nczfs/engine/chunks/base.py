"""The seam to the chunks of an array: where they come from, and how they are stored."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from math import prod
from typing import TypeAlias

from nczfs.buffers import Values
from nczfs.codecs.base import Pipeline, TooLong
from nczfs.engine.chunks.loaded import LoadedChunk
from nczfs.engine.chunks.storedarray import StoredArray
from nczfs.engine.retrying import Confirmation
from nczfs.model.grid import ChunkGrid, ChunkIndex
from nczfs.model.hierarchy import ArrayDescription
from nczfs.plaindata import frozen
from nczfs.zmap.base import Part, Stat, Version
from nczfs.zmap.keys import Key, Prefix
from nczfs.zmap.run import ListedRange

NDIM_MAX = 64  # limit of numpy

UnitIndex: TypeAlias = "tuple[int, ...]"
"""The index of a unit: chunks that lie in one object, and so are stored together."""

Fetched: TypeAlias = "Callable[[], LoadedChunk]"
"""The half of a load that computes, after the half that waits for a store."""


@frozen
class Confirmed:
    """The half of a load that has nothing to compute: the chunk is what was known of it."""

    loaded: LoadedChunk

    def __call__(self) -> LoadedChunk:
        """Return what was known."""
        return self.loaded


@frozen
class Missing:
    """The half of a load of a chunk whose object the store lacks.

    Attributes
    ----------
    make : returns the chunk, or raises MissingChunk.
    """

    make: Fetched

    def __call__(self) -> LoadedChunk:
        """Return the chunk that takes the place of a missing one."""
        return self.make()


Sending: TypeAlias = "Callable[[Sequence[Part], Version | None], None]"
"""Called just before an object is sent, with its parts and the version that it replaces."""


class ChunkSource(ABC):
    """Where the chunks of an array come from.

    A chunk is what is loaded, decoded and cached as a whole. Immutable but for what it caches;
    every method may be called from any thread.

    Attributes
    ----------
    array : the array of the chunks.
    inputs : the arrays that the values are computed from; empty: they are stored.
    is_grouped : whether a unit may have several chunks.
    """

    array: ArrayDescription
    is_grouped: bool = False
    inputs: tuple[StoredArray, ...] = ()

    @property
    def writer(self) -> ChunkStore | None:
        """The same chunks for writing; None: they cannot be written."""
        return None

    @property
    def listed(self) -> ChunkStore | None:
        """The same chunks if a listing may tell which are missing, and these read as fill."""
        return None

    @property
    @abstractmethod
    def is_cheap(self) -> bool:
        """Whether loading a chunk takes no longer than allocating memory for it."""

    @abstractmethod
    def require(self) -> None:
        """Raise CodecError now if the values could never be read."""

    @abstractmethod
    def fetch(self, chunk: ChunkIndex, known: LoadedChunk | None) -> Fetched:
        """Do the half of a load that waits for a store, and return the half that computes.

        Parameters
        ----------
        known : what is already known of the chunk; the result where it is still so.

        Raises
        ------
        MissingChunk, CorruptChunk, UnknownCodec, StoreError : either half.
        """

    def unit(self, chunk: ChunkIndex) -> UnitIndex:
        """Return the unit of a chunk; chunks of one unit are best fetched together."""
        return self.array.unit_of(chunk)

    @property
    def units(self) -> ChunkGrid:
        """The grid of units."""
        return self.array.units

    def stored_in(self, unit: UnitIndex) -> Collection[ChunkIndex]:
        """Return the chunks that the object of a unit has, which a listing has shown to exist.

        If the object is gone, the result may be empty.

        Raises
        ------
        CorruptChunk : the object does not say it. StoreError.
        """
        return (unit,)

    def oddities(self, unit: UnitIndex) -> Sequence[str]:
        """Return what is unusual about a unit, though its chunks can be read. Raises the same."""
        return ()

    def fetch_several(
        self, wanted: Sequence[tuple[ChunkIndex, LoadedChunk | None]]
    ) -> Sequence[Fetched]:
        """Fetch several chunks of one unit, in order; the error of a chunk is its second half's.

        Raises
        ------
        StoreError : none of them can be fetched.
        """
        return [self.fetch(chunk, known) for chunk, known in wanted]

    @abstractmethod
    def resized(self, array: ArrayDescription) -> ChunkSource:
        """Return the same chunks, of an array of another shape."""

    @abstractmethod
    def reporting(self, too_long: TooLong) -> ChunkSource:
        """Return the same chunks for a check: a missing one is fill, whatever the options say.

        Parameters
        ----------
        too_long : called for each chunk that decodes to more bytes than it should.
        """


class ChunkStore(ChunkSource):
    """Chunks that can be written.

    The unit of a chunk is what is written as a whole: an object that has this chunk alone, or
    others besides. All conditions and versions are those of the object.

    Attributes
    ----------
    confirm : raises StructureChanged if the store now describes other chunks.
    """

    confirm: Confirmation

    @property
    def writer(self) -> ChunkStore:
        return self

    @property
    @abstractmethod
    def prefix(self) -> Prefix:
        """The prefix that stands for the array at present; see `StoredArray.prefix`."""

    @abstractmethod
    def pipeline(self, chunk: ChunkIndex) -> Pipeline:
        """Return the codecs of a chunk. Raises CodecError."""

    @property
    def unit_share(self) -> float:
        """The share of a chunk in its unit."""
        chunk, unit = self.array.chunk_shape, self.units.chunk_shape
        return prod(chunk) / max(1, prod(unit))

    def members(self, unit: UnitIndex) -> Iterable[ChunkIndex]:
        """Return the chunks of a unit that may have elements in the array.

        They include those that it has if another client has extended the array.
        """
        return (unit,)

    @abstractmethod
    def key(self, unit: UnitIndex) -> Key:
        """Return the current key of the object of a unit."""

    @property
    @abstractmethod
    def is_conditional(self) -> bool:
        """Whether the store itself compares the version that a write replaces."""

    @property
    @abstractmethod
    def is_dated(self) -> bool:
        """Whether `stat` gives the time when a unit was stored."""

    @abstractmethod
    def stat(self, unit: UnitIndex) -> Stat | None:
        """Return the object that the store has of a unit; None: there is none."""

    @abstractmethod
    def version(self, unit: UnitIndex) -> Version:
        """Return the version that the store has of a unit now; `ABSENT`: it has none."""

    @abstractmethod
    def run_from(self, unit: UnitIndex) -> ListedRange | None:
        """Return a run of objects with that of a unit, as `ZMap.run_from`; all if they are few."""

    @abstractmethod
    def newest(
        self, unit: UnitIndex, chunks: Collection[ChunkIndex]
    ) -> tuple[Mapping[ChunkIndex, Values], Version]:
        """Return values of chunks as the store has them now, all of one version of their unit.

        Chunks that it does not have are fill, whatever the options for reading say: such are the
        unwritten elements of a chunk that is being written.
        """

    @abstractmethod
    def store(
        self,
        unit: UnitIndex,
        values: Mapping[ChunkIndex, Values],
        replaces: Version | None,
        sending: Sending | None = None,
        *,
        explicitly: bool = False,
    ) -> Version | None:
        """Put the values of whole chunks of a unit into the store, all at once.

        Parameters
        ----------
        values : by chunk. The other chunks of the unit stay what they are in the version that is
            replaced.
        replaces : the only version to replace; `ABSENT`: store only if there is none; None: replace
            any, which needs the values of all `members`.
        sending : called just before the bytes are sent, and for the last time before they arrive.

        explicitly : store the unit even if it is all fill, because an earlier request with other
            values may still arrive.

        Returns
        -------
        the version that the store has now; None if nothing was stored, because the unit is all fill
        and was never written, which reads the same.

        Raises
        ------
        Conflict : the store has another version. StructureChanged : the store has another array.
        CodecError, StoreError.
        """

    def draft(self, unit: UnitIndex) -> Draft:
        """Return an empty draft of a unit."""
        return Draft(self, unit)

    @abstractmethod
    def delete(self, is_wanted: Callable[[UnitIndex], bool]) -> None:
        """Remove the stored units for which `is_wanted` returns true.

        Some may be removed even if it raises StoreError.
        """


class Draft:
    """Chunks of a unit that come one after another, from any thread, until the unit is stored.

    Parameters
    ----------
    writer : stores it.
    """

    def __init__(self, writer: ChunkStore, unit: UnitIndex) -> None:
        self._writer = writer
        self._unit = unit
        self._values: dict[ChunkIndex, Values] = {}

    @property
    def chunks(self) -> Collection[ChunkIndex]:
        """The chunks that have come."""
        return self._values

    @property
    def is_whole(self) -> bool:
        """Whether all chunks have come that may have elements in the array."""
        return all(chunk in self.chunks for chunk in self._writer.members(self._unit))

    def put(self, chunk: ChunkIndex, values: Values) -> None:
        """Take the values of a whole chunk, which must not change any more.

        Raises
        ------
        CodecError, NoSpace.
        """
        self._values[chunk] = values

    def store(self, replaces: Version | None) -> Version | None:
        """Store the chunks as `ChunkStore.store` does; after an error they can be stored again."""
        return self._writer.store(self._unit, self._values, replaces)

    def drop(self) -> None:
        """Let go of the chunks, and of any that comes later."""
        self._values = {}
