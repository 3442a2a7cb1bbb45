"""Options of stores that know the documents of formats, as those have that nczfs opens."""

from __future__ import annotations

from nczfs.engine.stores import known_documents
from nczfs.zmap.registry import StoreOptions

KNOWN = known_documents()
KNOWING = StoreOptions(documents=KNOWN)
