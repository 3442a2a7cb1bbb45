"""The keys of a dataset, and the foreign keys among them.

A dataset owns its documents, and below an array everything that is named like a chunk. Below an
unfinished node, which has no documents yet, chunks may be anywhere. Anything else may be a user's
file: a README beside the groups, or all files of a directory in which the document of a group was
left by mistake. Removing and overwriting a dataset leave those alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from nczfs.engine.dataset import Dataset
from nczfs.errors import ForeignObjects, MetadataError, NotWritable, StoreError
from nczfs.formats.documentnames import DocumentNames
from nczfs.formats.registry import FORMATS
from nczfs.model.hierarchy import GroupHeader, Variable
from nczfs.model.keysets import family
from nczfs.plaindata import frozen
from nczfs.zmap.base import ZMap
from nczfs.zmap.keys import Key, Prefix, join, relative

REMOVING = ".nczfs_removing"
"""The last component of the key that a group has while the chunks below it are removed."""

UNFINISHED = ".nczfs_unfinished"
"""The last component of the key that marks the node beside it as unfinished."""

RENAMING = ".nczfs_renaming"
"""The last component of the keys that a group or variable has at both names while it is renamed."""

REPLACING = ".nczfs_replacing"
"""The last component of the key that a group has while it is replaced by steps."""

THREADS = 16  # that wait for a store

NAMED_MAX = 10  # number of foreign keys that a message names

_OWN = ".nczfs_"


@frozen
class Owned:
    """The sorted keys below a prefix.

    Attributes
    ----------
    nodes : documents by which nodes are found.
    rest : chunks and other documents.
    foreign : keys that belong to no dataset.
    """

    nodes: tuple[Key, ...]
    rest: tuple[Key, ...]
    foreign: tuple[Key, ...]


def unfinished_text(name: str) -> str:
    """Return what a message says of an unfinished place with that name."""
    return (
        f"{name}: is unfinished: a copy or an import is running, or was interrupted; the same "
        "`nczfs cp` continues it, and `nczfs rm -r` removes it"
    )


def replacing_text(name: str) -> str:
    """Return what a message says of a group with that name whose new content is not in place."""
    return (
        f"{name}: is being replaced: its new content is in the store, but not all of it in place; "
        "a mount of nczfs that can write there completes that"
    )


def has_mark(zmap: ZMap, mark: str) -> bool:
    """Return whether the root of a store has a mark, as far as the store tells."""
    try:
        zmap.stat(Key(mark))
    except StoreError:
        return False
    return True


def left_text(zmap: ZMap) -> str | None:
    """Return what a message says of a root without a dataset that is marked; None: it is not."""
    texts = ((UNFINISHED, unfinished_text), (REPLACING, replacing_text))
    return next((text(zmap.name) for mark, text in texts if has_mark(zmap, mark)), None)


def unfinished_among(zmap: ZMap, prefix: Prefix, names: Sequence[str]) -> list[str]:
    """Return the names below a prefix that are marked as unfinished. Asks for each mark."""

    def is_marked(name: str) -> bool:
        try:
            zmap.stat(join(join(prefix, name), UNFINISHED))
        except StoreError:
            return False
        return True

    if zmap.features.near or len(names) < 2:
        return [name for name in names if is_marked(name)]
    with ThreadPoolExecutor(THREADS, "nczfs-marks") as pool:
        return [n for n, marked in zip(names, pool.map(is_marked, names), strict=True) if marked]


def makes_a_node(name: str) -> bool:
    """Return whether other programs find a node by a document of that name."""
    return name in FORMATS.nodes or name in FORMATS.copies


def owned(
    prefix: Prefix,
    keys: Sequence[Key],
    names: DocumentNames | None = None,
    *,
    arrays: Collection[Prefix] = (),
    may_be_array: Callable[[str], bool] = lambda _: True,
    is_unit: Callable[[str, str], bool] = lambda _place, _name: False,
) -> Owned:
    """Sort the keys below a prefix; the key `REMOVING` of the prefix itself is left out.

    Parameters
    ----------
    keys : all of them, in any order.
    names : of the documents of the dataset; those of other formats belong to it where they lie
        beside one. None: there is no dataset, or not yet.
    arrays : where chunks may lie, although a document is gone, or not there yet.
    may_be_array : whether the node at a prefix is an array, if the name of its document may be that
        of a group, too.
    is_unit : whether the array at a prefix, or one that depends on it, has chunks in an object of a
        name that most arrays do not have.
    """
    places = _Places(keys, names, may_be_array, is_unit)
    places.arrays.update(arrays)
    nodes: list[Key] = []
    rest: list[Key] = []
    foreign: list[Key] = []
    for key in keys:
        place, _, name = key.rpartition("/")
        if name == REMOVING and place == prefix:
            continue
        if not makes_a_node(name):
            (rest if is_document(name) or places.is_chunk(key) else foreign).append(key)
        elif name in FORMATS.copies or places.is_ours(name, place):
            nodes.append(key)
        else:  # alone it is a node of another format, not of this dataset
            foreign.append(key)
    return Owned(tuple(nodes), tuple(rest), tuple(foreign))


def is_group_at(dataset: Dataset, path: str) -> bool | None:
    """Return whether a node is a readable group; None: there is no node."""
    try:
        loaded = dataset.load(path)
    except MetadataError:
        return False
    return None if loaded is None else isinstance(loaded.node, GroupHeader)


def owned_by(
    dataset: Dataset, path: str, keys: Sequence[Key], arrays: Collection[Prefix] = ()
) -> Owned:
    """Sort the keys at and below a node of a dataset, as `owned` does."""

    def may_be_array(place: str) -> bool:
        return not is_group_at(dataset, relative(place, dataset.root))

    def is_unit(place: str, name: str) -> bool:
        try:
            loaded = dataset.load(relative(place, dataset.root))
        except MetadataError:
            return False
        if loaded is None or not isinstance(loaded.node, Variable):
            return False
        return any(each.array.unit_index(name) is not None for each in family(loaded.node))

    return owned(
        dataset.prefix(path),
        keys,
        dataset.format.names,
        arrays=arrays,
        may_be_array=may_be_array,
        is_unit=is_unit,
    )


def check_no_dependent(dataset: Dataset, path: str) -> None:
    """Raise NotWritable if the array at a path is declared by another one."""
    try:
        loaded = dataset.load(path)
    except MetadataError:
        return
    node = None if loaded is None else loaded.node
    if isinstance(node, Variable) and node.is_dependent:
        raise NotWritable(
            f"{dataset.url(path)}: is a dependent array, a part of /{node.primary}; "
            "`nczfs dependents` changes what that declares"
        )


def is_left_over(name: str) -> bool:
    """Return whether an interrupted removal may have left such an entry below its node."""
    return FORMATS.is_chunk(name) or is_document(name)


def is_document(name: str) -> bool:
    """Return whether a document has the name that makes no node: of a format, or our own."""
    if name.startswith(_OWN):
        return True
    return name in FORMATS.documents and not makes_a_node(name)


class _Places:
    """The prefixes that documents make nodes of a dataset.

    Attributes
    ----------
    nodes : with a document of the dataset's own format.
    arrays : below which chunks may lie.
    interrupted : of nodes that are being made, renamed or removed.
    """

    def __init__(
        self,
        keys: Sequence[Key],
        names: DocumentNames | None,
        may_be_array: Callable[[str], bool],
        is_unit: Callable[[str, str], bool],
    ) -> None:
        self._is_unit = is_unit
        known = (names,) if names is not None else FORMATS.written
        self._own = frozenset(name for each in known for name in each.nodes)
        self._is_chunk = FORMATS.is_chunk if names is None else names.is_chunk
        of_arrays = {name for each in known for name in each.arrays}
        of_groups = {name for each in known for name in each.groups}
        places: dict[str, set[str]] = {
            name: set() for name in (*self._own, UNFINISHED, RENAMING, REMOVING, REPLACING)
        }
        for key in keys:
            if (name := _name(key)) in places:
                places[name].add(_above(key))

        def having(names: Iterable[str]) -> set[str]:
            return set().union(*(places[name] for name in names))

        self.nodes = having(self._own)
        self.interrupted = having((UNFINISHED, RENAMING, REMOVING, REPLACING))
        self.arrays = having((*(of_arrays - of_groups), UNFINISHED, RENAMING))
        self._unclear = having(of_arrays & of_groups) - self.arrays
        self._may_be_array = may_be_array

    def is_ours(self, name: str, place: str) -> bool:
        """Return whether a document that makes a node belongs to the dataset."""
        return name in self._own or place in self.nodes or _is_below(place, self.interrupted)

    def is_chunk(self, key: Key) -> bool:
        """Return whether a key is named like a chunk, also of an array being made or removed."""
        place = _above(key)
        if self.interrupted and self._is_left(key):
            return True
        while place and not self._is_array(place):
            place = _above(place)
        name = key[len(place) + 1 if place else 0 :]
        if not self._is_array(place):
            return False
        return self._is_chunk(name) or self._is_unit(place, name)

    def _is_left(self, key: str) -> bool:
        """Return whether a key is named like a chunk of any array below an interrupted node."""
        array = _above(key)
        while _is_below(array, self.interrupted):
            if self._is_chunk(key[len(array) + 1 :]):
                return True
            array = _above(array)
        return False

    def _is_array(self, place: str) -> bool:
        if place in self._unclear:
            self._unclear.discard(place)
            if self._may_be_array(place):
                self.arrays.add(place)
        return place in self.arrays


def check_no_foreign(place: str, prefix: Prefix, foreign: Sequence[Key]) -> None:
    """Raise ForeignObjects if there are any.

    Parameters
    ----------
    place : of the node to remove, for the message.
    """
    if not foreign:
        return
    start = len(prefix) + 1 if prefix else 0
    named = ", ".join(key[start:] for key in foreign[:NAMED_MAX])
    more = len(foreign) - NAMED_MAX
    raise ForeignObjects(
        f"{place}: {len(foreign)} {'object belongs' if len(foreign) == 1 else 'objects belong'} to "
        f"no dataset ({named}{f', and {more} more' if more > 0 else ''}); nothing was removed"
    )


def _is_below(place: str, tops: Collection[str]) -> bool:
    """Return whether a place is strictly below one of others."""
    while tops and place:
        place = _above(place)
        if place in tops:
            return True
    return False


def _above(key: str) -> str:
    return key.rpartition("/")[0]


def _name(key: str) -> str:
    return key.rpartition("/")[2]
