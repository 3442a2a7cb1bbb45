"""Which format the dataset at a prefix of a store has."""

from __future__ import annotations

from nczfs.engine.metadata.documents import MetadataCache, StoreDocuments
from nczfs.engine.metadata.hierarchy import consolidated_of
from nczfs.errors import AccessDenied, MetadataError
from nczfs.formats import consolidated
from nczfs.formats.base import FormatOptions, MetadataFormat
from nczfs.formats.detect import NODE_NAMES, ROOT_KEYS, detect
from nczfs.zmap.keys import Prefix


def format_at(
    metadata: MetadataCache,
    root: Prefix,
    options: FormatOptions,
    *,
    reads_consolidated: bool,
    is_listed: bool = False,
    wanted: str = "",
) -> MetadataFormat | None:
    """Return the format of the dataset at a prefix; None if there is no group or array.

    Where a request is a round trip, the consolidated metadata are requested first; if they exist,
    nothing else is. A caller that means to change the documents reads the single ones.

    Parameters
    ----------
    is_listed : the names at the prefix will be needed, too. Where they come with one request, they
        are requested now, and show which documents exist.
    wanted : a name below the prefix that will be needed next; its documents are requested with
        those of the root.

    Raises
    ------
    MetadataError : there is a dataset, but its root cannot be read.
    """
    store = StoreDocuments(metadata, root, options)
    copies = None
    if is_listed:
        store.fetch([consolidated.KEY] if reads_consolidated else [], level=True)
    if metadata.far and reads_consolidated:
        copies = _copies(store)
    if copies is None and not all(map(store.lacks, ROOT_KEYS)):
        _, entry = metadata.known_entry(root, wanted)
        below = NODE_NAMES if entry is not None and entry.is_prefix else ()
        store.fetch([*ROOT_KEYS, *(f"{wanted}/{name}" for name in below)])
    try:
        found = detect(copies or store, options)
    except MetadataError as error:
        raise type(error)(f"{store.place}/{error}") from error
    if found is None:
        return None
    return found if copies is None else consolidated.ConsolidatedFormat(found)


def _copies(store: StoreDocuments) -> consolidated.ConsolidatedDocuments | None:
    """Return the consolidated documents; None if there are none."""
    try:
        return consolidated_of(store)
    except AccessDenied:
        # Stores that answer 403 for missing keys are recognised by a key that they do give.
        store.fetch(ROOT_KEYS)
        return consolidated_of(store)
