"""Writing a source into a group of an open dataset, which holds nothing yet."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

from nczfs.engine.dataset import Dataset
from nczfs.engine.structure.editor import Editor
from nczfs.errors import Conflict, NczfsError
from nczfs.formats.names import below
from nczfs.model.declaration import GroupDeclaration, VariableDeclaration
from nczfs.tools.progress import Progress
from nczfs.tools.transfer.dataset_target import copy_contents, with_string_lengths
from nczfs.tools.transfer.declaring import NewVariables, declare, rehearsed
from nczfs.tools.transfer.source import Source, with_variables
from nczfs.tools.transfer.unfinished import Mark, MarkedPlace

log = logging.getLogger(__name__)


def fill_group(
    source: Source,
    dataset: Dataset,
    path: str,
    editor: Callable[[Dataset], Editor],
    memory_limit_bytes: int,
    progress: Progress,
) -> None:
    """Make everything of a source in a group that holds nothing.

    Values are stored first, beside a key that marks the group as unfinished; the documents that
    make variables of them follow when all are there. Nobody sees anything before.

    Parameters
    ----------
    editor : returns an editor of a dataset, whose lease it holds if there is one.
    progress : called with the bytes of the source that are done. If it raises, copying ends.

    Raises
    ------
    Unsupported, UsageError : the dataset has no place for something; nothing was changed yet.
    Conflict : something was put into the group meanwhile. BadValue, CodecError, StoreError. What
        was written is removed.
    """
    limit = memory_limit_bytes
    source = with_string_lengths(source, dataset.format.single, limit, progress)
    root = _below(source.root, path)

    def rehearse(scratch: Editor) -> NewVariables:
        if path:
            scratch.create_group(path)
        return declare(scratch, root, path)

    options = dataset.engine.options
    rehearsed(source.name, (), options, dataset.format.single.name, rehearse)
    place = MarkedPlace(dataset.zmap, dataset.prefix(path))
    apart = dataset.apart()
    changes = editor(apart)
    if not dataset.zmap.features.write_once:  # there the mark would stay for ever
        place.put(Mark("import").started())
    try:
        variables = declare(changes, root, path)
        copy_contents(source, apart, variables, limit, progress)
        if not place.is_ours() or dataset.names(path):
            raise Conflict(f"{place.name}: something else was put there meanwhile")
        changes.sync()
        place.remove()
    except BaseException:
        apart.edits.forget(path)
        _clear(dataset, path, root, place)
        raise
    finally:
        dataset.joined(path)


def _below(root: GroupDeclaration, base: str) -> GroupDeclaration:
    """Return a declaration whose full names of dimensions begin at a group below the root."""
    if not base:
        return root

    def moved(_: str, variable: VariableDeclaration) -> VariableDeclaration:
        names = (f"/{base}{name}" if name[0] == "/" else name for name in variable.dimensions)
        return replace(variable, dimensions=tuple(names))

    return with_variables(root, moved)


def _clear(dataset: Dataset, path: str, root: GroupDeclaration, place: MarkedPlace) -> None:
    """Remove what was made, the documents of the group itself excepted."""
    names = [*(each.name for each in root.variables), *(each.name for each in root.groups)]
    try:
        for name in names:
            found = dataset.zmap.list(dataset.prefix(below(path, name)))
            dataset.zmap.delete_many([stat.key for stat in found])
        place.remove()
    except NczfsError as error:
        log.warning("%s: what is left of an import could not be removed: %s", place.name, error)
