"""Where commands end that climb from a URL to the dataset that it is in."""

from __future__ import annotations

import pytest

from nczfs.cli.main import main
from nczfs.zmap.parenturl import parent
from tests.support.servers import S3Server


@pytest.mark.parametrize(
    ("url", "above"),
    [
        ("http://h:9000/b/d/v#mode=s3", ("http://h:9000/b/d#mode=s3", "v")),
        ("http://h:9000/b/d#mode=s3", ("http://h:9000/b#mode=s3", "d")),
        ("http://h:9000/b#mode=s3", None),
        ("HTTP://h:9000/b/#mode=s3", None),
        ("https://s3.amazonaws.com/b", None),
        ("https://b.s3.amazonaws.com/d", ("https://b.s3.amazonaws.com", "d")),
        ("https://h/a.zip/v#mode=zip", ("https://h/a.zip#mode=zip", "v")),
        ("https://h/a.zip#mode=zip", None),
        ("http://h/d", ("http://h", "d")),
        ("s3://b", None),
        ("/", None),
    ],
)
def test_above_a_bucket_and_an_archive_there_is_nothing(
    url: str, above: tuple[str, str] | None
) -> None:
    assert parent(url) == above


@pytest.mark.parametrize("key", ["", "a"])
@pytest.mark.parametrize("command", ["ls", "tree", "du", "verify", "info", "rm -r"])
def test_a_place_in_a_bucket_that_is_no_dataset_is_called_so(
    command: str, key: str, swift: S3Server, capsys: pytest.CaptureFixture[str]
) -> None:
    bucket = swift.new_bucket()
    client = swift.client()
    client.put_object(Bucket=bucket, Key="a/letter", Body=b"dear")
    client.close()
    place = f"{bucket}/{key}".rstrip("/")
    url = f"{swift.endpoint_url}/{place}#mode=s3&aws.profile={swift.profile}"
    options = ["--endpoint-url", swift.endpoint_url, "--profile", swift.profile]
    by_name = main([*command.split(), f"s3://{place}", *options])
    expected = capsys.readouterr()
    assert main([*command.split(), url]) == by_name
    found = capsys.readouterr()
    shown = f"{swift.endpoint_url}/{place}"
    assert found.err == expected.err.replace(f"s3://{place}", shown)
    assert found.out == expected.out.replace(f"s3://{place}", shown)
    assert "no bucket" not in found.err


@pytest.mark.parametrize("command", ["ls", "du"])
def test_a_prefix_where_no_key_begins_may_be_misspelled(
    command: str, ceph: S3Server, capsys: pytest.CaptureFixture[str]
) -> None:
    bucket = ceph.new_bucket()
    url = f"{ceph.endpoint_url}/{bucket}/era5/typo.zarr"
    assert main([command, f"{url}#mode=s3&aws.profile={ceph.profile}"]) == 1
    assert capsys.readouterr().err == (
        f"nczfs: {url}: no key begins with era5/typo.zarr/; is the name right?\n"
    )


@pytest.mark.parametrize("acl", ["private", "public-read"])
def test_a_plain_url_of_an_s3_server_is_answered_with_the_form_that_works(
    acl: str, ceph: S3Server, capsys: pytest.CaptureFixture[str]
) -> None:
    bucket = ceph.new_bucket()
    client = ceph.client()
    client.put_object(Bucket=bucket, Key="d/letter", Body=b"dear")
    client.put_bucket_acl(Bucket=bucket, ACL=acl)
    client.close()
    assert main(["ls", f"{ceph.endpoint_url}/{bucket}/d"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    named = f"{ceph.endpoint_url}/{bucket}/d#mode=s3"
    assert f"the server speaks S3: write {named}" in line
    assert main(["info", f"{ceph.endpoint_url}/{bucket}/d"]) == 1
    assert f"the server speaks S3: write {named}" in capsys.readouterr().err
    assert main(["ls", f"{named}&aws.profile={ceph.profile}"]) == 0
    assert capsys.readouterr().out == "letter\n"
    assert main(["ls", ceph.endpoint_url]) == 1
    assert f"write {ceph.endpoint_url}/BUCKET/KEY#mode=s3" in capsys.readouterr().err
