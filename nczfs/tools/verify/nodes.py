"""Checks that each document of a dataset can be read, and agrees with the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from nczfs.codecs.fillelement import fill_element
from nczfs.engine.values.convert import converted
from nczfs.errors import (
    BadKey,
    BadMetadata,
    BadValue,
    CodecError,
    CorruptStore,
    MetadataError,
    NoSuchNode,
    ReferenceRefused,
)
from nczfs.formats.base import ConsolidatedForm, Node
from nczfs.formats.consolidated import ConsolidatedDocuments
from nczfs.formats.names import below
from nczfs.formats.registry import FORMATS
from nczfs.messages import shown
from nczfs.model.hierarchy import ArrayDescription, Variable
from nczfs.model.keysets import family
from nczfs.tools.verify.dependents import dependent_faults
from nczfs.tools.verify.findings import Finding, FindingKind
from nczfs.tools.verify.subject import Subject
from nczfs.zmap.keys import parse_key

GROUPS_MAX = 100_000  # that are checked: links in a directory can make any number
_AT_ONCE = 500  # nodes whose documents are requested together
_UNREADABLE = (MetadataError, CorruptStore, ReferenceRefused)


class Nodes:
    """The groups and variables of a dataset, found and checked one after the other.

    Attributes
    ----------
    found : readable nodes by their keys, dependent arrays by their paths; filled by `walk`.
    broken : the keys of nodes that exist but cannot be read.
    sound_codecs : the variables of `found` whose chunks can be decoded.
    """

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._lengths: dict[tuple[str, str], tuple[int, str]] = {}
        self.found: dict[str, Node] = {}
        self.broken: set[str] = set()
        self.sound_codecs: set[str] = set()

    def walk(self, start: str = "") -> Iterator[Finding]:
        """Check a node and all below it.

        Raises
        ------
        NoSuchNode : nothing is at `start`.
        BadMetadata : there are more than `GROUPS_MAX` groups.
        """
        yield from self._visit(start, is_listed=False)
        if start not in self.found and start not in self.broken:
            raise NoSuchNode(f"{self._subject.dataset.url(start)}: no group or variable is there")
        groups = [start]
        count = 0
        while groups:
            path = groups.pop()
            group = self.found.get(path)
            if group is None or isinstance(group, Variable):
                continue
            is_listed = group.arrays is not None or group.groups is not None
            children = [below(path, name) for name in self._subject.dataset.names(path)]
            for batch in _batches(children):
                self._subject.fetch_nodes(batch)
                for child in batch:
                    yield from self._visit(child, is_listed=is_listed)
            groups += reversed(children)
            count += 1
            if count > GROUPS_MAX:
                raise BadMetadata(
                    f"{self._subject.dataset.url(start)}: over {GROUPS_MAX} groups, which are not "
                    "checked; links may lead to the same ones again and again"
                )

    def shown_path(self, path: str) -> str:
        """Return the path of a node as users see it."""
        return f"/{path or self._root_name()}"

    def _root_name(self) -> str:
        return self._subject.name if isinstance(self.found.get(""), Variable) else ""

    def _visit(self, path: str, *, is_listed: bool) -> Iterator[Finding]:
        dataset = self._subject.dataset
        try:
            loaded = dataset.load(path)
        except _UNREADABLE as error:
            self.broken.add(path)
            text = str(error).removeprefix(f"{dataset.url('')}/")
            yield self._about_document(FindingKind.UNREADABLE, path, text)
            return
        if loaded is None:
            if is_listed:
                self.broken.add(path)
                yield Finding(
                    FindingKind.MISSING,
                    self.shown_path(path),
                    "",
                    "listed by its group, but missing",
                )
            return
        node = loaded.node
        self.found[place_of(node)] = node
        for problem in node.problems:
            yield self._about_document(FindingKind.DOCUMENT, path, problem)
        if isinstance(node, Variable):
            yield from self._variable(node)
            for dependent in [*family(node)][1:]:
                self.found[place_of(dependent)] = dependent
                for problem in dependent.problems:
                    yield self._about_document(FindingKind.DOCUMENT, dependent.path, problem)
                yield from self._variable(dependent)
            if node.dependents:
                yield from dependent_faults(node, self.shown_path, self._has_document)

    def _variable(self, variable: Variable) -> Iterator[Finding]:
        path = self.shown_path(variable.path)
        array_key = self._subject.format.array_key(variable.key)
        try:
            self._subject.dataset.array(variable).require_codecs()
        except CodecError as error:
            where = f"{self._subject.dataset.url(variable.key)}: "
            yield Finding(FindingKind.CODEC, path, array_key, str(error).removeprefix(where))
        else:
            self.sound_codecs.add(place_of(variable))
        if trouble := fill_trouble(variable):
            key = self._subject.format.attributes_key(variable.key)
            yield Finding(FindingKind.FILL, path, key, trouble)
        for dimension in variable.dimensions:
            if dimension.anonymous or variable.is_dependent:  # inherited names fit another shape
                continue
            place = (dimension.group, dimension.name)
            size, other = self._lengths.setdefault(place, (dimension.size, path))
            if size != dimension.size:
                yield Finding(
                    FindingKind.DIMENSION,
                    path,
                    array_key,
                    f"dimension {shown(dimension.name)} has length {dimension.size} here, and "
                    f"{size} in {other}",
                )

    def _has_document(self, path: str) -> bool:
        documents, layout = self._subject.documents(), self._subject.format
        return any(documents.get(key) is not None for key in layout.keys(path))

    def _about_document(self, kind: FindingKind, path: str, text: str) -> Finding:
        """Make a finding from a message that begins with the key of a document."""
        key, colon, rest = text.partition(": ")
        if colon and key.rpartition("/")[2] in FORMATS.documents:
            return Finding(kind, self.shown_path(path), key, rest)
        return Finding(kind, self.shown_path(path), "", text)


def place_of(node: Node) -> str:
    """Return what a node is found by: its key, or the path of a dependent array."""
    return node.key if isinstance(node, Variable) and not node.is_dependent else node.path


def fill_trouble(variable: Variable) -> str | None:
    """Describe how the attribute ``_FillValue`` and the array's fill value differ, if they do."""
    array = variable.array
    attribute = next((a for a in variable.attributes if a.name == "_FillValue"), None)
    if attribute is None or array.fill_value is None or array.dtype.vlen is not None:
        return None
    value = attribute.value
    if isinstance(value, tuple) and len(value) == 1:
        value = value[0]
    if _is_fill(value, array):
        return None
    return (
        f"_FillValue is {shown(value)}, and chunks that were never written read as "
        f"{shown(_plain(array.fill_value))} (fill_value)"
    )


def _is_fill(value: object, array: ArrayDescription) -> bool:
    fill = fill_element(array)
    try:
        other = converted(value, array.dtype, "")
    except BadValue:
        return False
    if other.size != 1:
        return False
    # NaN equals NaN with any bits.
    return other.tobytes() == fill.tobytes() or bool(np.all(other != other) and fill != fill)


def _plain(value: object) -> object:
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def stale_copies(subject: Subject, nodes: Nodes) -> Iterator[Finding]:
    """Report how the consolidated metadata differ from the single documents."""
    form = subject.format.copy
    if form is None:
        return
    documents = subject.documents()
    try:
        data = documents.get(form.key)
        if data is None:
            return
        found = form.read(data)
    except MetadataError as error:
        text = str(error).removeprefix(f"{form.key}: ")
        yield Finding(FindingKind.CONSOLIDATED, "/", form.key, text)
        return
    if found is None:
        return
    copies = ConsolidatedDocuments(documents, form, found)
    keys = copies.consolidated_keys()
    for batch in _batches([key for key in keys if _is_key(key)]):
        documents.fetch(batch)
        for key in batch:
            if copies.is_stale(key, documents.get(key)):
                yield _stale(form, f"another {key} than the document itself")
    single, consolidated = subject.format, set(keys)
    for path, node in nodes.found.items():
        if isinstance(node, Variable) and node.is_dependent:
            continue
        key = single.array_key(path) if isinstance(node, Variable) else single.group_key(path)
        if path and key not in consolidated:
            yield _stale(form, f"no {key}")


def _stale(form: ConsolidatedForm, what: str) -> Finding:
    return Finding(
        FindingKind.CONSOLIDATED,
        "/",
        form.key,
        f"stale: it has {what}; consolidate the metadata again",
    )


def _is_key(text: str) -> bool:
    try:
        parse_key(text)
    except BadKey:
        return False
    return True


def _batches(items: Sequence[str]) -> Iterator[Sequence[str]]:
    for first in range(0, len(items), _AT_ONCE):
        yield items[first : first + _AT_ONCE]
