"""Rewriting the groups of a dataset in another format, before it has variables."""

from __future__ import annotations

from dataclasses import replace

from nczfs.engine.dataset import Dataset
from nczfs.errors import NotWritable
from nczfs.formats.base import MetadataFormat
from nczfs.formats.names import below
from nczfs.formats.overlay import NO_DOCUMENTS
from nczfs.model.hierarchy import GroupHeader
from nczfs.zmap.base import ABSENT
from nczfs.zmap.keys import join


def change_format(dataset: Dataset, wanted: MetadataFormat) -> None:
    """Write the documents of all groups in another format, the deepest first.

    The dataset must have no pending changes. An interruption leaves groups that both formats read,
    and the same change removes what is left.

    Raises
    ------
    NotWritable : there are variables, or dimensions that the format cannot declare.
    MetadataError, StoreError.
    """
    before = dataset.format.single
    dataset.ask_again()  # an earlier call may have failed halfway
    documents = dataset.documents()
    for header in _groups(dataset, wanted):
        written = dict(wanted.write_node(header, NO_DOCUMENTS))
        for key, data in written.items():
            documents.get(key)
            version = documents.used.get(join(dataset.root, key), ABSENT)
            dataset.edits.store(key, data, version)
        # Last those by which it is seen that something is left.
        rivals = [below(header.path, name) for name in wanted.names.rivals]
        others = [*before.keys(header.path), *(() if header.path else before.names.hints)]
        gone = [*(key for key in others if key not in rivals), *rivals]
        dataset.delete_documents(key for key in gone if key not in written)
    dataset.read_as(wanted)


def _groups(dataset: Dataset, wanted: MetadataFormat) -> list[GroupHeader]:
    found: list[GroupHeader] = []
    paths = [""]
    while paths:
        path = paths.pop()
        header = dataset.node(path)
        names = dataset.names(path)
        if not isinstance(header, GroupHeader) or (header.dimensions and not wanted.declares):
            raise NotWritable(
                f"{dataset.url(path)}: is not an empty group: the format of the dataset stays "
                f"{dataset.format.name}, and cannot be {wanted.name}"
            )
        arrays, groups = ((), tuple(names)) if wanted.declares else (None, None)
        found.append(replace(header, format=wanted.name, arrays=arrays, groups=groups))
        paths += [below(path, name) for name in names]
    return found[::-1]
