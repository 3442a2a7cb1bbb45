"""Verifying a dataset: a sound one is silent, and each damage is found, alone and by its name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from nczfs.engine.dataset import Engine
from nczfs.errors import NoSuchNode, NotADataset
from nczfs.library.opening import open_zmap
from nczfs.model.hierarchy import Json
from nczfs.testing.datasets import put_array, put_group, put_json
from nczfs.tools.verify.findings import Finding, FindingKind, Severity
from nczfs.tools.verify.subject import subject_at, subject_of
from nczfs.tools.verify.verification import Verification
from nczfs.zmap.base import Stat, ZMap
from nczfs.zmap.keys import ROOT, Prefix, parse_key
from nczfs.zmap.memory import MemoryZMap
from tests.support.reference import reference_root, zarr2_cases
from tests.support.verifying import (
    CODECS,
    FIELD,
    CountedStore,
    edit,
    fill,
    flipped,
    put,
    spoil,
    verify,
)


def test_nothing_is_found_in_a_sound_dataset(store: CountedStore, engine: Engine) -> None:
    run = Verification(subject_of(store, engine))
    assert list(run.run()) == []
    assert (run.counts.groups, run.counts.variables) == (2, 8)
    assert run.counts.chunks == len(store.chunks_read) == len(set(store.chunks_read)) == 4 + 4 + 15


def test_the_number_of_chunks_is_known_before_the_first_is_read(
    store: CountedStore, engine: Engine
) -> None:
    store.write(parse_key("g/zlib/notes"), b"no chunk")
    store.chunks_read.clear()
    done: list[float] = []
    expected: list[tuple[int, float, int]] = []

    def expect(count: int) -> None:
        expected.append((count, sum(done), len(store.chunks_read)))

    run = Verification(subject_of(store, engine), None, done.append, expect)
    assert [finding.kind for finding in run.run()] == [FindingKind.STRAY]
    assert expected == [(23, 0, 0)]
    assert sum(done) == 23


# -- damage ----------------------------------------------------------------------------------------


DAMAGE = {
    "flipped bytes in zlib": (
        spoil("g/zlib/1", flipped),
        (FindingKind.CHUNK, "/g/zlib", "g/zlib/1", "codec 'zlib'"),
    ),
    "flipped bytes in gzip": (
        spoil("g/gzip/0", flipped),
        (FindingKind.CHUNK, "/g/gzip", "g/gzip/0", "codec 'gzip'"),
    ),
    "a broken head in blosc": (
        spoil("g/blosc/0", lambda data: b"\xff" * 8 + data[8:]),
        (FindingKind.CHUNK, "/g/blosc", "g/blosc/0", "codec 'blosc'"),
    ),
    "a truncated blosc chunk": (
        spoil("g/blosc/1", lambda data: data[: len(data) // 2]),
        (FindingKind.CHUNK, "/g/blosc", "g/blosc/1", "codec 'blosc'"),
    ),
    "a truncated zstd chunk": (
        spoil("g/zstd/1", lambda data: data[:-4]),
        (FindingKind.CHUNK, "/g/zstd", "g/zstd/1", "codec 'zstd'"),
    ),
    "a truncated plain chunk": (
        spoil("v/1.1", lambda data: data[:-1]),
        (FindingKind.CHUNK, "/v", "v/1.1", "decode to 31 bytes, and a chunk has 32"),
    ),
    "an empty compressed chunk": (
        put("g/lz4/0", b""),
        (FindingKind.CHUNK, "/g/lz4", "g/lz4/0", "codec 'lz4'"),
    ),
    "an empty plain chunk": (
        put("v/0.1", b""),
        (FindingKind.CHUNK, "/v", "v/0.1", "decode to 0 bytes"),
    ),
    "a chunk that is too long": (
        spoil("v/0.0", lambda data: data + b"x"),
        (FindingKind.CHUNK, "/v", "v/0.0", "decodes to 33 bytes instead of 32"),
    ),
    "a compressed chunk that is too long": (
        put("g/zlib/0", bytes(CODECS["zlib"].encode(bytes(8004)))),
        (FindingKind.CHUNK, "/g/zlib", "g/zlib/0", "decodes to 8004 bytes instead of 8000"),
    ),
    "a chunk of absurd size": (
        put("y/3", bytes(70 << 20)),
        (FindingKind.CHUNK, "/y", "y/3", "bytes are stored for a chunk of 4"),
    ),
    "a document that is no JSON": (
        put("v/.zarray", b'{"zarr_format": 2,'),
        (FindingKind.UNREADABLE, "/v", "v/.zarray", "not JSON"),
    ),
    "an array without a shape": (
        put("y/.zarray", b'{"zarr_format": 2}'),
        (FindingKind.UNREADABLE, "/y", "y/.zarray", "shape is missing"),
    ),
    "attributes that are no JSON": (
        put("v/.zattrs", b"{,}"),
        (FindingKind.DOCUMENT, "/v", "v/.zattrs", "not JSON"),
    ),
    "a codec that nobody has": (
        edit("g/zlib/.zarray", compressor={"id": "nobody's"}),
        (FindingKind.CODEC, "/g/zlib", "g/zlib/.zarray", 'codec "nobody\'s" is not installed'),
    ),
    "two fill values": (
        edit("g/zstd/.zattrs", _FillValue=-1),
        (FindingKind.FILL, "/g/zstd", "g/zstd/.zattrs", "_FillValue is -1"),
    ),
    "a dimension of two lengths": (
        edit("y/.zarray", shape=[3]),
        (FindingKind.DIMENSION, "/y", "y/.zarray", "dimension 'y' has length 3 here, and 4 in /v"),
    ),
    "a chunk beyond the shape": (
        put("v/2.0", bytes(32)),
        (FindingKind.BEYOND, "/v", "v/2.0", "beyond the shape [4, 6]"),
    ),
    "a key in an array that is no chunk": (
        put("v/1.01", b"x"),
        (FindingKind.STRAY, "/v", "v/1.01", "not a document or a chunk"),
    ),
    "a key in a group": (put("g/notes.txt", b"x"), (FindingKind.STRAY, "/g", "g/notes.txt", "")),
    "a key below no node": (put("tmp/a/b", b"x"), (FindingKind.STRAY, "/", "tmp/a/b", "")),
}
WRECKS: dict[str, tuple[dict[str, dict[str, Json]], list[tuple[FindingKind, str]]]] = {
    "a directory of chunks": ({"w/chunks": {}}, [(FindingKind.WRECK, "/w")]),
    "a directory of chunks beside a variable": (
        {"g/chunks": {}},
        [(FindingKind.WRECK, "/g/chunks")],
    ),
    "a directory of chunks in the root": ({"chunks": {}}, [(FindingKind.WRECK, "/chunks")]),
    "attributes of a variable": ({"w": {"units": "K"}}, [(FindingKind.WRECK, "/w")]),
    "a directory of chunks and attributes": (
        {"w": {"title": "t", "_FillValue": 0}, "w/chunks": {}},
        [(FindingKind.WRECK, "/w")],
    ),
    "nothing": (
        {"w": {}, "w/x": {}, "y2": {}},
        [(FindingKind.EMPTY, "/w/x"), (FindingKind.EMPTY, "/y2")],
    ),
    "attributes of a group": ({"w": {"title": "t"}}, []),
}


@pytest.mark.parametrize("name", WRECKS)
def test_groups_that_a_failed_copy_left_are_named(
    store: CountedStore, engine: Engine, name: str
) -> None:
    groups, wanted = WRECKS[name]
    for path, attributes in groups.items():
        for above in (path.rpartition("/")[0], path):
            if above and not any(s.key == f"{above}/.zgroup" for s in store.list(ROOT)):
                put_group(store, above, attributes if above == path else {})
    found = verify(store, engine)
    assert sorted([(f.kind, f.path) for f in found], key=str) == wanted
    severities = {f.severity for f in found if f.kind is FindingKind.EMPTY}
    assert severities <= {Severity.NOTE}
    assert all(f.severity is Severity.ERROR for f in found if f.kind is FindingKind.WRECK)


@pytest.mark.parametrize(
    ("attributes", "wanted"), [({}, [(FindingKind.EMPTY, "/")]), ({"units": "K"}, [])]
)
def test_a_dataset_that_holds_nothing_is_named(
    engine: Engine, attributes: dict[str, Json], wanted: list[tuple[FindingKind, str]]
) -> None:
    store = MemoryZMap()
    put_group(store, "", attributes)
    found = list(Verification(subject_of(store, engine)).run())
    assert [(f.kind, f.path) for f in found] == wanted
    assert all("a dataset without members" in f.message for f in found)


def test_a_group_that_declares_dimensions_is_no_wreck(engine: Engine) -> None:
    store = MemoryZMap()
    with open_zmap(store, "w") as root:
        for name in ("chunks", "g"):
            root.create_group(name).create_dimension("x", 3)
    with open_zmap(store, "r+") as root:
        root.create_group("h").create_group("chunks").create_variable("v", (2,), "<f4")
    assert list(Verification(subject_of(store, engine)).run()) == []


ALONG_WITH = {"a dimension of two lengths": {FindingKind.BEYOND}}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_found_alone_and_named(store: CountedStore, engine: Engine, name: str) -> None:
    damage, (kind, path, key, message) = DAMAGE[name]
    if name == "two fill values":
        put_json(store, "g/zstd/.zattrs", {})
    damage(store)
    found = [f for f in verify(store, engine) if f.kind not in ALONG_WITH.get(name, ())]
    assert [(f.kind, f.path, f.key) for f in found] == [(kind, path, key)]
    assert message in found[0].message
    notes = (FindingKind.FILL, FindingKind.BEYOND, FindingKind.STRAY, FindingKind.UNLISTED)
    assert found[0].severity is (Severity.NOTE if kind in notes else Severity.ERROR)
    assert found[0].line.startswith(f"{found[0].severity.value} {path} {key}: ")


def test_every_chunk_that_is_too_long_is_told(store: CountedStore, engine: Engine) -> None:
    for number in range(4):
        store.write(parse_key(f"y/{number}"), bytes(5))
    assert sorted(f.key for f in verify(store, engine)) == ["y/0", "y/1", "y/2", "y/3"]


def test_the_word_for_nan_is_the_fill_value_nan(store: CountedStore, engine: Engine) -> None:
    edit("v/.zarray", fill_value="NaN")(store)
    edit("v/.zattrs", _FillValue="NaN")(store)
    assert verify(store, engine) == []


def test_chunks_of_an_unreadable_array_are_not_called_strays(
    store: CountedStore, engine: Engine
) -> None:
    store.write(parse_key("g/.zattrs"), b"[]")
    store.write(parse_key("v/.zarray"), b"")
    assert [(f.kind, f.key) for f in verify(store, engine)] == [
        (FindingKind.DOCUMENT, "g/.zattrs"),
        (FindingKind.UNREADABLE, "v/.zarray"),
    ]


def test_a_chunk_that_goes_away_meanwhile_is_fill(engine: Engine) -> None:
    class Vanishing(MemoryZMap):
        def list(self, prefix: Prefix) -> Iterator[Stat]:
            for stat in list(super().list(prefix)):
                if stat.key == "v/1.1":
                    self.delete(stat.key)
                yield stat

    store = Vanishing("memory://vanishing")
    fill(store)
    assert verify(store, engine) == []


def test_a_variable_or_group_is_verified_alone(store: CountedStore, engine: Engine) -> None:
    store.write(parse_key("v/0.0"), b"")
    store.write(parse_key("g/junk"), b"")
    assert [f.key for f in verify(store, engine, "g")] == ["g/junk"]
    assert {key.partition("/")[0] for key in store.chunks_read} == {"g"}
    assert [f.key for f in verify(store, engine, "v")] == ["v/0.0"]
    with pytest.raises(NoSuchNode):
        verify(store, engine, "w")


def test_what_is_no_dataset_cannot_be_verified(engine: Engine) -> None:
    with pytest.raises(NotADataset):
        subject_of(MemoryZMap("memory://empty"), engine)


# -- NCZarr, consolidated metadata -----------------------------------------------------------------


def nczarr(store: ZMap, *, arrays: list[str]) -> None:
    put_group(
        store,
        "",
        {
            "_nczarr_superblock": {"version": "2.0.0"},
            "_nczarr_group": {"dimensions": {"x": 6}, "arrays": arrays, "groups": []},
            "_nczarr_attr": {"types": {}},
        },
    )


def test_a_listed_array_that_is_missing_is_found(store: CountedStore, engine: Engine) -> None:
    nczarr(store, arrays=["v", "y", "gone"])
    found = [f for f in verify(store, engine) if f.severity is Severity.ERROR]
    assert [(f.kind, f.path) for f in found] == [(FindingKind.MISSING, "/gone")]


def test_an_array_that_no_group_lists_is_one_note(store: CountedStore, engine: Engine) -> None:
    nczarr(store, arrays=["v"])
    found = verify(store, engine)
    assert {(f.kind, f.path) for f in found} == {
        (FindingKind.UNLISTED, "/y"),
        (FindingKind.UNLISTED, "/g"),
    }
    assert len(found) == 2
    assert {key.partition("/")[0] for key in store.chunks_read} == {"v"}


def consolidate(store: ZMap) -> None:
    keys = [stat.key for stat in store.list(ROOT) if "/.z" in f"/{stat.key}"]
    documents = {key: json.loads(bytes(store.read(key).data)) for key in keys}
    put_json(store, ".zmetadata", {"zarr_consolidated_format": 1, "metadata": documents})


def test_consolidated_metadata_that_agree_are_no_finding(
    store: CountedStore, engine: Engine
) -> None:
    consolidate(store)
    assert verify(store, engine) == []


def test_stale_consolidated_metadata_are_found_by_the_document(
    store: CountedStore, engine: Engine
) -> None:
    consolidate(store)
    edit("v/.zattrs", units="K")(store)
    put_array(store, "g/new", FIELD, (4, 6))
    found = verify(store, engine)
    assert {(f.kind, f.key) for f in found} == {(FindingKind.CONSOLIDATED, ".zmetadata")}
    assert "v/.zattrs" in found[0].message
    assert "g/new/.zarray" in found[1].message
    assert len(found) == 2


def test_consolidated_metadata_do_not_hide_a_broken_document(
    store: CountedStore, engine: Engine
) -> None:
    consolidate(store)
    store.write(parse_key("v/.zarray"), b"")
    kinds = [f.kind for f in verify(store, engine)]
    assert kinds == [FindingKind.UNREADABLE, FindingKind.CONSOLIDATED]


def test_keys_in_consolidated_metadata_cannot_leave_the_store(engine: Engine) -> None:
    store = MemoryZMap("memory://hostile")
    put_group(store, "")
    metadata = {".zgroup": {"zarr_format": 2}, "../up/.zattrs": {}, "a//.zarray": {}}
    put_json(store, ".zmetadata", {"zarr_consolidated_format": 1, "metadata": metadata})
    assert [f.kind for f in verify(store, engine)] == [FindingKind.EMPTY]


def test_broken_consolidated_metadata_are_found(store: CountedStore, engine: Engine) -> None:
    store.write(parse_key(".zmetadata"), b"{}")
    assert [(f.kind, f.key) for f in verify(store, engine)] == [
        (FindingKind.CONSOLIDATED, ".zmetadata")
    ]


# -- other programs' datasets ----------------------------------------------------------------------

KNOWN_BROKEN = {
    "group_with_zmetadata.zarr": [FindingKind.CONSOLIDATED],
    "uint16_imagecodecs_tiff.zarr": [FindingKind.CODEC],
    "uint16_imagecodecs_tiff_invalid_tiff.zarr": [FindingKind.CODEC],
}


def others() -> list[Path]:
    root = reference_root()
    if root is None:
        return []
    found = [*(root / "gdal-zarr").glob("*.zarr"), *(root / "netcdf-c").glob("*/*.zip")]
    found += [path for case in zarr2_cases() for path in case.glob("data.zarr*")]
    return sorted(path for path in found if path.name != "array_attrs.zarr")


@pytest.mark.parametrize("path", others(), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_datasets_of_other_programs_are_sound(path: Path) -> None:
    with subject_at(str(path)) as subject:
        found = list(Verification(subject).run())
    errors = [f.kind for f in found if f.severity is Severity.ERROR]
    assert errors == KNOWN_BROKEN.get(path.name, [])


def test_lines_are_lines_whatever_the_names_hold() -> None:
    finding = Finding(FindingKind.STRAY, "/", "a\nerror /v b\x1b[2J\udc80", "ignored")
    assert finding.line == r"note / a\nerror /v b\x1b[2J\x80: ignored"


def test_each_reference_that_is_not_followed_is_found(tmp_path: Path) -> None:
    array = {"zarr_format": 2, "shape": [8], "chunks": [2], "dtype": "<i4", "fill_value": 0}
    array |= {"compressor": None, "filters": None, "order": "C"}
    (tmp_path / "data").write_bytes(bytes(8))
    places = {
        "0": "/etc/passwd",
        "1": "simplecache::s3://bucket/key",
        "2": "nothing",
        "3": "data",
    }
    chunks = {f"v/{name}": [url, 0, 8] for name, url in places.items()}
    group = {".zgroup": json.dumps({"zarr_format": 2}), "v/.zarray": json.dumps(array)}
    (tmp_path / "refs.json").write_text(json.dumps(group | chunks))
    with subject_at(str(tmp_path / "refs.json")) as subject:
        run = Verification(subject)
        found = {finding.key: finding.message for finding in run.run()}
    assert sorted(found) == ["v/0", "v/1", "v/2"]
    assert found["v/0"].startswith("the reference to '/etc/passwd' leads out of")
    assert found["v/1"].endswith("is a chain of protocols")
    assert found["v/2"].startswith("refers to something that does not exist")
    assert run.counts.chunks == 4
