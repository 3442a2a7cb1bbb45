"""Documents without a store, and whole hierarchies read from them."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeVar

from nczfs.errors import MetadataError
from nczfs.formats.base import Documents, FormatOptions, MetadataFormat
from nczfs.formats.registry import FORMATS
from nczfs.model.hierarchy import Group, GroupHeader, Variable

T = TypeVar("T")


class DictDocuments:
    """The documents of a dataset in a dict, which records requests.

    Parameters
    ----------
    documents : by key; values other than bytes or text become JSON.

    Attributes
    ----------
    asked : the keys that `get` was called with, in order.
    """

    def __init__(self, documents: Mapping[str, object]) -> None:
        self._documents = {key: _as_bytes(value) for key, value in documents.items()}
        self.asked: list[str] = []

    def get(self, key: str) -> bytes | None:
        self.asked.append(key)
        return self._documents.get(key)

    def fetch(self, keys: Iterable[str]) -> None:
        """Do nothing: all documents are in memory."""

    def derived(self, name: str, keys: Iterable[str], make: Callable[[], tuple[T, int]]) -> T:
        """Make the result anew each time, since documents may be replaced."""
        return make()[0]

    def write(self, documents: Iterable[tuple[str, bytes]]) -> None:
        """Store documents as `MetadataFormat.write_node` returns them."""
        self._documents.update(documents)

    def keys(self) -> tuple[str, ...]:
        return tuple(self._documents)


def documents_in(place: Path) -> DictDocuments:
    """Return the metadata documents below a directory, or the top directory of a zip archive."""
    if place.is_dir():
        files = [path for path in place.rglob("*") if path.is_file() and _is_document(path.name)]
        return DictDocuments({f.relative_to(place).as_posix(): f.read_bytes() for f in files})
    with zipfile.ZipFile(place) as archive:
        names = [name for name in archive.namelist() if _is_document(name.rpartition("/")[2])]
        top = names[0].partition("/")[0]
        prefix = f"{top}/" if not _is_document(top) else ""
        return DictDocuments(
            {
                name.removeprefix(prefix): archive.read(name)
                for name in names
                if name.startswith(prefix)
            }
        )


def read_group(
    documents: DictDocuments,
    options: FormatOptions = FormatOptions(),  # noqa: B008 - frozen
    path: str = "",
) -> Group:
    """Read the whole hierarchy of a dataset whose root is a group.

    The members of a group without a list are found among the keys.
    """
    found = FORMATS.detect(documents, options)
    assert found is not None
    header = found.read_node(path, documents)
    assert isinstance(header, GroupHeader)
    return _group(header, found, documents, documents.keys())


def _group(
    header: GroupHeader, found: MetadataFormat, documents: Documents, keys: tuple[str, ...]
) -> Group:
    prefix = f"{header.path}/" if header.path else ""
    names: Iterable[str] = (*(header.arrays or ()), *(header.groups or ()))
    if header.arrays is None:
        below = [key.removeprefix(prefix) for key in keys if key.startswith(prefix)]
        names = sorted({key.partition("/")[0] for key in below if "/" in key})
    variables: list[Variable] = []
    groups: list[Group] = []
    broken: list[tuple[str, str]] = []
    for name in names:
        try:
            node = found.read_node(prefix + name, documents)
        except MetadataError as error:
            broken.append((name, str(error)))
            continue
        if isinstance(node, Variable):
            variables.append(node)
        elif node is not None:
            groups.append(_group(node, found, documents, keys))
    return Group(header, header.dimensions, tuple(variables), tuple(groups), tuple(broken))


def _is_document(name: str) -> bool:
    return name.startswith((".z", ".ncz")) or name == "zarr.json"


def _as_bytes(value: object) -> bytes:
    if isinstance(value, bytes):
        return value
    return (value if isinstance(value, str) else json.dumps(value)).encode()
