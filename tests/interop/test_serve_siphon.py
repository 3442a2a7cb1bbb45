"""siphon, Unidata's client, reads served datasets: what it gets is what the store holds."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from siphon.cdmr import Dataset as Remote
from siphon.cdmr.cdmremote import CDMRemote

import nczfs
from nczfs.buffers import Buffer
from nczfs.cli.main import main
from nczfs.ncstream import Array, read
from nczfs.ncstream.data import data_messages, ragged_message
from nczfs.ncstream.framing import END, START
from nczfs.ncstream.headers import header_message
from nczfs.ncstream.messages import (
    DataType,
    Dimension,
    Group,
    Header,
    Variable,
    whole_section,
)
from tests.support.reference import reference_root, zarr_cases
from tests.support.served import Served, served

pytestmark = pytest.mark.filterwarnings("default")

NUMBERS = ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8"]
SELECTIONS: list[Any] = [
    np.s_[:],
    np.s_[1:3],
    np.s_[0:6:2, 1:7:3],
    np.s_[4, :, 2],
    np.s_[5, 6, 4],
    np.s_[-1, 2:3, ::2],
]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of two datasets: of every type in NCZarr, and of shards in Zarr v3."""
    path = tmp_path_factory.mktemp("served")
    random = np.random.default_rng(1)
    with nczfs.open(str(path / "types.zarr"), "w") as dataset:
        for name, size in {"time": None, "y": 7, "x": 5, "n": 3}.items():
            dataset.create_dimension(name, size)
        for code in NUMBERS:
            values = random.integers(0, 256, 6 * 7 * 5 * np.dtype(code).itemsize, np.uint8)
            dataset.create_variable(
                code, ("time", "y", "x"), code, values.view(code).reshape(6, 7, 5), chunks=(4, 4, 4)
            )
        dataset.create_variable("scalar", (), "f8", 2.5, attributes={"units": "K", "n": [1, 2]})
        dataset.create_variable("letters", ("n",), "S1", np.array(list("abc"), "S1"))
        dataset.create_variable("words", ("n",), str, np.array(["", "zwei", "日本"], object))
        dataset.create_variable("never.written", ("y",), "i2")
        group = dataset.create_group("deep/down", {"title": "below"})
        group.create_variable("v", ("n",), "u2", np.array([1, 65535, 3], "u2"))
    with nczfs.open(str(path / "shards.zarr"), "w", format="zarr3") as dataset:
        dataset.create_variable(
            "v", (20, 30), "f4", random.random((20, 30), "f4"), chunks=(3, 4), shards=(9, 8)
        )
    pieces = any_length()
    (path / "a.ncs").write_bytes(b"".join(pieces))
    words = "import", str(path / "a.ncs"), str(path / "lengths.zarr"), "--format", "zarr2"
    assert main([*words, "--chunks", "n=2"]) == 0
    return path


def any_length() -> Iterator[Buffer]:
    """Yield a stream of elements of any length, of which the last ones were never written."""
    n = Dimension("n", 3)
    rows = np.empty(2, object)
    rows[:] = [np.array([1.5, -2]), np.array([0.25])]
    blobs = np.empty(3, object)
    blobs[:] = [b"a\0b", b"", b"c" * 300]
    ragged = Variable("r", DataType.DOUBLE, (n, Dimension("*", 0, is_vlen=True)))
    variables = ragged, Variable("o", DataType.OPAQUE, (n,))
    yield START + header_message(Header(Group(dimensions=(n,), variables=variables)))
    yield from ragged_message("r", DataType.DOUBLE, whole_section((2,)), rows)
    yield from data_messages("o", DataType.OPAQUE, whole_section((3,)), blobs)
    yield END


@pytest.fixture(scope="module")
def service(store: Path) -> Iterator[Served]:
    logging.getLogger("siphon").setLevel(logging.CRITICAL)
    with served(store) as running:
        yield running


@pytest.fixture(scope="module")
def remote(service: Served) -> Remote:
    return Remote(f"{service.url}cdmremote/types.zarr")


@pytest.fixture(scope="module")
def local(store: Path) -> Iterator[Any]:
    with nczfs.open(str(store / "types.zarr")) as dataset:
        yield dataset


@pytest.mark.parametrize("code", NUMBERS)
def test_siphon_reads_numbers_of_every_type_by_sections(
    remote: Remote, local: Any, code: str
) -> None:
    """SEMANTICS V2 and V3."""
    variable = remote.variables[code]
    expected = local[code][...]
    assert variable.shape == expected.shape
    assert variable.dtype == expected.dtype
    for selection in SELECTIONS:
        found, wanted = variable[selection].squeeze(), expected[selection].squeeze()
        assert np.array_equal(found, wanted, equal_nan=code[0] == "f"), selection


def test_siphon_reads_scalars_characters_strings_fill_values_and_groups(
    remote: Remote, local: Any
) -> None:
    """SEMANTICS V2."""
    assert remote.variables["scalar"][:] == 2.5
    assert remote.variables["scalar"].units == "K"
    assert list(remote.variables["scalar"].n) == [1, 2]
    assert remote.variables["letters"][:].tolist() == [b"a", b"b", b"c"]
    assert remote.variables["words"][:].tolist() == ["", "zwei", "日本"]
    assert remote.variables["words"][1:2].tolist() == ["zwei"]
    assert remote.variables["never.written"][2:4].tolist() == [-32767, -32767]
    down = remote.groups["deep"].groups["down"]
    assert down.title == "below"
    assert down.variables["v"][:].tolist() == [1, 65535, 3]
    assert down.variables["v"][0:3:2].tolist() == [1, 3]
    assert remote.dimensions["time"].isunlimited()
    assert len(remote.dimensions["time"]) == 6


def test_siphon_reads_shards(service: Served, store: Path) -> None:
    remote = Remote(f"{service.url}cdmremote/shards.zarr").variables["v"]
    with nczfs.open(str(store / "shards.zarr")) as dataset:
        expected = dataset.variables["v"][...]
    assert np.array_equal(remote[:], expected)
    assert np.array_equal(remote[1:20:7, 3:29], expected[1:20:7, 3:29])


def test_siphon_reads_elements_of_any_length(service: Served) -> None:
    """SEMANTICS V2."""
    remote = Remote(f"{service.url}cdmremote/lengths.zarr")
    ragged = remote.variables["r"]
    assert ragged.dimensions == ("n", "*")
    client = CDMRemote(f"{service.url}cdmremote/lengths.zarr")
    for selections in ([slice(None)] * 2, [slice(0, 3)]):
        (found,) = client.fetch_data(**{"/r": selections})
        assert [each.tolist() for each in found] == [[1.5, -2], [0.25], []]
    (found,) = client.fetch_data(**{"/r": [slice(0, 3, 2)]})
    assert [each.tolist() for each in found] == [[1.5, -2], []]
    text = service.get("cdmremote/lengths.zarr?req=NcML").text
    assert '<variable name="r" shape="n *" type="double" />' in text
    assert '<variable name="o" shape="n" type="opaque" />' in text
    (blobs,) = read(BytesIO(service.get("cdmremote/lengths.zarr?req=data&var=o(1:2)").body))
    assert isinstance(blobs, Array)
    assert blobs.values.tolist() == [b"", b"c" * 300]


@pytest.mark.parametrize("level", [1, 9])
def test_siphon_reads_deflated_values(service: Served, local: Any, level: int) -> None:
    """SEMANTICS V4."""
    remote = Remote(f"{service.url}cdmremote/types.zarr")
    remote.cdmr.deflate = level
    assert np.array_equal(remote.variables["i4"][1:5], local["i4"][1:5])
    assert remote.variables["words"][:].tolist() == ["", "zwei", "日本"]


def test_siphon_reads_several_variables_in_one_request(service: Served, local: Any) -> None:
    client = CDMRemote(f"{service.url}cdmremote/types.zarr")
    first, second = client.fetch_data(**{"/i4": [slice(0, 2)] * 3, "/deep/down/v": [slice(None)]})
    assert np.array_equal(first, local["i4"][:2, :2, :2])
    assert second.tolist() == [1, 65535, 3]


def test_siphon_reads_members_alone_where_it_cannot_read_structures(tmp_path: Path) -> None:
    table = np.dtype([("a", "i2"), ("wind", "f4", (2,))])
    values = np.zeros(3, table)
    values["wind"] = np.arange(6).reshape(3, 2)
    with nczfs.open(str(tmp_path / "a.zarr"), "w", format="zarr2") as made:
        made.create_variable("profile", (3,), table, values)
        made.create_variable("waves", (2,), "c8", np.array([1 + 2j, 3 - 4j]))
        made.create_variable("texts", (2, 2), str, np.array([["a", "b"], ["c", "d"]], object))
    with served(tmp_path) as service:
        endpoint = f"{service.url}cdmremote/a.zarr"
        remote = Remote(endpoint).variables
        assert remote["waves"][:].tolist() == [(1, 2), (3, -4)]
        for name in ("profile", "texts"):
            with pytest.raises((ValueError, IndexError)):
                remote[name][:]
        (wind,) = CDMRemote(endpoint).fetch_data(**{"/profile(0:2).wind": [slice(1, 2)]})
    assert wind.tolist() == [[1], [3], [5]]


def test_siphon_reads_an_empty_slice(service: Served) -> None:
    client = CDMRemote(f"{service.url}cdmremote/types.zarr")
    (found,) = client.fetch_data(**{"/i4": [slice(3, 3), slice(None), slice(None)]})
    assert found.shape == (0, 7, 5)


@pytest.mark.parametrize("folder", zarr_cases(), ids=lambda folder: folder.name)
def test_siphon_reads_what_other_programs_have_written(folder: Path) -> None:
    (data,) = folder.glob("data.zarr*")
    with nczfs.open(str(data)) as dataset:
        local: Any = dataset
        if any("path" in each.attrs for each in local.variables.values()):
            return  # siphon cannot have an attribute of that name
    with served(folder) as service:
        _assert_equal(Remote(f"{service.url}cdmremote/{data.name}"), str(data))


@pytest.fixture(scope="module")
def references() -> Iterator[tuple[Path, Served]]:
    root = reference_root()
    assert root is not None
    with served(root) as running:
        yield root, running


def _others() -> list[str]:
    """The datasets of GDAL and of netcdf-c, by their paths among the reference files."""
    root = reference_root() or Path("/nowhere")
    patterns = ("gdal-zarr/*.zarr", "gdal-zarr/v3/*", "netcdf-c/*/*.zarr", "netcdf-c/*/*.zip")
    found = {str(p.relative_to(root)) for pattern in patterns for p in root.glob(pattern)}
    return sorted(found - {"gdal-zarr/array_attrs.zarr"})  # which is broken


@pytest.mark.parametrize("path", _others())
def test_siphon_reads_what_gdal_and_netcdf_c_have_written(
    path: str, references: tuple[Path, Served]
) -> None:
    root, service = references
    remote = Remote(f"{service.url}cdmremote/{quote(path)}")
    _assert_equal(remote, str(root / path))


@pytest.mark.parametrize(
    "file", sorted((reference_root() or Path("/nowhere")).glob("real/*.nc")), ids=lambda f: f.stem
)
def test_siphon_reads_real_data(file: Path, tmp_path: Path) -> None:
    assert main(["import", str(file), str(tmp_path / "real.zarr")]) == 0
    with served(tmp_path) as service:
        remote = Remote(f"{service.url}cdmremote/real.zarr")
        assert list(_variables(remote))
        _assert_equal(remote, str(tmp_path / "real.zarr"))


def _assert_equal(remote: Remote, url: str) -> None:
    """Compare what siphon gets with what the engine reads."""
    with nczfs.open(url) as dataset:
        local: Any = dataset
        for path, variable in _variables(remote):
            is_text = variable.dtype == np.dtype(object)
            if variable.dtype.names or (is_text and len(variable.shape) != 1):
                continue  # siphon has no shapes for these
            if local[path].problems:
                continue
            expected = local[path][...]
            if is_text:
                assert variable[:].tolist() == np.asarray(expected).reshape(-1).tolist(), path
            elif expected.dtype == object:
                lists = [each.tolist() for each in expected.reshape(-1)]
                assert [each.tolist() for each in variable[:]] == lists, path
            else:
                assert np.array_equal(_comparable(variable[:]), _comparable(expected)), path


def _variables(group: Any, above: str = "") -> Iterator[tuple[str, Any]]:
    for name, variable in group.variables.items():
        yield f"{above}/{name}", variable
    for name, child in group.groups.items():
        yield from _variables(child, f"{above}/{name}")


def _comparable(values: Any) -> Any:
    """Values as their bytes, in the types that netCDF has; siphon drops dimensions of length 1."""
    found = np.asarray(values).squeeze()
    if found.dtype.kind in "mM":
        found = found.view("i8")
    if found.dtype == np.float16:
        found = found.astype("f4")
    if found.dtype.kind == "S":
        found = np.ascontiguousarray(found).reshape(-1).view("S1")
    native = found.astype(found.dtype.newbyteorder("="))
    return np.frombuffer(native.tobytes(), np.uint8)
