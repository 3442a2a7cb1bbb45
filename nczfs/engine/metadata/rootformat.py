"""Which format the dataset at a prefix of a store has."""

from __future__ import annotations

from nczfs.engine.metadata.copies import consolidated_of
from nczfs.engine.metadata.documents import MetadataCache, StoreDocuments
from nczfs.errors import AccessDenied, MetadataError
from nczfs.formats.base import Documents, FormatOptions, MetadataFormat
from nczfs.formats.consolidated import ConsolidatedFormat
from nczfs.formats.registry import FORMATS
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
    copies: dict[str, Documents] = {}
    if is_listed:
        store.fetch(FORMATS.before_copies() if reads_consolidated else (), level=True)
    if metadata.far and reads_consolidated:
        copies = _copies(store)
    if not copies and not all(map(store.lacks, FORMATS.at_root)):
        _, entry = metadata.known_entry(root, wanted)
        below = FORMATS.usual if entry is not None and entry.is_prefix else ()
        store.fetch([*FORMATS.at_root, *(f"{wanted}/{name}" for name in below)])
    try:
        found = FORMATS.detect(store, options, copies)
    except MetadataError as error:
        raise type(error)(f"{store.place}/{error}") from error
    if found is None or found.copy is None or found.copy.key not in copies:
        return found
    return ConsolidatedFormat(found)


def _copies(store: StoreDocuments) -> dict[str, Documents]:
    """Return the documents that consolidated copies have, by the keys of the copies."""
    try:
        return _found_copies(store)
    except AccessDenied:
        # Stores that answer 403 for missing keys are recognised by a key that they do give.
        store.fetch(FORMATS.at_root)
        return _found_copies(store)


def _found_copies(store: StoreDocuments) -> dict[str, Documents]:
    forms = [family.copy for family in FORMATS.families if family.copy is not None]
    store.fetch(FORMATS.before_copies())
    found = {form.key: consolidated_of(store, form) for form in forms}
    return {key: copy for key, copy in found.items() if copy is not None}
