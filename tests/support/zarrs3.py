"""A bucket as zarr-python reads it."""

from __future__ import annotations

from obstore.store import S3Store
from zarr.storage import ObjectStore

from tests.support.servers import S3Server


def of_zarr_python(server: S3Server, bucket: str) -> ObjectStore[S3Store]:
    """Return a bucket as a store of zarr-python, for reading."""
    store = S3Store(
        bucket,
        endpoint=server.endpoint_url,
        access_key_id=server.access_key,
        secret_access_key=server.secret_key,
        region="us-east-1",
        virtual_hosted_style_request=False,
        client_options={"allow_http": True},
    )
    return ObjectStore(store, read_only=True)
