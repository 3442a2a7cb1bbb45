"""Stores over HTTP, before real web servers, against the half of the suite for readers."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from nczfs.engine.stores import open_store
from nczfs.errors import AccessDenied, NoSuchObject, StoreError, Unavailable, UsageError
from nczfs.testing.zmap import ODD_KEYS, Populate, ZMapReadSuite
from nczfs.zmap.base import ZMap
from nczfs.zmap.directory import DirectoryZMap
from nczfs.zmap.http import HttpZMap
from nczfs.zmap.inblocks import InBlocks
from nczfs.zmap.keys import ROOT, Key, Prefix, parse_key
from nczfs.zmap.registry import StoreOptions
from nczfs.zmap.wrappers import Prefixed
from nczfs.zmap.zip import ZipZMap
from tests.support.httpd import WebServer
from tests.support.knowing import KNOWING

SEEN_BY_ALL = [key for key in ODD_KEYS if "/." not in f"/{key.rpartition('/')[0]}"]


def fill(directory: Path, objects: Mapping[str, bytes]) -> None:
    zmap = DirectoryZMap(directory)
    for key, data in objects.items():
        zmap.write(parse_key(key), data)
    zmap.close()
    for path in directory.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)


class _Served(ZMapReadSuite):
    """A directory that a server shows below a place of its own."""

    key_beside_prefix = False
    page_keys = 100  # an index page has all names
    server = "nginx"
    place = ""

    @pytest.fixture
    def populate(self, request: pytest.FixtureRequest) -> Iterator[Populate]:
        opened: list[ZMap] = []

        def make(objects: Mapping[str, bytes]) -> ZMap:
            server: WebServer = request.getfixturevalue(self.server)
            directory = server.new_directory()
            fill(directory, objects)
            opened.append(self.open(f"{server.url}{self.place}", directory.name))
            return opened[-1]

        yield make
        for zmap in opened:
            zmap.close()

    def open(self, url: str, name: str) -> ZMap:
        return HttpZMap(f"{url}/{name}", KNOWING)


class _HidesDots(_Served):
    """nginx lists no name that begins with a dot; the documents of Zarr are found all the same."""

    @pytest.mark.parametrize("text", SEEN_BY_ALL, ids=lambda text: ascii(text[:20]))
    def test_an_odd_key_is_a_key_like_others(self, populate: Populate, text: str) -> None:
        super().test_an_odd_key_is_a_key_like_others(populate, text)

    def test_a_hidden_directory_is_not_listed_and_can_be_read(self, populate: Populate) -> None:
        zmap = populate({".hidden/.zarray": b"{}"})
        assert list(zmap.search(ROOT)) == []
        assert [entry.name for entry in zmap.search(Prefix(".hidden"))] == [".zarray"]
        assert bytes(zmap.read(Key(".hidden/.zarray")).data) == b"{}"


class TestNginxWithJson(_HidesDots):
    place = "/json"


class TestNginxWithHtml(_HidesDots):
    place = "/html"


class TestNginxBelowAPrefix(_HidesDots):
    place = "/json"

    def open(self, url: str, name: str) -> ZMap:
        return Prefixed(HttpZMap(url, KNOWING), Prefix(name))


class TestApache(_Served):
    server = "apache"
    place = "/plain"


class TestApacheWithTables(_Served):
    server = "apache"
    place = "/fancy"


def test_the_server_of_python_has_names_and_no_ranges(python_server: WebServer) -> None:
    directory = python_server.new_directory()
    fill(directory, {"a b/.zarray": b"{}", "a b/0.0": b"0123456789", "ünï": b"", ".zgroup": b"{}"})
    zmap = HttpZMap(f"{python_server.url}/{directory.name}", KNOWING)
    assert names(zmap) == {"a b", "ünï", ".zgroup"}
    assert names(zmap, "a b") == {".zarray", "0.0"}
    assert {stat.key: stat.size for stat in zmap.list(ROOT)} == {
        "a b/.zarray": 2,
        "a b/0.0": 10,
        "ünï": 0,
        ".zgroup": 2,
    }
    assert zmap.features.ranges
    blob = zmap.read(Key("a b/0.0"), 3, 5)
    assert (bytes(blob.data), blob.object_size) == (b"34", 10)
    assert not zmap.features.ranges
    assert zmap.stat(Key("a b/0.0")).version == blob.version
    with pytest.raises(NoSuchObject):
        zmap.read(Key("a b"))
    zmap.close()


class TestZipOnNginx(ZMapReadSuite):
    """An archive in place, read by ranges; the server lists nothing."""

    @pytest.fixture
    def populate(self, nginx: WebServer) -> Iterator[Populate]:
        opened: list[ZMap] = []

        def make(objects: Mapping[str, bytes]) -> ZMap:
            file = io.BytesIO()
            with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
                for key, data in objects.items():
                    archive.writestr(key, data)
            directory = nginx.new_directory()
            (directory / "data.zip").write_bytes(file.getvalue())
            outer = HttpZMap(f"{nginx.url}/unlisted/{directory.name}", KNOWING)
            source = InBlocks(outer, owns_source=True)
            opened.append(ZipZMap(source, Key("data.zip"), top="", owns_source=True))
            return opened[-1]

        yield make
        for zmap in opened:
            zmap.close()


Serve = Callable[[Mapping[str, bytes]], str]


@pytest.fixture
def unlisted(nginx: WebServer) -> Serve:
    """Serve objects without listings."""

    def make(objects: Mapping[str, bytes]) -> str:
        directory = nginx.new_directory()
        fill(directory, objects)
        return f"{nginx.url}/unlisted/{directory.name}"

    return make


METADATA = (
    b'{"zarr_consolidated_format": 1, "metadata": {".zgroup": {}, ".zattrs": {},'
    b' "g/.zgroup": {}, "g/t/.zarray": {}, "t/.zarray": {}, "../up": {}, "a//b": {}}}'
)
DATASET = {
    ".zgroup": b"{}",
    ".zmetadata": METADATA,
    "g/.zgroup": b"{}",
    "g/t/.zarray": b"{}",
    "g/t/0": b"chunk",
    "t/.zarray": b"{}",
}


def names(zmap: ZMap, prefix: str = "") -> set[str]:
    return {entry.name for entry in zmap.search(Prefix(prefix))}


def test_consolidated_metadata_name_groups_and_arrays_where_nothing_is_listed(
    unlisted: Serve,
) -> None:
    zmap = open_store(unlisted(DATASET))
    assert names(zmap) == {".zgroup", ".zmetadata", "g", "t"}  # there is no .zattrs
    assert names(zmap, "g") == {".zgroup", "t"}
    assert names(zmap, "absent") == set()
    assert bytes(zmap.read(Key("g/t/0")).data) == b"chunk"
    zmap.close()


def test_consolidated_metadata_of_a_dataset_below_the_url_count(unlisted: Serve) -> None:
    zmap = open_store(unlisted({f"data.zarr/{key}": data for key, data in DATASET.items()}))
    assert names(zmap, "data.zarr/g") == {".zgroup", "t"}
    with pytest.raises(StoreError, match="lists no directories"):
        names(zmap)
    zmap.close()


def test_chunks_that_cannot_be_known_are_an_error_and_no_empty_directory(unlisted: Serve) -> None:
    zmap = open_store(unlisted(DATASET))
    for prefix in ("t", "g/t", "g/t/0"):
        with pytest.raises(StoreError, match="consolidated metadata do not name chunks"):
            names(zmap, prefix)
    with pytest.raises(StoreError, match="chunks"):
        list(zmap.list(ROOT))
    zmap.close()


ROOT_OF_V3 = (
    b'{"zarr_format": 3, "node_type": "group", "consolidated_metadata": {"kind": "inline",'
    b' "metadata": {"g": {"node_type": "group", "consolidated_metadata": {"metadata": {}}},'
    b' "g/t": {"attributes": {"node_type": "group"}, "node_type": "array"}, "../up": {}}}}'
)
GROUP_OF_V3 = b'{"zarr_format": 3, "node_type": "group"}'


@pytest.mark.parametrize("place", ["", "data.zarr/"])
def test_consolidated_metadata_within_the_root_name_what_is_below(
    unlisted: Serve, place: str
) -> None:
    objects = {"zarr.json": ROOT_OF_V3, "g/zarr.json": GROUP_OF_V3, "g/t/zarr.json": b"{}"}
    zmap = open_store(unlisted({f"{place}{key}": data for key, data in objects.items()}))
    if not place:
        assert names(zmap) == {"zarr.json", "g"}
    assert names(zmap, f"{place}g") == {"zarr.json", "t"}
    with pytest.raises(StoreError, match="consolidated metadata do not name chunks"):
        names(zmap, f"{place}g/t")
    zmap.close()


@pytest.mark.parametrize("root", [GROUP_OF_V3, b"[", b'{"consolidated_metadata": 3}'])
def test_a_root_without_consolidated_metadata_names_nothing(unlisted: Serve, root: bytes) -> None:
    zmap = open_store(unlisted({"zarr.json": root, "g/zarr.json": GROUP_OF_V3}))
    with pytest.raises(StoreError, match="there are no consolidated metadata"):
        names(zmap)
    zmap.close()


def test_without_listings_and_metadata_names_are_an_error_that_says_so(unlisted: Serve) -> None:
    zmap = open_store(unlisted({"a": b"data"}))
    assert bytes(zmap.read(Key("a")).data) == b"data"
    with pytest.raises(NoSuchObject):
        zmap.stat(Key("b"))
    for ask in (zmap.search, zmap.list):
        with pytest.raises(StoreError, match=r"lists no directories \(it answers 40[34]\)"):
            list(ask(ROOT))
    zmap.close()


def test_a_server_is_believed_that_an_authority_vouches_for(nginx: WebServer) -> None:
    directory = nginx.new_directory()
    fill(directory, {"a": b"data"})
    url = f"{nginx.tls_url}/json/{directory.name}"
    known = HttpZMap(url, StoreOptions(ca_bundle=str(nginx.certificate)))
    assert bytes(known.read(Key("a")).data) == b"data"
    known.close()
    unknown = HttpZMap(url, KNOWING)
    with pytest.raises(Unavailable, match="--ca-bundle"):
        unknown.read(Key("a"))
    unknown.close()
    misnamed = HttpZMap(
        url.replace("127.0.0.1", "localhost"),
        StoreOptions(ca_bundle=str(nginx.certificate)),
    )
    with pytest.raises(Unavailable, match="not trusted: Hostname mismatch") as caught:
        misnamed.read(Key("a"))
    assert "--ca-bundle" not in str(caught.value)  # which would not help
    misnamed.close()
    with pytest.raises(UsageError, match="/no/such"):
        HttpZMap(url, StoreOptions(ca_bundle="/no/such"))


def test_a_private_place_opens_to_whom_the_url_names(nginx: WebServer) -> None:
    directory = nginx.new_directory()
    fill(directory, {"a": b"data"})
    place = f"/private/{directory.name}"
    zmap = HttpZMap(nginx.url.replace("//", "//user:hush-hush@") + place, KNOWING)
    assert bytes(zmap.read(Key("a")).data) == b"data"
    zmap.close()
    zmap = HttpZMap(nginx.url.replace("//", "//user:wrong@") + place, KNOWING)
    with pytest.raises(AccessDenied, match="check user and password") as caught:
        zmap.read(Key("a"))
    assert "wrong" not in str(caught.value)
    zmap.close()
