"""The URL that entries name: it opens the same store, and has no secret."""

from __future__ import annotations

import pytest

from nczfs.engine.spool.place import spool_url
from nczfs.zmap.url import parse_url


@pytest.mark.parametrize(
    "text",
    [
        "/data/x",
        "/data/x#mode=zarr,zip",
        "s3://bucket/key",
        "https://host:9000/bucket/a%20key#mode=s3",
        "https://host:9000/bucket/key#mode=zarr,s3&aws.profile=a%26b&aws.region=eu-west-1",
        "s3://bucket/key#aws.profile=no",
        "https://bucket.s3.eu-west-1.amazonaws.com/key",
        "gs3://bucket/key",
        "memory://name/key#mode=noxarray",
    ],
)
def test_the_url_of_an_entry_opens_the_same_store(text: str) -> None:
    place = parse_url(text)
    again = parse_url(spool_url(place))
    for name in ("kind", "path", "bucket", "prefix", "endpoint_url", "region", "profile"):
        assert getattr(again, name) == getattr(place, name)
    assert (again.anonymous, again.modes) == (place.anonymous, place.modes)


def test_the_url_of_an_entry_has_no_secret() -> None:
    text = spool_url(parse_url("https://user:secret@host/path?token=secret#mode=zarr"))
    assert text.startswith("https://host/path#mode=")
    assert "secret" not in text
