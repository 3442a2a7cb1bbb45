"""An S3 bucket as a store: Amazon's, and every server that speaks its protocol.

::

    store        a bucket as a map
    answers      what an answer lacks, and the errors of refusals
    writing      objects in one request, in parts, or copied by the server
    conditions   how a server treats If-Match and If-None-Match; probe        finds it out
    multipart    uploads in parts; pieces       their parts; uploads      abandoned ones
    batch        many keys deleted in one request
    listing      ListObjectsV2, and one level put in order; page         a page taken apart
    transport    sends, and repeats what fails (urllib3)
    access       finds the bucket and credentials (botocore); signing      signs
"""

from __future__ import annotations

from nczfs.zmap.s3.store import S3ZMap, open_s3

__all__ = ["S3ZMap", "open_s3"]
