"""Stores of references: documents, what they name, and what they may name."""

from __future__ import annotations

import base64
import json
import os
import tracemalloc
from pathlib import Path
from typing import Any

import fsspec
import pytest

from nczfs.errors import (
    AccessDenied,
    BadMetadata,
    BadUrl,
    Conflict,
    CorruptStore,
    NoSuchObject,
    ReadOnlyStore,
    ReferenceRefused,
    StoreError,
    Unsupported,
)
from nczfs.zmap.base import ZMap
from nczfs.zmap.keys import ROOT, Key, Prefix
from nczfs.zmap.reference_targets import Targets
from nczfs.zmap.registry import StoreOptions, around, open_store
from nczfs.zmap.url import parse_url
from tests.conftest import ExpectedWarnings
from tests.support.contents import objects_of
from tests.support.scripted import Asked, Reply, serving

DATA = bytes(range(200))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with data, beside one with a secret."""
    place = tmp_path / "place"
    (place / "sub").mkdir(parents=True)
    (place / "data.bin").write_bytes(DATA)
    (place / "sub" / "more.bin").write_bytes(b"more")
    (tmp_path / "secret").write_bytes(b"secret")
    return place


def write(place: Path, document: object) -> str:
    path = place / "refs.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return str(path)


def opened(place: Path, document: object, **options: Any) -> ZMap:
    return open_store(write(place, document), StoreOptions(**options))


DOCUMENT = {
    ".zgroup": {"zarr_format": 2},
    "x/.zarray": '{"zarr_format": 2}',
    "x/0": ["data.bin", 10, 20],
    "x/1": ["sub/more.bin"],
    "x/2": "base64:" + base64.b64encode(b"\x00\xff").decode(),
    "x/3": "text: ü",
    "x/4": ["data.bin", 0, 0],
    "é/0": ["data.bin", 1, 1],
}
VALUES = {
    ".zgroup": b'{"zarr_format": 2}',
    "x/.zarray": b'{"zarr_format": 2}',
    "x/0": DATA[10:30],
    "x/1": b"more",
    "x/2": b"\x00\xff",
    "x/3": "text: ü".encode(),
    "x/4": b"",
    "é/0": b"\x01",
}


@pytest.mark.parametrize(
    "document", [DOCUMENT, {"version": 1, "refs": DOCUMENT}, {"refs": DOCUMENT, "version": 1}]
)
def test_a_document_of_each_version_reads_as_it_says(place: Path, document: object) -> None:
    zmap = opened(place, document)
    assert objects_of(zmap) == VALUES
    assert {stat.key: stat.size for stat in zmap.list(ROOT)} == {
        key: len(data) for key, data in VALUES.items()
    }
    assert {entry.name for entry in zmap.search(ROOT)} == {".zgroup", "x", "é"}
    assert bytes(zmap.read(Key("x/0"), 5, 8).data) == DATA[15:18]
    assert zmap.read(Key("x/0")).version == zmap.stat(Key("x/0")).version
    with pytest.raises(NoSuchObject, match="x/9"):
        zmap.read(Key("x/9"))
    with pytest.raises(ReadOnlyStore):
        zmap.write(Key("x/0"), b"")
    zmap.close()


TEMPLATED = {
    "version": 1,
    "templates": {"u": "data", "f": "{{c}}.bin", "dir": "sub"},
    "gen": [
        {
            "key": "gen/{{i}}.{{j}}",
            "url": "{{u}}.bin",
            "offset": "{{(i + 1) * 10 + j}}",
            "length": "5",
            "dimensions": {"i": {"stop": 2}, "j": [3, 4]},
        }
    ],
    "refs": {
        "a": ["{{u}}.bin", 3, 4],
        "b": ["{{f(c='data')}}", 0, 2],
        "c": ["{{dir}}/more.bin"],
        "d": "{{u}} is text",
    },
}


def test_templates_and_generated_references_are_expanded(place: Path) -> None:
    assert objects_of(opened(place, TEMPLATED)) == {
        "a": DATA[3:7],
        "b": DATA[:2],
        "c": b"more",
        "d": b"{{u}} is text",
        "gen/0.3": DATA[13:18],
        "gen/0.4": DATA[14:19],
        "gen/1.3": DATA[23:28],
        "gen/1.4": DATA[24:29],
    }


def test_what_fsspec_reads_is_what_is_read(place: Path) -> None:
    absolute = {
        key: [f"{place}/{value[0]}", *value[1:]] if isinstance(value, list) else value
        for key, value in DOCUMENT.items()
        if key != "x/4"  # of size 0, which fsspec takes for all of the file
    }
    file_system = fsspec.filesystem("reference", fo={"version": 1, "refs": absolute})
    for key, data in objects_of(opened(place, {"version": 1, "refs": absolute})).items():
        read = file_system.cat(key)
        assert (json.loads(read) if key == ".zgroup" else read) == (
            json.loads(data) if key == ".zgroup" else data
        )


@pytest.mark.parametrize(
    "expression",
    [
        "{{__import__('os').system('true')}}",
        "{{u.__class__}}",
        "{{[1]}}",
        "{{2 ** 100}}",
        "{{9223372036854775807 * 2}}",
        "{{1 // 0}}",
        "{{'a' * 3}}",
        "{{unknown}}",
        "{{loop}}",
        "{{f('x')}}",
        "{{f(**u)}}",
        "{{ 1 + }}",
        "{{u|upper}}",
        "{% for i in u %}{{i}}{% endfor %}",
        "{{" + "(" * 2000 + "}}",
        "{{" + "-" * 901 + "u}}",
        "{{many}}",
    ],
)
def test_an_expression_that_is_not_understood_is_refused(place: Path, expression: str) -> None:
    templates = {"u": "data", "f": "{{c}}", "loop": "{{loop}}", "many": "{{f(c=1)}}" * 2000}
    document = {"version": 1, "templates": templates, "refs": {"a": [expression]}}
    with pytest.raises(Unsupported, match=r"refs\.json"):
        opened(place, document)


@pytest.mark.parametrize(
    "document",
    [
        "{}",
        '{"a": "b"',
        '{"a": "b"} c',
        '{"a" "b"}',
        '{"a": "b" "c": "d"}',
        '{"a": 1}',
        '{"a": ["x", 1]}',
        '{"a": ["x", -1, 1]}',
        '{"a": ["x", 1, 99999999999999999999]}',
        '{"a": "base64:%%%"}',
        '{"version": 1}',
        '{"version": 1, "refs": []}',
        '{"refs": {"a": "b"}}',
        '{"version": 1, "refs": {}, "templates": []}',
        '{"version": 1, "refs": {}, "gen": [1]}',
        '{"version": 1, "refs": {}, "gen": [{"key": "a"}]}',
        '{"version": 1, "refs": {}, "gen": [{"key": "{{i}}", "url": "x", "dimensions": '
        '{"i": {"stop": 5, "step": 0}}}]}',
        '{"version": 1, "refs": {}, "gen": [{"key": "/{{i}}", "url": "x", "dimensions": '
        '{"i": {"stop": 5}}}]}',
        '{"a": ' + "[" * 100_000,
    ],
)
def test_what_is_no_document_of_references_is_an_error(place: Path, document: str) -> None:
    with pytest.raises(BadMetadata, match=r"refs\.json"):
        opened(place, document)


def test_a_range_that_a_rule_makes_wrong_is_refused_alone(
    place: Path, expected_warnings: ExpectedWarnings
) -> None:
    expected_warnings.add("the reference of '0-1' cannot be read: .* offset -1 \\(and 1 others\\)")
    rule = {"key": "{{i}}{{w}}", "url": "data.bin", "offset": "{{w}}", "length": "2"}
    rules = [rule | {"dimensions": {"i": ["0", "1"], "w": ["-1", "5"]}}]
    zmap = opened(place, {"version": 1, "refs": {}, "gen": rules})
    assert {stat.key: stat.size for stat in zmap.list(ROOT)} == {
        "0-1": 1,
        "05": 2,
        "1-1": 1,
        "15": 2,
    }
    assert bytes(zmap.read(Key("05")).data) == DATA[5:7]
    with pytest.raises(CorruptStore, match="impossible range"):
        zmap.read(Key("0-1"))
    assert [key for key, _ in zmap.broken(ROOT)] == ["0-1", "1-1"]


def test_a_version_to_come_and_too_many_generated_are_refused(place: Path) -> None:
    with pytest.raises(Unsupported, match="version 2"):
        opened(place, {"version": 2, "refs": {}})
    for stop, count in ((10**9, "1000000000"), (2**80, str(2**80)), (10**300, "about 2\\^996")):
        rule = {"key": "{{i}}", "url": "x", "dimensions": {"i": {"stop": stop}}}
        with pytest.raises(Unsupported, match=rf"makes {count} references, of which .* 1000000"):
            opened(place, {"version": 1, "refs": {}, "gen": [rule]})


def test_keys_that_are_none_are_left_out_and_of_two_the_last_counts(
    place: Path, expected_warnings: ExpectedWarnings
) -> None:
    expected_warnings.add("left out 2 references")
    zmap = opened(place, '{"../up": "x", "a//b": "x", "a": "one", "a": "two"}')
    assert objects_of(zmap) == {"a": b"two"}


@pytest.mark.parametrize(
    "url",
    [
        "../secret",
        "sub/../../secret",
        "{above}/secret",
        "file://{above}/secret",
        "file:///etc/passwd",
        "/etc/passwd",
        "{above}/place-beside/data.bin",
        "http://169.254.169.254/latest",
        "https://other.example.org/data.bin",
        "s3://bucket/key",
        "memory://store/key",
    ],
)
def test_references_that_lead_elsewhere_are_refused(place: Path, url: str) -> None:
    zmap = opened(place, {"a": [url.format(above=place.parent), 0, 3]})
    with pytest.raises(ReferenceRefused, match=r"refs\.json/a: .*--allow-references") as caught:
        zmap.read(Key("a"))
    assert "\n" not in str(caught.value)


def test_a_link_does_not_lead_elsewhere_either(place: Path) -> None:
    (place / "link").symlink_to(place.parent / "secret")
    with pytest.raises(StoreError):
        opened(place, {"a": ["link", 0, 3]}).read(Key("a"))


@pytest.mark.parametrize(
    "url",
    [
        "simplecache::s3://b/k",
        "s3://user:hush@bucket/key",
        "s3:///k",
        "http://[::1/k",
        "http://host:port/k",
    ],
)
def test_references_that_are_not_understood_say_so_without_secrets(place: Path, url: str) -> None:
    zmap = opened(place, {"a": [url, 0, 3]}, allow_references=("s3://",))
    with pytest.raises(Unsupported, match=r"refs\.json/a: the reference to") as caught:
        zmap.read(Key("a"))
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("allowed", ["{above}", "file://{above}/secret", "/"])
def test_what_is_allowed_is_read(place: Path, allowed: str) -> None:
    options = (allowed.format(above=place.parent),)
    zmap = opened(place, {"a": [f"{place.parent}/secret", 0, 3]}, allow_references=options)
    assert bytes(zmap.read(Key("a")).data) == b"sec"


def test_a_store_that_is_allowed_is_opened(place: Path) -> None:
    open_store("memory://test_reference").write(Key("dir/key"), b"in memory")
    document = {"a": ["memory://test_reference/dir/key", 3, 3]}
    zmap = opened(place, document, allow_references=("memory://test_reference/dir",))
    assert bytes(zmap.read(Key("a")).data) == b"mem"
    zmap = opened(place, document, allow_references=("memory://test_reference/di",))
    with pytest.raises(AccessDenied):
        zmap.read(Key("a"))


def test_more_stores_than_can_be_kept_open_are_refused(place: Path) -> None:
    document = {str(number): [f"memory://many{number}/k", 0, 1] for number in range(70)}
    zmap = opened(place, document, allow_references=("memory://",))
    for number in range(64):
        with pytest.raises(CorruptStore, match="does not exist"):
            zmap.read(Key(str(number)))
    with pytest.raises(StoreError, match="more than 64 stores"):
        zmap.read(Key("69"))


def test_an_object_that_was_replaced_is_a_conflict(place: Path) -> None:
    zmap = opened(place, {"a": ["data.bin", 0, 3], "b": ["data.bin", 3, 3], "c": ["data.bin"]})
    assert bytes(zmap.read(Key("a")).data) == DATA[:3]
    os.replace(place / "sub" / "more.bin", place / "data.bin")
    for key in "abc":
        with pytest.raises(Conflict):
            zmap.read(Key(key))


def test_a_range_beyond_the_object_or_an_absent_one_is_corrupt_and_not_absent(
    place: Path,
) -> None:
    zmap = opened(place, {"a": ["data.bin", 190, 20], "b": ["gone", 0, 1], "c": ["gone"]})
    with pytest.raises(CorruptStore, match=r"up to 210 .* has 200"):
        zmap.read(Key("a"), 0, 5)
    for key in "bc":
        with pytest.raises(CorruptStore, match="does not exist"):
            zmap.read(Key(key))


def test_over_http_the_host_is_home_and_paths_are_relative(tmp_path: Path) -> None:
    def script(asked: Asked) -> Reply:
        documents = {
            "/dir/refs.json": json.dumps(
                {"a": ["data%20x", 1, 2], "b": ["../data", 2, 2], "c": [f"{here}/data", 3, 2]}
                | {"d": ["/etc/passwd", 0, 1], "e": ["http://127.0.0.1:1/data", 0, 1]}
            ).encode(),
            "/dir/data%2520x": DATA,
            "/data": DATA,
        }
        path, _, query = asked.path.partition("?")
        return Reply(200, documents[path]) if query == "token=1" else Reply(403)

    with serving(script) as server:
        here = server.endpoint_url
        zmap = open_store(f"{here}/dir/refs.json?token=1#mode=zarr,kerchunk")
        assert bytes(zmap.read(Key("a")).data) == DATA[1:3]
        assert bytes(zmap.read(Key("b")).data) == DATA[2:4]
        assert bytes(zmap.read(Key("c")).data) == DATA[3:5]
        for key in "de":
            with pytest.raises(AccessDenied):
                zmap.read(Key(key))
        zmap.close()


def test_in_a_bucket_the_bucket_is_home(aws_files: Path) -> None:
    home, _ = around(parse_url("http://127.0.0.1:9000/bucket/dir/refs.json#mode=s3"))
    targets = Targets(home, StoreOptions(no_sign_request=True))
    zmap, key = targets.find("data x.nc")
    assert (zmap.name, key) == ("http://127.0.0.1:9000/bucket", "dir/data x.nc")
    assert targets.find("../data.nc") == (zmap, "data.nc")
    assert targets.find("s3://bucket/other/data.nc") == (zmap, "other/data.nc")
    for url in ("s3://elsewhere/data.nc", "/etc/passwd", "http://127.0.0.1:9000/elsewhere/x"):
        with pytest.raises(AccessDenied):
            targets.find(url)
    with pytest.raises(CorruptStore):
        targets.find("s3://bucket")
    targets.close()


@pytest.mark.parametrize(
    "url", ["{}/secret", "{}/allowed/../secret", "{}/allowed/%2e%2E/secret", "{}/allowed-too/x"]
)
def test_a_prefix_that_is_allowed_is_not_left_by_dots(place: Path, url: str) -> None:
    options = {"allow_references": ("https://host.example.org/allowed",)}
    zmap = opened(place, {"a": [url.format("https://HOST.example.org"), 0, 3]}, **options)
    with pytest.raises(AccessDenied):
        zmap.read(Key("a"))


def test_what_a_path_is_is_seen_from_its_content(place: Path) -> None:
    (place / "refs").write_text(' \n {"a": "b"}')
    assert parse_url(str(place / "refs")).kind == "reference"
    assert parse_url("s3://b/dir/refs.json").kind == "reference"
    assert parse_url("https://h/refs.parq/").kind == "reference"
    assert parse_url("https://h/refs#reference").kind == "reference"
    (place / "text.json").write_text("text")
    with pytest.raises(BadUrl, match="reference document"):
        parse_url(str(place / "text.json"))


def test_a_million_references_need_little_memory(place: Path) -> None:
    body = ",".join(f'"x/{n}": ["s3://bucket/{n % 9}", {n * 100}, 100]' for n in range(100_000))
    url = write(place, f"{{{body}}}")
    tracemalloc.start()
    try:
        zmap = open_store(url)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 100_000 * 60
    assert zmap.stat(Key("x/99999")).size == 100
    assert sum(1 for _ in zmap.search(Prefix("x"))) == 100_000
