"""Signatures are those of botocore, whatever the request."""

from __future__ import annotations

from datetime import UTC, datetime
from unittest.mock import patch

from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import ReadOnlyCredentials
from hypothesis import given
from hypothesis import strategies as st

from nczfs.zmap.s3.access import Site
from nczfs.zmap.s3.signing import signed

NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
SITES = ("https://bucket.s3.eu-west-1.amazonaws.com", "http://127.0.0.1:9000/bucket", "https://h/b")
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)


@given(
    method=st.sampled_from(["GET", "PUT", "POST", "DELETE", "HEAD"]),
    root_url=st.sampled_from(SITES),
    key=texts,
    query=st.dictionaries(st.sampled_from(["prefix", "list-type", "uploads", "a-b"]), texts),
    headers=st.dictionaries(
        st.sampled_from(["range", "if-match", "x-amz-meta-a", "content-md5", "user-agent"]),
        st.text('ab =/"*  ', min_size=1).map(str.strip),
    ),
    body=st.binary(max_size=40),
    token=st.sampled_from([None, "token/+="]),
    region=st.sampled_from(["us-east-1", "eu-west-3"]),
)
def test_a_signature_is_the_one_that_botocore_makes(
    method: str,
    root_url: str,
    key: str,
    query: dict[str, str],
    headers: dict[str, str],
    body: bytes,
    token: str | None,
    region: str,
) -> None:
    url = Site("", root_url, region, is_amazon=False, by_path=True).url(key, query)
    credentials = ReadOnlyCredentials("AKID", "secret", token)
    ours = signed(method, url, headers, body, credentials=credentials, region=region, now=NOW)
    request = AWSRequest(method, url, headers=headers, data=body or None)
    with patch("botocore.auth.get_current_datetime", return_value=NOW.replace(tzinfo=None)):
        S3SigV4Auth(credentials, "s3", region).add_auth(request)
    theirs = {name.lower(): value for name, value in request.headers.items()}
    assert ours["authorization"] == theirs["authorization"]
    assert {**headers, **ours} == {**theirs, **headers}
