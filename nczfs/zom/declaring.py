"""What a hierarchy that is declared makes of a group of an open dataset.

Attributes change, and members come; what is there stays. Anything else is refused before something
is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nczfs.engine.dataset import Dataset
from nczfs.engine.retrying import until_stored
from nczfs.engine.structure.dependents import check_attributes
from nczfs.engine.structure.editor import Editor
from nczfs.errors import BadKey, BadValue, NameTaken, NoSuchNode, NotWritable
from nczfs.formats.attributes import is_hidden
from nczfs.formats.base import MetadataFormat
from nczfs.formats.jsontext import parse_object
from nczfs.formats.jsonwrite import strict
from nczfs.formats.names import below
from nczfs.formats.registry import FORMATS
from nczfs.formats.rewriting import is_described_once
from nczfs.formats.zom.documents import keys_for, zarr_format_of
from nczfs.formats.zom.nodes import ArrayV2, ArrayV3, Group, Node, group_of, with_members
from nczfs.formats.zom.pointers import parts_of
from nczfs.messages import shown
from nczfs.model.dtypes import NcType
from nczfs.model.hierarchy import Attribute, GroupHeader, Json
from nczfs.zmap.keys import join
from nczfs.zom.creation import check_nodes, known_members, write_nodes
from nczfs.zom.differences import Difference, diff
from nczfs.zom.shown import NODES_MAX
from nczfs.zom.stored import read_stored

NAMED_MAX = 10  # places that a refusal names


@dataclass(frozen=True, slots=True)
class Declared:
    """What comes into a group.

    Attributes
    ----------
    members : that are made, by their paths below the group.
    attributes : by the paths of their nodes below the group: those that nodes are to have, and the
        names of those that change.
    """

    members: Mapping[str, Node]
    attributes: Mapping[str, tuple[Mapping[str, Json], frozenset[str]]]


def declared(present: Group, node: Node) -> Declared:
    """Return what makes a declared hierarchy of the one that is there.

    Unknown members are those that are there, and in a new group none.

    Raises
    ------
    NotWritable : more than attributes would change, or something would go. The message names the
        places.
    """
    if isinstance(node, ArrayV2 | ArrayV3):
        raise NotWritable("describes an array, and here is a group")
    node = _filled(node, present)
    difference = diff(present, node)
    members: dict[str, Node] = {}
    names: dict[str, set[str]] = {}
    refused: list[str] = []
    for pointer in _pointers(difference):
        path, field = _split(pointer)
        if len(field) > 1 and field[0] == "attributes":
            names.setdefault(path, set()).add(field[1])
        else:
            refused.append(pointer or "the root")
    for change in difference.added:
        path, field = _split(change.pointer)
        if len(field) > 1 and field[0] == "attributes":
            names.setdefault(path, set()).add(field[1])
        elif not field:
            members[path] = known_members(_at(node, path))
        else:
            refused.append(change.pointer)
    if refused:
        more = len(refused) - NAMED_MAX
        rest = f" and {more} more" if more > 0 else ""
        raise NotWritable(
            f"{', '.join(map(shown, refused[:NAMED_MAX]))}{rest}: only attributes can change, and "
            "members come; nothing was written"
        )
    attributes = {at: (_at(node, at).attributes, frozenset(found)) for at, found in names.items()}
    return Declared(members, attributes)


def check(dataset: Dataset, path: str, node: Node) -> Declared:
    """Return what a declared hierarchy makes of a group. Changes nothing.

    Raises
    ------
    NotWritable : as `declared`, or the dataset cannot have it.
    NoSuchNode, MetadataError, StoreError.
    """
    if _is_free(dataset, path):
        return _checked(dataset, path, declared(group_of(node.zarr_format, {}), node))
    single = dataset.format.single
    stored = read_stored(dataset, path, nodes_max=NODES_MAX)
    if single.declares:
        if not diff(stored.node, _filled(node, stored.node)):
            return Declared({}, {})
        raise NotWritable(
            "the dataset is NCZarr, whose lists of members and types of attributes a hierarchy "
            "does not have; make members with mkdir, and write attributes in attributes/"
        )
    version = zarr_format_of(single.names)
    if node.zarr_format != version:
        raise NotWritable(f"is Zarr v{node.zarr_format}, and the dataset Zarr v{version}")
    if isinstance(stored.node, ArrayV2 | ArrayV3):
        raise NotWritable("here is an array meanwhile")
    found = declared(stored.node, node)
    hidden = [
        f"{at}: {name}"
        for at, (_, names) in found.attributes.items()
        for name in sorted(names)
        if is_hidden(name)
    ]
    if hidden:
        raise NotWritable(f"/{shown(hidden[0])} belongs to the format; nothing was written")
    for at, (attributes, names) in found.attributes.items():
        values = [Attribute(n, NcType.JSON, attributes[n]) for n in names if n in attributes]
        try:
            check_attributes(dataset, _joined(path, at), values)
        except (NameTaken, BadValue) as error:
            raise NotWritable(str(error)) from error
    return _checked(dataset, path, found)


def _checked(dataset: Dataset, path: str, found: Declared) -> Declared:
    for at, member in found.members.items():
        try:
            check_nodes(dataset, _joined(path, at), member)
        except (BadKey, BadValue) as error:
            raise NotWritable(str(error)) from error
    return found


def declare(dataset: Dataset, path: str, node: Node, editor: Editor) -> None:
    """Make of a group what a hierarchy declares: groups before their members, then attributes.

    A new dataset gets the version of Zarr that the hierarchy has.

    Parameters
    ----------
    path : of the group, which nobody renames or removes meanwhile.
    editor : of the dataset, whose lease is held.

    Raises
    ------
    NotWritable, MetadataError : as `check`; nothing was written.
    NoSuchNode : another client has removed a node.
    ObjectExists : something has come there meanwhile. StoreError. What was written before stays,
        and is valid; to declare the same once more adds the rest.
    """
    editor.sync()
    new = FORMATS.named(f"zarr{node.zarr_format}", dataset.format_options)
    if not path and _is_free(dataset, path) and not _is_only(dataset, new):
        check(dataset, path, node)
        editor.change_format(new)
    # A rename of a directory around the dataset comes before all of this, or after it.
    with dataset.engine.arrays.gate.inside(lambda: dataset.root):
        wanted = check(dataset, path, node)
        try:
            with dataset.copy.changing((None,)):
                for at, member in wanted.members.items():
                    write_nodes(dataset, _joined(path, at), member)
                for at, (attributes, names) in wanted.attributes.items():
                    _store_attributes(dataset, _joined(path, at), attributes, names)
        finally:
            dataset.joined(path)
    editor.sync()


def _is_free(dataset: Dataset, path: str) -> bool:
    """Return whether the root of a dataset holds nothing, so that its format may change."""
    header = dataset.node(path)
    is_bare = isinstance(header, GroupHeader) and header.is_bare
    return not path and is_bare and not dataset.names(path)


def _filled(node: Node, other: Node | None) -> Node:
    """Return a hierarchy that has the members of another one where its own are unknown."""
    if isinstance(node, ArrayV2 | ArrayV3) or isinstance(other, ArrayV2 | ArrayV3 | None):
        return node
    if node.members is None:
        return with_members(node, other.members)
    known = other.members or {}
    members = {name: _filled(each, known.get(name)) for name, each in node.members.items()}
    return with_members(node, members)


def _pointers(difference: Difference) -> list[str]:
    return [each.pointer for each in (*difference.changed, *difference.removed)]


def _split(pointer: str) -> tuple[str, list[str]]:
    """Return the path of a node, and what of the node a pointer leads to."""
    parts = parts_of(pointer)
    names: list[str] = []
    while len(parts) > 1 and parts[0] == "members":
        names.append(parts[1])
        parts = parts[2:]
    return "/".join(names), parts


def _at(node: Node, path: str) -> Node:
    for name in filter(None, path.split("/")):
        assert not isinstance(node, ArrayV2 | ArrayV3)
        node = (node.members or {})[name]
    return node


def _is_only(dataset: Dataset, wanted: MetadataFormat) -> bool:
    """Return whether a dataset has a format, and its root no document of another version."""
    is_wanted = dataset.format.single.name == wanted.name
    return is_wanted and is_described_once(wanted, "", dataset.documents())


def _joined(path: str, relative: str) -> str:
    return below(path, relative) if relative else path


def _store_attributes(
    dataset: Dataset, path: str, attributes: Mapping[str, Json], names: frozenset[str]
) -> None:
    """Change some attributes of a node in its document, where all else stays as it is spelled."""
    keys = keys_for(dataset.format.single.names)
    key = below(path, keys.attributes or keys.array)
    describing = {below(path, keys.array), below(path, keys.group)}

    def store(_: int) -> None:
        dataset.ask_again([key])
        documents = dataset.documents()
        data = documents.get(key)
        if data is None:
            dataset.ask_again(describing)
            if all(documents.get(each) is None for each in describing):
                raise NoSuchNode(f"/{path}: another client has removed it")
        members = {} if data is None else dict(parse_object(data, key)[0])
        found = members
        if keys.attributes is None:
            own = members.get("attributes")
            found = members["attributes"] = dict(own) if isinstance(own, dict) else {}
        for name in names - attributes.keys():
            found.pop(name, None)
        found |= {name: value for name, value in attributes.items() if name in names}
        version = documents.used[join(dataset.root, key)]
        dataset.edits.store(key, strict(members).encode(), version)

    until_stored(store, key)
