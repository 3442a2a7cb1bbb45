"""A hierarchy of Zarr v2 in Zarr v3: the same chunks at the same keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from nczfs.errors import MetadataError
from nczfs.formats.base import FormatOptions, MetadataFormat
from nczfs.formats.names import below
from nczfs.formats.registry import FORMATS
from nczfs.formats.zom.checking import wrong
from nczfs.formats.zom.documents import V2_KEYS, V3_KEYS, documents_of, node_of
from nczfs.formats.zom.nodes import ArrayV2, ArrayV3, GroupV2, Node, walk, with_members
from nczfs.formats.zom.pointers import below as pointer_below
from nczfs.formats.zom.pointers import of_path

T = TypeVar("T")

_OPTIONS = FormatOptions(chunk_bytes_max=2**63)


def to_v3(node: Node) -> Node:
    """Return a hierarchy of Zarr v2 as one of Zarr v3, whose chunks are the same objects.

    The names of dimensions leave the attributes and become ``dimension_names``, and an undefined
    fill value becomes the zero of the type. A hierarchy of Zarr v3 stays as it is.

    Raises
    ------
    BadMetadata : Zarr v3 cannot say something. The error's pointer leads to it; nothing is lost
        without an error.

    Notes
    -----
    As ``nczfs convert-metadata`` converts documents, see `array_of_v2`.
    """
    if node.zarr_format == 3:
        return node
    documents = _Documents()
    for path, each in walk(node):
        for name, data in documents_of(each):
            documents.found[below(path[1:], name)] = data
    found = FORMATS.detect(documents, _OPTIONS)
    assert found is not None
    return _converted(node, "", documents, found)


def _converted(
    node: Node, path: str, documents: _Documents, metadata_format: MetadataFormat
) -> Node:
    new = _node(node, path, documents, metadata_format)
    if not isinstance(node, GroupV2):
        return new
    assert not isinstance(new, ArrayV2 | ArrayV3)
    if node.members is None:
        return with_members(new, None)
    members = {
        name: _converted(member, f"{path}/{name}", documents, metadata_format)
        for name, member in node.members.items()
    }
    return with_members(new, members)


def _node(node: Node, path: str, documents: _Documents, metadata_format: MetadataFormat) -> Node:
    assert isinstance(node, ArrayV2 | GroupV2)
    names = V2_KEYS
    key = below(path[1:], names.array if isinstance(node, ArrayV2) else names.group)
    pointer = of_path(path)
    try:
        found = metadata_format.read_node(path[1:], documents)
        assert found is not None
        stored = None if metadata_format.declares else node.attributes
        document = FORMATS.conversion.document_of(found, stored, key)
        new = node_of({V3_KEYS.array: document}, path[1:])
    except MetadataError as error:
        text = str(error).removeprefix(f"{key}: ")
        raise wrong(f"{pointer}{error.pointer}", text) from error
    assert new is not None
    lost = [name for name in node.others if not metadata_format.declares]
    if lost:
        raise wrong(pointer_below(pointer, lost[0]), "Zarr v3 has no place for it")
    return replace(new, others={})


@dataclass
class _Documents:
    """Documents in memory; implements `Documents`."""

    found: dict[str, bytes] = field(default_factory=dict)

    def get(self, key: str) -> bytes | None:
        return self.found.get(key)

    def fetch(self, keys: Iterable[str]) -> None:
        """Do nothing: all documents are in memory."""

    def derived(self, name: str, keys: Iterable[str], make: Callable[[], tuple[T, int]]) -> T:
        return make()[0]
