"""The question whether a store still describes an array as its writers know it."""

from __future__ import annotations

from collections.abc import Callable

from nczfs.engine.chunks.storedarray import StoredArray, has_same_chunks
from nczfs.engine.metadata.documents import MetadataCache
from nczfs.engine.metadata.hierarchy import Hierarchy
from nczfs.errors import NczfsError, NoSuchObject, StructureChanged
from nczfs.model.hierarchy import ArrayDescription, Variable
from nczfs.plaindata import frozen
from nczfs.zmap.base import ABSENT, Version
from nczfs.zmap.keys import Key, join, relative


class ArrayCheck:
    """A check of an array before and after its chunks are stored.

    Parameters
    ----------
    described : the array as its writers know it.
    prepare : called first; afterwards it is known whether the store has conditional writes.
    """

    def __init__(
        self,
        hierarchy: Hierarchy,
        metadata: MetadataCache,
        described: ArrayDescription,
        array: StoredArray,
        prepare: Callable[[], None],
    ) -> None:
        self._hierarchy = hierarchy
        self._metadata = metadata
        self._described = described
        self._array = array
        self._prepare = prepare
        self._confirmed: Version | None = None

    def ask(self) -> None:
        """Ask the store for the description, and end the array if it is another one.

        Raises
        ------
        StructureChanged : another client has removed or replaced it; it is forgotten here, and read
            anew when needed. MetadataError, StoreError.
        """
        self._prepare()
        path = None
        while path != self._path:  # it may have been renamed meanwhile
            path = self._path
            self._hierarchy.ask_again(self._hierarchy.format.single.keys(self._document_path))
            try:
                self._compare(path)
            except StructureChanged as error:
                if path == self._path:
                    self._array.end(str(error))
                    self._hierarchy.forget(path)
                    raise

    def is_unchanged(self) -> bool:
        """Return whether the description has the version that was compared last, or is as before.

        It takes one look at the store. Raises StoreError.
        """
        path = self._path
        key = self._document_key
        try:
            version = self._metadata.zmap.stat(key).version
        except NoSuchObject:
            version = ABSENT
        if version == self._confirmed:
            return True
        if not self._metadata.is_fresh(key, version):
            return False
        try:
            self._compare(path)  # it was read, or stored, since
        except StructureChanged:
            return False
        return version == self._confirmed

    def _compare(self, path: str) -> None:
        """Compare the description in the documents. Raises StructureChanged, MetadataError."""
        hierarchy = self._hierarchy
        single = hierarchy.format.single
        documents = hierarchy.documents()
        documents.fetch(single.keys(self._document_path))
        stored = hierarchy.edits.applied(path, documents.node(single, path))
        if stored is None and single is not hierarchy.format:
            loaded = hierarchy.load(path)  # there is nothing but the consolidated copy
            stored = loaded.node if loaded is not None else None
        if not (isinstance(stored, Variable) and has_same_chunks(stored.array, self._described)):
            raise replaced(hierarchy, path)
        documents.get(single.array_key(self._document_path))
        self._confirmed = documents.used[self._document_key]

    @property
    def _path(self) -> str:
        """The current path of the array in its dataset."""
        return relative(self._array.prefix, self._hierarchy.root)

    @property
    def _document_path(self) -> str:
        """The current path of the array whose document describes it: itself, or its primary."""
        return relative(self._array.place.prefix, self._hierarchy.root)

    @property
    def _document_key(self) -> Key:
        single = self._hierarchy.format.single
        return join(self._hierarchy.root, single.array_key(self._document_path))


@frozen
class OpenArray:
    """An array that is open, as it was described when a longer one was needed.

    Attributes
    ----------
    lose : notes that it is gone, and something that was written to it.
    """

    hierarchy: Hierarchy
    stored: StoredArray
    description: ArrayDescription
    lose: Callable[[StoredArray, NczfsError], None]

    def check(self, variable: Variable) -> None:
        """See `WrittenArray.check`."""
        if not has_same_chunks(variable.array, self.description):
            raise replaced(self.hierarchy, variable.path)

    def lost(self, error: NczfsError) -> None:
        """See `WrittenArray.lost`."""
        self.lose(self.stored, error)


def replaced(hierarchy: Hierarchy, path: str) -> StructureChanged:
    """Return the error for a variable that is another one by now."""
    return StructureChanged(
        f"{hierarchy.url(path)}: another client has removed or replaced it since it was opened"
    )
