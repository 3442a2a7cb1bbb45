"""The grammar of URLs, form by form of netcdf-c's tables, and what is detected."""

from __future__ import annotations

from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

from nczfs.errors import BadUrl
from nczfs.zmap import url as url_module
from nczfs.zmap.url import parse_url


@pytest.mark.parametrize(
    "text",
    [
        "data/t1",
        "file://{here}/data/t1#mode=zarr,file",
        "file://data/t1#mode=zarr,file",
        "file://{here}/data/t1/#mode=nczarr",
        "[mode=zarr,file]file://{here}/data/t1",
        "[mode=zarr][log]file://data/t1",
        "{here}/data/t1#mode=nczarr,file",
        "FILE://data/t1",
    ],
)
def test_a_local_dataset_has_many_spellings(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data" / "t1").mkdir(parents=True)
    found = parse_url(text.format(here=tmp_path))
    assert (found.kind, found.path, found.last_word) == ("file", f"{tmp_path}/data/t1", "t1")


def test_what_a_local_path_is_gets_detected(tmp_path: Path) -> None:
    (tmp_path / "directory.zip").mkdir()
    (tmp_path / "archive.data").write_bytes(b"PK\x03\x04rest")
    (tmp_path / "text").write_bytes(b"text")
    assert parse_url(str(tmp_path / "directory.zip")).kind == "file"
    assert parse_url(str(tmp_path / "archive.data")).kind == "zip"
    assert parse_url(str(tmp_path / "to-be-made.ZIP")).kind == "zip"
    assert parse_url(str(tmp_path / "to-be-made")).kind == "file"
    assert parse_url(f"{tmp_path}/text#mode=zip").kind == "zip"
    with pytest.raises(BadUrl, match="neither a directory nor a zip archive"):
        parse_url(str(tmp_path / "text"))
    for magic in (b"CDF\x01", b"CDF\x02", b"CDF\x05", b"\x89HDF\r\n\x1a\n"):
        (tmp_path / "a.nc").write_bytes(magic + bytes(100))
        with pytest.raises(BadUrl, match=r"a\.nc is a netCDF file, not a store; `nczfs import`"):
            parse_url(str(tmp_path / "a.nc"))


@pytest.mark.parametrize("text", ["\ud800", "file:///\ud800", "s3://bucket/\ud800", "a\0"])
def test_what_no_system_call_takes_names_no_store(text: str) -> None:
    """The spool of a disk that somebody else has written may say so."""
    with pytest.raises(BadUrl, match="names no store"):
        parse_url(text)
    assert parse_url("\udce9").path.endswith("/\udce9")  # a byte that is not UTF-8


def test_a_name_that_exists_is_taken_as_it_is(tmp_path: Path) -> None:
    for name in ("a#mode=zip", "a%20b"):
        (tmp_path / name).mkdir()
    assert parse_url(f"{tmp_path}/a#mode=zip").path == f"{tmp_path}/a#mode=zip"
    assert parse_url(f"file://{tmp_path}/a%20b").path == f"{tmp_path}/a%20b"
    assert parse_url(f"file://{tmp_path}/c%20d").path == f"{tmp_path}/c d"


@pytest.mark.parametrize(
    ("text", "bucket", "region", "endpoint"),
    [
        (
            "https://buck.s3.eu-west-1.amazonaws.com/dir/key",
            "buck",
            "eu-west-1",
            "https://s3.eu-west-1.amazonaws.com",
        ),
        ("https://buck.s3.amazonaws.com/dir/key", "buck", None, "https://s3.amazonaws.com"),
        (
            "https://s3.eu-west-1.amazonaws.com/buck/dir/key",
            "buck",
            "eu-west-1",
            "https://s3.eu-west-1.amazonaws.com",
        ),
        ("http://s3.amazonaws.com/buck/dir/key", "buck", None, "https://s3.amazonaws.com"),
        (
            "https://my.dotted.buck.s3-eu-west-1.amazonaws.com/dir/key",
            "my.dotted.buck",
            "eu-west-1",
            "https://s3.eu-west-1.amazonaws.com",
        ),
        ("s3://buck/dir/key", "buck", None, None),
        ("S3://buck/dir/key/", "buck", None, None),
        ("gs3://buck/dir/key", "buck", None, "https://storage.googleapis.com"),
        (
            "https://storage.googleapis.com/buck/dir/key",
            "buck",
            None,
            "https://storage.googleapis.com",
        ),
        (
            "s3://s3.us-west-1.amazonaws.com/buck/dir/key",
            "buck",
            "us-west-1",
            "https://s3.us-west-1.amazonaws.com",
        ),
        (
            "http://127.0.0.1:9000/buck/dir/key#mode=nczarr,s3",
            "buck",
            None,
            "http://127.0.0.1:9000",
        ),
        ("https://[::1]:9000/buck/dir/key#s3", "buck", None, "https://[::1]:9000"),
        ("https://host.org/buck/dir/key#mode=zarr&s3", "buck", None, "https://host.org"),
        (
            "https://buck.s3.here.example.org/dir/key#mode=s3",
            "buck",
            "here",
            "https://s3.here.example.org",
        ),
    ],
)
def test_each_form_of_s3_names_bucket_region_and_endpoint(
    text: str, bucket: str, region: str | None, endpoint: str | None
) -> None:
    found = parse_url(text)
    assert (found.kind, found.bucket, found.prefix) == ("s3", bucket, "dir/key")
    assert (found.region, found.endpoint_url) == (region, endpoint)
    assert found.last_word == "key"
    assert "s3" in found.modes


def test_keys_of_http_are_decoded_and_those_of_s3_are_not() -> None:
    assert parse_url("http://h/b/a%20b#s3").prefix == "a b"
    assert parse_url("s3://b/a%20b").prefix == "a%20b"


def test_an_archive_in_a_bucket_is_known_by_mode_or_name() -> None:
    assert parse_url("s3://b/dir/data.zip").kind == "zip"
    assert parse_url("s3://b/dir/image.ozx").kind == "zip"
    assert parse_url("s3://b/dir/data#mode=zip").kind == "zip"
    assert parse_url("s3://b/data.zip/").kind == "s3"
    assert parse_url("s3://b/data.zarr").kind == "s3"


def test_a_bucket_alone_is_a_store_of_its_name() -> None:
    found = parse_url("s3://bucket")
    assert (found.bucket, found.prefix, found.last_word) == ("bucket", "", "bucket")


def test_plain_http_is_a_kind_of_its_own() -> None:
    found = parse_url("https://host.org/dir/data.zarr?token=x")
    assert (found.kind, found.text) == ("http", "https://host.org/dir/data.zarr")
    assert found.last_word == "data.zarr"
    assert found.source == "https://host.org/dir/data.zarr?token=x"


def test_memory_has_a_name_and_a_prefix() -> None:
    found = parse_url("memory://store/dir/data")
    assert (found.kind, found.bucket, found.prefix) == ("memory", "store", "dir/data")


@pytest.mark.parametrize(
    ("fragment", "modes"),
    [
        ("mode=zarr", {"zarr", "nczarr"}),
        ("mode=xarray", {"xarray", "zarr", "nczarr"}),
        ("mode=xarray,noxarray", {"noxarray", "zarr", "nczarr"}),
        ("mode=zarr&MODE=Consolidated,zarr", {"zarr", "nczarr", "consolidated"}),
        ("zarr", {"zarr", "nczarr"}),
        ("nczarr&log&show=fetch", {"nczarr"}),
        ("mode=", set()),
    ],
)
def test_modes_are_merged_and_imply_others(fragment: str, modes: set[str]) -> None:
    assert parse_url(f"file:///no/such#{fragment}").modes == modes


def test_profile_and_region_come_from_the_fragment() -> None:
    for text in ("aws.profile=p&aws.region=r", "AWSprofile=p&awsregion=r"):
        found = parse_url(f"s3://b/k#{text}")
        assert (found.profile, found.region, found.anonymous) == ("p", "r", False)
    assert parse_url("s3://b/k#aws.profile=no").anonymous
    assert parse_url("https://b.s3.eu-west-1.amazonaws.com#aws.region=r").region == "eu-west-1"


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("", "path or a URL"),
        ("ftp://host/x", "s3://"),
        ("s3://b/k#mode=zarrr", "nczarr"),
        ("s3://b/k#mode=dap4", "nczarr"),
        ("s3://b/k#mode=udf3", "nczarr"),
        ("s3://b/k#aws.profil=x", "aws.profile"),
        ("s3://b/k#nonsense", "nczarr"),
        ("s3://b/k#mode=file", "zip"),
        ("file:///x#mode=s3", "zip"),
        ("file:///x#mode=file,zip", "one of them"),
        ("file://", "file:///absolute/path"),
        ("s3://", "s3://: no bucket; write s3://BUCKET/KEY"),
        ("#zarr", "path or a URL"),
        ("http:/host/x", "begins with http://"),
        ("file:/x#zarr", "begins with file://"),
        ("http://joe:a#b@host/x", "write %23"),
        ("s3://host:9000/bucket", "#mode=s3"),
        ("http://h/#s3", "/BUCKET/KEY"),
        ("http://h:port/b#s3", "host or port"),
        ("http://[::1/b#s3", "host or port"),
        ("s3://b//k", "component ''"),
        ("s3://b/a/../k", "component '..'"),
        ("s3://b#mode=zip", "key of an archive"),
        ("https://host/b/k?versionId=1#s3", "queries have no place"),
        ("https://b.s3.amazonaws.com/k?list-type=2", "queries have no place"),
        ("https://ec2.amazonaws.com/b/k", "s3.REGION.amazonaws.com"),
        ("memory://x#mode=zip", "in memory"),
    ],
)
def test_what_is_not_known_is_an_error_that_says_what_is(text: str, known: str) -> None:
    with pytest.raises(BadUrl) as caught:
        parse_url(text)
    assert known in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "s3://user:hush@bucket/key",
        "https://user:hush@host/b/k#s3",
        "https://host/b/k?X-Amz-Signature=hush#s3",
        "https://b.s3.amazonaws.com/k?X-Amz-Signature=hush",
        "http://user:hush@h:port/b",
        "ftp://user:hush@host/x",
        "http://user:hush@host/path?token=hush",
        "http://user:abc#hush@host/path",
        "http://user:abc#hu=hush@host/path",
        "http://user:abc#hush=hush@host/path",
        "http:/user:hush@host/path",
        "S3:/user:abc#hush@host/path",
    ],
)
def test_secrets_are_never_shown(text: str) -> None:
    try:
        shown = repr(parse_url(text)) + parse_url(text).text
    except BadUrl as error:
        shown = f"{error} {error.__cause__}"
    assert "hush" not in shown


def test_a_directory_may_be_called_as_a_scheme(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "http:/x").mkdir(parents=True)
    assert parse_url("http:/x").path == str(tmp_path / "http:/x")
    assert parse_url("./s3:/x").path == str(tmp_path / "s3:/x")


def test_the_scheme_of_an_installed_package_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    def found(group: str) -> EntryPoints:
        return EntryPoints([EntryPoint("tape", "tapes:open", group)])

    monkeypatch.setattr(url_module, "entry_points", found)
    tape = parse_url("tape://robot/7?pin=1234#mode=zarr")
    assert (tape.kind, tape.text, tape.last_word) == ("tape", "tape://robot/7", "7")
    with pytest.raises(BadUrl, match="tape://"):
        parse_url("tapes://robot/7")
