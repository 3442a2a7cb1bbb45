"""Programs that know nothing of Zarr, on a real mount."""

from __future__ import annotations

import filecmp
import hashlib
import mmap
import os
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.support.mounts import mounted
from tests.support.sample import (
    FIELDS,
    check_sample,
    keys_of,
    open_zarr,
    output,
    reassembled,
    write_sample,
)

FORTRAN = Path(__file__).parent.parent / "data/readvalues.f90"
T2M = FIELDS["t2m"].values
RAW = T2M.tobytes()
LINE = 16  # of a float32 in values.txt, its newline included


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("store")
    write_sample(directory / "sample.zarr")
    (directory / "notes/deep").mkdir(parents=True)
    (directory / "notes/deep/needle.txt").write_text("hay\na needle\nhay\n")
    (directory / "notes/empty").touch()
    (directory / "notes/big").write_bytes(np.random.default_rng(1).bytes(3 << 20))
    return directory


@pytest.fixture(scope="module")
def mount(store: Path) -> Iterator[Path]:
    with mounted(store) as path:
        yield path


@pytest.fixture(scope="module")
def t2m(mount: Path) -> Path:
    return mount / "datasets/sample.zarr/t2m"


def test_ls_shows_exact_sizes(t2m: Path) -> None:
    """SEMANTICS D4."""
    sizes = {
        words[8]: int(words[4])
        for line in output("ls", "-l", t2m).decode().splitlines()[1:]
        if (words := line.split())[0].startswith("-")
    }
    assert sizes == {
        "values.raw": T2M.nbytes,
        "values.npy": T2M.nbytes + 128,
        "values.txt": T2M.size * LINE,
        "info.json": len((t2m / "info.json").read_bytes()),
        "t2m.nc": len((t2m / "t2m.nc").read_bytes()),
    }
    listed = output("ls", "-l", t2m / "chunks").decode().splitlines()[1:]
    assert [line.split()[8] for line in listed] == [f"{t}.0.0" for t in range(7)]
    assert {line.split()[4] for line in listed} == {str(30 * 50 * 4)}


def test_od_prints_the_values(t2m: Path) -> None:
    """SEMANTICS D5."""
    printed = output("od", "-An", "-v", "-t", "f4", "-j", "4000", "-N", "400", t2m / "values.raw")
    values = np.array(printed.split(), "f4")
    np.testing.assert_array_equal(values, T2M.reshape(-1)[1000:1100])


def test_awk_head_tail_and_sed_work_on_lines(t2m: Path) -> None:
    """SEMANTICS D5."""
    text = t2m / "values.txt"
    flat = T2M.reshape(-1)
    found = output("awk", "NR == 1 || $1 > m { m = $1 } END { print NR, m }", text).split()
    assert [int(found[0]), np.float32(found[1])] == [flat.size, flat.max()]
    assert np.float32(output("sed", "-n", "4711p", text)) == flat[4710]
    at = ["dd", f"if={text}", f"bs={LINE}", "skip=4710", "count=1", "status=none"]
    assert np.float32(output(*at)) == flat[4710]
    assert np.array(output("head", "-n", "5", text).split(), "f4").tolist() == flat[:5].tolist()
    assert np.array(output("tail", "-n", "5", text).split(), "f4").tolist() == flat[-5:].tolist()
    assert output("wc", "-l", text).split()[0] == str(flat.size).encode()


@pytest.mark.parametrize(
    ("bs", "skip", "count"), [(1, 0, 7), (1, 4095, 3), (333, 17, 11), (4097, 3, 2), (65537, 0, 9)]
)
def test_dd_reads_at_any_offset(t2m: Path, bs: int, skip: int, count: int) -> None:
    """SEMANTICS A2."""
    options = [f"bs={bs}", f"skip={skip}", f"count={count}", "status=none"]
    whole = output("dd", f"if={t2m / 'values.raw'}", *options)
    assert whole == RAW[bs * skip : bs * (skip + count)]
    lines = (t2m / "values.txt").read_bytes()
    piece = output("dd", f"if={t2m / 'values.txt'}", *options)
    assert piece == lines[bs * skip : bs * (skip + count)]


def test_head_and_tail_cut_bytes(t2m: Path) -> None:
    """SEMANTICS A2."""
    assert output("head", "-c", "4099", t2m / "values.raw") == RAW[:4099]
    assert output("tail", "-c", "4099", t2m / "values.raw") == RAW[-4099:]
    assert output("tail", "-c", "+12345", t2m / "values.raw") == RAW[12344:]


def test_direct_reading_gives_the_same_bytes(t2m: Path) -> None:
    options = ["bs=4096", "skip=5", "count=3", "iflag=direct", "status=none"]
    assert output("dd", f"if={t2m / 'values.raw'}", *options) == RAW[5 * 4096 : 8 * 4096]


def test_cmp_finds_objects_equal_and_a_difference(mount: Path, store: Path, t2m: Path) -> None:
    """SEMANTICS O1."""
    output("cmp", mount / "objects/notes/big", store / "notes/big")
    output("cmp", "-n", str(T2M.nbytes), "-i", "128:0", t2m / "values.npy", t2m / "values.raw")
    chunks = t2m / "chunks"
    assert output("cmp", chunks / "0.0.0", chunks / "1.0.0", fails=True) == b""


def test_checksums_are_those_of_the_store(mount: Path, store: Path, t2m: Path) -> None:
    """SEMANTICS O1."""
    for path, expected in [
        (mount / "objects/notes/big", (store / "notes/big").read_bytes()),
        (t2m / "values.raw", RAW),
    ]:
        digest = output("sha256sum", path).split()[0].decode()
        assert digest == hashlib.sha256(expected).hexdigest()


def test_tar_packs_both_trees(mount: Path, store: Path, tmp_path: Path) -> None:
    archive = tmp_path / "all.tar"
    output("tar", "-cf", archive, "-C", mount, "objects", "datasets")
    with tarfile.open(archive) as file:
        file.extractall(tmp_path, filter="data")
    assert contents(tmp_path / "objects") == contents(store)
    check_sample(tmp_path / "datasets/sample.zarr")


def test_cp_copies_a_tree(mount: Path, store: Path, tmp_path: Path) -> None:
    output("cp", "-r", mount / "objects", tmp_path / "copy")
    assert contents(tmp_path / "copy") == contents(store)
    output("cp", "-a", mount / "datasets/sample.zarr", tmp_path / "sample.zarr")
    check_sample(tmp_path / "sample.zarr")


def test_rsync_copies_a_tree_and_then_nothing(mount: Path, store: Path, tmp_path: Path) -> None:
    command = ["rsync", "-a", "--itemize-changes", f"{mount}/objects/", f"{tmp_path}/copy/"]
    assert output(*command)
    assert contents(tmp_path / "copy") == contents(store)
    assert output(*command) == b""
    values = ["rsync", "-a", f"{mount}/datasets/sample.zarr", str(tmp_path)]
    output(*values)
    check_sample(tmp_path / "sample.zarr")


def test_find_looks_at_sizes_and_kinds(mount: Path, t2m: Path) -> None:
    """SEMANTICS D4."""
    found = output("find", t2m, "-size", f"{T2M.nbytes}c").decode().split()
    assert found == [str(t2m / "values.raw")]
    assert output("find", mount / "objects/notes", "-empty").decode().split() == [
        str(mount / "objects/notes/empty")
    ]
    names = output("find", mount / "datasets", "-name", "values.raw").decode().split()
    assert len(names) == len(FIELDS)


def test_grep_finds_a_word_below_a_directory(mount: Path, store: Path) -> None:
    found = output("grep", "-rn", "needle", mount / "objects/notes").decode()
    assert found == f"{mount}/objects/notes/deep/needle.txt:2:a needle\n"
    title = output("grep", "-rl", "a sample", mount / "datasets/sample.zarr").decode()
    assert f"{mount}/datasets/sample.zarr/attributes/title" in title.split("\n")


def test_du_and_df_answer(mount: Path) -> None:
    size = int(output("du", "-sb", "--apparent-size", mount / "objects/notes/big").split()[0])
    assert size == 3 << 20
    lines = output("df", "--output=fstype,target", mount).decode().splitlines()
    assert lines[1].split() == ["fuse.nczfs", str(mount)]


def test_numpy_maps_values(t2m: Path) -> None:
    """SEMANTICS D5."""
    mapped = np.load(t2m / "values.npy", mmap_mode="r")
    assert isinstance(mapped, np.memmap)
    np.testing.assert_array_equal(mapped, T2M)
    np.testing.assert_array_equal(mapped[3, ::7, 11:40], T2M[3, ::7, 11:40])
    raw = np.memmap(t2m / "values.raw", "f4", "r", shape=T2M.shape)
    np.testing.assert_array_equal(raw[:, 5, 5], T2M[:, 5, 5])


@pytest.mark.parametrize("flags", [mmap.MAP_SHARED, mmap.MAP_PRIVATE])
def test_a_map_of_values_shows_them(t2m: Path, flags: int) -> None:
    with (
        open(t2m / "values.raw", "rb") as file,
        mmap.mmap(file.fileno(), 0, flags, mmap.PROT_READ) as view,
    ):
        assert view[20_001:30_003] == RAW[20_001:30_003]
        assert view[-5:] == RAW[-5:]
        assert view.find(RAW[8000:8016]) == RAW.find(RAW[8000:8016])


def test_a_fortran_program_reads_values_and_a_chunk(t2m: Path, tmp_path: Path) -> None:
    """SEMANTICS D5, D6."""
    if shutil.which("gfortran") is None:
        pytest.fail("no Fortran compiler: apt-get install gfortran", pytrace=False)
    program = tmp_path / "readvalues"
    output("gfortran", "-O1", "-Wall", "-Werror", "-o", program, FORTRAN)
    for path, field in [
        (t2m / "values.raw", T2M),
        (t2m / "chunks/3.0.0", T2M[3:4]),
    ]:
        nt, ny, nx = field.shape
        lines = output(program, path, str(nx), str(ny), str(nt)).decode().split()
        assert int(lines[0]) == field.nbytes
        assert float(lines[1]) == pytest.approx(field.sum(dtype="f8"), rel=1e-12)
        values = np.array(lines[2:5], "f4").tolist()
        assert values == [field[-1, -1, -1], field[-1, 0, 0], field[0, 0, -1]]
        assert lines[5] == "T"


def test_zarr_reads_the_mounted_objects_as_it_reads_the_store(mount: Path, store: Path) -> None:
    """SEMANTICS O1, O5."""
    stored = open_zarr(store / "sample.zarr")
    shown = open_zarr(mount / "objects/sample.zarr")
    assert dict(shown.attrs) == dict(stored.attrs)
    for path, field in FIELDS.items():
        np.testing.assert_array_equal(np.asarray(shown[path]), field.values)
        assert dict(shown[path].attrs) == dict(stored[path].attrs)


def test_a_shell_pipe_works_on_chunks(t2m: Path) -> None:
    command = f"cat {t2m}/chunks/*.0.0 | cmp - {t2m}/values.raw"
    assert output("sh", "-c", command) == b""
    np.testing.assert_array_equal(reassembled(t2m), T2M)


def test_nothing_can_be_written_by_any_program(store: Path) -> None:
    """SEMANTICS L1, L2."""
    before = contents(store)
    with mounted(store, "--read-only") as mount:
        notes, t2m = mount / "objects/notes", mount / "datasets/sample.zarr/t2m"
        for command in (
            ["touch", notes / "empty"],
            ["touch", notes / "new"],
            ["mkdir", notes / "new"],
            ["rm", "-f", notes / "empty"],
            ["rmdir", notes / "deep"],
            ["mv", notes / "empty", notes / "moved"],
            ["chmod", "777", notes / "big"],
            ["truncate", "-s", "0", notes / "big"],
            ["dd", "if=/dev/zero", f"of={t2m / 'values.raw'}", "count=1", "conv=notrunc"],
            ["cp", notes / "big", t2m / "attributes/units"],
            ["mkdir", mount / "datasets/new"],
        ):
            said = output(*command, fails=True).decode()
            assert "Read-only file system" in said, (command, said)
        with pytest.raises(OSError, match="Read-only file system"):
            os.open(t2m / "values.raw", os.O_RDWR)
        with pytest.raises(OSError, match="not supported"):
            os.getxattr(t2m / "values.raw", "user.x")
    assert contents(store) == before


def test_a_crawler_sees_nothing_twice_through_links(mount: Path) -> None:
    seen = [
        os.path.join(where, name)
        for where, directories, files in os.walk(mount, onerror=_raise)
        for name in (*directories, *files)
    ]
    assert len(seen) == len(set(seen))
    assert not any(os.path.islink(path) for path in seen)


def test_two_copies_of_a_tree_are_equal_for_filecmp(mount: Path, store: Path) -> None:
    compared = filecmp.dircmp(mount / "objects", store)
    assert not compared.left_only
    assert not compared.right_only
    assert not compared.diff_files


def contents(directory: Path) -> dict[str, bytes]:
    return {key: path.read_bytes() for key, path in keys_of(directory).items()}


def _raise(error: OSError) -> None:
    raise error
