"""The service over HTTP: descriptions, files, pages, and requests that are wrong."""

from __future__ import annotations

import logging
from io import BytesIO
from pathlib import Path
from urllib.parse import quote, urlencode
from xml.etree import ElementTree as ET

import html5lib
import lxml.html
import numpy as np
import pytest

import nczfs
from nczfs import ncstream
from nczfs.ncstream.framing import HEADER
from nczfs.pictures.picture import PREVIEW_BYTES
from nczfs.serve.app import TARGET_BYTES_MAX, AppOptions
from tests.conftest import ExpectedWarnings
from tests.support.commands import printed
from tests.support.served import Served, served

HOSTILE = "<script>alert('x')</script>\"&"
HOSTILE_NAME = "n<img src=x onerror='alert(1)'>\"&amp;"
NCML = "{http://www.unidata.ucar.edu/namespaces/netcdf/ncml-2.2}"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("served")
    with nczfs.open(str(path / "a.zarr"), "w") as dataset:
        dataset.create_dimension("time", None)
        dataset.create_dimension("x", 40)
        dataset.create_variable(
            "t",
            ("time", "x"),
            "f4",
            np.arange(120, dtype="f4").reshape(3, 40),
            attributes={"units": "K", "limits": [-1.5, float("nan")], "title": HOSTILE},
        )
        dataset.create_group("inner").create_variable("n", ("x",), "i8", np.arange(40))
    with nczfs.open(str(path / HOSTILE_NAME), "w", format="zarr2") as dataset:
        dataset.create_variable(HOSTILE_NAME, (2,), "i1", np.array([1, 2], "i1"))
    (path / "broken.zarr").mkdir()
    (path / "broken.zarr" / ".zarray").write_text("{")
    return path


@pytest.fixture(autouse=True)
def _broken_dataset_is_logged(expected_warnings: ExpectedWarnings) -> None:
    """Only the first test that looks at it sees that, whichever it is."""
    expected_warnings.add("broken.zarr")


# -- CDM Remote ------------------------------------------------------------------------------------


def test_clients_find_out_that_this_is_cdm_remote(service: Served) -> None:
    """SEMANTICS V1."""
    for target in ("cdmremote/a.zarr", "cdmremote/a.zarr/inner", "cdmremote/a.zarr/"):
        got = service.get(target)
        assert (got.status, got.body) == (200, b"")
        assert got.headers["content-description"] == "ncstream"


def test_headers_and_data_have_no_length(service: Served) -> None:
    """SEMANTICS V1."""
    for target in ("cdmremote/a.zarr?req=header", "cdmremote/a.zarr?REQ=Data&VAR=t(0,0:3)"):
        got = service.get(target)
        assert got.status == 200
        assert got.headers["content-type"] == "application/octet-stream"
        assert got.headers["content-description"] == "ncstream"
        assert "content-length" not in got.headers
    assert service.get("cdmremote/a.zarr?req=header").body.startswith(HEADER)


def test_cdl_is_that_of_nczfs_dump(service: Served, store: Path) -> None:
    got = service.get("cdmremote/a.zarr?req=CDL")
    assert got.headers["content-type"].startswith("text/plain")
    assert got.text == printed("dump", "-h", store / "a.zarr")


def test_ncml_describes_the_group(service: Served) -> None:
    got = service.get("cdmremote/a.zarr?req=ncml")
    assert got.headers["content-type"] == "application/xml"
    root = ET.fromstring(got.text)
    time, x = root.findall(f"{NCML}dimension")
    assert time.attrib == {"name": "time", "length": "3", "isUnlimited": "true"}
    assert x.attrib == {"name": "x", "length": "40"}
    (t,) = (each for each in root.findall(f"{NCML}variable") if each.get("name") == "t")
    assert (t.get("shape"), t.get("type")) == ("time x", "float")
    attributes = {each.get("name"): each for each in t.findall(f"{NCML}attribute")}
    assert attributes["title"].get("value") == HOSTILE
    assert attributes["limits"].attrib == {"name": "limits", "type": "double", "value": "-1.5 NaN"}
    inner = root.find(f"{NCML}group")
    assert inner is not None
    assert [each.get("type") for each in inner.findall(f"{NCML}variable")] == ["long"]


def test_capabilities_name_the_endpoint(service: Served) -> None:
    root = ET.fromstring(service.get("cdmremote/a.zarr?req=capabilities").text)
    assert root.tag == "cdmRemoteCapabilities"
    assert root.get("location") == f"{service.url}cdmremote/a.zarr"
    assert root.find("featureDataset") is not None


@pytest.mark.parametrize(
    ("target", "status", "words"),
    [
        ("cdmremote/nothing.zarr?req=header", 404, "nothing.zarr: no such file"),
        ("cdmremote/?req=header", 404, "no dataset and no group"),
        ("cdmremote/a.zarr/t?req=header", 404, "no dataset and no group"),
        ("cdmremote/a.zarr/a.nc?req=header", 404, "is a file"),
        ("cdmremote/../../etc/passwd?req=header", 404, "no such file"),
        ("cdmremote/a.zarr?req=form", 400, "'form': there are header, data, CDL"),
        ("cdmremote/a.zarr?req=data", 400, "needs var="),
        ("cdmremote/a.zarr?req=data&var=u", 400, "no variable has that name"),
        ("cdmremote/a.zarr?req=data&var=t(0:9,:)", 400, "position 9 is beyond the end"),
        ("cdmremote/a.zarr?req=data&var=t(0)", 400, "1 ranges for 2 dimensions"),
        ("cdmremote/a.zarr?req=data&var=t.m", 400, "'t': is no structure, and has no members"),
        ("cdmremote/a.zarr?req=data&var=t&deflate=12", 400, "a level from 0 to 9"),
        ("cdmremote/a.zarr?req=data&var=%FF", 400, "not UTF-8"),
        ("cdmremote/broken.zarr?req=header", 502, "metadata of the dataset cannot be read"),
        ("a.zarr/nothing", 404, "no such file"),
        ("a.zarr/a.nc/more", 404, "below a file"),
    ],
)
def test_what_is_wrong_with_a_request_is_told_as_text(
    service: Served,
    store: Path,
    target: str,
    status: int,
    words: str,
) -> None:
    """SEMANTICS V7."""
    got = service.get(target)
    assert got.status == status
    assert got.headers["content-type"] == "text/plain; charset=utf-8"
    assert words in got.text
    assert str(store) not in got.text


def test_a_preview_is_served_as_a_picture(service: Served) -> None:
    got = service.get("a.zarr/t/preview.png")
    assert got.headers["content-type"] == "image/png"
    assert got.body.startswith(b"\x89PNG")
    assert len(got.body) == PREVIEW_BYTES == int(got.headers["content-length"])
    # It changes with values, of which nothing here knows.
    assert not {"etag", "last-modified"} & set(got.headers)


# -- files -----------------------------------------------------------------------------------------


def test_files_are_those_of_a_mount(service: Served, store: Path) -> None:
    """SEMANTICS V9."""
    values = np.arange(120, dtype="f4").reshape(3, 40)
    assert service.get("a.zarr/t/values.raw").body == values.tobytes()
    assert service.get("a.zarr/a.cdl").text == printed("dump", "-h", store / "a.zarr")
    assert service.get("a.zarr/a.nc").body.startswith(b"\x89HDF")


def test_a_dataset_comes_as_one_stream_also_in_two_parts(service: Served) -> None:
    """SEMANTICS V9."""
    whole = service.get("a.zarr/a.ncs").body
    first = service.get("a.zarr/a.ncs", Range="bytes=0-99")
    rest = service.get("a.zarr/a.ncs", Range="bytes=100-", If_Range=first.headers["etag"])
    assert first.body + rest.body == whole
    values = ncstream.assemble(ncstream.read(BytesIO(whole)))
    assert values["inner/n"].tolist() == list(range(40))


@pytest.mark.parametrize(
    ("asked", "status", "expected"),
    [
        ("bytes=0-9", 206, slice(0, 10)),
        ("bytes=470-", 206, slice(470, 480)),
        ("bytes=470-9999", 206, slice(470, 480)),
        ("bytes=-7", 206, slice(473, 480)),
        ("bytes=-9999", 206, slice(0, 480)),
        ("bytes=480-", 416, slice(0, 0)),
        ("bytes=-0", 416, slice(0, 0)),
        ("bytes=9-3", 200, slice(0, 480)),
        ("bytes=0-1,5-6", 200, slice(0, 480)),
        ("lines=1-2", 200, slice(0, 480)),
    ],
)
def test_ranges_of_files(service: Served, asked: str, status: int, expected: slice) -> None:
    """SEMANTICS V9."""
    whole = np.arange(120, dtype="f4").tobytes()
    got = service.get("a.zarr/t/values.raw", Range=asked)
    assert (got.status, got.body) == (status, whole[expected])
    if status == 206:
        last = expected.stop - 1
        assert got.headers["content-range"] == f"bytes {expected.start}-{last}/480"


@pytest.mark.parametrize("name", ["a.nc", "a.classic.nc", "a.cdl"])
def test_ranges_of_files_that_are_made_are_parts_of_them(service: Served, name: str) -> None:
    """SEMANTICS V9."""
    whole = service.get(f"a.zarr/{name}").body
    size = len(whole)
    for asked, first, last in (("7-106", 7, 106), (f"{size - 50}-", size - 50, size - 1)):
        got = service.get(f"a.zarr/{name}", Range=f"bytes={asked}")
        assert (got.status, got.body) == (206, whole[first : last + 1])
        assert got.headers["content-range"] == f"bytes {first}-{last}/{size}"
    assert service.get(f"a.zarr/{name}", Range=f"bytes={size}-").status == 416


def test_a_range_of_another_version_is_answered_with_the_whole_file(service: Served) -> None:
    """SEMANTICS V9."""
    head = service.get("a.zarr/t/values.raw", "HEAD")
    assert (head.status, head.body, head.headers["content-length"]) == (200, b"", "480")
    tag = head.headers["etag"]
    assert service.get("a.zarr/t/values.raw", Range="bytes=0-0", If_Range=tag).status == 206
    assert service.get("a.zarr/t/values.raw", Range="bytes=0-0", If_Range='"x"').status == 200


@pytest.mark.parametrize(
    ("conditions", "status"),
    [
        ({"If_Match": "{tag}"}, 206),
        ({"If_Match": '"x", {tag}'}, 206),
        ({"If_Match": "*"}, 206),
        ({"If_Match": '"x"'}, 412),
        ({"If_Match": "W/{tag}"}, 412),
        ({"If_Unmodified_Since": "{modified}"}, 206),
        ({"If_Unmodified_Since": "Thu, 01 Jan 1970 00:00:00 GMT"}, 412),
        ({"If_Unmodified_Since": "yesterday"}, 206),
        ({"If_Unmodified_Since": f"Thu, 01 Jan {'9' * 20} 00:00:00 GMT"}, 206),
        ({"If_Match": "{tag}", "If_Unmodified_Since": "Thu, 01 Jan 1970 00:00:00 GMT"}, 206),
    ],
)
def test_a_range_is_sent_only_of_the_version_that_is_asked_for(
    service: Served, conditions: dict[str, str], status: int
) -> None:
    """SEMANTICS V9."""
    for name in ("a.nc", "a.ncs", "a.cdl", "t/values.raw"):
        head = service.get(f"a.zarr/{name}", "HEAD").headers
        known = {"tag": head["etag"], "modified": head["last-modified"]}
        headers = {header: text.format(**known) for header, text in conditions.items()}
        got = service.get(f"a.zarr/{name}", Range="bytes=0-9", **headers)
        assert got.status == status, name
        assert status == 412 or len(got.body) == 10


def test_what_a_client_has_already_is_never_called_current(tmp_path: Path) -> None:
    """SEMANTICS V9. Values may have changed, while the layout is the same."""
    path = tmp_path / "a.zarr"
    with nczfs.open(str(path), "w") as dataset:
        dataset.create_variable("v", (4,), "i4", np.arange(4, dtype="i4"))
    with served(path) as service:
        first = service.get("a.zarr/a.nc")
        with nczfs.open(str(path), "r+") as dataset:
            dataset.variables["v"][...] = [9, 8, 7, 6]
        conditions = {
            "If_None_Match": first.headers["etag"],
            "If_Modified_Since": first.headers["last-modified"],
        }
        again = service.get("a.zarr/a.nc", **conditions)
    assert again.status == 200
    assert len(again.body) == len(first.body)
    assert again.body != first.body
    assert again.headers["cache-control"] == "no-cache"


# -- pages -----------------------------------------------------------------------------------------


def _parsed(text: str) -> ET.Element:
    """A page, which must be valid HTML."""
    root = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parse(text)
    assert isinstance(root, ET.Element)
    return root


def _links(root: ET.Element) -> list[str]:
    return [str(each.get("href")) for each in root.iter("a")]


def test_every_page_is_valid_and_every_link_leads_somewhere(service: Served) -> None:
    """SEMANTICS V10."""
    seen, waiting = {"/"}, ["/"]
    while waiting:
        target = waiting.pop()
        got = service.get(target[1:])
        if got.status != 200:
            assert "broken" in target
            assert got.status == 502
            continue
        if not got.headers["content-type"].startswith("text/html"):
            continue
        root = _parsed(got.text)
        assert list(root.iter("script")) == []
        images = [str(each.get("src")) for each in root.iter("img")]
        found = {link for link in (*_links(root), *images) if link.startswith("/")} - seen
        seen |= found
        waiting += found
    assert "/a.zarr/t/values.npy" in seen
    assert "/a.zarr/inner/inner.nc" in seen
    assert "/cdmremote/a.zarr?req=header" in seen
    assert "/a.zarr/t/chunks/0.0" in seen
    assert "/a.zarr/t/?picture" in seen
    assert "/a.zarr/inner/n/?picture" in seen


def test_the_form_of_a_dataset_gets_a_section(service: Served) -> None:
    """SEMANTICS V10."""
    page = lxml.html.fromstring(service.get("a.zarr/").body, base_url=f"{service.url}a.zarr/")
    (form,) = page.forms
    field = form.inputs["var"]
    (names,) = page.xpath("//datalist[@id=$id]", id=field.get("list"))
    assert [option.get("value") for option in names] == ["/t", "/inner/n"]
    form.fields["var"] = "/t(0:2:2,3:5)"
    assert form.method == "GET"
    (button,) = form.xpath(".//button")
    assert button.get("type", "submit") == "submit"
    target = f"{form.get('action')}?{urlencode(form.form_values())}".lstrip("/")
    (found,) = ncstream.read(BytesIO(service.get(target).body))
    assert isinstance(found, ncstream.Array)
    assert found.values.tolist() == [[3, 4, 5], [83, 84, 85]]


def test_names_and_attributes_of_stores_are_text_in_pages(service: Served) -> None:
    """SEMANTICS V10."""
    for target in ("", "a.zarr/", f"{quote(HOSTILE_NAME)}/"):
        got = service.get(target)
        root = _parsed(got.text)
        assert list(root.iter("script")) == []
        for image in root.iter("img"):
            assert set(image.attrib) == {"src", "alt", "loading", "width", "height"}
            assert str(image.get("src")).startswith(f"/{target}")
        shown = "".join(root.itertext())
        assert HOSTILE_NAME in shown or HOSTILE in shown.replace("\\", "")  # CDL quotes with them
        assert got.headers["content-security-policy"].startswith("default-src 'none';")
        assert got.headers["x-content-type-options"] == "nosniff"


def test_the_first_page_lists_the_datasets_with_their_dumps(service: Served, store: Path) -> None:
    """SEMANTICS V10."""
    root = _parsed(service.get("").text)
    assert "/a.zarr/" in _links(root)
    dumps = ["".join(each.itertext()) for each in root.iter("pre")]
    assert printed("dump", "-h", store / "a.zarr") in dumps


def test_a_dataset_that_fills_the_store_has_its_name(store: Path) -> None:
    with served(store / "a.zarr") as service:
        assert "/a.zarr/" in _links(_parsed(service.get("").text))
        assert service.get("cdmremote/a.zarr?req=header").status == 200
        assert service.get("a.zarr/a.cdl").status == 200


# -- limits ----------------------------------------------------------------------------------------


def test_nothing_is_written(service: Served) -> None:
    """SEMANTICS V1."""
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
        for target in ("", "a.zarr/t/values.raw", "cdmremote/a.zarr?req=header"):
            assert service.get(target, method).status == 405


def test_a_request_that_is_too_long_is_refused(service: Served) -> None:
    """SEMANTICS V15."""
    assert service.get(f"?{'x' * TARGET_BYTES_MAX}").status == 414
    assert service.get("/".join("x" * 200)).status == 404


def test_a_service_answers_to_its_own_names_alone(store: Path) -> None:
    """SEMANTICS V13."""
    with served(store / "a.zarr", AppOptions(hosts=("127.0.0.1", "*.example.org"))) as service:
        assert service.get("").status == 200
        assert service.get("", Host="data.example.org:80").status == 200
        assert service.get("", Host="evil.example.com").status == 400


def test_the_log_names_no_secrets(store: Path, caplog: pytest.LogCaptureFixture) -> None:
    """SEMANTICS V8."""
    with caplog.at_level(logging.INFO, "nczfs.serve"), served(store) as service:
        target = "cdmremote/a.zarr?req=data&var=t(0,%0A1)&token=hush&X-Amz-Signature=hush"
        service.get(target)
        service.get("a.zarr/?token=hush")
        service.get("a%0Ab")
    lines = sorted(r.getMessage() for r in caplog.records if '"GET ' in r.getMessage())
    targets = [line.partition('"GET ')[2].partition('"')[0] for line in lines]
    assert targets == ["/a%0Ab", "/a.zarr/", "/cdmremote/a.zarr?req=data&var=t(0,%0A1)"]
    assert "hush" not in caplog.text


def test_strange_paths_and_sections_are_refused(service: Served) -> None:
    """SEMANTICS V7."""
    paths = (
        "%2e%2e/%2e%2e/etc/passwd",
        "a.zarr/%00",
        "a.zarr/..%2f..%2fetc",
        "a.zarr/./t",
        "%ff%fe",
    )
    for path in (*paths, "a.zarr/t/values.raw%00.png", "cdmremote/%2e%2e", "a/" * 3000):
        assert service.get(path).status == 404, path
    sections = (
        "(" * 7000,
        "t" + "(0:1" * 1500,
        "t;" * 3000 + "u",
        f"t(0:{'9' * 5000},0)",
        "t(-1,0)",
    )
    for section in (*sections, "t(0:2:0,0)", "t(0,0)" * 900):
        assert service.get(f"cdmremote/a.zarr?req=data&var={section}").status == 400, section
    assert service.get("//a.zarr//t/").status == 200
