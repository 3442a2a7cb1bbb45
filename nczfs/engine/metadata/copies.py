"""The consolidated copy of a dataset as it is stored: whether it can be read, and agrees."""

from __future__ import annotations

import logging

from nczfs.engine.metadata.documents import StoreDocuments
from nczfs.errors import MetadataError
from nczfs.formats.base import Consolidated, ConsolidatedForm
from nczfs.formats.consolidated import ConsolidatedDocuments

log = logging.getLogger(__name__)

COMPARED_MAX = 1 << 14  # documents of a consolidated copy: half a second, also if none exists


def readable_copy(store: StoreDocuments, form: ConsolidatedForm) -> Consolidated | None:
    """Return the consolidated metadata; None if there are none or they cannot be read."""
    try:
        data = store.get(form.key)
        return None if data is None else form.read(data)
    except MetadataError as error:
        log.warning("%s/%s: the single documents are read instead", store.place, error)
        return None


def consolidated_of(store: StoreDocuments, form: ConsolidatedForm) -> ConsolidatedDocuments | None:
    """Return the documents in the consolidated metadata, as `readable_copy` finds them."""
    found = readable_copy(store, form)
    return None if found is None else ConsolidatedDocuments(store, form, found)


def stale_keys(store: StoreDocuments, form: ConsolidatedForm) -> list[str]:
    """Return the keys for which the copy differs from the single documents.

    Of a copy with more than `COMPARED_MAX` documents only so many are compared.
    """
    copies = consolidated_of(store, form)
    if copies is None:
        return []
    keys = copies.consolidated_keys()[:COMPARED_MAX]
    return [key for key in keys if copies.is_stale(key, store.possible(key))]


def copy_problem(store: StoreDocuments, form: ConsolidatedForm, *, far: bool) -> str | None:
    """Return why the single documents are shown, and not the copy; None: they agree.

    A far store is not asked for a copy of which nothing is known, nor is that compared.
    """
    if far and store.is_unknown_or_absent(form.key):
        return None
    try:
        store.get(form.key)
    except MetadataError as error:
        return _instead(error)

    def refused() -> tuple[str | None, int]:
        data = store.get(form.key)
        try:
            if data is not None:
                form.read(data)
        except MetadataError as error:
            if not far:  # where it was logged when the copy was to be read
                log.warning("%s/%s: the single documents are read instead", store.place, error)
            return _instead(error), len(str(error))
        return None, 0

    problem = store.derived("why the consolidated metadata are refused", (form.key,), refused)
    if problem is not None or far:
        return problem
    if stale := stale_keys(store, form):
        return (
            f"the consolidated metadata ({form.key}) are stale: {len(stale)} of their documents "
            f"differ from the single ones, such as {stale[0]}; these are shown"
        )
    return None


def _instead(error: MetadataError) -> str:
    return f"{error}: the single documents are shown instead"
