"""An S3 bucket as a store: Amazon's, and every server that speaks its protocol.

::

    store        a bucket as a map: what is asked, and what the answers mean for a caller
    answers      what an answer lacks, and which error a refusal is
    conditions   whether a server honours If-Match and If-None-Match of writes
    multipart    large objects in parts; uploads      which of them nobody will finish
    batch        many keys deleted in one request
    listing      pages of ListObjectsV2, and one level put in order
    transport    sends, and repeats what fails (urllib3)
    access       finds the bucket and who asks for it (botocore); signing      signs
"""

from __future__ import annotations

from nczfs.zmap.s3.store import S3ZMap, open_s3

__all__ = ["S3ZMap", "open_s3"]
