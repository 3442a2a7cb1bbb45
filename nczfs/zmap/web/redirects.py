"""The choice of redirections to follow, since a server may redirect anywhere."""

from __future__ import annotations

from typing import Final
from urllib.parse import SplitResult, quote, urljoin, urlsplit

from nczfs.errors import AccessDenied, StoreError
from nczfs.plaindata import frozen
from nczfs.zmap.prefixes import is_below, normal

MOVED: Final = frozenset({301, 302, 303, 307, 308})
HOPS_MAX: Final = 5

_PORTS: Final = {"http": 80, "https": 443}
_SAFE: Final = "%/:@!$&'()*+,;=-._~?[]"

Origin = tuple[str, str, int]
"""Scheme, host and port."""


@frozen
class Redirects:
    """A judge of redirections. None from https to http is followed.

    Attributes
    ----------
    allowed : prefixes of URLs that any redirection may lead to.
    within_origin : whether those to the same host and port are followed.
    """

    allowed: tuple[str, ...] = ()
    within_origin: bool = True

    def target(self, url: str, location: str, where: str) -> str:
        """Return the URL that a redirection leads to.

        Parameters
        ----------
        where : the requested place, for messages.

        Raises
        ------
        AccessDenied : it leads to a place that is not allowed.
        StoreError : it is not a URL.
        """
        try:
            before, after = urlsplit(url), urlsplit(urljoin(url, location))
            start, goal = origin_of(before), origin_of(after)
        except ValueError:
            raise StoreError(f"{where}: redirected to something that is not a URL") from None
        if start is None or goal is None or (start[0], goal[0]) == ("https", "http"):
            raise StoreError(
                f"{where}: redirected from {before.scheme} to {after.scheme[:20]!r}, which is not "
                "followed"
            )
        # Built anew, so that exactly what was judged is requested, without a user name.
        name = f"[{goal[1]}]" if ":" in goal[1] else goal[1]
        host = name if after.port is None else f"{name}:{after.port}"
        target = after._replace(netloc=host, fragment="").geturl()
        text = quote(target.encode("utf-8", "surrogateescape"), safe=_SAFE)
        stays = self.within_origin and (start == goal or _is_upgrade(start, goal))
        if not stays and not any(is_below(normal(text), normal(each)) for each in self.allowed):
            place = f"{after.scheme}://{host}"[:200]
            raise AccessDenied(
                f"{where}: redirected to {place}, which is not followed: --allow-redirects "
                f"{place} allows it"
            )
        return text


def leads_to_directory(url: str, location: str) -> bool:
    """Return whether it is the same path with a slash at its end: a server has a directory."""
    try:
        return urlsplit(urljoin(url, location)).path == f"{urlsplit(url).path}/"
    except ValueError:
        return False


def origin_of(parts: SplitResult) -> Origin | None:
    """Return the origin of an http or https URL; None for others. Raises ValueError: a bad port."""
    port = parts.port
    if parts.scheme not in _PORTS or not parts.hostname:
        return None
    return parts.scheme, parts.hostname, port if port is not None else _PORTS[parts.scheme]


def _is_upgrade(before: Origin, after: Origin) -> bool:
    """Return whether it is the same host, now with TLS."""
    return before == ("http", before[1], 80) and after == ("https", before[1], 443)
