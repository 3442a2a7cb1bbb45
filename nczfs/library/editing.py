"""Changes of open datasets that several front ends share: editors, and storing what was written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from weakref import WeakKeyDictionary

from nczfs.engine.chunks.storedarray import StoredArray
from nczfs.engine.dataset import Dataset, Engine
from nczfs.engine.metadata.changes import attribute_subject
from nczfs.engine.metadata.documents import MetadataCache
from nczfs.engine.retrying import error_to_raise
from nczfs.engine.structure.editor import Editor
from nczfs.errors import NczfsError, StoreError
from nczfs.formats.base import FormatOptions
from nczfs.formats.names import below
from nczfs.formats.naming import checked_name
from nczfs.formats.registry import new_format
from nczfs.model.hierarchy import Variable
from nczfs.zmap.keys import Prefix


class Editing:
    """The changes of a store's datasets.

    Parameters
    ----------
    written : called when values of the node at a prefix were stored, or dropped.
    """

    def __init__(
        self,
        engine: Engine,
        metadata: MetadataCache,
        options: FormatOptions,
        written: Callable[[Prefix, StoredArray], None],
    ) -> None:
        self._engine = engine
        self._written = written
        self._metadata = metadata
        self._options = options
        self._shown: WeakKeyDictionary[StoredArray, int] = WeakKeyDictionary()

    def editor(self, dataset: Dataset) -> Editor:
        """Return an editor of a dataset with its lease held. Changes wait for `Editor.sync`."""
        dataset.lease.require()
        if dataset.reads_consolidated:
            dataset.read_single_documents()
        return Editor(dataset, None)

    def create_root(self, prefix: Prefix) -> None:
        """Make a dataset with an empty root group, in the layout of new datasets."""
        layout = new_format(None, self._options)
        dataset = Dataset(self._engine, self._metadata, prefix, layout, self._options)
        editor = self.editor(dataset)
        editor.create_root()
        editor.sync()

    def create_group(self, dataset: Dataset, above: str, name: str) -> None:
        """Make a group in a group. Raises NoSuchNode: that is not there any more."""
        editor, path = self.editor(dataset), below(above, checked_name(name))
        editor.add_group(path, ())
        editor.sync(path, above)

    def store(
        self, dataset: Dataset, variables: Sequence[Variable], arrays: Sequence[StoredArray]
    ) -> None:
        """Store everything that was written to variables, and their new lengths.

        Other changes of the dataset are left to the background, or to those who made them: a store
        that does not answer about one variable keeps nobody from storing another one.
        """
        wanted = set(arrays)
        # First and alone, because the error of a chunk that is not kept is raised here only.
        self._engine.writeback.flush(lambda known: known in wanted)
        stored: set[str] | None = None
        while dataset.has_changes:
            variables = [dataset.latest(v, a) for v, a in zip(variables, arrays, strict=True)]
            paths = {variable.path for variable in variables}
            if paths == stored or not dataset.storing.concern(variables):
                break
            dataset.store(paths | {each.group for v in variables for each in v.dimensions})
            stored = paths  # a rename may have changed them meanwhile
        for variable, array in zip(variables, arrays, strict=True):
            self.show(dataset, variable.key, array)
        for array in arrays:
            array.check_kept()  # the background may have met the error before this call

    def show(self, dataset: Dataset, path: str, array: StoredArray) -> None:
        """Refresh every file of a variable, if it was written to since the last time."""
        revision = array.revision
        if self._shown.get(array, 0) != revision:
            self._shown[array] = revision
            self._written(dataset.prefix(path), array)

    def lose_attribute(self, dataset: Dataset, path: str, name: str, error: StoreError) -> None:
        """Note that an attribute was not set, and will not be unless it is pending."""
        subject = attribute_subject(name)
        if all(change.subject != subject for change in dataset.edits.changes_of(path)):
            place = self._metadata.zmap, dataset.prefix(path)
            self._engine.withdrawn.add(place, subject, f"attribute {name!r}: {error}")

    def sync(self) -> None:
        """Store every pending change. Raises one error, as `error_to_raise`, after trying all."""
        errors: list[NczfsError] = []
        for dataset in self._engine.changed():
            try:
                dataset.store()
            except NczfsError as error:
                errors.append(error)
        if errors:
            raise error_to_raise(errors)
