"""The two trees over a store in memory, driven as the kernel would (docs/SEMANTICS.md)."""

from __future__ import annotations

import io
import itertools
import json
import os
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from nczfs.engine.options import EngineOptions, MissingChunks
from nczfs.errors import (
    BadHandle,
    BadKey,
    CorruptChunk,
    MissingChunk,
    NameTooLong,
    NoSuchPath,
    ReadOnlyMount,
    StaleHandle,
)
from nczfs.library.opening import open_zmap
from nczfs.testing.datasets import put_array, put_group, put_json
from nczfs.vfs.base import ROOT_INODE, AttributeChanges, FileKind
from nczfs.vfs.filesystem import TreeFileSystem
from nczfs.vfs.tree import VfsOptions, mount_tree
from nczfs.zmap.base import ZMap
from nczfs.zmap.keys import parse_key, parse_prefix
from nczfs.zmap.registry import open_store
from nczfs.zmap.wrappers import Prefixed
from tests.conftest import ExpectedWarnings
from tests.support.counted import CountedStore, new_store
from tests.support.trees import exists, find, listing, read, read_inode, tree_over
from tests.support.waiting import until

_stores = itertools.count()

FIELD = np.arange(24, dtype="<f4").reshape(4, 6)


@pytest.fixture
def url() -> str:
    return f"memory://tree{next(_stores)}"


@pytest.fixture
def store(url: str) -> ZMap:
    """A bucket with one dataset, a plain object and a plain prefix."""
    store = open_store(url)
    put_group(store, "a.zarr", {"title": "a test"})
    put_array(store, "a.zarr/v", FIELD, (2, 4), dimensions=("y", "x"), attributes={"units": "K"})
    put_array(store, "a.zarr/y", np.arange(4, dtype="<i4"), (2,), dimensions=("y",))
    store.write(parse_key("plain/notes.txt"), b"hello")
    return store


@pytest.fixture
def fs(store: ZMap, url: str) -> Iterator[TreeFileSystem]:
    tree = mount_tree(url)
    yield tree
    tree.close()


def test_every_object_is_a_file_with_its_size(fs: TreeFileSystem) -> None:
    """SEMANTICS O1, O5."""
    assert read(fs, "objects/plain/notes.txt") == b"hello"
    assert find(fs, "objects/plain/notes.txt").size == 5
    assert find(fs, "objects/plain").kind is FileKind.DIRECTORY
    assert not exists(fs, "objects/plain/absent")
    assert set(listing(fs, "objects")) == {"a.zarr", "plain"}


def test_every_prefix_is_a_directory_of_datasets_and_plain_objects_are_not_there(
    fs: TreeFileSystem,
) -> None:
    """SEMANTICS D1, D3."""
    assert set(listing(fs, "datasets")) == {"a.zarr", "plain"}
    assert listing(fs, "datasets/plain") == {}
    assert not exists(fs, "datasets/plain/notes.txt")


def test_a_group_shows_its_members_and_its_files(fs: TreeFileSystem) -> None:
    names = {
        "v",
        "y",
        "a.cdl",
        "a.nc",
        "a.classic.nc",
        "a.ncs",
        "info.json",
        "attributes",
        "zom.json",
    }
    assert set(listing(fs, "datasets/a.zarr")) == names
    assert read(fs, "datasets/a.zarr/attributes/title") == b"a test\n"
    cdl = read(fs, "datasets/a.zarr/a.cdl").decode()
    assert "float v(y, x) ;" in cdl
    assert 'v:units = "K" ;' in cdl


def test_values_are_shown_in_every_form(fs: TreeFileSystem) -> None:
    """SEMANTICS D5."""
    assert read(fs, "datasets/a.zarr/v/values.raw") == FIELD.tobytes()
    npy = read(fs, "datasets/a.zarr/v/values.npy")
    np.testing.assert_array_equal(np.lib.format.read_array(io.BytesIO(npy)), FIELD)
    lines = read(fs, "datasets/a.zarr/v/values.txt").decode().splitlines(keepends=True)
    assert {len(line) for line in lines} == {16}
    assert [float(line) for line in lines] == FIELD.reshape(-1).tolist()
    assert read(fs, "datasets/a.zarr/v/values.txt", 16 * 7, 16).strip() == b"7"


def test_any_range_of_a_view_is_that_range_of_its_whole(fs: TreeFileSystem) -> None:
    """SEMANTICS A2."""
    for name in ("values.raw", "values.npy", "values.txt", "info.json", "chunks/1.1"):
        path = f"datasets/a.zarr/v/{name}"
        whole = read(fs, path)
        assert len(whole) == find(fs, path).size
        for start, stop in itertools.combinations(range(0, len(whole) + 9, 7), 2):
            assert read(fs, path, start, stop - start) == whole[start:stop]


def test_chunks_show_the_whole_grid_with_filler_beyond_the_edge(fs: TreeFileSystem) -> None:
    """SEMANTICS D6."""
    assert set(listing(fs, "datasets/a.zarr/v/chunks")) == {"0.0", "0.1", "1.0", "1.1"}
    chunk = np.frombuffer(read(fs, "datasets/a.zarr/v/chunks/1.1"), "<f4").reshape(2, 4)
    np.testing.assert_array_equal(chunk[:, :2], FIELD[2:, 4:])
    np.testing.assert_array_equal(chunk[:, 2:], 0)
    for name in ("2.0", "0", "0.0.0", "00.0", "-1.0", "0.+1", "a", "0.0~"):
        assert not exists(fs, f"datasets/a.zarr/v/chunks/{name}")


def test_sizes_are_told_without_reading_a_chunk(store: ZMap, url: str) -> None:
    """SEMANTICS D4."""
    put_array(store, "b.zarr", FIELD, (2, 4))
    for key in [stat.key for stat in store.list(parse_prefix("b.zarr"))]:
        if not key.rpartition("/")[2].startswith("."):
            store.write(key, b"not a chunk")
    fs = mount_tree(url)
    assert find(fs, "datasets/b.zarr/values.raw").size == FIELD.nbytes
    with pytest.raises(CorruptChunk):
        read(fs, "datasets/b.zarr/values.raw")
    fs.close()


def test_the_mounted_dataset_appears_under_the_last_word_of_its_url(store: ZMap, url: str) -> None:
    """SEMANTICS D2."""
    put_group(store, "")
    fs = mount_tree(url)
    (name,) = listing(fs, "datasets")
    assert name == url.rpartition("/")[2]
    assert "info.json" in listing(fs, f"datasets/{name}")
    fs.close()


def test_a_chunk_never_written_is_fill_or_an_error_as_asked(store: ZMap, url: str) -> None:
    """SEMANTICS D7."""
    put_array(store, "h", FIELD, (2, 4), fill_value=-1, skip=frozenset({(0, 0)}))
    fs = mount_tree(url)
    values = np.frombuffer(read(fs, "datasets/h/values.raw"), "<f4").reshape(4, 6)
    np.testing.assert_array_equal(values[:2, :4], -1)
    np.testing.assert_array_equal(values[2:], FIELD[2:])
    fs.close()
    strict = mount_tree(url, None, VfsOptions(EngineOptions(missing_chunks=MissingChunks.ERROR)))
    with pytest.raises(MissingChunk, match=r"h/0\.0.*never written"):
        read(strict, "datasets/h/values.raw")
    assert read(strict, "datasets/h/values.raw", 48, 48) == FIELD[2:].tobytes()
    strict.close()


def test_a_chunk_that_does_not_decode_leaves_the_rest_readable(store: ZMap, url: str) -> None:
    """SEMANTICS A5."""
    store.write(parse_key("a.zarr/v/0.0"), b"torn")
    fs = mount_tree(url)
    with pytest.raises(CorruptChunk, match=r"a\.zarr/v/0\.0"):
        read(fs, "datasets/a.zarr/v/values.raw", 0, 4)
    assert read(fs, "datasets/a.zarr/v/values.raw", 48, 48) == FIELD[2:].tobytes()
    fs.close()


def test_broken_metadata_break_their_node_alone(
    store: ZMap, url: str, expected_warnings: ExpectedWarnings
) -> None:
    """SEMANTICS A4."""
    expected_warnings.add(r"a\.zarr/bad/\.zarray: not JSON")
    store.write(parse_key("a.zarr/bad/.zarray"), b"{not json")
    fs = mount_tree(url)
    assert "bad" in listing(fs, "datasets/a.zarr")
    assert set(listing(fs, "datasets/a.zarr/bad")) == {"info.json"}
    problems = json.loads(read(fs, "datasets/a.zarr/bad/info.json"))["problems"]
    assert "bad/.zarray" in problems[0]
    group = json.loads(read(fs, "datasets/a.zarr/info.json"))
    assert "bad" in group["problems"][0]
    assert read(fs, "datasets/a.zarr/v/values.raw") == FIELD.tobytes()
    fs.close()


@pytest.mark.parametrize("form", ["nczarr", "zarr"])
def test_an_array_without_its_document_is_broken_and_no_group(
    url: str, form: str, expected_warnings: ExpectedWarnings
) -> None:
    """SEMANTICS A4."""
    expected_warnings.add(r"n\.zarr/v")
    store = Prefixed(open_store(url), parse_prefix("n.zarr"))
    with open_zmap(store, "w", format=form) as root:
        root.create_dimension("x", 4)
        for name in "uv":
            values = np.arange(4, dtype="f4")
            root.create_variable(name, ("x",), "<f4", values, attributes={"units": "K"})
    store.delete(parse_key("v/.zarray"))
    fs = mount_tree(url)
    assert set(listing(fs, "datasets/n.zarr/v")) == {"info.json"}
    (problem,) = json.loads(read(fs, "datasets/n.zarr/v/info.json"))["problems"]
    assert "n.zarr/v" in problem
    assert exists(fs, "datasets/n.zarr/u/values.raw")
    fs.close()


def test_a_member_with_the_name_of_a_view_is_shown_with_a_tilde(store: ZMap, url: str) -> None:
    """SEMANTICS D11."""
    for name in ("attributes", "info.json", "a.nc", "a.cdl", "a.cdl~"):
        put_array(store, f"a.zarr/{name}", FIELD, (4, 6))
    fs = mount_tree(url)
    names = set(listing(fs, "datasets/a.zarr"))
    assert {"attributes~", "info.json~", "a.nc~", "a.cdl~", "a.cdl~~"} < names
    assert read(fs, "datasets/a.zarr/a.nc").startswith(b"\x89HDF")
    for name in ("attributes~", "info.json~", "a.nc~", "a.cdl~", "a.cdl~~"):
        assert read(fs, f"datasets/a.zarr/{name}/values.raw") == FIELD.tobytes()
    assert not exists(fs, "datasets/a.zarr/v~")
    assert not exists(fs, "datasets/a.zarr/a.cdl~~~")
    fs.close()


@pytest.mark.parametrize(
    "name", ["a b", "température", "100%", ".hidden", "v", "a.zarr", "-", "~", "new\nline"]
)
def test_odd_names_are_names(store: ZMap, url: str, name: str) -> None:
    put_array(store, f"odd.zarr/{name}", FIELD, (4, 6))
    put_group(store, "odd.zarr")
    fs = mount_tree(url)
    assert name in listing(fs, "datasets/odd.zarr")
    assert read(fs, f"datasets/odd.zarr/{name}/values.raw") == FIELD.tobytes()
    fs.close()


def test_a_view_whose_layout_changed_is_a_new_file(store: ZMap, url: str) -> None:
    """SEMANTICS D8, D10."""
    fs = mount_tree(url)
    before = find(fs, "datasets/a.zarr/v/values.raw")
    same = find(fs, "datasets/a.zarr/v/values.raw")
    handle = fs.open(before.ino, os.O_RDONLY).handle
    assert same.ino == before.ino
    put_array(store, "a.zarr/v", np.ones((4, 12), "<f4"), (2, 4))
    fs.refresh("datasets/a.zarr/v")
    after = find(fs, "datasets/a.zarr/v/values.raw")
    assert after.ino != before.ino
    assert after.size == 4 * 12 * 4
    assert len(fs.read(handle, 0, 1 << 20)) == FIELD.nbytes
    fs.release(handle)
    fs.close()


@pytest.mark.parametrize("line", ["../" * 3000, "a\0" * 3000])
def test_a_line_that_is_no_path_is_refused_with_its_beginning(url: str, line: str) -> None:
    """SEMANTICS A7."""
    fs = mount_tree(url)
    with pytest.raises(BadKey) as caught:
        write_line(fs, ".nczfs/refresh", line)
    assert len(str(caught.value)) < 200
    fs.close()


def test_refresh_shows_what_another_program_wrote(store: ZMap, url: str) -> None:
    """SEMANTICS N2, D9."""
    fs = mount_tree(url)
    assert read(fs, "datasets/a.zarr/v/values.raw") == FIELD.tobytes()
    put_array(store, "a.zarr/v", FIELD + 1, (2, 4))
    put_array(store, "a.zarr/w", FIELD, (4, 6))
    write_line(fs, ".nczfs/refresh", "datasets/a.zarr")
    assert read(fs, "datasets/a.zarr/v/values.raw") == (FIELD + 1).tobytes()
    assert "w" in listing(fs, "datasets/a.zarr")
    store.write(parse_key("plain/more.txt"), b"!")
    write_line(fs, ".nczfs/refresh", "")
    assert "more.txt" in listing(fs, "objects/plain")
    fs.close()


def write_line(fs: TreeFileSystem, path: str, line: str) -> None:
    handle = fs.open(find(fs, path).ino, os.O_WRONLY | os.O_TRUNC).handle
    data = line.encode() + b"\n"
    assert fs.write(handle, 0, data) == len(data)
    fs.flush(handle)
    fs.release(handle)


def test_an_open_object_that_was_replaced_is_stale_and_never_mixed(store: ZMap, url: str) -> None:
    """SEMANTICS O2."""
    fs = mount_tree(url)
    ino = find(fs, "objects/plain/notes.txt").ino
    handle = fs.open(ino, os.O_RDONLY).handle
    store.write(parse_key("plain/notes.txt"), b"HELLO")
    with pytest.raises(StaleHandle, match="replaced"):
        fs.read(handle, 0, 5)
    fs.release(handle)
    assert read(fs, "objects/plain/notes.txt") == b"HELLO"
    fs.close()


def test_everything_that_would_write_is_refused(fs: TreeFileSystem) -> None:
    """SEMANTICS L1."""
    ino = find(fs, "objects/plain/notes.txt").ino
    directory = find(fs, "objects/plain").ino
    attempts: list[Callable[[], object]] = [
        lambda: fs.open(ino, os.O_WRONLY),
        lambda: fs.open(ino, os.O_RDONLY | os.O_TRUNC),
        lambda: fs.create(directory, b"new", os.O_WRONLY, 0o644),
        lambda: fs.mkdir(directory, b"new", 0o755),
        lambda: fs.unlink(directory, b"notes.txt"),
        lambda: fs.rmdir(ROOT_INODE, b"objects"),
        lambda: fs.rename(directory, b"notes.txt", directory, b"x", replace=True),
        lambda: fs.setattr(ino, AttributeChanges(size=0), None),
        lambda: fs.setattr(ino, AttributeChanges(mode=0o777), None),
    ]
    for attempt in attempts:
        with pytest.raises(ReadOnlyMount):
            attempt()


def test_a_listing_goes_on_where_it_stopped_and_shows_each_name_once(store: ZMap, url: str) -> None:
    """SEMANTICS O4."""
    for number in range(2500):
        store.write(parse_key(f"many/{number}"), b"")
    fs = mount_tree(url)
    handle = fs.opendir(find(fs, "objects/many").ino)
    names: list[bytes] = []
    cookie = 0
    while page := list(itertools.islice(fs.readdir(handle, cookie), 700)):
        names += [entry.name for entry in page]
        cookie = page[-1].cookie
    assert len(names) == len(set(names)) == 2500
    again = [entry.name for entry in itertools.islice(fs.readdir(handle, 0), 10)]
    assert again == names[:10]
    fs.releasedir(handle)
    with pytest.raises(BadHandle):
        list(fs.readdir(handle, 0))
    fs.close()


def test_inodes_are_dropped_when_nothing_holds_them(store: ZMap, url: str) -> None:
    fs = mount_tree(url)
    before = len(fs.inodes)
    held = [find(fs, "objects/plain"), find(fs, "datasets/a.zarr/v/values.raw")]
    listing(fs, "datasets/a.zarr/v")
    for attributes in held:
        handle = None
        if attributes.kind is FileKind.FILE:
            handle = fs.open(attributes.ino, os.O_RDONLY).handle
            fs.forget([(attributes.ino, 1)])
            assert len(fs.read(handle, 0, 10)) == 10
            fs.release(handle)
        else:
            fs.forget([(attributes.ino, 1)])
    with pytest.raises(StaleHandle):
        fs.getattr(held[1].ino)
    # What `find` passed through stays: the kernel has not forgotten it.
    assert len(fs.inodes) == before + 4
    fs.close()


def test_names_that_cannot_be_files_are_refused_or_left_out(store: ZMap, url: str) -> None:
    """SEMANTICS L3."""
    fs = mount_tree(url)
    with pytest.raises(NameTooLong):
        fs.lookup(find(fs, "objects").ino, b"x" * 256)
    long = "y" * 300
    store.write(parse_key(f"long/{long}"), b"")
    store.write(parse_key("long/ok"), b"")
    hidden = json.loads(read(fs, ".nczfs/status.json"))["hidden_keys"]
    assert set(listing(fs, "objects/long")) == {"ok"}
    assert json.loads(read(fs, ".nczfs/status.json"))["hidden_keys"] == hidden + 1
    with pytest.raises(NoSuchPath):
        find(fs, "objects/.nczfs-tmp-1")
    fs.close()


def test_a_directory_hides_an_object_of_the_same_name(
    store: ZMap, url: str, expected_warnings: ExpectedWarnings
) -> None:
    """SEMANTICS L4."""
    expected_warnings.add("plain: the keys below it hide the object")
    store.write(parse_key("plain"), b"an object")
    fs = mount_tree(url)
    assert find(fs, "objects/plain").kind is FileKind.DIRECTORY
    assert listing(fs, "objects")["plain"].kind is FileKind.DIRECTORY
    assert read(fs, "objects/plain/notes.txt") == b"hello"
    fs.close()


def test_an_array_of_petabytes_has_sizes_and_chunks_at_once(store: ZMap, url: str) -> None:
    """SEMANTICS D4, D6."""
    put_json(
        store,
        "huge/.zarray",
        {
            "zarr_format": 2,
            "shape": [10**7, 512, 512],
            "chunks": [1, 512, 512],
            "dtype": "<f4",
            "compressor": None,
            "filters": None,
            "fill_value": 7,
            "order": "C",
        },
    )
    store.write(parse_key("huge/9000000.0.0"), np.full((512, 512), 3, "<f4").tobytes())
    fs = mount_tree(url)
    assert find(fs, "datasets/huge/values.raw").size == 10**7 * 512 * 512 * 4
    at = 9_000_000 * 512 * 512 * 4
    assert np.frombuffer(read(fs, "datasets/huge/values.raw", at - 4, 8), "<f4").tolist() == [7, 3]
    before = len(fs.inodes)
    ino = find(fs, "datasets/huge/chunks").ino
    handle = fs.opendir(ino)
    entries = itertools.islice(fs.readdir(handle, 0), 5000)
    assert [entry.name for entry in entries][-1] == b"4999.0.0"
    (last,) = fs.readdir(handle, 10**7 - 1 + 2)
    assert last.name == b"9999999.0.0"
    assert find(fs, "datasets/huge/chunks/9999999.0.0").ino == last.attributes.ino
    assert len(fs.inodes) < before + 10
    fs.releasedir(handle)
    fs.close()


def test_control_files_tell_of_the_mount(fs: TreeFileSystem) -> None:
    """SEMANTICS N1."""
    status = json.loads(read(fs, ".nczfs/status.json"))
    assert status["pid"] == os.getpid()
    assert json.loads(read(fs, ".nczfs/config.json")) == {}
    read(fs, "datasets/a.zarr/v/values.raw")
    assert b"nczfs_chunks_decoded_total" in read(fs, ".nczfs/metrics")
    assert find(fs, ".nczfs/status.json").size == 0


def test_the_access_log_names_variable_box_and_cost(fs: TreeFileSystem) -> None:
    """SEMANTICS N4."""
    read(fs, "datasets/a.zarr/v/values.raw", 24, 24)
    (line,) = [
        line for line in read(fs, ".nczfs/access.log").decode().splitlines() if " /v " in line
    ]
    assert "a.zarr" in line
    assert "values.raw box=[1:2,0:6]" in line
    assert "bytes=24" in line
    assert "chunks_loaded=2" in line


@pytest.mark.parametrize("file", ["v/values.raw", "counted.nc"])
def test_the_first_open_fetches_the_coordinates(monkeypatch: pytest.MonkeyPatch, file: str) -> None:
    """SEMANTICS D14."""
    store = new_store()
    monkeypatch.setattr("nczfs.vfs.tree.open_store", lambda *_: store)
    fs = mount_tree("memory://counted")
    info = find(fs, "datasets/counted/v/info.json").ino
    fs.release(fs.open(info, os.O_RDONLY).handle)
    values = find(fs, f"datasets/counted/{file}").ino
    store.reads.clear()
    coordinates = {"x/0": 1, "y/0": 1, "y/1": 1, "y/2": 1, "y/3": 1}

    def chunks() -> dict[str, int]:
        return {key: count for key, count in store.reads.copy().items() if "/." not in key}

    for _ in range(2):
        fs.release(fs.open(values, os.O_RDONLY).handle)
        until(lambda: chunks() == coordinates)
    fs.close()
    assert chunks() == coordinates


def test_chunks_of_a_far_store_are_requested_before_a_program_that_reads_in_order_asks() -> None:
    store, chunk_bytes = CountedStore(), 1 << 18
    put_array(store, "w", np.zeros((32, chunk_bytes), "u1"), (1, chunk_bytes))
    fs = tree_over(store, VfsOptions())
    opened = fs.open(find(fs, "datasets/w/values.raw").ino, os.O_RDONLY).handle
    for number in range(4):
        if fs.read_if_cached(opened, number * chunk_bytes, chunk_bytes) is None:
            fs.read(opened, number * chunk_bytes, chunk_bytes)
    until(lambda: "w/5.0" in store.reads)
    fs.release(opened)
    fs.close()


def test_a_listing_of_a_group_gives_a_stand_in_for_sizes_that_need_all_members(
    fs: TreeFileSystem,
) -> None:
    """SEMANTICS D13."""
    entry = listing(fs, "datasets/a.zarr")["a.cdl"]
    assert (entry.size, entry.valid_s) == (0, 0.0)
    exact = fs.getattr(find(fs, "datasets/a.zarr/a.cdl").ino)
    assert exact.size == len(read(fs, "datasets/a.zarr/a.cdl"))
    assert exact.valid_s > 0


def test_only_the_chosen_views_are_shown(store: ZMap, url: str) -> None:
    fs = mount_tree(url, None, VfsOptions(views=frozenset({"values.raw", "cdl"})))
    assert set(listing(fs, "datasets/a.zarr/v")) == {"values.raw"}
    assert set(listing(fs, "datasets/a.zarr")) == {"v", "y", "a.cdl"}
    fs.close()


def test_an_empty_store_is_two_empty_trees(url: str) -> None:
    fs = mount_tree(url)
    assert set(listing(fs, "")) == {"objects", "datasets", ".nczfs"}
    assert listing(fs, "objects") == {}
    assert listing(fs, "datasets") == {}
    fs.close()


def read_scalar(fs: TreeFileSystem) -> bytes:
    return read_inode(fs, find(fs, "datasets/s/values.raw").ino, 0, 100)


def test_scalars_and_arrays_of_length_zero_have_files(store: ZMap, url: str) -> None:
    put_array(store, "s", np.array(3.5, "<f8"), ())
    put_array(store, "z", np.empty((0, 3), "<f8"), (1, 3))
    fs = mount_tree(url)
    assert read_scalar(fs) == np.float64(3.5).tobytes()
    assert read(fs, "datasets/s/chunks/0") == np.float64(3.5).tobytes()
    assert find(fs, "datasets/z/values.raw").size == 0
    assert read(fs, "datasets/z/values.txt") == b""
    assert listing(fs, "datasets/z/chunks") == {}
    fs.close()
