"""Where requests to a web server go."""

from __future__ import annotations

from functools import partial
from urllib.parse import urlsplit

from nczfs.zmap.destination import Destination
from nczfs.zmap.http_transport import ADDRESS_FROM, proxy_for
from nczfs.zmap.registry import StoreOptions
from nczfs.zmap.url import StoreUrl
from nczfs.zmap.web.authorities import check_authorities
from nczfs.zmap.web.knocking import knock
from nczfs.zmap.web.proxy import parse_proxy


def find(url: StoreUrl, options: StoreOptions) -> Destination:
    """Return the server of an http URL. Raises UsageError: the proxy, or ``--ca-bundle``."""
    parts = urlsplit(url.source)
    if options.ca_bundle is not None:
        check_authorities(options.ca_bundle)
    address = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    text = proxy_for(parts.scheme, parts.hostname or "")
    proxy = parse_proxy(text)
    return Destination(
        address,
        ADDRESS_FROM,
        proxy.name if proxy is not None else "",
        options.ca_bundle,
        partial(
            knock,
            address,
            options,
            named_by=ADDRESS_FROM,
            ca_bundle=options.ca_bundle,
            proxy=text,
        ),
    )
