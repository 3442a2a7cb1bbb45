"""The S3 store passes the suite on servers of two makers, near and far, plain and wrapped."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter

import pytest

from nczfs.testing.zmap import K, Populate, ZMapReadSuite, ZMapSuite
from nczfs.zmap.base import ZMap
from nczfs.zmap.keys import Key, Prefix, parse_key
from nczfs.zmap.registry import StoreOptions, open_store
from tests.support.servers import S3Server


class _SmallPages:
    """Pages of listings are small: the server cuts them in the same way, and filling them is most
    of what the tests of a store would cost."""

    page_keys = 100

    @pytest.fixture(autouse=True)
    def small_pages(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("nczfs.zmap.s3.listing.PAGE_KEYS", self.page_keys)


class _Bucket(ZMapSuite):
    """A bucket of its own for each test."""

    prefix = ""
    server: S3Server
    bucket: str

    @pytest.fixture
    def zmap(self, s3_server: S3Server) -> Iterator[ZMap]:
        self.server, self.bucket = s3_server, s3_server.new_bucket()
        zmap = open_store(s3_server.url(self.bucket, self.prefix))
        zmap.prepare_writing()
        yield zmap
        zmap.close()

    @pytest.fixture
    def populate(self, zmap: ZMap) -> Populate:
        return lambda objects: _fill(zmap, objects)

    def peek(self, zmap: ZMap, key: Key) -> bytes | None:
        whole = f"{self.prefix}/{key}" if self.prefix else key
        client = self.server.client()
        try:
            return bytes(client.get_object(Bucket=self.bucket, Key=whole)["Body"].read())
        except client.exceptions.NoSuchKey:
            return None
        finally:
            client.close()


class TestSwift(_SmallPages, _Bucket):
    @pytest.fixture
    def s3_server(self, swift: S3Server) -> S3Server:
        return swift


class TestCeph(_Bucket):
    @pytest.fixture
    def s3_server(self, ceph: S3Server) -> S3Server:
        return ceph


class TestCephBelowAPrefix(_SmallPages, _Bucket):
    prefix = "some/prefix"

    @pytest.fixture
    def s3_server(self, ceph: S3Server) -> S3Server:
        return ceph


def test_a_run_ends_with_its_page_and_the_next_one_goes_on(
    ceph: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nczfs.zmap.s3.listing.PAGE_KEYS", 3)
    zmap = open_store(ceph.url(ceph.new_bucket(), "top"))
    versions = {
        key: zmap.write(key, b"%d" % number)
        for number, key in enumerate(parse_key(f"a/{n // 4}.{n % 4}") for n in range(8))
    }
    zmap.write(parse_key("b/0.0"), b"")
    keys = sorted(versions)
    for number, key in enumerate(keys):
        run = zmap.run_from(Prefix("a"), key)
        assert run is not None
        page = keys[number : number + 3]
        assert run.versions == {each: versions[each] for each in page}
        assert run.last == (page[-1] if number + 3 < len(keys) else None)
    for absent in ("a/1.7", "a/10.0"):
        run = zmap.run_from(Prefix("a"), parse_key(absent))
        assert run is not None
        assert run.covers(parse_key(absent))
        assert parse_key(absent) not in run.versions
    zmap.close()


class TestSwiftFarAway(_SmallPages, ZMapReadSuite):
    """Filled near by, read over the delay."""

    @pytest.fixture
    def populate(self, swift: S3Server, delayed_swift: S3Server) -> Populate:
        bucket = swift.new_bucket()

        def fill(objects: Mapping[str, bytes]) -> ZMap:
            _fill(open_store(swift.url(bucket)), objects)
            return open_store(delayed_swift.url(bucket))

        return fill


class TestAnonymousCeph(_SmallPages, ZMapReadSuite):
    """A public bucket, read without a signature."""

    @pytest.fixture
    def populate(self, ceph: S3Server) -> Populate:
        bucket = ceph.new_bucket()
        client = ceph.client()
        client.put_bucket_acl(Bucket=bucket, ACL="public-read")

        def fill(objects: Mapping[str, bytes]) -> ZMap:
            def put(item: tuple[str, bytes]) -> None:
                client.put_object(Bucket=bucket, Key=item[0], Body=item[1], ACL="public-read")

            with ThreadPoolExecutor(16) as pool:
                list(pool.map(put, objects.items()))
            return open_store(
                ceph.url(bucket).replace(ceph.profile, "no"), StoreOptions(read_only=True)
            )

        return fill


class TestZipInABucket(ZMapReadSuite):
    @pytest.fixture
    def populate(self, ceph: S3Server) -> Populate:
        bucket = ceph.new_bucket()

        def fill(objects: Mapping[str, bytes]) -> ZMap:
            file = io.BytesIO()
            with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
                archive.mkdir("data/")
                for key, data in objects.items():
                    archive.writestr(f"data/{key}", data)
            open_store(ceph.url(bucket)).write(Key("below/data.zip"), file.getvalue())
            return open_store(ceph.url(bucket, "below/data.zip"))

        return fill


def test_a_request_really_takes_the_delay(swift: S3Server, delayed_swift: S3Server) -> None:
    bucket = swift.new_bucket()
    zmap = open_store(delayed_swift.url(bucket))
    zmap.write(K, b"data")
    begin = perf_counter()
    zmap.read(K)
    assert perf_counter() - begin >= 0.02


def _fill(zmap: ZMap, objects: Mapping[str, bytes]) -> ZMap:
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda item: zmap.write(parse_key(item[0]), item[1]), objects.items()))
    return zmap
