"""Writing a source into a group of an open dataset: an empty one, or one that is replaced."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable

from nczfs.engine.dataset import Dataset
from nczfs.engine.metadata.documents import MetadataCache
from nczfs.engine.structure.editor import Editor
from nczfs.engine.structure.replacing import check_replaceable, place_aside, replace
from nczfs.errors import Conflict, NczfsError, ObjectExists
from nczfs.formats.names import below
from nczfs.model.declaration import GroupDeclaration, VariableDeclaration
from nczfs.tools.progress import Progress
from nczfs.tools.transfer.dataset_target import copy_contents, with_string_lengths
from nczfs.tools.transfer.declaring import NewVariables, declare, rehearsed
from nczfs.tools.transfer.source import Source, with_variables
from nczfs.tools.transfer.unfinished import Mark, MarkedPlace
from nczfs.zmap.keys import ROOT, join
from nczfs.zmap.wrappers import Prefixed

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
    ObjectExists : another process is at work there, or was, on another machine. What one left that
        was killed on this machine is removed first.
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
        _remove_remains(dataset, path, place)
        place.put(Mark("import").started())
    try:
        variables = declare(changes, root, path)
        copy_contents(source, apart, variables, limit, progress)
        dataset.forget_documents(path)
        if not place.is_ours() or not is_empty(dataset, path):
            raise Conflict(f"{place.name}: something else was put there meanwhile")
        changes.sync()
        place.remove()
    except BaseException:
        apart.edits.forget(path)
        _clear(dataset, path, root, place)
        raise
    finally:
        dataset.joined(path)


def replace_group(
    source: Source,
    dataset: Dataset,
    path: str,
    editor: Callable[[Dataset], Editor],
    memory_limit_bytes: int,
    progress: Progress,
) -> None:
    """Replace a group with all below it by a source.

    The new content is stored aside, and takes the place of the old one when it is complete.
    Parameters are those of `fill_group`.

    Raises
    ------
    Unsupported, UsageError : the dataset has no place for something. ForeignObjects, NotWritable :
        something else would be lost. ReadOnlyStore : the store cannot do that. BadValue,
        CodecError, StoreError. The old content is still there then.
    """
    limit = memory_limit_bytes
    single = dataset.format.single
    source = with_string_lengths(source, single, limit, progress)
    root = _below(source.root, path)

    def made(new: Editor) -> NewVariables:
        if path:
            new.create_group(path)
        return declare(new, root, path)

    rehearsed(source.name, (), dataset.engine.options, single.name, made)
    check_replaceable(dataset, path)
    with place_aside(dataset, path) as aside:
        zmap = Prefixed(dataset.zmap, aside.prefix)
        engine = dataset.engine
        metadata = MetadataCache(zmap, engine.options, engine.pools, ledger=engine.ledger)
        new = Dataset(
            engine,
            metadata,
            ROOT,
            single,
            dataset.format_options,
            is_apart=True,
            lease=dataset.lease,
        )
        new.copy.is_wanted = not path and has_copy(dataset)
        changes = editor(new)
        changes.create_root()
        variables = made(changes)
        copy_contents(source, new, variables, limit, progress)
        changes.sync()
        check_replaceable(dataset, path)
        replace(dataset, path, aside.exchange)


def has_copy(dataset: Dataset) -> bool:
    """Return whether the store has consolidated metadata of a dataset."""
    form = dataset.format.copy
    return form is not None and dataset.documents().get(form.key) is not None


def _below(root: GroupDeclaration, base: str) -> GroupDeclaration:
    """Return a declaration whose full names of dimensions begin at a group below the root."""
    if not base:
        return root

    def moved(_: str, variable: VariableDeclaration) -> VariableDeclaration:
        names = (f"/{base}{name}" if name[0] == "/" else name for name in variable.dimensions)
        return dataclasses.replace(variable, dimensions=tuple(names))

    return with_variables(root, moved)


def is_empty(dataset: Dataset, path: str) -> bool:
    """Return whether a group has no attributes, dimensions and members.

    A prefix without a document is no member: an import stores values first.
    """
    node = dataset.node(path)
    if node.attributes or node.dimensions:
        return False
    nodes, broken = dataset.members(path)
    return not nodes and not broken


def _remove_remains(dataset: Dataset, path: str, place: MarkedPlace) -> None:
    """Remove what an import left that was killed, the documents of the group itself excepted.

    Raises
    ------
    ObjectExists : it may still be under way. StoreError.
    """
    mark = place.look()
    if mark is None:
        return
    place.check_left()
    if mark.process is not None and not mark.process.has_ended():
        raise ObjectExists(
            f"{place.name}: a process of {mark.host or 'another machine'} is writing there, or was "
            "ended; `nczfs rm -r` removes what it left"
        )
    single, copy = dataset.format.single, dataset.format.copy
    own = {*single.keys(path), *((copy.key,) if copy is not None else ())}
    kept = {place.key, *(join(dataset.root, key) for key in own)}
    found = place.left()
    dataset.zmap.delete_many([key for key in found.nodes + found.rest if key not in kept])
    dataset.forget_documents(path)


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
