"""The URL of what contains the place of another URL."""

from __future__ import annotations

from nczfs.errors import BadUrl
from nczfs.zmap.url import parse_url


def parent(url: str) -> tuple[str, str] | None:
    """Split a URL into its parent and its last component; None at the top.

    The top of an S3 server that is named by http:// is a bucket, that of an archive its URL.
    """
    front, hash_sign, fragment = url.partition("#")
    above, _, name = front.rstrip("/").rpartition("/")
    if not name or not above.strip("/") or above.endswith(":/"):
        return None
    above += hash_sign + fragment
    if front.lower().startswith("http"):
        try:
            parse_url(above)
        except BadUrl:
            return None
    return above, name
