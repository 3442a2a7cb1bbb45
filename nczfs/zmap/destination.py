"""The server that requests for a store go to, as settings name it: found without any request."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TypeAlias, cast
from urllib.parse import urlsplit

from nczfs.plaindata import frozen
from nczfs.zmap.registry import StoreOptions, plain_kind
from nczfs.zmap.url import StoreUrl


@frozen
class Bucket:
    """What only buckets have. The functions may make requests, and raise as stores do.

    Attributes
    ----------
    signing_region : the region of signatures, as settings name it.
    credentials_from : returns where the credentials come from, never the credentials; "": requests
        are not signed. Raises AccessDenied.
    home_region : returns the region that the server names; the one above if it names none.
    """

    signing_region: str
    credentials_from: Callable[[], str]
    home_region: Callable[[], str]


@frozen
class Destination:
    """A server, and the way to it.

    Attributes
    ----------
    url : its scheme, host and port, without secrets.
    named_by : the setting that names it.
    proxy : host and port of the proxy in between; "": none.
    ca_bundle : a file or directory of the authorities that are trusted; None: the system's.
    knock : sends a request without a signature, and returns the headers of the answer. Raises
        Unavailable, DeadlinePassed.
    bucket : None for web servers.
    """

    url: str
    named_by: str
    proxy: str
    ca_bundle: str | None
    knock: Callable[[], dict[str, str]]
    bucket: Bucket | None = None

    @property
    def host(self) -> str:
        """The name of the host, or its address."""
        return urlsplit(self.url).hostname or ""

    @property
    def port(self) -> int:
        """The port."""
        parts = urlsplit(self.url)
        return parts.port or (443 if parts.scheme == "https" else 80)

    @property
    def is_encrypted(self) -> bool:
        """Whether requests and answers are."""
        return self.url.startswith("https:")


_Find: TypeAlias = Callable[[StoreUrl, StoreOptions], Destination]

_FINDERS = {"s3": "nczfs.zmap.s3.destination", "http": "nczfs.zmap.http_destination"}


def destination_of(url: StoreUrl, options: StoreOptions) -> Destination | None:
    """Return the server of a URL; None: it is not on one, or the store is of another package.

    Raises
    ------
    UsageError : the settings contradict each other, or name files that are not there.
    """
    kind = plain_kind(url) if url.kind in ("zip", "reference") else url.kind
    if kind not in _FINDERS:
        return None
    return cast(_Find, import_module(_FINDERS[kind]).find)(url, options)  # heavy imports
