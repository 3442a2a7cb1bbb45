"""The proxy of requests, from the environment."""

from __future__ import annotations

from dataclasses import field
from urllib.parse import unquote, urlsplit

from nczfs.errors import UsageError
from nczfs.plaindata import frozen

_SCHEMES = ("http", "https")


@frozen
class Proxy:
    """A proxy; made by `parse_proxy`.

    Attributes
    ----------
    url : without user and password.
    user : ``USER:PASSWORD``; "": none.
    """

    url: str
    user: str = field(default="", repr=False)

    @property
    def name(self) -> str:
        """Its name in messages: host and port."""
        return self.url.partition("://")[2]


def parse_proxy(text: str) -> Proxy | None:
    """Parse the proxy in a variable such as ``https_proxy``; None for "".

    Raises
    ------
    UsageError : it is not the URL of a proxy. The message has no user and no password.
    """
    if not text:
        return None
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        has_host = bool(parts.hostname) and parts.port != 0
    except ValueError:
        has_host = False
    if not has_host:
        raise UsageError("the proxy of the environment has a malformed host or port")
    user, _, address = parts.netloc.rpartition("@")
    if parts.scheme not in _SCHEMES:
        raise UsageError(
            f"the proxy of the environment, {parts.scheme}://{address}, is of an unknown kind; "
            "known: http://HOST:PORT, https://HOST:PORT"
        )
    return Proxy(f"{parts.scheme}://{address}", unquote(user))
