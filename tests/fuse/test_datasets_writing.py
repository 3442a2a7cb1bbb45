"""Programs that know nothing of Zarr write datasets, and programs that do read them afterwards."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import netCDF4
import numpy as np
import pytest

import nczfs
from tests.support.outliving import write_after_close
from tests.support.sample import FIELDS, Values, open_zarr, output, write_sample
from tests.support.settled import settled
from tests.support.waiting import until

FORTRAN = Path(__file__).parent.parent / "data/writevalues.f90"
T2M = FIELDS["t2m"].values
REFUSED = r"Operation not permitted|EPERM|EINVAL|Invalid argument"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    directory = tmp_path / "store"
    directory.mkdir()
    write_sample(directory / "sample.zarr")
    with nczfs.open(str(directory / "n.zarr"), "w") as root:
        root.create_dimension("time", None)
        root.create_dimension("x", 3)
        values = np.arange(6, dtype="<f4").reshape(2, 3)
        root.create_variable("r", ("time", "x"), "<f4", values, attributes={"units": "K"})
        root.create_variable("s", ("time",), "<i2", np.arange(2, dtype="<i2"))
    return directory


@pytest.fixture
def mount(store: Path, tmp_path: Path) -> Iterator[Path]:
    with settled(store, tmp_path / "spool", expect=REFUSED) as mount:
        yield mount.path


def t2m_of(store: Path) -> Values:
    """The values that zarr-python reads from the store, whatever is mounted."""
    return np.array(open_zarr(store / "sample.zarr")["t2m"][...])  # type: ignore[index]


def test_what_is_edited_is_told_at_once_by_every_text_about_it(mount: Path) -> None:
    """SEMANTICS W23."""
    group = mount / "datasets/n.zarr"
    info, cdl = group / "r/info.json", group / "n.cdl"

    def shown(path: Path) -> str:
        """As a program reads a file that asks for its size first."""
        return path.read_bytes()[: path.stat().st_size].decode()

    def count(word: str) -> tuple[int, int]:
        return shown(info).count(word), shown(cdl).count(word)

    assert count("Celsius") == (0, 0)
    (group / "r/attributes/units").write_text("degree_Celsius\n")
    assert count("degree_Celsius") == (1, 1)
    (group / "r/attributes/units").rename(group / "r/attributes/as_of")
    assert (count("units"), count("as_of")) == ((0, 0), (2, 1))


def test_a_new_variable_is_told_at_once_by_every_text_about_it(mount: Path) -> None:
    """SEMANTICS W23."""
    group = mount / "datasets/n.zarr"
    info = group / "new/info.json"
    assert "new" not in (group / "info.json").read_text() + (group / "n.cdl").read_text()
    info.parent.mkdir()
    assert json.loads((group / "info.json").read_text())["groups"] == ["new"]
    assert json.loads(info.read_text())["variables"] == []
    info.write_text('{"shape": [3], "dtype": "<f4"}')
    with info.open("rb") as file:
        assert os.path.samestat(os.fstat(file.fileno()), info.stat())
        assert json.loads(file.read())["shape"] == [3]
    assert json.loads((group / "info.json").read_text())["variables"] == ["r", "s", "new"]
    assert "float new(" in (group / "n.cdl").read_text()


def test_records_are_told_at_once_by_every_variable_that_has_them(mount: Path) -> None:
    """SEMANTICS W23."""
    group = mount / "datasets/n.zarr"
    other = group / "s"

    def sizes() -> list[int]:
        return [(other / name).stat().st_size for name in ("values.raw", "values.npy")]

    assert sizes() == [4, 132]
    assert "(2 currently)" in (group / "n.cdl").read_text()
    assert json.loads((other / "info.json").read_text())["shape"] == [2]
    with (group / "r/values.raw").open("ab") as file:
        file.write(np.zeros(6, "<f4").tobytes())
    assert sizes() == [8, 136]
    assert "(4 currently)" in (group / "n.cdl").read_text()
    assert json.loads((other / "info.json").read_text())["shape"] == [4]
    assert (group / "r/values.npy").stat().st_size == 128 + 48


def test_numpy_writes_through_a_map_of_the_file(mount: Path, store: Path) -> None:
    """SEMANTICS W1."""
    values = np.load(mount / "datasets/sample.zarr/t2m/values.npy", mmap_mode="r+")
    values[2, 3:7, 5] = -1
    values[6] *= 2
    values.flush()
    del values
    wanted = T2M.copy()
    wanted[2, 3:7, 5] = -1
    wanted[6] *= 2
    np.testing.assert_array_equal(t2m_of(store), wanted)


def test_a_map_that_outlives_its_file_is_stored_when_it_goes(store: Path, tmp_path: Path) -> None:
    """SEMANTICS W86."""
    with settled(store, tmp_path / "spool", "--flush-age", "1h") as mount:
        raw = mount.path / "datasets/sample.zarr/t2m/values.raw"
        write_after_close(raw, 4, np.array([5], "<f4").tobytes())
        until(lambda: bool(t2m_of(store).flat[1] == 5))  # the kernel releases it a little later
        assert np.fromfile(raw, "<f4", 2)[1] == 5


def test_dd_writes_in_place_and_at_any_offset(mount: Path, store: Path, tmp_path: Path) -> None:
    """SEMANTICS W1."""
    wanted = bytearray(T2M.tobytes())
    noise = tmp_path / "noise"
    noise.write_bytes(bytes(range(1, 60)) * 50)
    for bs, seek, count in ((4, 10, 1), (333, 7, 8), (1, 4095, 3), (6000, 3, 1)):
        target = f"of={mount / 'datasets/sample.zarr/t2m/values.raw'}"
        options = ["conv=notrunc", f"bs={bs}", f"seek={seek}", f"count={count}", "status=none"]
        output("dd", f"if={noise}", target, *options)
        written = noise.read_bytes()[: bs * count]
        wanted[bs * seek : bs * seek + len(written)] = written
    assert t2m_of(store).tobytes() == bytes(wanted)


def test_a_fortran_program_writes_records_by_direct_access(
    mount: Path, store: Path, tmp_path: Path
) -> None:
    """SEMANTICS W1."""
    if shutil.which("gfortran") is None:
        pytest.fail("no Fortran compiler: apt-get install gfortran", pytrace=False)
    program = tmp_path / "writevalues"
    output("gfortran", "-O1", "-Wall", "-Werror", "-o", program, FORTRAN)
    nt, ny, nx = T2M.shape
    raw = mount / "datasets/sample.zarr/t2m/values.raw"
    output(program, raw, str(nx), str(ny), str(nt))
    t, y, x = np.meshgrid(*(np.arange(1, n + 1) for n in T2M.shape), indexing="ij")
    wanted = np.where(t % 2 == 0, (x + 1000 * y + 1000000 * t).astype("f4"), T2M)
    np.testing.assert_array_equal(t2m_of(store), wanted)
    np.testing.assert_array_equal(np.fromfile(raw, "<f4").reshape(T2M.shape), wanted)


def test_cp_over_the_values_is_a_rewrite(mount: Path, store: Path, tmp_path: Path) -> None:
    """SEMANTICS W5."""
    new, short = tmp_path / "new.raw", tmp_path / "short.raw"
    new.write_bytes((T2M + 1).tobytes())
    short.write_bytes(T2M.tobytes()[:-4])
    raw = mount / "datasets/sample.zarr/t2m/values.raw"
    output("cp", new, raw)
    np.testing.assert_array_equal(t2m_of(store), T2M + 1)
    failed = subprocess.run(["cp", short, raw], capture_output=True, text=True, check=False)
    assert failed.returncode == 1
    assert "Invalid argument" in failed.stderr
    np.testing.assert_array_equal(t2m_of(store), T2M + 1)
    until(lambda: raw.read_bytes() == new.read_bytes())  # what was written goes at the last close
    output("sh", "-c", f"cat {short.parent}/new.raw > {raw}")
    assert raw.stat().st_size == T2M.nbytes


def test_np_save_onto_the_file_of_the_same_array(mount: Path, store: Path) -> None:
    """SEMANTICS W3, W5."""
    target = mount / "datasets/sample.zarr/t2m/values.npy"
    np.save(target, T2M * 2)
    np.testing.assert_array_equal(t2m_of(store), T2M * 2)
    with pytest.raises(OSError, match=r"Operation not permitted|Errno"):
        np.save(target, T2M[:-1])
    np.testing.assert_array_equal(t2m_of(store), T2M * 2)


def test_whole_chunks_can_be_copied(mount: Path, store: Path) -> None:
    """SEMANTICS W4."""
    chunks = mount / "datasets/sample.zarr/t2m/chunks"
    output("cp", chunks / "0.0.0", chunks / "6.0.0")
    wanted = T2M.copy()
    wanted[6] = T2M[0]
    np.testing.assert_array_equal(t2m_of(store), wanted)


def test_lines_of_text_are_edited(mount: Path, store: Path) -> None:
    """SEMANTICS W7."""
    text = mount / "datasets/sample.zarr/t2m/values.txt"
    lines = text.read_bytes().replace(b"\n", b"", 1)
    output(
        "sh", "-c", f"printf '%15s\\n' -7.25 | dd of={text} conv=notrunc bs=16 seek=3 status=none"
    )
    assert text.read_bytes().splitlines()[3] == b"          -7.25"
    assert t2m_of(store).reshape(-1)[3] == np.float32(-7.25)
    with text.open("r+b", buffering=0) as file, pytest.raises(OSError, match="Invalid argument"):
        file.write(b"          abcde\n")
    swapped = b"".join(b"%15.9g\n" % value for value in T2M.reshape(-1)[::-1].tolist())
    text.write_bytes(swapped)
    np.testing.assert_array_equal(t2m_of(store).reshape(-1), T2M.reshape(-1)[::-1])
    assert len(lines) == len(swapped) - 1


def test_a_line_that_is_written_as_it_is_shown_is_stored(tmp_path: Path) -> None:
    """SEMANTICS W1, W7: also where another client has changed the element since it was read."""
    store = tmp_path / "store"
    names, numbers = np.array([b"one", b"two", b"t\tx"], "S5"), np.arange(3, dtype="<i4")
    with nczfs.open(str(store / "d.zarr"), "w", format="zarr2") as root:
        root.create_variable("names", (3,), "S5", names)
        root.create_variable("numbers", (3,), "<i4", numbers)
    with settled(store, tmp_path / "spool") as mount:
        top = mount.path / "datasets/d.zarr"
        files = {name: (top / name / "values.txt").open("r+b", 0) for name in ("names", "numbers")}
        texts = {name: file.readall() for name, file in files.items()}
        with nczfs.open(str(store / "d.zarr"), "r+") as other:
            other.variables["names"][...] = np.array([b"new"] * 3, "S5")
            other.variables["numbers"][...] = 9
        for name, file in files.items():
            file.seek(0)
            file.write(texts[name])
            os.fsync(file.fileno())
            file.close()
    with nczfs.open(str(store / "d.zarr")) as root:
        assert root.variables["names"][...].tolist() == [b"one", b"two", b"new"]
        assert root.variables["numbers"][...].tolist() == [0, 1, 2]


def test_attributes_are_written_by_the_shell_and_read_by_netcdf(mount: Path, store: Path) -> None:
    """SEMANTICS W9, W10."""
    attributes = mount / "datasets/n.zarr/r/attributes"
    script = """
    echo degC > units && echo 7s > count && echo 2.5f > factor && echo 'one two' > long_name
    echo 1, 2 3 > many && sed -i s/degC/K2/ units && mv count number && echo more >> long_name
    """
    subprocess.run(["sh", "-ec", script], cwd=attributes, check=True)
    assert (attributes / "units").read_text() == "K2\n"
    with netCDF4.Dataset(f"file://{store}/n.zarr#mode=nczarr,file") as root:
        found = root["r"]
        assert found.units == "K2"
        assert found.number == 7
        assert found.getncattr("number").dtype == np.int16
        assert found.factor.dtype == np.float32
        assert found.many.tolist() == [1, 2, 3]
        assert found.long_name == "one two\nmore"
        assert "count" not in found.ncattrs()


def test_records_are_appended_by_the_shell_and_read_by_netcdf(
    mount: Path, store: Path, tmp_path: Path
) -> None:
    """SEMANTICS W8."""
    raw = mount / "datasets/n.zarr/r/values.raw"
    new = tmp_path / "new"
    new.write_bytes(np.arange(10, 19, dtype="<f4").tobytes())
    output("sh", "-c", f"cat {new} >> {raw}")
    assert raw.stat().st_size == 5 * 3 * 4
    output("truncate", "-s", str(6 * 3 * 4), raw)
    with netCDF4.Dataset(f"file://{store}/n.zarr#mode=nczarr,file") as root:
        assert root["r"].shape == (6, 3)
        np.testing.assert_array_equal(root["r"][2:5], np.arange(10, 19).reshape(3, 3))
        assert root["r"][5].mask.all()
    failed = subprocess.run(
        ["sh", "-c", f"printf 12345 >> {raw}"], capture_output=True, text=True, check=False
    )
    assert failed.returncode in (0, 2)
    until(lambda: raw.stat().st_size == 6 * 3 * 4)  # the kernel tells of the last close after it


def test_what_would_change_the_structure_is_refused(mount: Path) -> None:
    """SEMANTICS W6, W11."""
    variable = mount / "datasets/sample.zarr/t2m"
    for refused in (
        lambda: os.truncate(variable / "values.raw", 4),
        lambda: os.truncate(variable / "values.raw", 0),
        lambda: (variable / "values.raw").unlink(),
        lambda: (variable / "info.json").write_text("{}"),
        lambda: (variable / "new.raw").write_text("x"),
        lambda: (variable / "chunks").rmdir(),
    ):
        with pytest.raises(PermissionError):
            refused()
    failed = output("truncate", "-s", "0", variable / "values.raw", fails=True)
    assert b"Operation not permitted" in failed
    assert (variable / "values.raw").read_bytes() == T2M.tobytes()


def test_mkdir_makes_datasets_that_others_read(mount: Path, store: Path) -> None:
    """SEMANTICS W12."""
    (mount / "datasets/new.zarr").mkdir()
    (mount / "datasets/new.zarr/ocean").mkdir()
    (mount / "datasets/new.zarr/ocean/attributes/title").write_text("deep\n")
    with netCDF4.Dataset(f"file://{store}/new.zarr#mode=nczarr,file") as root:
        assert root["ocean"].title == "deep"


def test_an_info_json_is_that_of_the_variable_at_once(mount: Path) -> None:
    """SEMANTICS W13."""
    (mount / "datasets/new.zarr").mkdir()
    for name in "abcdefgh":
        variable = mount / "datasets/new.zarr" / name
        variable.mkdir()
        (variable / "info.json").write_text('{"shape": [2], "dtype": "<f4"}')
        assert json.loads((variable / "info.json").read_text())["shape"] == [2]
        assert (variable / "values.raw").stat().st_size == 8
