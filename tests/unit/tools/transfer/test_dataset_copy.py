"""Copies of datasets, groups and variables: equal, by the cheapest way, whole or unfinished."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nczfs
from nczfs.engine.structure.ownership import UNFINISHED
from nczfs.errors import (
    BadValue,
    NameTaken,
    NczfsError,
    NoSuchNode,
    NotADataset,
    NotWritable,
    ObjectExists,
    Unavailable,
    Unsupported,
    UsageError,
)
from nczfs.formats.registry import FORMATS
from nczfs.model.hierarchy import CodecSpec
from nczfs.testing.datasets import put_array, put_group, put_json
from nczfs.testing.faults import Fault, Faulty
from nczfs.tools.transfer.choices import Choices
from nczfs.zmap import registry
from nczfs.zmap.base import Version
from nczfs.zmap.keys import Key, parse_key
from nczfs.zmap.memory import MemoryZMap
from nczfs.zmap.registry import StoreOptions, open_store
from nczfs.zmap.zip.compact import compact
from nczfs.zmap.zip.creating import create_archive
from tests.support.array_cases import CASES
from tests.support.arrays import Array
from tests.support.copies import (
    FIELD,
    checksums,
    chunk_keys,
    copied,
    described,
    fill_awkward,
    new_url,
    objects,
    parsed,
    variable,
)


@pytest.fixture
def source() -> str:
    url = new_url()
    fill_awkward(url, "nczarr-L3")
    return url


@pytest.fixture
def pure() -> str:
    url = new_url()
    fill_awkward(url, "zarr2")
    return url


@pytest.fixture
def target() -> str:
    return new_url()


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The keys of chunks that are decoded from now on."""
    from nczfs.engine.chunks.chunkio import ChunkIO

    keys: list[str] = []
    fetch = ChunkIO.fetch

    def noted(self: ChunkIO, chunk: Any, known: Any) -> Any:
        keys.append(self.key(chunk))
        return fetch(self, chunk, known)

    monkeypatch.setattr(ChunkIO, "fetch", noted)
    return keys


@pytest.mark.parametrize("format_name", FORMATS.names)
def test_a_dataset_is_copied_as_it_is_stored(
    format_name: str, target: str, decoded: list[str]
) -> None:
    source = new_url()
    fill_awkward(source, format_name)
    decoded.clear()
    assert copied(source, target) == []
    assert decoded == []
    assert described(target) == described(source)
    assert checksums(target) == checksums(source)
    before, after = objects(source), objects(target)
    assert {key: after[key] for key in chunk_keys(target)} == {
        key: before[key] for key in chunk_keys(source)
    }
    assert before.keys() == after.keys()


@pytest.mark.parametrize("format_name", ["nczarr-L3", "zarr2"])
def test_documents_are_those_of_the_source(format_name: str, target: str) -> None:
    source = new_url()
    fill_awkward(source, format_name)
    copied(source, target)
    assert parsed(target) == parsed(source)


@pytest.mark.parametrize(
    ("format_name", "other"),
    [
        ("nczarr-L3", "nczarr-L2l"),
        ("nczarr-L3", "zarr2"),
        ("nczarr-L1", "nczarr-L3"),
        ("nczarr-L2l", "zarr2"),
    ],
)
def test_another_format_has_equal_values_and_the_same_chunks(
    format_name: str, other: str, target: str, decoded: list[str]
) -> None:
    source = new_url()
    fill_awkward(source, format_name)
    decoded.clear()
    copied(source, target, format=other)
    # Only strings are stored in another way.
    assert {key.partition("/")[0] for key in decoded} <= {"s", "text"}
    before, after = checksums(source), checksums(target)
    if other == "zarr2":  # which has no type for text
        del before["/text"], after["/text"]
    assert after == before
    assert chunk_keys(target) == chunk_keys(source)
    with nczfs.open(target) as root:
        assert root.header.format == other
        assert root["v"].attrs["units"] == "K"
        assert variable(root, "unfilled").fill_value is None


def test_what_the_other_format_lacks_is_refused_before_anything_is_written(
    pure: str, target: str
) -> None:
    with pytest.raises(Unsupported, match="has no type bool; store it as ubyte"):
        copied(pure, target, format="nczarr-L3")
    assert objects(target) == {}


def test_pure_zarr_becomes_nczarr(target: str) -> None:
    source = new_url()
    store = open_store(source)
    put_group(store, "", {"title": "t"})
    put_array(store, "v", FIELD, (3, 4), dimensions=("t", "x"), separator="/")
    put_array(store, "noname", FIELD, (3, 4), fill_value=None)
    copied(source, target, format="nczarr")
    assert checksums(target) == checksums(source)
    assert chunk_keys(target) == chunk_keys(source)
    with nczfs.open(target) as root:
        assert [d.name for d in root.dimensions.values()] == [
            "_Anonymous_Dim_7",
            "_Anonymous_Dim_10",
            "t",
            "x",
        ]


# -- other chunks, other codecs --------------------------------------------------------------------


@pytest.mark.parametrize("format_name", ["nczarr-L3", "zarr2"])
@pytest.mark.parametrize(
    ("chunks", "memory"),
    [({"t": 7, "x": 1}, 1 << 20), ({"t": 1, "x": 10}, 64), ({"t": 2, "x": 3}, 1)],
)
def test_other_chunks_have_the_same_values_whatever_memory_there_is(
    format_name: str, chunks: dict[str, int], memory: int, target: str
) -> None:
    source = new_url()
    fill_awkward(source, format_name)
    copied(source, target, choices=Choices(chunks=chunks), memory_limit_bytes=memory)
    assert checksums(target) == checksums(source)
    with nczfs.open(target) as root, nczfs.open(source) as original:
        assert variable(root, "v").chunks == (chunks["t"], chunks["x"])
        for name in ("v", "nan", "unfilled", "s"):
            one, other = (variable(found, name).description.array for found in (root, original))
            assert repr((one.dtype, one.fill_value, one.codecs)) == repr(
                (other.dtype, other.fill_value, other.codecs)
            )


def test_chunks_that_were_never_written_stay_so(source: str, target: str) -> None:
    copied(source, target, choices=Choices(chunks={"t": 2, "x": 2}))
    written = {key for key in chunk_keys(target) if key.startswith("hole/")}
    assert written == {f"hole/{t}.{x}" for t in range(2) for x in range(2, 4)}
    # Nothing is known of its fill: what was written, is stored, and no more.
    written = {key for key in chunk_keys(target) if key.startswith("unfilled/")}
    assert written == {"unfilled/0", "unfilled/1"}


def test_nothing_is_read_where_nothing_was_written(target: str, decoded: list[str]) -> None:
    source = new_url()
    with nczfs.open(source, "w", format="zarr2") as root:
        variable = root.create_variable("v", (1 << 40,), "f8", chunks=(1 << 10,))
        variable[1 << 30] = 1
    decoded.clear()
    copied(source, target, choices=Choices(codecs=()), memory_limit_bytes=1 << 30)
    assert len(chunk_keys(target)) == 1
    assert len(decoded) <= 2  # and one that shows what a missing one reads as


def test_other_codecs_keep_all_else(source: str, target: str) -> None:
    codecs = (CodecSpec("zstd", {"level": 3}),)
    copied(source, target, choices=Choices(codecs=codecs))
    assert checksums(target) == checksums(source)
    with nczfs.open(target) as root:
        array = variable(root, "v").description.array
        assert [codec.name for codec in array.codecs.codecs] == ["zstd"]
        assert array.chunk_shape == (3, 4)


def test_each_kind_of_array_stays_what_it_is_with_other_codecs(target: str) -> None:
    source = new_url()
    store = open_store(source)
    put_group(store, "")
    for number, array in enumerate(CASES.values()):
        array.put(store, f"v{number}")
    copied(source, target, choices=Choices(codecs=(CodecSpec("zstd", {"level": 3}),)))
    before, after = parsed(source), parsed(target)
    for number, (name, array) in enumerate(CASES.items()):
        found = after[f"v{number}/.zarray"]
        object_codec = [codec["id"] for codec in array.filters or () if array.dtype == "|O"]
        assert isinstance(found, dict)
        assert found["compressor"]["id"] == "zstd"
        assert [codec["id"] for codec in found["filters"] or ()] == object_codec
        codecs = {"compressor": array.compressor, "filters": array.filters}
        assert found | codecs == before[f"v{number}/.zarray"], name
    assert checksums(target) == checksums(source)


@pytest.mark.parametrize(
    ("choices", "format_name"),
    [(None, None), (Choices(chunks={"y": 3}), None), (None, "nczarr-L3")],
)
def test_a_compressor_that_stands_as_the_last_filter_is_one(
    choices: Choices | None, format_name: str | None, target: str
) -> None:
    source = new_url()
    store = open_store(source)
    put_group(store, "")
    filters = [{"id": "shuffle", "elementsize": 4}, {"id": "zlib", "level": 1}]
    array = Array("<i4", filters=filters, attributes={"_ARRAY_DIMENSIONS": ["y", "x"]})
    array.put(store, "v")
    expected = array.values()
    expected[4, 6] = 0  # the chunk that was never written
    with nczfs.open(source) as root:
        np.testing.assert_array_equal(variable(root, "v")[...], expected)
    copied(source, target, choices=choices, format=format_name)
    assert checksums(target) == checksums(source)  # nczfs verify finds nothing, either
    found = json.loads(objects(target)["v/.zarray"])
    codecs = [codec["id"] for codec in [*found["filters"], found["compressor"]] if codec]
    assert codecs == ["shuffle", "zlib"]


@pytest.mark.parametrize("format_name", ["nczarr-L3", "zarr2"])
def test_strings_get_the_length_that_is_chosen_or_are_refused(
    format_name: str, target: str
) -> None:
    source = new_url()
    with nczfs.open(source, "w", format=format_name) as root:
        root.create_variable("v", (2,), "S4", data=np.array([b"ab", b"abcd"]), fillvalue=b"x")
    copied(source, target, choices=Choices(string_bytes=9))
    with nczfs.open(target) as root:
        array = variable(root, "v").description.array
        assert (array.dtype.stored.str, array.fill_value) == ("|S9", b"x")
        assert list(variable(root, "v")[...]) == list(nczfs.open(source).variables["v"][...])
    for length in (1, 3):
        with pytest.raises(BadValue, match=r"/v: .* bytes"):
            copied(source, new_url(), choices=Choices(string_bytes=length))


def test_an_order_of_elements_stays_with_other_chunks(target: str) -> None:
    source = new_url()
    store = open_store(source)
    put_group(store, "")
    put_array(store, "v", FIELD, (3, 4), dimensions=("t", "x"))
    document = json.loads(objects(source)["v/.zarray"])
    put_json(store, "v/.zarray", document | {"order": "F"})
    before = checksums(source)
    copied(source, target, choices=Choices(chunks={"t": 7}))
    assert json.loads(objects(target)["v/.zarray"])["order"] == "F"
    assert checksums(target) == before


def test_a_codec_that_nobody_knows_is_no_hindrance_to_a_copy(target: str) -> None:
    source = new_url()
    store = open_store(source)
    put_group(store, "")
    put_array(store, "v", FIELD, (3, 4))
    document = json.loads(objects(source)["v/.zarray"])
    put_json(store, "v/.zarray", document | {"compressor": {"id": "secret", "level": 11}})
    copied(source, target)
    assert described(target) == described(source)
    before, after = objects(source), objects(target)
    assert [after[key] for key in chunk_keys(source)] == [before[key] for key in chunk_keys(source)]
    with pytest.raises(UsageError, match="/v: codec 'secret'"):
        copied(source, new_url(), choices=Choices(chunks={"_Anonymous_Dim_7": 1}))


def test_a_chunk_that_cannot_be_decoded_is_copied_and_is_an_error_where_it_must_be(
    source: str, target: str
) -> None:
    open_store(source).write(parse_key("v/1.1"), b"broken")
    copied(source, target)
    assert objects(target)["v/1.1"] == b"broken"
    with pytest.raises(NczfsError, match=r"v/1\.1"):
        copied(source, new_url(), choices=Choices(codecs=()))


# -- groups and variables --------------------------------------------------------------------------


@pytest.mark.parametrize("format_name", ["nczarr-L3", "zarr2"])
def test_a_group_becomes_a_dataset(format_name: str, target: str) -> None:
    source = new_url()
    fill_awkward(source, format_name)
    copied(source, target, node="g")
    assert checksums(target) == checksums(source, "g")
    with nczfs.open(target) as root:
        assert root.attrs["inside"] == "yes"
        assert root["w"].dimensions == ("y", "x")
        assert sorted(root.groups) == ["empty group"]


@pytest.mark.parametrize("format_name", ["nczarr-L3", "zarr2"])
def test_a_group_becomes_a_group_of_another_dataset(format_name: str, target: str) -> None:
    source = new_url()
    fill_awkward(source, format_name)
    fill_awkward(target, format_name)
    before = objects(target)
    copied(source, target, node="g", path="new/h")
    assert checksums(target, "new/h") == checksums(source, "g")
    with nczfs.open(target) as root:
        assert sorted(root.groups) == ["g", "new"]
        assert root["new/h"].attrs["inside"] == "yes"
    after = objects(target)
    assert {key for key in before if after[key] != before[key]} <= {".zgroup", ".zattrs"}


@pytest.mark.parametrize("format_name", ["nczarr-L3", "zarr2"])
def test_a_variable_becomes_a_dataset_with_it(format_name: str, target: str) -> None:
    source = new_url()
    fill_awkward(source, format_name)
    copied(source, target, node="g/w")
    with nczfs.open(target) as root:
        assert list(root.variables) == ["w"]
        assert root["w"].dimensions == ("y", "x")
        assert (root["w"][...] == 1).all()


@pytest.mark.parametrize("format_name", ["nczarr-L3", "zarr2"])
def test_a_variable_becomes_one_of_another_dataset_and_shares_its_dimensions(
    format_name: str, target: str
) -> None:
    source = new_url()
    fill_awkward(source, format_name)
    fill_awkward(target, format_name)
    copied(source, target, node="v", path="g/copy")
    assert checksums(target, "g/copy") == {"": checksums(source)["/v"]}
    with nczfs.open(target) as root:
        found = variable(root, "g/copy").description
        assert [d.name for d in found.dimensions] == ["t", "x"]
        if format_name != "zarr2":
            assert [d.group for d in found.dimensions] == ["", ""]
            assert sorted(root.groups["g"].dimensions) == ["y"]
        assert list(root.groups["g"].variables) == ["w", "größe", "copy"] or format_name == "zarr2"


def test_a_variable_is_copied_within_its_dataset(source: str) -> None:
    copied(source, source, node="v", path="again")
    assert checksums(source)["/again"] == checksums(source)["/v"]


def test_a_dimension_of_another_length_is_named_or_hidden(source: str, target: str) -> None:
    with nczfs.open(target, "w") as root:
        root.create_dimension("x", 99)
        root.create_group("g")
    with pytest.raises(NameTaken, match="a dimension 'x' of length 99, and one of length 10"):
        copied(source, target, node="plain", path="plain")
    with pytest.raises(NotADataset):
        nczfs.open(f"{target}/plain")
    copied(source, target, node="plain", path="g/plain")
    with nczfs.open(target) as root:
        assert variable(root, "g/plain").description.dimensions[0].group == "g"


def test_an_array_that_is_a_dataset_stays_one(target: str) -> None:
    source = new_url()
    put_array(open_store(source), "", FIELD, (3, 4), dimensions=("t", "x"))
    copied(source, target)
    assert objects(target).keys() == objects(source).keys()
    assert list(checksums(target).values()) == list(checksums(source).values())
    other = new_url()
    copied(source, other, format="nczarr")
    with nczfs.open(other) as root:
        ((name, variable),) = root.variables.items()
        assert name == source.removeprefix("memory://")
        assert (variable[...] == FIELD).all()


def test_a_dataset_without_variables_is_copied(target: str) -> None:
    source = new_url()
    with nczfs.open(source, "w") as root:
        root.create_group("g", {"a": 1})
    copied(source, target)
    assert described(target) == described(source)


def test_names_that_netcdf_does_not_allow_are_kept(target: str) -> None:
    source = new_url()
    store = open_store(source)
    put_group(store, "")
    for name in ("a b ", "-x", "e\u0301", "\u00e9"):
        put_group(store, f"{name}")
        put_array(store, f"{name}/{name}", FIELD, (3, 4), dimensions=(name, "-"))
    copied(source, target)
    assert described(target) == described(source)
    assert checksums(target) == checksums(source)


@pytest.mark.parametrize("is_consolidated", [True, False])
def test_consolidated_metadata_are_copied(is_consolidated: bool, target: str) -> None:
    source = new_url()
    with nczfs.open(source, "w", format="zarr2", consolidated=is_consolidated) as root:
        root.create_variable("v", (2,), data=np.ones(2))
    copied(source, target)
    assert objects(target).keys() == objects(source).keys()


# -- what is there ---------------------------------------------------------------------------------


def test_what_is_there_is_kept_unless_it_may_be_overwritten(source: str, target: str) -> None:
    with nczfs.open(target, "w") as root:
        root.create_variable("old", (2,), data=np.ones(2))
    before = objects(target)
    with pytest.raises(ObjectExists):
        copied(source, target)
    assert objects(target) == before
    copied(source, target, overwrite=True)
    assert objects(target) == objects(source)


def test_a_member_that_is_there_is_kept_unless_it_may_be_overwritten(
    source: str, target: str
) -> None:
    fill_awkward(target, "nczarr-L3")
    with pytest.raises(ObjectExists, match="v: a group or variable exists already"):
        copied(source, target, node="plain", path="v")
    copied(source, target, node="plain", path="v", overwrite=True)
    assert checksums(target)["/v"] == checksums(source)["/plain"]


def test_files_of_others_are_never_overwritten(source: str, target: str) -> None:
    open_store(target).write(parse_key("letter"), b"dear")
    for overwrite in (False, True):
        with pytest.raises(NczfsError):
            copied(source, target, overwrite=overwrite)
    assert objects(target) == {"letter": b"dear"}


# -- runs that were ended --------------------------------------------------------------------------


class Mortal(MemoryZMap):
    """A store of which each call fails from the n-th write on, as when its client is killed."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.writes_left: int | None = None
        self.written: list[str] = []

    def write(self, key: Key, *arguments: Any, **options: Any) -> Version:
        if self.writes_left == 0:
            raise Unavailable("the client is dead")
        if self.writes_left is not None:
            self.writes_left -= 1
        self.written.append(key)
        return super().write(key, *arguments, **options)


@pytest.fixture
def mortal(target: str, monkeypatch: pytest.MonkeyPatch) -> Mortal:
    """The store of the target."""
    store = Mortal(target)
    monkeypatch.setitem(registry._memory, target.removeprefix("memory://"), store)
    return store


@pytest.mark.parametrize("choices", [Choices(), Choices(chunks={"t": 2, "x": 3})])
@pytest.mark.parametrize("format_name", ["nczarr-L3", "zarr2"])
def test_a_run_that_was_ended_anywhere_is_gone_on_with(
    format_name: str, choices: Choices, target: str, mortal: Mortal
) -> None:
    source = new_url()
    fill_awkward(source, format_name)
    copied(source, target, choices=choices)
    whole, expected = objects(target), checksums(source)
    for writes in range(1, 200, 7):
        for key in list(objects(target)):
            mortal.delete(parse_key(key))
        mortal.written.clear()
        mortal.writes_left = writes
        try:
            copied(source, target, choices=choices)
        except Unavailable:
            # The mark could not be changed any more, and says that this process is at work.
            document = json.loads(objects(target)[UNFINISHED])
            mortal.writes_left = None
            put_json(mortal, UNFINISHED, document | {"process": None})
        else:
            break
        first = [key for key in mortal.written if key in chunk_keys(target)]
        mortal.written.clear()
        copied(source, target, choices=choices)
        assert objects(target).keys() == whole.keys()
        assert checksums(target) == expected
        again = [key for key in mortal.written if key in chunk_keys(target)]
        assert not set(first) & set(again)
    else:
        pytest.fail("a copy has no more than 200 writes")
    assert writes > 20


def is_whole(url: str, path: str, expected: dict[str, str]) -> bool:
    """Whether a copy is there; what is not whole is no dataset, and has the mark if anything."""
    try:
        found = checksums(url, path)
    except (NotADataset, NoSuchNode):
        assert UNFINISHED in "".join(objects(url)) or not chunk_keys(url)
        return False
    assert found == expected
    return UNFINISHED not in "".join(objects(url))


@pytest.mark.parametrize("path", ["", "new/copy"])
def test_any_call_that_fails_leaves_what_the_next_run_completes(
    path: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = new_url()
    with nczfs.open(source, "w") as root:
        root.create_variable("v", (6,), data=np.arange(6), chunks=(2,))
        root.create_group("g").create_variable("w", (2,), data=np.arange(2))
    expected = checksums(source)
    call, has_failed = 0, True
    while has_failed:
        url = new_url()
        store = Faulty(MemoryZMap(url))
        monkeypatch.setitem(registry._memory, url.removeprefix("memory://"), store)
        if path:
            nczfs.open(url, "w").close()
        store.arm(Fault(call))
        try:
            copied(source, url, path=path)
        except NczfsError:
            assert store.fired
        has_failed = store.fired > 0
        store.arm()
        if not is_whole(url, path, expected):
            copied(source, url, path=path)
        assert is_whole(url, path, expected)
        call += 1
    assert call > 15


def test_progress_that_raises_ends_a_copy_which_the_same_command_goes_on_with(
    source: str, target: str
) -> None:
    done = 0.0

    def progress(nbytes: float) -> None:
        nonlocal done
        done += nbytes
        if done > 300:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        copied(source, target, progress=progress)
    assert json.loads(objects(target)[UNFINISHED])["process"] is None
    with pytest.raises(NotADataset):
        nczfs.open(target)
    with pytest.raises(ObjectExists, match="holds an unfinished cp of something else"):
        copied(source, target, choices=Choices(codecs=()))
    copied(source, target)
    assert objects(target) == objects(source)
    with pytest.raises(ObjectExists):
        copied(source, target)


def begun(
    source: str, target: str, bytes_done: float = 300, choices: Choices | None = None
) -> None:
    """A copy that was ended."""
    done = 0.0

    def progress(nbytes: float) -> None:
        nonlocal done
        done += nbytes
        if done > bytes_done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        copied(source, target, progress=progress, choices=choices)


def test_an_unfinished_copy_of_something_else_is_overwritten_when_told(
    source: str, pure: str, target: str
) -> None:
    begun(source, target)
    copied(pure, target, overwrite=True)
    assert parsed(target) == parsed(pure)


def test_two_runs_do_not_make_one_target_at_the_same_time(source: str, target: str) -> None:
    errors: list[str] = []

    def progress(_: float) -> None:
        if not errors:
            for overwrite in (False, True):
                with pytest.raises(ObjectExists) as caught:
                    copied(source, target, overwrite=overwrite)
                errors.append(str(caught.value))

    copied(source, target, progress=progress)
    assert all("is writing there" in error for error in errors)
    assert objects(target) == objects(source)


def test_a_run_that_was_taken_over_does_not_publish(source: str, target: str) -> None:
    """As by one on another machine, which cannot know that this one lives."""

    def progress(nbytes: float) -> None:
        if nbytes:
            mark = json.loads(objects(target)[UNFINISHED])
            put_json(open_store(target), UNFINISHED, mark | {"host": "elsewhere"})

    with pytest.raises(NczfsError, match="another process has taken it over"):
        copied(source, target, progress=progress)
    with pytest.raises(NotADataset):
        nczfs.open(target)


def test_what_changed_in_the_source_since_is_copied_again(source: str, target: str) -> None:
    begun(source, target, 400)
    done = chunk_keys(target)
    assert done
    changed = next(iter(done))
    store = open_store(source)
    store.write(parse_key(changed), b"changed")
    gone = next(iter(done - {changed}), None)
    if gone is not None:
        store.delete(parse_key(gone))
    copied(source, target)
    assert objects(target) == objects(source)


@pytest.mark.parametrize("runs", [1, 2], ids=["at once", "after another interruption"])
@pytest.mark.parametrize("codecs", [None, ()], ids=["other chunks", "other codecs too"])
def test_values_of_chunks_that_disappeared_from_the_source_since_are_not_kept(
    codecs: tuple[()] | None, runs: int, target: str, tmp_path: Path
) -> None:
    """Several chunks of the source make one of the copy, and all but one of them stay."""
    source, other = str(tmp_path / "source"), new_url()
    with nczfs.open(source, "w") as root:
        root.create_dimension("t", 8)
        root.create_dimension("x", 4)
        for name in "ab":
            root.create_variable(name, ("t", "x"), data=np.ones((8, 4)), chunks=(1, 4))
    choices = Choices({"t": 4}, codecs)
    begun(source, target, 300, choices=choices)
    before = chunk_keys(target)
    assert before
    for name in "ab":
        (tmp_path / "source" / name / "1.0").unlink()
    for _ in range(runs - 1):
        begun(source, target, 60, choices=choices)
    copied(source, target, choices=choices)
    copied(source, other, choices=choices)
    assert objects(target) == objects(other)


def test_what_appeared_in_one_variable_since_leaves_the_others_as_they_are(
    target: str, tmp_path: Path
) -> None:
    source = str(tmp_path / "source")
    with nczfs.open(source, "w") as root:
        root.create_dimension("t", 8)
        for name in "ab":
            root.create_variable(name, ("t",), data=np.ones(8), chunks=(1,))
    choices = Choices({"t": 4})
    begun(source, target, 120, choices=choices)
    store = open_store(target)
    kept = {key: store.stat(parse_key(key)).version for key in chunk_keys(target)}
    assert any(key.startswith("a/") for key in kept)
    with nczfs.open(source, "r+") as root:
        variable(root, "b")[...] = 2.0
    copied(source, target, choices=choices)
    for key, version in kept.items():
        if key.startswith("a/"):
            assert store.stat(parse_key(key)).version == version
    assert checksums(target) == checksums(source)


def test_metadata_that_changed_since_are_another_copy(source: str, target: str) -> None:
    begun(source, target)
    with nczfs.open(source, "r+") as root:
        root.attrs["title"] = "new"
    with pytest.raises(ObjectExists, match="unfinished cp of something else"):
        copied(source, target)


@pytest.mark.parametrize(
    "content", [b"", b"A dataset is being written here", b'{"command": []}', b"[" * 10000]
)
def test_a_mark_of_whatever_content_is_a_mark(content: bytes, source: str, target: str) -> None:
    open_store(target).write(parse_key(UNFINISHED), content)
    with pytest.raises(ObjectExists, match="unfinished"):
        copied(source, target)
    copied(source, target, overwrite=True)
    assert objects(target) == objects(source)


# -- stores ----------------------------------------------------------------------------------------


def test_progress_counts_each_byte_once(source: str, target: str) -> None:
    with nczfs.open(source) as root:
        variables = [*root.variables.values(), *root.groups["g"].variables.values()]
        total = sum(v.size * (64 if v.dtype.hasobject else v.dtype.itemsize) for v in variables)
    for choices in (Choices(), Choices(codecs=())):
        done: list[float] = []
        copied(source, new_url(), choices=choices, progress=done.append)
        assert sum(done) == total


@pytest.mark.parametrize("kind", ["directory", "zip"])
def test_a_copy_goes_into_a_directory_and_an_archive(
    kind: str, source: str, tmp_path: Path
) -> None:
    url = str(tmp_path / ("d.zip" if kind == "zip" else "d"))
    copied(source, url)
    assert checksums(url) == checksums(source)
    assert objects(url) == objects(source)
    back = new_url()
    copied(url, back)
    assert objects(back) == objects(source)


# -- archives --------------------------------------------------------------------------------------

ONCE = StoreOptions(zip_write_once=True)


def interrupted(source: str, target: str, **options: Any) -> None:
    """Begin a copy, and interrupt it."""

    def progress(nbytes: float) -> None:
        if nbytes:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        copied(source, target, progress=progress, **options)


def test_an_archive_that_is_written_once_takes_a_copy(source: str, tmp_path: Path) -> None:
    url = str(tmp_path / "d.zip")
    copied(source, url, store_options=ONCE)
    assert objects(url) == objects(source)


def test_a_copy_that_was_interrupted_leaves_nothing_in_an_archive_that_is_written_once(
    source: str, tmp_path: Path
) -> None:
    url = str(tmp_path / "d.zip")
    create_archive(url, "top")
    before = Path(url).read_bytes()
    interrupted(source, url, store_options=ONCE)
    assert Path(url).read_bytes() == before
    copied(source, url, store_options=ONCE)
    assert objects(url) == objects(source)


def test_an_interrupted_copy_into_an_archive_is_continued(source: str, tmp_path: Path) -> None:
    url = str(tmp_path / "d.zip")
    interrupted(source, url)
    assert json.loads(objects(url)[UNFINISHED])["process"] is None
    with pytest.raises(NotADataset, match="unfinished"):
        nczfs.open(url)
    done = chunk_keys(url)
    copied(source, url)
    assert done
    assert objects(url) == objects(source)


def test_a_new_archive_has_one_directory_and_no_unused_members(source: str, tmp_path: Path) -> None:
    new, empty = (tmp_path / name for name in ("d.zip", "empty.zip"))
    copied(source, str(new))
    create_archive(str(empty), "top")
    its_end = empty.stat().st_size - (30 + len("empty/"))  # which the first flush leaves behind
    assert compact(str(new), dry_run=True).dead_bytes <= its_end


def test_nothing_is_added_to_a_dataset_that_is_written_once(source: str, tmp_path: Path) -> None:
    url = str(tmp_path / "d.zip")
    copied(source, url, store_options=ONCE)
    before = Path(url).read_bytes()
    with pytest.raises(NotWritable, match=r"d\.zip/h: nothing can be added to a dataset that is"):
        copied(source, url, path="h", store_options=ONCE)
    assert Path(url).read_bytes() == before
