"""Rewriting documents: changes are replaced, and everything else stays as it is spelled.

A node is encoded twice: as it is read now, and as it is to be. Stored documents change only where
the two differ. So everything survives that a reader ignores, or understands in a form that nczfs
would not write.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias, TypeVar

from nczfs.errors import BadMetadata, NotWritable, Unsupported
from nczfs.formats.base import Documents, FormatOptions, MetadataFormat, Node
from nczfs.formats.jsontext import parse_object
from nczfs.formats.jsonwrite import strict
from nczfs.formats.names import below
from nczfs.model.hierarchy import GroupHeader, Json, Variable


class OwnMembers(dict[str, Json]):
    """An object in which the format governs these members; other members survive."""


class OrderedMembers(OwnMembers):
    """Members in the order of the format; others follow them."""


Encoding: TypeAlias = "dict[str, OwnMembers]"
"""The documents of one node by their names, in the order in which they are to be written."""

NodeT = TypeVar("NodeT", GroupHeader, Variable)

# netcdf-c puts the members of the format after all others, in this order.
_RANKS = {
    "_array_dimensions": 1,
    "_nczarr_array": 2,
    "_nczarr_group": 2,
    "_nczarr_superblock": 2,
    "_nczarr_attr": 3,
}


def is_described_once(written_as: MetadataFormat, path: str, documents: Documents) -> bool:
    """Return whether a node has no documents of another version of Zarr. Raises as `get`."""
    return _rival(written_as, path, documents) is None


def check_described_once(
    written_as: MetadataFormat, path: str, documents: Documents, refused: str
) -> None:
    """Raise NotWritable if a node has documents of another version of Zarr, too.

    Parameters
    ----------
    refused : what cannot be done then, because the two would no longer agree.
    """
    if (rival := _rival(written_as, path, documents)) is not None:
        raise NotWritable(
            f"/{path}: is described twice, also by {rival}; {refused} before one of both is "
            "removed (nczfs convert-metadata --remove-old removes the documents of Zarr v2)"
        )


def _rival(written_as: MetadataFormat, path: str, documents: Documents) -> str | None:
    """Return the key of a document of another version of Zarr; None: there is none."""
    rivals = [below(path, name) for name in written_as.names.rivals]
    documents.fetch(rivals)
    return next((rival for rival in rivals if documents.get(rival) is not None), None)


def existing_node(
    written_as: MetadataFormat, node: NodeT, documents: Documents, found: Node | None
) -> NodeT | None:
    """Return what is read now at the place of a node; None: there is nothing.

    Parameters
    ----------
    found : it, if it has been read.

    Raises
    ------
    Unsupported : a variable would replace a group, or a group a variable.
    NotWritable : the node has documents of another version, too, which would no longer agree.
    """
    check_described_once(written_as, node.path, documents, "its metadata cannot be changed")
    if all(documents.get(key) is None for key in written_as.keys(node.path)):
        return None
    existing = written_as.read_node(node.path, documents) if found is None else found
    if existing is None:
        return None
    if not isinstance(existing, type(node)):
        kind = "group" if isinstance(existing, GroupHeader) else "variable"
        raise Unsupported(f"/{node.path}: there is a {kind} of that name; delete it first")
    return existing


def rewrite(
    path: str,
    documents: Documents,
    current: Encoding | None,
    wanted: Encoding,
    options: FormatOptions,
) -> tuple[tuple[str, bytes], ...]:
    """Return the documents to write so that a node reads as wanted.

    Parameters
    ----------
    current : the encoding of what is read now; None: there is no such node, and existing keys at
        its place do not belong to it.

    Raises
    ------
    BadMetadata : a broken document would be overwritten.
    Unsupported : a document would be larger or deeper than is read again.
    """
    written: list[tuple[str, bytes]] = []
    in_order = wanted.items() if current is not None else _of_new(path, documents, wanted)
    for name, members in in_order:
        key = below(path, name)
        data = documents.get(key)
        if current is None:
            text = strict(dict(members))
        else:
            try:
                stored = {} if data is None else _parsed(data, key, options)
            except BadMetadata as error:
                if merged({}, current.get(name, OwnMembers()), members):
                    raise BadMetadata(f"{error}; repair or delete it before writing") from error
                continue
            changed = merged(stored, current.get(name, OwnMembers()), members)
            if _has_same_members(changed, stored) or (text := strict(changed)) == strict(stored):
                continue
        new = _encoded(text, key, options)
        if new != data:
            written.append((key, new))
    return tuple(written)


def _of_new(path: str, documents: Documents, wanted: Encoding) -> Iterable[tuple[str, OwnMembers]]:
    """Return the documents of a new node, those last that it reads the same without.

    So what a kill leaves of a node without attributes is nothing, or all that there is to be read.
    """

    def is_idle(document: tuple[str, OwnMembers]) -> bool:
        name, members = document
        return not members and documents.get(below(path, name)) is None

    return sorted(wanted.items(), key=is_idle)


def merged(stored: Mapping[str, Json], current: OwnMembers, wanted: OwnMembers) -> dict[str, Json]:
    """Return a stored object with the members replaced in which `wanted` differs from `current`.

    A new member goes after the last one of its rank: the user's attributes come before the
    format's.
    """
    result = dict(stored)
    new: dict[str, Json] = {}
    for name in current.keys() - wanted.keys():
        result.pop(name, None)
    for name, value in wanted.items():
        old = current.get(name)
        if name in current and _is_same(old, value):
            continue
        kept = result.get(name)
        if isinstance(value, OwnMembers):
            below_it = old if isinstance(old, OwnMembers) else OwnMembers()
            inner = merged(kept if isinstance(kept, dict) else {}, below_it, value)
            if isinstance(value, OrderedMembers):
                inner = {**{member: inner[member] for member in value}, **inner}
            value = inner
        if name in result:
            result[name] = value
        else:
            new[name] = value
    return _inserted(result, new)


def _has_same_members(one: Mapping[str, Json], other: Mapping[str, Json]) -> bool:
    """Return whether an object has the very members of another one, in their order."""
    return list(one) == list(other) and all(one[name] is other[name] for name in one)


def _is_same(old: Json, new: Json) -> bool:
    """Return whether two values are written the same."""
    if type(old) is type(new) and type(old) in (str, int):  # as most are
        return old == new
    return strict(old) == strict(new)


def _inserted(members: dict[str, Json], new: dict[str, Json]) -> dict[str, Json]:
    last: dict[int, int] = {}
    for place, name in enumerate(members):
        last[_rank(name)] = place
    behind: dict[int, list[str]] = {}
    for name in sorted(new, key=_rank):
        place = max((p for rank, p in last.items() if rank <= _rank(name)), default=-1)
        behind.setdefault(place, []).append(name)
    result = {name: new[name] for name in behind.get(-1, ())}
    for place, name in enumerate(members):
        result[name] = members[name]
        result.update((added, new[added]) for added in behind.get(place, ()))
    return result


def _rank(name: str) -> int:
    return _RANKS.get(name.lower(), 0)


def _parsed(data: bytes, key: str, options: FormatOptions) -> dict[str, Json]:
    return parse_object(data, key, bytes_max=options.document_bytes_max)[0]


def _encoded(text: str, key: str, options: FormatOptions) -> bytes:
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        raise Unsupported(f"{key}: {error.object[:60]!r} is not Unicode text") from error
    try:
        _parsed(data, key, options)
    except BadMetadata as error:
        raise Unsupported(f"{error}; the document was not written") from error
    return data
