"""Shapes, names and sizes that are rare and must be right, on real mounts."""

from __future__ import annotations

import itertools
import json
import os
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from nczfs.testing.archives import zipped
from nczfs.testing.datasets import put_array, put_group, put_json
from nczfs.zmap.keys import parse_key
from nczfs.zmap.registry import open_store
from tests.support.mounts import mounted
from tests.support.sample import output, reassembled

FIELD = np.arange(24, dtype="<f4").reshape(4, 6)

ODD_NAMES = [
    "a b",
    " ",
    "température",
    "海面",
    "e\u0301",  # not the same as "é"
    "é",
    "🌊",
    "100%",
    "%41",
    ".hidden",
    "-rf",
    "~",
    "new\nline",
    "tab\t",
    "*",
    "$HOME",
    "a\\b",
    "'\"",
    "#x",
    "x" * 255,
    "0",
    "odd.zarr",  # like the group
]


def test_scalars_have_one_value_and_one_chunk(tmp_path: Path) -> None:
    """SEMANTICS D5, D6."""
    store = open_store(str(tmp_path))
    put_group(store, "d.zarr")
    put_array(store, "d.zarr/s", np.array(3.5, "<f8"), (), attributes={"units": "m"})
    put_array(store, "d.zarr/hole", np.array(0, "<i2"), (), fill_value=-7, skip=frozenset({()}))
    with mounted(tmp_path) as mount:
        scalar = mount / "datasets/d.zarr/s"
        assert (scalar / "values.raw").read_bytes() == np.float64(3.5).tobytes()
        assert np.load(scalar / "values.npy", mmap_mode="r").shape == ()
        assert float((scalar / "values.txt").read_text()) == 3.5
        assert os.listdir(scalar / "chunks") == ["0"]
        assert (scalar / "chunks/0").read_bytes() == np.float64(3.5).tobytes()
        assert (mount / "datasets/d.zarr/hole/values.txt").read_text().split() == ["-7"]


@pytest.mark.parametrize(
    ("shape", "chunks"), [((0,), (1,)), ((0, 3), (1, 3)), ((5, 0), (2, 4)), ((0, 0), (1, 1))]
)
def test_dimensions_of_length_zero_have_empty_files(
    tmp_path: Path, shape: tuple[int, ...], chunks: tuple[int, ...]
) -> None:
    """SEMANTICS D4, D6."""
    put_array(open_store(str(tmp_path)), "z", np.empty(shape, "<f8"), chunks)
    with mounted(tmp_path) as mount:
        place = mount / "datasets/z"
        assert (place / "values.raw").read_bytes() == b""
        assert (place / "values.txt").read_bytes() == b""
        assert np.load(place / "values.npy").shape == shape
        assert os.listdir(place / "chunks") == []
        assert output("dd", f"if={place / 'values.raw'}", "skip=3", "bs=7", "status=none") == b""


def test_odd_names_are_names(tmp_path: Path) -> None:
    """SEMANTICS L3, D1."""
    store = open_store(str(tmp_path))
    put_group(store, "odd.zarr")
    for number, name in enumerate(ODD_NAMES):
        put_array(store, f"odd.zarr/{name}", FIELD + number, (2, 4), attributes={name: number})
    with mounted(tmp_path) as mount:
        place = mount / "datasets/odd.zarr"
        files = {
            "odd.cdl",
            "odd.nc",
            "odd.classic.nc",
            "odd.ncs",
            "info.json",
            "attributes",
            "zom.json",
        }
        assert set(os.listdir(place)) == {*ODD_NAMES, *files}
        for number, name in enumerate(ODD_NAMES):
            raw = (FIELD + number).tobytes()
            assert (place / name / "values.raw").read_bytes() == raw, name
            assert (place / name / "attributes" / name).read_text() == f"{number}\n"
            assert json.loads((place / name / "info.json").read_text())["name"] == name
            assert (mount / "objects/odd.zarr" / name / "0.0").stat().st_size == 32
        found = output("find", place, "-name", "values.raw", "-print0").split(b"\0")
        assert len(found) == len(ODD_NAMES) + 1
        assert (place / "odd.cdl").read_text()


def test_a_member_named_like_a_virtual_file_gets_a_tilde(tmp_path: Path) -> None:
    """SEMANTICS D11."""
    store = open_store(str(tmp_path))
    put_group(store, "a.zarr")
    names = ["attributes", "info.json", "a.nc", "a.cdl", "a.cdl~", "chunks", "values.raw", "a"]
    for number, name in enumerate(names):
        put_array(store, f"a.zarr/{name}", FIELD + number, (4, 6))
    with mounted(tmp_path) as mount:
        place = mount / "datasets/a.zarr"
        shown = ["attributes~", "info.json~", "a.nc~", "a.cdl~~", "a.cdl~"]
        shown += ["chunks", "values.raw", "a"]
        files = {"a.cdl", "a.nc", "a.classic.nc", "a.ncs", "info.json", "attributes", "zom.json"}
        assert set(os.listdir(place)) == {*shown, *files}
        for number, name in enumerate(shown):
            assert (place / name / "values.raw").read_bytes() == (FIELD + number).tobytes(), name
        assert (place / "a.cdl").is_file()
        assert (place / "a.nc").is_file()


def test_the_root_may_be_a_group(tmp_path: Path) -> None:
    """SEMANTICS D2."""
    store = open_store(str(tmp_path))
    put_group(store, "top.zarr", {"title": "top"})
    put_array(store, "top.zarr/v", FIELD, (2, 4))
    with mounted(tmp_path / "top.zarr") as mount:
        assert os.listdir(mount / "datasets") == ["top.zarr"]
        assert (mount / "datasets/top.zarr/v/values.raw").read_bytes() == FIELD.tobytes()
        assert (mount / "datasets/top.zarr/attributes/title").read_text() == "top\n"
        assert (mount / "objects/.zgroup").is_file()


def test_the_root_may_be_a_group_inside_a_dataset(tmp_path: Path) -> None:
    """SEMANTICS D2."""
    store = open_store(str(tmp_path))
    for group in ("d.zarr", "d.zarr/inner"):
        put_group(store, group)
    put_array(store, "d.zarr/inner/v", FIELD, (2, 4), dimensions=("y", "x"))
    with mounted(tmp_path / "d.zarr/inner") as mount:
        assert os.listdir(mount / "datasets") == ["inner"]
        assert (mount / "datasets/inner/v/values.raw").read_bytes() == FIELD.tobytes()
        assert "v(y, x)" in (mount / "datasets/inner/inner.cdl").read_text()


def test_the_root_may_be_an_array(tmp_path: Path) -> None:
    """SEMANTICS D2."""
    put_array(open_store(str(tmp_path)), "lone", FIELD, (2, 4))
    with mounted(tmp_path / "lone") as mount:
        assert os.listdir(mount / "datasets") == ["lone"]
        np.testing.assert_array_equal(reassembled(mount / "datasets/lone"), FIELD)


def test_the_root_may_be_no_dataset_and_hold_some_anywhere(tmp_path: Path) -> None:
    """SEMANTICS D1, D3."""
    store = open_store(str(tmp_path))
    put_array(store, "deep/er/down/v.zarr", FIELD, (2, 4))
    store.write(parse_key("deep/notes.txt"), b"plain")
    store.write(parse_key("deep/plain.zip"), zipped(("readme", b"no dataset")))
    store.write(parse_key("deep/broken.zip"), b"PK\3\4 and then nothing of the kind")
    with mounted(tmp_path) as mount:
        assert os.listdir(mount / "datasets") == ["deep"]
        assert os.listdir(mount / "datasets/deep") == ["er"]
        assert os.listdir(mount / "datasets/deep/er/down") == ["v.zarr"]
        assert (mount / "datasets/deep/er/down/v.zarr/values.raw").stat().st_size == 96
        assert set(os.listdir(mount / "objects/deep")) == {
            "er",
            "notes.txt",
            "plain.zip",
            "broken.zip",
        }


def test_an_empty_store_is_two_empty_trees(tmp_path: Path) -> None:
    """SEMANTICS O5."""
    with mounted(tmp_path) as mount:
        assert set(os.listdir(mount)) == {"objects", "datasets", ".nczfs"}
        assert os.listdir(mount / "objects") == []
        assert os.listdir(mount / "datasets") == []
        assert not (mount / "objects/absent").exists()


# -- many

MANY = 100_000


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    store = tmp_path_factory.mktemp("many")
    directory = store / "prefix"
    directory.mkdir()
    for number in range(MANY):
        os.close(os.open(directory / f"key-{number:06}", os.O_CREAT | os.O_WRONLY))
    (directory / "key-004711").write_bytes(b"x" * 4711)
    with mounted(store) as mount:
        yield mount


@pytest.mark.parametrize("options", ["-f", "-l"])
def test_ls_of_a_hundred_thousand_keys_needs_few_requests(many: Path, options: str) -> None:
    """SEMANTICS O4."""
    before = requests(many)
    lines = output("ls", options, many / "objects/prefix").splitlines()
    names = [line.split()[-1] for line in lines]
    assert sum(name.startswith(b"key-") for name in names) == MANY
    assert len(set(names)) == len(names)
    if options == "-l":
        assert any(b" 4711 " in line and line.endswith(b"key-004711") for line in lines)
    # Some dozens of entries come with a request. One each would be a hundred thousand.
    spent = {name: count - before.get(name, 0) for name, count in requests(many).items()}
    assert sum(spent.values()) < MANY / 10, spent
    assert (many / "objects/prefix/key-004711").stat().st_size == 4711


def requests(mount: Path) -> dict[str, float]:
    """The requests of the kernel so far, by operation."""
    text = (mount / ".nczfs/metrics").read_text()
    found = re.findall(r'^nczfs_fuse_requests_total\{operation="(\w+)"\} (\S+)$', text, re.M)
    return {name: float(count) for name, count in found}


HUGE_BYTES = 10_000_000 << 20


def test_an_array_of_ten_terabytes_is_there_at_once(tmp_path: Path) -> None:
    """SEMANTICS D4, D6, D7."""
    store = open_store(str(tmp_path))
    put_json(
        store,
        "huge/.zarray",
        {
            "zarr_format": 2,
            "shape": [10_000_000, 512, 512],
            "chunks": [1, 512, 512],
            "dtype": "<f4",
            "compressor": None,
            "filters": None,
            "fill_value": 7,
            "order": "C",
        },
    )
    stored = {0: 1, 9_437_184: 2, 9_999_999: 3}  # the second begins at 9 TiB
    for number, value in stored.items():
        data = np.full((512, 512), value, "<f4").tobytes()
        store.write(parse_key(f"huge/{number}.0.0"), data)
    with mounted(tmp_path, "--memory-limit", "64MiB") as mount:
        place = mount / "datasets/huge"
        raw = place / "values.raw"
        assert raw.stat().st_size == HUGE_BYTES
        assert (place / "values.txt").stat().st_size == HUGE_BYTES * 4
        at = 9 << 20
        found = output("dd", f"if={raw}", "bs=1M", f"skip={at - 1}", "count=3", "status=none")
        values = np.frombuffer(found, "f4").reshape(3, -1)
        assert [set(step.tolist()) for step in values] == [{7.0}, {2.0}, {7.0}]
        assert np.frombuffer(output("tail", "-c", "8", raw), "f4").tolist() == [3, 3]
        assert output("tail", "-n", "1", place / "values.txt").split() == [b"3"]
        assert np.frombuffer(output("head", "-c", "4", raw), "f4").tolist() == [1]
        mapped = np.load(place / "values.npy", mmap_mode="r")
        assert mapped[9_437_184, 511, 511] == 2
        assert mapped[5_000_000, 0, 0] == 7
        for number in (0, 1, 9_999_999):
            assert (place / f"chunks/{number}.0.0").stat().st_size == 2**20
        assert not (place / "chunks/10000000.0.0").exists()
        with os.scandir(place / "chunks") as entries:
            names = [entry.name for entry in itertools.islice(entries, 5000)]
        assert names == [f"{number}.0.0" for number in range(5000)]
        chunk = np.fromfile(place / "chunks/9999999.0.0", "f4")
        assert (chunk.size, set(chunk.tolist())) == (512 * 512, {3.0})


def test_a_zip_of_two_hundred_thousand_members_is_mounted_and_read(tmp_path: Path) -> None:
    """SEMANTICS D2, D3."""
    steps = 199_999
    document = {
        "zarr_format": 2,
        "shape": [steps],
        "chunks": [1],
        "dtype": "<i4",
        "compressor": None,
        "filters": None,
        "fill_value": -1,
        "order": "C",
    }
    with zipfile.ZipFile(tmp_path / "v.zarr.zip", "w") as archive:
        archive.writestr("v/.zarray", json.dumps(document))
        archive.writestr(".zgroup", '{"zarr_format": 2}')
        for number in range(0, steps - 1):
            archive.writestr(zipfile.ZipInfo(f"v/{number}"), number.to_bytes(4, "little"))
    for url, name in [(tmp_path / "v.zarr.zip", "v.zarr.zip"), (tmp_path, "v.zarr.zip")]:
        with mounted(url) as mount:
            place = mount / "datasets" / name / "v"
            raw = place / "values.raw"
            assert raw.stat().st_size == steps * 4
            options = ["bs=4", "skip=123456", "count=1", "status=none"]
            found = output("dd", f"if={raw}", *options)
            assert int.from_bytes(found, "little") == 123_456
            assert np.frombuffer(output("tail", "-c", "8", raw), "i4").tolist() == [steps - 2, -1]
            assert (place / "chunks/99999").read_bytes() == (99_999).to_bytes(4, "little")
