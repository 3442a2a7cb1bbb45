"""Records that were appended, while it is not certain yet where in the array they stand.

Another client may append to the same array at the same time: who claims a place first has it
(`engine/metadata/claims.py`), and the records of all others stand behind.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from nczfs.buffers import Values
from nczfs.engine.arrays.array import Array
from nczfs.engine.chunks.storedarray import StoredArray
from nczfs.engine.metadata.claims import with_claim
from nczfs.engine.metadata.hierarchy import Hierarchy
from nczfs.engine.process import ProcessIdentity
from nczfs.engine.retrying import until_stored
from nczfs.errors import Conflict, NczfsError, NoSuchNode, StructureChanged
from nczfs.model.boxes import Box
from nczfs.model.hierarchy import Variable
from nczfs.zmap.keys import join

log = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class _Rows:
    """The records [first, stop) of an array.

    Attributes
    ----------
    grow : makes the array at least so long.
    name : of them, in a claim.
    is_doubted : whether a claim of them may have been stored although its answer was lost: until
        that is known, no more are added.
    claimed : the place that they have, and are not at yet, because the disk was full or the like.
    values : theirs, while they are being moved.
    is_bound : whether they have a place at `first` or nowhere.
    """

    array: StoredArray
    grow: Callable[[int], None]
    first: int
    stop: int
    name: str = field(default_factory=lambda: secrets.token_hex(8))
    is_doubted: bool = False
    claimed: int | None = None
    values: Values | None = None
    is_bound: bool = False

    @property
    def is_unsettled(self) -> bool:
        """Whether their place, which others respect, is not known or not taken yet."""
        return self.is_doubted or self.claimed is not None


class Appends:
    """The appended records of one dataset whose place is not certain, by the path of the variable.

    They are dirty, and shown, like all that was written; but `StoredArray.held_from` keeps them
    from being stored until their place is claimed. Records are added under the lock of
    `Edits.names`; who claims a place holds the path of the variable, so that none are added
    meanwhile.

    Parameters
    ----------
    array_of : the values of a variable.
    has_conditions : whether two clients can append at a time; else a lease keeps all others away.
    """

    def __init__(
        self,
        hierarchy: Hierarchy,
        array_of: Callable[[Variable], Array],
        has_conditions: Callable[[], bool],
    ) -> None:
        self._hierarchy = hierarchy
        self._edits = hierarchy.edits
        self._array_of = array_of
        self._has_conditions = has_conditions
        self._rows: dict[str, _Rows] = {}

    @property
    def is_any(self) -> bool:
        """Return whether there are any. Needs no lock."""
        return bool(self._rows)

    @property
    def paths(self) -> list[str]:
        """The paths of their variables. Needs no lock."""
        return list(self._rows)

    def add(
        self,
        path_of: Callable[[], str],
        array: StoredArray,
        values: Values,
        grow: Callable[[int], None],
    ) -> int:
        """Append records to a variable. Returns the provisional index of the first one.

        Parameters
        ----------
        path_of : returns the path of the variable.

        Raises
        ------
        NoSpace, CodecError, StoreError.
        """
        while True:
            with self._edits.names.changing(path_of):
                path = path_of()
                length, rows = self._variable(path).array.shape[0], self._rows.get(path)
                if rows is None:
                    rows = self._rows[path] = _Rows(array, grow, length, length)
                    array.held_from = array.appended_from = length
                if not rows.is_unsettled and rows.stop == length:
                    self._hold(self._array(path), values, length, grow)
                    rows.stop = length + len(values)
                    return length
            self.claim_for(path)  # another client has extended it, or they are half moved

    @staticmethod
    def _hold(array: Array, values: Values, start: int, grow: Callable[[int], None]) -> None:
        """Put records behind the end of an array, which then grows; after an error, neither."""
        longer = array.lengthened(start + len(values))
        box = _box(longer, start, start + len(values))
        try:
            longer.hold(box, longer.storable(values))
            grow(start + len(values))
        except BaseException:
            try:
                array.retract(box)
            except NczfsError as error:  # they are beyond the end, and the next ones replace them
                log.warning("%s: records that failed are kept: %s", array.stored.prefix, error)
            raise

    def claim_for(self, path: str) -> None:
        """Claim a place for all records that were appended to a variable.

        Raises
        ------
        StructureChanged, NoSuchNode : the variable is no more. CodecError, MetadataError,
            StoreError : they wait for a place.
        """
        with self._edits.names.held(path):
            rows = self._rows.get(path)
            if rows is None:
                return
            try:
                if rows.first < rows.stop:
                    self._claim(path, rows)
            except (StructureChanged, NoSuchNode):
                self._release(path)
                raise
            self._release(path)

    def claim(self, paths: Iterable[str]) -> dict[str, NczfsError]:
        """Claim places in some variables. Returns the errors by path."""
        failures: dict[str, NczfsError] = {}
        for path in [path for path in paths if path in self._rows]:
            try:
                self.claim_for(path)
            except NczfsError as error:
                failures[path] = error
        return failures

    def claim_at(self, path: str, first: int, stop: int, ended: ProcessIdentity | None) -> bool:
        """Claim the records [first, stop) of a variable, or nothing. Returns whether they are free.

        Parameters
        ----------
        ended : the process that has appended them, whose claims do not count.

        Raises
        ------
        StructureChanged, NoSuchNode, MetadataError, StoreError.
        """
        with self._edits.names.held(path):
            rows = _Rows(self._array(path).stored, lambda _: None, first, stop, is_bound=True)
            place = self._hierarchy.url(path)
            found = until_stored(lambda attempt: self._claimed(path, rows, attempt, ended), place)
            return found == first

    def forget(self, is_gone: Callable[[str], bool]) -> None:
        """Drop the records of removed variables, whose paths the caller holds."""
        for path in filter(is_gone, self.paths):
            self._release(path)

    def _claim(self, path: str, rows: _Rows) -> None:
        if rows.claimed is None:
            place = self._hierarchy.url(path)
            rows.claimed = until_stored(lambda attempt: self._claimed(path, rows, attempt), place)
            rows.is_doubted = False
        if rows.claimed > rows.first:
            self._move(path, rows, rows.claimed)

    def _claimed(
        self, path: str, rows: _Rows, attempt: int, ended: ProcessIdentity | None = None
    ) -> int:
        """Claim a place for some records. Returns the index of the first one.

        Raises
        ------
        Conflict : another client has changed the document; it is to be tried again.
        """
        array = self._array(path)
        if attempt:
            array.writer().confirm.doubt()
        array.writer().confirm()
        if array.stored is not rows.array:
            raise StructureChanged(f"{self._hierarchy.url(path)}: another client has replaced it")
        single = self._edits.format
        key = single.array_key(path)
        if attempt:  # until then what is believed of it will do: the store compares its version
            self._hierarchy.ask_again([key])
        documents = self._hierarchy.documents()
        data = documents.get(key)
        if data is None:
            raise StructureChanged(f"{self._hierarchy.url(path)}: another client has removed it")
        count, was_doubted = rows.stop - rows.first, rows.is_doubted
        first, claimed = with_claim(single, data, key, rows.name, rows.first, count, ended)
        if rows.is_bound and first != rows.first:
            return first
        if self._has_conditions():
            self._edits.own_claims.add(rows.name)
            rows.is_doubted = True
            try:
                known = documents.used[join(self._hierarchy.root, key)]
                self._edits.note(path, key, claimed, known)
            except Conflict:
                rows.is_doubted = was_doubted
                raise
        return first

    def _move(self, path: str, rows: _Rows, first: int) -> None:
        """Put records behind those of others.

        The last ones are moved first, so that wherever this ends each one is at a place at least.
        """
        array = self._array(path)
        if rows.values is None:
            rows.values = array.held(_box(array, rows.first, rows.stop))
        rows.grow(first + len(rows.values))
        array = self._array(path)
        rows.array.appended_from = first
        step, stop = array.description.chunk_shape[0], first + len(rows.values)
        while stop > first:
            start = max(first, (stop - 1) // step * step)
            array.hold(_box(array, start, stop), rows.values[start - first : stop - first])
            stop = start
        array.retract(_box(array, rows.first, min(rows.stop, first)))

    def _release(self, path: str) -> None:
        array = self._rows.pop(path).array
        array.held_from = array.appended_from = None

    def _variable(self, path: str) -> Variable:
        node = self._hierarchy.node(path)
        assert isinstance(node, Variable)
        return node

    def _array(self, path: str) -> Array:
        return self._array_of(self._variable(path))


def _box(array: Array, first: int, stop: int) -> Box:
    inner = array.description.shape[1:]
    return Box((first, *(0 for _ in inner)), (stop, *inner))
