"""Where requests for a bucket go, and with which credentials."""

from __future__ import annotations

from functools import partial
from urllib.parse import urlsplit

from nczfs.zmap.destination import Bucket, Destination
from nczfs.zmap.registry import StoreOptions
from nczfs.zmap.s3.access import S3Access
from nczfs.zmap.s3.listing import question
from nczfs.zmap.s3.messages import ANSWER_BYTES_MAX, S3Request, region_in
from nczfs.zmap.s3.store import endpoint_setting, options_of
from nczfs.zmap.s3.transport import S3Transport
from nczfs.zmap.url import StoreUrl
from nczfs.zmap.web.knocking import knock
from nczfs.zmap.web.proxy import parse_proxy


def find(url: StoreUrl, options: StoreOptions) -> Destination:
    """Return the server of an ``s3`` URL. Raises UsageError: endpoint, profile, proxy, or files."""
    merged = options_of(url, options)
    access = S3Access(url.bucket, merged, endpoint_from=endpoint_setting(url))
    parts = urlsplit(access.site.root_url)
    address = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    text = access.proxies.get(parts.scheme, "")
    proxy = parse_proxy(text)
    return Destination(
        address,
        access.endpoint_from,
        proxy.name if proxy is not None else "",
        access.ca_bundle,
        partial(
            knock,
            address,
            merged,
            named_by=access.endpoint_from,
            ca_bundle=access.ca_bundle,
            proxy=text,
        ),
        Bucket(
            access.site.region,
            access.credentials_from,
            partial(_home_region, url, merged),
        ),
    )


def _home_region(url: StoreUrl, merged: StoreOptions) -> str:
    """Ask for one name, and return the region that the server names, or was asked in at last."""
    access = S3Access(url.bucket, merged, endpoint_from=endpoint_setting(url))
    transport = S3Transport(access, url.text, merged)
    query = question("", "", one_level=True) | {"max-keys": "1"}
    try:
        answer = transport.send(S3Request("GET", "", query=query, limit=ANSWER_BYTES_MAX))
        return region_in(answer.headers) or access.site.region
    finally:
        transport.close()
