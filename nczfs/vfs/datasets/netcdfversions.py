"""The present versions of the netCDF files of a tree."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from weakref import WeakValueDictionary

from nczfs.engine.arrays.array import now
from nczfs.engine.dataset import Dataset, Engine
from nczfs.engine.headway import Headway
from nczfs.engine.metadata.ledger import Shelf
from nczfs.engine.metadata.turns import PARSING
from nczfs.engine.opennode import OpenNode
from nczfs.engine.weight import weight_of_group
from nczfs.errors import ObjectTooLarge, Unsupported
from nczfs.model.hierarchy import Group
from nczfs.plaindata import frozen
from nczfs.vfs import effects
from nczfs.views.netcdf.version import NetcdfFormat, NetcdfVersion, version_of
from nczfs.zmap.base import ZMap
from nczfs.zmap.keys import Prefix, is_within

DIGESTS_MAX = 1 << 16
SEGMENT_BYTES = 500  # about what a variable takes in a layout
LINES_MAX = 100  # of problems about one file

NODES_MAX = 50_000
"""Groups and variables of a file. To read them takes 15 s of processor time, which a program that
opens the file waits for; a group may have any number."""


@frozen
class NetcdfPlace:
    """The place of a netCDF file: a node of a store, and the name of the file."""

    zmap: ZMap
    prefix: Prefix
    name: str


@frozen
class NetcdfSource:
    """What a netCDF file is made of.

    Attributes
    ----------
    place : where the file was found.
    node : of the dataset: a group, or a variable. It may be renamed.
    stem : of the file's name.
    group : returns what the file shows, by the path of its node.
    is_of_group : whether the node is a group.
    """

    place: NetcdfPlace
    dataset: Dataset
    node: OpenNode
    stem: str
    form: NetcdfFormat
    group: Callable[[str], Group]
    is_of_group: bool


def netcdf_source(
    dataset: Dataset,
    path: str,
    stem: str,
    form: NetcdfFormat,
    group: Callable[[str], Group],
    *,
    is_of_group: bool,
) -> NetcdfSource:
    """Return the source of a netCDF file that is found in the directory of a node now."""
    node = dataset.open_node(path)
    place = NetcdfPlace(dataset.zmap, node.prefix, stem + form.kind.suffix)
    return NetcdfSource(place, dataset, node, stem, form, group, is_of_group)


@frozen
class _Made:
    """A version, the group that it was made of, and when that was last seen to be the same."""

    group: Group
    version: NetcdfVersion
    seen_at: float
    revision: int


class _Turn:
    """The turn to make versions of one file."""

    __slots__ = ("__weakref__", "lock")

    def __init__(self) -> None:
        self.lock = threading.Lock()


class NetcdfVersions:
    """The present version of each netCDF file, made when it is first needed.

    A version is kept as long as a file shows it, and else as long as the budget of the metadata has
    room. `_lock` guards the dict of turns; a file's own lock is held while its version is made.

    Parameters
    ----------
    ttl_s : for how long a group is believed to be the same.
    formats : of the files.
    record_dimensions : names of dimensions that are unlimited in the files.
    """

    def __init__(
        self,
        engine: Engine,
        ttl_s: float,
        formats: Sequence[NetcdfFormat],
        record_dimensions: Collection[str],
    ) -> None:
        self.formats = formats
        self._ttl_s = ttl_s
        self._record_dimensions = frozenset(record_dimensions)
        self._made: Shelf[NetcdfPlace, _Made] = Shelf(engine.ledger)
        self._digests: dict[NetcdfPlace, bytes] = {}
        self._shown: WeakValueDictionary[tuple[NetcdfPlace, bytes], NetcdfVersion] = (
            WeakValueDictionary()
        )
        self._headway = Headway()
        self._lock = threading.Lock()
        self._turns: WeakValueDictionary[NetcdfPlace, _Turn] = WeakValueDictionary()

    def digest(self, place: NetcdfPlace) -> bytes | None:
        """Return the digest of the version that was made last. Makes nothing."""
        return self._digests.get(place)

    def known(self, source: NetcdfSource) -> NetcdfVersion | None:
        """Return the present version if that is known now, without waiting."""
        made = self._made.get(source.place)
        if made is not None and self._is_current(made, source.dataset):
            return made.version
        return None

    def omitted(self, source: NetcdfSource) -> tuple[str, ...]:
        """Return a line for each member that the present version of a file leaves out.

        Raises what `present` raises, except ObjectTooLarge and Unsupported, which are lines.
        """
        name = source.place.name
        try:
            lines = self.present(source).omitted
        except (ObjectTooLarge, Unsupported) as error:
            return (f"{name}: cannot be made: {error}",)
        more = len(lines) - LINES_MAX
        ended = (f"{name} leaves out {more} more",) if more > 0 else ()
        return (*(f"{name} leaves out {line}" for line in lines[:LINES_MAX]), *ended)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Let the request of this thread wait for as long as files are being made."""
        with effects.waiting_for(self._headway):
            yield

    def present(self, source: NetcdfSource, *, anew: bool = False) -> NetcdfVersion:
        """Return the present version; makes it if its group has changed. May block.

        Parameters
        ----------
        anew : whether the group is looked at, however lately that was done.

        Raises
        ------
        StructureChanged : the node was removed. Unsupported : the file cannot be made.
        ObjectTooLarge : the group has too many members.
        NczfsError : the group cannot be read.
        """
        place, dataset = source.place, source.dataset
        with self.waiting(), self._turn(place).lock, self._headway.noted():
            made = self._made.get(place)
            if made is not None and not anew and self._is_current(made, dataset):
                return made.version
            seen_at, revision = now(), dataset.edits.revision
            with PARSING.visit():
                found = source.node.follow(source.group)
            version = self._version(source, found, made)
            weight = weight_of_group(found) + SEGMENT_BYTES * len(version.elements)
            self._made.put(place, _Made(found, version, seen_at, revision), weight)
            return version

    def forget(self, prefix: Prefix) -> None:
        """Look again at the groups at, below and above a prefix when they are needed."""
        for place in self._made:
            if is_within(place.prefix, prefix) or is_within(prefix, place.prefix):
                self._made.pop(place)

    def _version(self, source: NetcdfSource, group: Group, made: _Made | None) -> NetcdfVersion:
        if made is not None and made.group == group and made.version.has_newest_texts:
            return made.version
        version = version_of(
            source.dataset, group, source.form, self._record_dimensions, source.stem
        )
        place = source.place
        shown = self._shown.get((place, version.digest))
        if shown is not None and shown.layout.arrays == version.layout.arrays:
            return shown
        self._shown[place, version.digest] = version
        self._digests.pop(place, None)
        self._digests[place] = version.digest
        while len(self._digests) > DIGESTS_MAX:
            self._digests.pop(next(iter(self._digests)), None)
        return version

    def _is_current(self, made: _Made, dataset: Dataset) -> bool:
        return (
            made.revision == dataset.edits.revision
            and now() - made.seen_at < self._ttl_s
            and made.version.has_newest_texts
        )

    def _turn(self, place: NetcdfPlace) -> _Turn:
        with self._lock:
            found = self._turns.get(place)
            if found is None:
                found = self._turns[place] = _Turn()
            return found
