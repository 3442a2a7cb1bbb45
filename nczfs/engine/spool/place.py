"""The URL that entries of the spool name: enough to open the store again, and no secret."""

from __future__ import annotations

from urllib.parse import quote

from nczfs.zmap.url import StoreUrl


def spool_url(place: StoreUrl) -> str:
    """Return the URL of a store with its fragment, without user names, passwords and queries."""
    profile = "no" if place.anonymous else place.profile
    words = {
        "mode": ",".join(sorted(place.modes)),
        "aws.profile": profile,
        "aws.region": place.region,
    }
    fragment = "&".join(f"{name}={quote(value, ',')}" for name, value in words.items() if value)
    return f"{place.text}#{fragment}" if fragment else place.text
