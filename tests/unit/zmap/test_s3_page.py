"""Pages of listings are taken apart the same, whatever form a server gives them."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from urllib.parse import quote
from xml.sax.saxutils import escape

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nczfs.errors import BadKey, StoreError
from nczfs.zmap.base import Stat, Version
from nczfs.zmap.keys import ROOT, Key, parse_key
from nczfs.zmap.s3 import page as page_module
from nczfs.zmap.s3.listing import stats
from nczfs.zmap.s3.page import ListingPage, parse_page

TIME_NS = 1_767_323_045_000_000_000


def ceph(key: str, size: int = 3) -> str:
    return (
        f"<Contents><Key>{quote(key, safe='', errors='surrogateescape')}</Key>"
        "<LastModified>2026-01-02T03:04:05.123Z</LastModified><ETag>&quot;e&quot;</ETag>"
        f"<Size>{size}</Size><StorageClass>STANDARD</StorageClass><Type>Normal</Type></Contents>"
    )


def swift(key: str, size: int = 3) -> str:
    return (
        f"<Contents><Key>{quote(key, errors='surrogateescape')}</Key>"
        '<LastModified>2026-01-02T03:04:05.000Z</LastModified><ETag>"e"</ETag>'
        f"<Size>{size}</Size><StorageClass>STANDARD</StorageClass></Contents>"
    )


def amazon(key: str, size: int = 3) -> str:
    return (
        f"<Contents><Key>{quote(key, errors='surrogateescape').replace('%20', '+')}</Key>"
        "<LastModified>2026-01-02T03:04:05.000Z</LastModified><ETag>&quot;e&quot;</ETag>"
        "<ChecksumAlgorithm>CRC64NVME</ChecksumAlgorithm><ChecksumType>FULL_OBJECT</ChecksumType>"
        f"<Size>{size}</Size><Owner><ID>i</ID><DisplayName>a&amp;b</DisplayName></Owner>"
        "<StorageClass>STANDARD</StorageClass></Contents>"
    )


def google(key: str, size: int = 3) -> str:
    return (
        f"<Contents>\n <Size>{size}</Size><Key>{quote(key, errors='surrogateescape')}</Key>"
        "<Generation>7</Generation><ETag>e</ETag>"
        "<LastModified>2026-01-02T03:04:05Z</LastModified></Contents>\n"
    )


def document(inner: str, encoding: str = "url", space: str = "http://s3.amazonaws.com/") -> bytes:
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<ListBucketResult xmlns="{space}"><EncodingType>{encoding}</EncodingType>'
        f"<IsTruncated>false</IsTruncated>{inner}"
        "<CommonPrefixes><Prefix>a%20b/</Prefix></CommonPrefixes></ListBucketResult>"
    ).encode()


def parsed_whole(body: bytes) -> ListingPage:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page_module, "_cut_out", lambda body: (None, body))
        return parse_page(body, "here")


KEYS = st.text("aé./-\0 %\udcff\n+&<>\"'=\\", max_size=12) | st.from_regex(
    r"[a.]{0,3}(/\.?nczfs-?)*/?"
)


@pytest.mark.parametrize("form", [ceph, swift, amazon, google])
@settings(deadline=None)  # a busy machine
@given(keys=st.lists(KEYS.filter(bool), max_size=4), size=st.integers(0, 5 << 40))
def test_keys_and_sizes_are_those_that_the_server_has(
    form: Callable[[str, int], str], keys: list[str], size: int
) -> None:
    body = document("".join(form(key, size) for key in keys))
    page = parse_page(body, "here")
    version = Version('"e"')
    assert page.objects == [Stat(Key(key), size, version, TIME_NS) for key in keys]
    assert page.prefixes == ["a b/"]
    assert page == parsed_whole(body)


@pytest.mark.parametrize("form", [ceph, swift, amazon])
def test_the_forms_of_known_servers_need_no_parser(
    form: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(page_module._Parts, "columns")
    body = document("".join(form(f"group/{number}.0") for number in range(3)))
    assert [stat.key for stat in parse_page(body, "here").objects] == [
        "group/0.0",
        "group/1.0",
        "group/2.0",
    ]


@settings(deadline=None)  # a busy machine
@given(keys=st.lists(KEYS, max_size=3))
@example(["a", "a/"])
@example(["a", "a\n.nczfs-a"])
def test_a_key_is_listed_if_and_only_if_it_is_one(keys: list[str]) -> None:
    for some in (*([text] for text in keys), keys):
        # As a page that comes from a server, also with keys that no listing can hold.
        objects = [Stat(Key(text), 1, Version("v")) for text in some]
        page = ListingPage(objects, [], "", page_module._are_usual(some))
        assert [stat.key for stat in stats(iter([page]), ROOT)] == list(filter(is_key, some))


def is_key(text: str) -> bool:
    try:
        parse_key(text)
    except BadKey:
        return False
    return True


def test_long_keys_are_looked_at() -> None:
    texts = ["/".join(["n" * 99] * 10), "/".join(["n" * 99] * 11)]
    page = parse_page(document("".join(map(ceph, texts))), "here")
    assert [stat.key for stat in stats(iter([page]), ROOT)] == texts[:1]


def test_a_key_that_is_not_encoded_is_taken_as_it_is() -> None:
    inner = "".join(
        ceph("x").replace("<Key>x<", f"<Key>{escape(key)}<") for key in ("a+b%2Fc", "a&b")
    )
    for more in (inner, inner.replace("&amp;", "and")):
        page = parse_page(document(more, encoding=""), "here")
        assert page.objects[0].key == "a+b%2Fc"
        assert page == parsed_whole(document(more, encoding=""))


UNUSUAL = [
    "<!-- {} -->",
    "<![CDATA[{}]]>",
    "{0}<Contents/>",
    "<Other>{}</Other>",
    "<Other>{0}</Other>{0}",
    "{0}{0}<Contents><Key>b</Key></Contents>",
]


@pytest.mark.parametrize("around", UNUSUAL)
def test_what_is_unusual_is_for_the_parser(around: str) -> None:
    for inner in (ceph("a"), ceph("a") + ceph("b"), ceph("a").replace("Type>", "Size>")):
        body = document(around.format(inner))
        try:
            expected = parsed_whole(body)
        except StoreError:
            with pytest.raises(StoreError, match="not a listing of S3"):
                parse_page(body, "here")
        else:
            assert parse_page(body, "here") == expected


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("<Size>3</Size>", ""),
        ("<Size>3", "<Size>three"),
        ("<Size>3", "<Size>9223372036854775808"),
        ("</StorageClass>", "</Other>"),
        ("</Contents>", ""),
        ("<Key>a", "<Key>&nothing;"),
        ("ListBucketResult", "Other"),
    ],
)
def test_a_broken_page_is_an_error_in_any_form(before: str, after: str) -> None:
    for inner in (ceph("a"), ceph("a") + ceph("b"), ceph("b") + ceph("a")):
        body = document(inner)
        assert before.encode() in body
        with pytest.raises(StoreError, match="here: the answer is not a listing of S3"):
            parse_page(body.replace(before.encode(), after.encode()), "here")


def test_tags_of_versions_are_kept_as_they_are() -> None:
    forms = {
        "&quot;e&quot;": '"e"',
        '"e-3"': '"e-3"',
        "e": '"e"',
        "W/&quot;e&quot;": 'W/"e"',
        "&#34;e&#34;": '"e"',
    }
    for text, token in forms.items():
        body = document(ceph("a").replace("&quot;e&quot;", text))
        assert parse_page(body, "here").objects[0].version == Version(token)


BOMBS = {
    "document type": b'<!DOCTYPE l [<!ENTITY a "x">]><ListBucketResult>&a;</ListBucketResult>',
    "a tag of more": b"<ListBucketResult %s/>" % b" ".join(b'a%d=">"' % n for n in range(99_000)),
    "levels": b"<ListBucketResult>" + b"<a>" * 1_000_000,
    "elements": b"<ListBucketResult>" + b"<a/>" * 1_000_000,
}


@pytest.mark.parametrize("reason", BOMBS)
def test_a_page_made_to_take_memory_is_refused_before_it_does(reason: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(StoreError, match=f"not a listing of S3 .*{reason}"):
            parse_page(BOMBS[reason], "here")
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def test_objects_of_another_namespace_are_none_of_the_listing() -> None:
    foreign = "<o:Contents xmlns:o='urn:other'><Key>b</Key><Size>1</Size></o:Contents>"
    page = parse_page(document(foreign + google("a")), "here")
    assert [stat.key for stat in page.objects] == ["a"]
