"""The documents of Zarr v3 beside those of Zarr v2, in place: both describe the same chunks."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TypeAlias, TypeVar

from nczfs.engine.values.convert import fill_attribute
from nczfs.engine.values.fillvalues import FILL_VALUE
from nczfs.errors import BadMetadata, NczfsError, ObjectExists, Unsupported
from nczfs.formats.base import Node
from nczfs.formats.names import below
from nczfs.formats.registry import FORMATS
from nczfs.model.dtypes import CODE_OF_NC_TYPE
from nczfs.model.hierarchy import GroupHeader, Variable
from nczfs.plaindata import frozen
from nczfs.tools.progress import Progress
from nczfs.tools.transfer.source import Notice
from nczfs.tools.verify.findings import FindingKind
from nczfs.tools.verify.nodes import Nodes
from nczfs.tools.verify.subject import Subject
from nczfs.zmap.base import ABSENT
from nczfs.zmap.keys import Key, parse_key

T = TypeVar("T")

NAMED_MAX = 10  # nodes that a refusal names
AT_ONCE = 64  # documents that are written together
_UNREADABLE = (FindingKind.UNREADABLE, FindingKind.MISSING)


@frozen
class NewDocument:
    """A document of Zarr v3.

    Attributes
    ----------
    present : what the store has of that key; None: nothing.
    """

    key: Key
    data: bytes
    present: bytes | None

    @property
    def is_there(self) -> bool:
        """Whether the store has it already."""
        return self.present == self.data


Elsewhere: TypeAlias = Callable[[Iterator[Sequence[NewDocument]], Progress], None]
"""Writes batches of documents in other processes. Raises if one could not be written."""


class MetadataConversion:
    """The conversion of a dataset's documents from Zarr v2 to v3.

    Everything is checked before anything is written. Documents of the nodes below come first, and
    that of the root last: until it is there, every reader finds the dataset of Zarr v2. A dataset
    whose root has a document of v3 counts as converted.

    Parameters
    ----------
    notice : takes lines about what readers of Zarr v3 see differently.
    overwrite : whether other documents of Zarr v3 beside those of v2 are replaced.
    adds_fill_values : whether arrays get the attribute ``_FillValue`` that they lack. xarray takes
        the fill value for missing data in Zarr v2, and only the attribute in v3.
    """

    def __init__(
        self,
        subject: Subject,
        notice: Notice,
        *,
        overwrite: bool = False,
        adds_fill_values: bool = False,
    ) -> None:
        self._subject = subject
        self._notice = notice
        self._overwrite = overwrite
        self._adds_fill_values = adds_fill_values
        self._nodes = Nodes(subject)
        self._form = FORMATS.conversion
        self.is_done = subject.format.names is not self._form.old

    def check(self) -> None:
        """Read all documents, and check that each can be converted.

        Raises
        ------
        Unsupported : some cannot be said in Zarr v3. The message names the first ten.
        BadMetadata : a group or array cannot be read.
        ObjectExists : there are other documents of Zarr v3.
        StoreError : the store could not be reached.
        """
        for finding in self._nodes.walk():
            if finding.kind in _UNREADABLE:
                raise BadMetadata(f"{finding.path}: {finding.message}; nothing was converted")
        if self.is_done:
            return
        refused: list[str] = []
        written = _Written()
        masked = worded = 0
        for path, node in self._nodes.found.items():  # groups come before their members
            try:
                document = self._document(path, node)
                written.documents[document.key] = document.data
                self._compare(node, written)
            except Unsupported as error:
                refused.append(str(error))
                continue
            if document.present is not None and not document.is_there and not self._overwrite:
                place = self._subject.dataset.url(document.key)
                raise ObjectExists(f"{place}: is there and differs; --overwrite replaces it")
            worded += _has_bare_words(document.data)
            if isinstance(node, Variable):
                del written.documents[document.key]
                masked += _lacks_fill(node) and not self._adds_fill_values
        if refused:
            more = len(refused) - NAMED_MAX
            rest = f"; and {more} more" if more > 0 else ""
            raise Unsupported(f"{'; '.join(refused[:NAMED_MAX])}{rest}; nothing was converted")
        if masked:
            self._notice(
                f"{masked} {'array has' if masked == 1 else 'arrays have'} a fill value and no "
                "attribute _FillValue: xarray takes such values for missing ones in Zarr v2, and "
                "not in v3; --add-fill-values adds the attribute"
            )
        if worded:
            self._notice(
                f"{worded} {'node has' if worded == 1 else 'nodes have'} NaN or infinities in "
                "attributes, which JSON does not have: tensorstore refuses such an array in Zarr "
                "v3, and in v2 it does not read attributes"
            )

    def documents(self) -> Iterator[NewDocument]:
        """Yield the new documents in the order of writing, after `check`."""
        if self.is_done:
            return
        copied: dict[str, bytes] = {}
        form = self._subject.format.copy
        data = None if form is None else self._subject.documents().get(form.key)
        has_copy = form is not None and data is not None and form.has_copy(data)
        for path, node in reversed(self._nodes.found.items()):
            document = self._document(path, node)
            if has_copy:
                copied[document.key] = document.data
            if has_copy and not path and isinstance(node, GroupHeader):
                copy = self._form.copy.made_of(dict(reversed(copied.items())))
                document = replace(document, data=copy)
            yield document

    def run(self, progress: Progress = lambda _: None, elsewhere: Elsewhere | None = None) -> int:
        """Write what the store does not have yet, after `check`. Returns the number of documents.

        If something fails, what was written is removed again.

        Parameters
        ----------
        progress : called with the number of written documents.
        elsewhere : writes all documents but that of the root; None: this process does.

        Raises
        ------
        StoreError.
        """
        zmap = self._subject.dataset.zmap
        pool = self._subject.engine.pools.write
        written: list[Key] = []

        missing = (each for each in self.documents() if not each.is_there)
        batches = self._batches(missing)
        try:
            if elsewhere is not None:
                root: list[list[NewDocument]] = []

                def others() -> Iterator[list[NewDocument]]:
                    for batch in batches:
                        if self._is_root(batch[-1]):
                            root.append(batch)
                            return
                        written.extend(each.key for each in batch if each.present is None)
                        yield batch

                elsewhere(others(), progress)
                batches = iter(root)
            for batch in batches:
                if self._is_root(batch[-1]):  # which counts when all others are safe
                    zmap.flush()
                futures: list[Future[object]] = []
                for each in batch:
                    if each.present is None:
                        written.append(each.key)
                    replaces = ABSENT if each.present is None else None
                    futures.append(pool.submit(zmap.write, each.key, each.data, replaces=replaces))
                wait(futures)
                for future in futures:
                    future.result()
                progress(len(batch))
            zmap.flush()
        except BaseException:
            with contextlib.suppress(NczfsError):
                zmap.delete_many(reversed(written))
            raise
        return len(written)

    def remove_old(self) -> int:
        """Remove the documents of Zarr v2 beside those of v3, after `run`.

        Returns
        -------
        the number of nodes.
        """
        zmap = self._subject.dataset.zmap
        names = (*self._form.old.single, self._form.old.copy)
        places = list(reversed(self._nodes.found))
        zmap.delete_many(parse_key(below(path, name)) for path in places for name in names)
        zmap.flush()
        return len(places)

    def _is_root(self, document: NewDocument) -> bool:
        return document.key == self._form.name

    def _batches(self, documents: Iterator[NewDocument]) -> Iterator[list[NewDocument]]:
        """Yield documents that can be written together; that of the root is alone."""
        while batch := list(islice(documents, AT_ONCE)):
            if len(batch) > 1 and self._is_root(batch[-1]):
                yield batch[:-1]
                batch = batch[-1:]
            yield batch

    def _document(self, path: str, node: Node) -> NewDocument:
        documents, old = self._subject.documents(), self._subject.format
        key = old.attributes_key(path)
        data = documents.get(key)
        if self._adds_fill_values and isinstance(node, Variable):
            node = _with_fill(node)
        stored = None
        if not old.declares:  # otherwise the types of attributes are beside them
            stored = {} if data is None else old.stored_attributes(data, key)
        is_array = isinstance(node, Variable)
        where = old.array_key(path) if is_array else old.group_key(path)
        new = self._form.document_of(node, stored, where)
        new_key = parse_key(below(path, self._form.name))
        return NewDocument(new_key, new, documents.get(new_key))

    def _compare(self, node: Node, written: _Written) -> None:
        """Read what is to be written, and compare it.

        Raises
        ------
        Unsupported : an array would be another one.
        """
        new = self._form.new(self._subject.options).read_node(node.path, written)
        place = f"/{node.path}"
        if isinstance(node, Variable):
            assert isinstance(new, Variable)
            for member in ("shape", "chunk_shape", "chunk_keys"):
                if getattr(node.array, member) != getattr(new.array, member):
                    raise Unsupported(f"{place}: {member} would be another one in Zarr v3")
            names = [each.name for each in node.dimensions]
            if names != (read := [each.name for each in new.dimensions]):
                self._notice(f"{place}: the dimensions {names} are read as {read}")
            lost = [each.name for each in node.dimensions if each.unlimited]
            lost = [n for n in lost if n not in {d.name for d in new.dimensions if d.unlimited}]
            if lost:
                self._notice(f"{place}: unlimited dimensions {lost} have a fixed length")
        assert new is not None
        types = {each.name: each.type for each in new.attributes}
        other = [a.name for a in node.attributes if types.get(a.name) is not a.type]
        if other:
            self._notice(f"{place}: the types of attributes {other} are not kept")


@dataclass
class _Written:
    """Documents in memory; implements `Documents`."""

    documents: dict[str, bytes] = field(default_factory=dict)

    def get(self, key: str) -> bytes | None:
        return self.documents.get(key)

    def fetch(self, keys: Iterable[str]) -> None:
        """Do nothing: all documents are in memory."""

    def derived(self, name: str, keys: Iterable[str], make: Callable[[], tuple[T, int]]) -> T:
        return make()[0]


def _lacks_fill(variable: Variable) -> bool:
    """Return whether xarray takes the fill value for missing data, and no attribute says so."""
    if variable.array.fill_value is None or variable.array.dtype.nc_type not in CODE_OF_NC_TYPE:
        return False
    if all(dimension.anonymous for dimension in variable.dimensions):
        return False
    return all(attribute.name != FILL_VALUE for attribute in variable.attributes)


def _has_bare_words(document: bytes) -> bool:
    """Return whether a document has NaN or an infinity as a word without quotes."""
    words: list[str] = []
    text = document.decode("utf-8", "surrogateescape")
    # Numbers may have more digits than Python converts.
    json.loads(text, parse_constant=words.append, parse_int=len, parse_float=len)
    return bool(words)


def _with_fill(variable: Variable) -> Variable:
    array = variable.array
    fill = fill_attribute(array.fill_value, array.dtype, f"/{variable.path}")
    if not _lacks_fill(variable) or fill is None:
        return variable
    return replace(variable, attributes=(*variable.attributes, fill))
