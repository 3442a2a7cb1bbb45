"""Removing a group or variable with everything below it.

This reverses the making of a node. First the node is taken out of what makes it visible: the list
of its group, and the consolidated copy. Then the documents are removed by which the nodes below it
are found, then chunks and all the rest, in bulk. The document that makes a group goes last. So
other clients never find a partial node, and the same path finds what an interrupted removal leaves:
an empty group, or chunks without an array.

Only keys of the dataset are removed (`ownership`). A group whose arrays have lost their documents
has the key `REMOVING` until their chunks are gone: by this key a repeated removal recognises the
chunks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import nullcontext
from dataclasses import replace

from nczfs.engine.dataset import Dataset
from nczfs.engine.metadata.changes import AddMember, MemberChange, RemoveMember
from nczfs.engine.metadata.newnodes import new_group
from nczfs.engine.retrying import may_pass, until_stored
from nczfs.engine.structure import leftgroups
from nczfs.engine.structure.ownership import (
    REMOVING,
    RENAMING,
    REPLACING,
    Owned,
    check_no_dependent,
    check_no_foreign,
    is_group_at,
    is_left_over,
    owned_by,
)
from nczfs.engine.structure.stepwise import place_aside
from nczfs.errors import NczfsError, NoSuchNode, NoSuchObject, NotWritable
from nczfs.formats.base import ConsolidatedForm
from nczfs.formats.names import below, parent_of
from nczfs.formats.registry import FORMATS
from nczfs.formats.rewriting import check_described_once
from nczfs.model.hierarchy import GroupHeader
from nczfs.plaindata import frozen
from nczfs.zmap.keys import Key, Prefix, is_within, join, relative

_NOTE = b"A group is being removed here, or the program that removed it was killed.\n"


@frozen
class Removal:
    """The keys that are removed with a node, in this order.

    Attributes
    ----------
    documents : of the node and those below it, by which they are found, the deepest first.
    rest : chunks, and the other documents.
    last : the document that makes the node a group.
    foreign : keys that belong to no dataset, and stay.
    """

    documents: tuple[Key, ...]
    rest: tuple[Key, ...]
    last: tuple[Key, ...]
    foreign: tuple[Key, ...] = ()

    @property
    def count(self) -> int:
        """The number of objects to remove."""
        return len(self.documents) + len(self.rest) + len(self.last)


def planned(dataset: Dataset, path: str) -> Removal:
    """Return what removing the node at a path would remove; "" is the whole dataset.

    Without a node, the chunks that an interrupted removal left are included. Any other prefix is
    refused.

    Raises
    ------
    NoSuchNode : nothing of a group or variable is there. StoreError.
    """
    is_group = is_group_at(dataset, path)
    if is_group is None:
        _check_left(dataset, path, _keys(dataset, path))
    return _removal(dataset, path, _unstored(dataset, path, is_group), is_group=is_group)


def remove(dataset: Dataset, path: str, *, force: bool = False) -> int:
    """Remove the node at a path with all below it, and unsaved writes to it.

    Reading or writing its values through an open file raises StructureChanged. Dimensions stay.

    Parameters
    ----------
    force : remove the dataset's objects where there are foreign ones, too; those stay.

    Returns
    -------
    the number of removed objects.

    Raises
    ------
    NoSuchNode : as `planned`. ForeignObjects : objects below the node belong to no dataset; nothing
        was changed. NotWritable : the store cannot remove objects, another array declares this one,
        or its group is described twice. MetadataError : the group above it cannot be changed.
        StoreError : some of the objects may be gone; calling it again removes the others.
    """
    features = dataset.zmap.features
    if features.write_once or not features.writable:
        raise NotWritable(f"{dataset.zmap.name}: objects cannot be removed from this store")
    is_group = is_group_at(dataset, path)
    check_no_dependent(dataset, path)
    if path:
        _check_group(dataset, path)
    if not force:
        check_no_foreign(dataset.url(path), dataset.prefix(path), planned(dataset, path).foreign)
    elif is_group is None:
        planned(dataset, path)
    count, unstored = 0, _unstored(dataset, path, is_group)
    refused: NczfsError | None = None
    with dataset.copy.leaving(path) if path else nullcontext():
        if path:
            _take_out(dataset, path)
        else:
            count = _take_all_out(dataset)
        dataset.removed(path)
        # Listed again, now that nothing is on its way to the store any more.
        removal = _removal(dataset, path, unstored, is_group=is_group)
        try:
            _delete(dataset, path, removal, is_group=bool(is_group))
        except NczfsError as error:
            refused = error
    if refused is not None:
        if not may_pass(refused):
            _put_back(dataset, path)
        raise refused
    dataset.zmap.flush()
    return count + removal.count


def delete_keys(dataset: Dataset, path: str, keys: Iterable[Key], *, is_group: bool) -> None:
    """Delete the objects of a node that nothing leads to any more, in the order of a removal.

    Parameters
    ----------
    keys : of the objects; foreign ones go with the chunks.
    is_group : whether the node is, or was, a group.
    """
    found = owned_by(dataset, path, [*keys], () if is_group else (dataset.prefix(path),))
    removal = _in_order(found, _group_key(dataset, path) if is_group else None)
    removal = replace(removal, rest=(*removal.rest, *removal.foreign))
    _delete(dataset, path, removal, is_group=is_group)


def _delete(dataset: Dataset, path: str, removal: Removal, *, is_group: bool) -> None:
    mark = join(dataset.prefix(path), REMOVING)
    try:
        if is_group and removal.documents:
            dataset.zmap.write(mark, _NOTE)
        for step in (removal.documents, removal.rest, (mark,) if is_group else (), removal.last):
            if step:
                dataset.zmap.delete_many(step)
    finally:
        dataset.removed(path)


def is_hollow(dataset: Dataset, path: str) -> bool:
    """Return whether a group holds nothing: no member, dimension or attribute, no other key."""
    keys = dataset.format.single.keys(path)
    dataset.ask_again(keys)  # another client may have put something into it
    loaded = dataset.load(path)
    node = None if loaded is None else loaded.node
    if not (isinstance(node, GroupHeader) and node.is_bare):
        return False
    at_root = FORMATS.at_root if not path else ()
    own = {join(dataset.root, key) for key in (*keys, *at_root)}
    for stat in dataset.zmap.list(dataset.prefix(path)):
        if stat.key not in own:
            member = parent_of(relative(stat.key, dataset.root))
            left = [join(dataset.root, key) for key in dataset.format.single.group_keys(member)]
            if parent_of(member) != path or stat.key not in left:
                return False
            if not leftgroups.is_unfinished(dataset, new_group(dataset.format, member)):
                return False
            own.update(left)
    return True


def hollow_below(dataset: Dataset, path: str) -> list[str] | None:
    """Return the groups below a group, lower ones first; None: one of them holds something."""
    found: list[str] = []
    for name in dataset.names(path):
        member = below(path, name)
        node = dataset.node(member)
        within = hollow_below(dataset, member) if isinstance(node, GroupHeader) else None
        if within is None or node.attributes or node.dimensions:
            return None
        found += [*within, member]
    return found


def _unstored(dataset: Dataset, path: str, is_group: bool | None) -> list[Prefix]:
    """Return where chunks may lie that no document in the store explains.

    A document is gone if a removal was interrupted, and to come if a variable is new.
    """
    new = [each for each in dataset.edits.created() if is_within(each, path)]
    arrays = [each for each in new if is_group_at(dataset, each) is False]
    return [dataset.prefix(each) for each in (*arrays, *([path] if is_group is None else ()))]


def _removal(
    dataset: Dataset, path: str, unstored: Collection[Prefix], *, is_group: bool | None
) -> Removal:
    """Return what is removed with a node, as the store has it now."""
    found = owned_by(dataset, path, _keys(dataset, path), unstored)
    return _in_order(found, _group_key(dataset, path) if is_group else None)


def _group_key(dataset: Dataset, path: str) -> Key:
    return join(dataset.root, dataset.format.group_key(path))


def _keys(dataset: Dataset, path: str) -> list[Key]:
    found = [stat.key for stat in dataset.zmap.list(dataset.prefix(path))]
    for key in [key for key in found if key.rpartition("/")[2] == REPLACING]:
        aside = place_aside(Prefix(key.rpartition("/")[0]))
        found += [stat.key for stat in dataset.zmap.list(aside)]
    return found


def _check_group(dataset: Dataset, path: str) -> None:
    """Refuse to remove a member that documents of another version would still list."""
    documents, above = dataset.edits.documents(), parent_of(path)
    check_described_once(dataset.format, above, documents, "nothing can be removed from it")


def _take_out(dataset: Dataset, path: str) -> None:
    """Take a member out of the list of its group and out of the consolidated copy.

    Another client may have put it there since the list was read, which is read again to be changed.
    """
    above, name = parent_of(path), path.rpartition("/")[2]
    if _listed(dataset, above) is not None:
        _store_lists(dataset, above, [name], path)
    dataset.copy.update()


def _put_back(dataset: Dataset, path: str) -> None:
    """List a variable again that the store has kept whole."""
    above, name = parent_of(path), path.rpartition("/")[2]
    if path and is_group_at(dataset, path) is False and _listed(dataset, above) is not None:
        dataset.copy.distrust()
        dataset.edits.add(above, AddMember(name, is_group=False))


def _take_all_out(dataset: Dataset) -> int:
    """Take all members out of the root and the copy. Returns the number of removed objects."""
    root = dataset.node("")
    if isinstance(root, GroupHeader) and (names := (*(root.arrays or ()), *(root.groups or ()))):
        _store_lists(dataset, "", names, None)
    form = dataset.format.copy
    if form is None:
        return 0
    key = join(dataset.root, form.key)
    if form.key in dataset.format.single.keys(""):
        _empty_copy(dataset, form)
        return 0
    try:
        dataset.zmap.stat(key)
    except NoSuchObject:
        return 0
    dataset.zmap.delete_many([key])
    return 1


def _empty_copy(dataset: Dataset, form: ConsolidatedForm) -> None:
    """Take the copy out of the document of the root, which goes last."""

    def store(_: int) -> None:
        dataset.ask_again([form.key])
        documents = dataset.documents()
        data = documents.get(form.key)
        left = None if data is None or not form.has_copy(data) else form.emptied(data)
        if left is not None:
            dataset.edits.store(form.key, left, documents.used[join(dataset.root, form.key)])

    until_stored(store, form.key)


def _store_lists(dataset: Dataset, group: str, names: Collection[str], leaving: str | None) -> None:
    """Take names out of the list of a group, and store it and everything that must come before."""
    edits, listener = dataset.edits, dataset.edits.refusals.listener()
    known = [c for c in edits.changes_of(group) if isinstance(c, MemberChange) and c.name in names]
    changes = [RemoveMember(name) for name in names]
    for change in changes:
        edits.add(group, change)
    failures = edits.flush(
        dataset.node, lambda p: leaving is None or not is_within(p, leaving), lengths={}
    )
    refused = edits.refusals.report([group], listener)  # another thread may have stored the list
    if refused and not {*names}.isdisjoint(_listed(dataset, group) or ()):
        failures.setdefault(group, refused[-1])
    if group in failures:
        for change in changes:
            edits.drop(group, [change])
        edits.add_together((group, change) for change in known)  # of new members
        raise failures[group]


def _listed(dataset: Dataset, group: str) -> tuple[str, ...] | None:
    """Return the members that a group lists; None: it has no list."""
    loaded = dataset.load(group)
    if loaded is None or not isinstance(loaded.node, GroupHeader) or loaded.node.arrays is None:
        return None
    return *loaded.node.arrays, *(loaded.node.groups or ())


def _check_left(dataset: Dataset, path: str, keys: list[Key]) -> None:
    """Raise NoSuchNode unless an interrupted change left the keys, or a name in a list."""
    place = dataset.url(path)
    above = parent_of(path)
    if not path or is_group_at(dataset, above) is not True:
        raise NoSuchNode(f"{place}: no group or variable")
    start = f"{dataset.prefix(path)}/"
    if f"{start}{RENAMING}" in keys:
        return  # a rename was interrupted there
    strange = next((key for key in keys if not is_left_over(key.removeprefix(start))), None)
    if strange is not None:
        raise NoSuchNode(
            f"{place}: no group or variable, but it holds {strange}; nothing was removed"
        )
    if not keys and path.rpartition("/")[2] not in (_listed(dataset, above) or ()):
        raise NoSuchNode(f"{place}: no group or variable")


def _in_order(found: Owned, group: Key | None) -> Removal:
    """Sort keys into the order of removal; `group` is the document that makes the node a group."""
    documents = sorted((k for k in found.nodes if k != group), key=lambda key: -key.count("/"))
    last = tuple(k for k in found.nodes if k == group)
    return Removal(tuple(documents), found.rest, last, found.foreign)
