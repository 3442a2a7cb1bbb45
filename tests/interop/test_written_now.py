"""Datasets that other libraries write here and now, compared with what they read back."""

from __future__ import annotations

import json
import subprocess
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import netCDF4
import numcodecs
import numpy as np
import pytest
import tensorstore
import xarray
import zarr

import nczfs
from nczfs.vfs.tree import mount_tree
from tests.support.cdl import header_lines
from tests.support.mounts import nczfs as run_nczfs
from tests.support.trees import exists, listing, read

Values = np.ndarray[Any, np.dtype[Any]]

RNG = np.random.default_rng(20)


@contextmanager
def without_warnings() -> Iterator[None]:
    """For writers that warn of what they have no v3 specification for."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def check(store: Path, expected: dict[str, Values]) -> None:
    """The values of a dataset's arrays, through the library and as files; "" is the root.

    Strings of variable length are arrays of objects.
    """
    fs = mount_tree(str(store))
    with nczfs.open(str(store)) as dataset:
        for path, values in expected.items():
            variable = dataset[path or store.name]
            assert isinstance(variable, nczfs.Variable)
            assert variable.problems == (), path
            place = f"datasets/{store.name}/{path}".rstrip("/")
            found = np.asarray(variable[...])
            assert found.shape == values.shape, path
            if values.dtype.hasobject:
                assert found.tolist() == values.tolist(), path
                lines = read(fs, f"{place}/values.txt").decode().splitlines()
                assert [json.loads(line) for line in lines] == values.reshape(-1).tolist()
                assert not exists(fs, f"{place}/values.raw")
                continue
            native = values.astype(values.dtype.newbyteorder("="))
            assert found.dtype == native.dtype, path
            assert found.tobytes() == native.tobytes(), path
            assert read(fs, f"{place}/values.raw") == native.tobytes(), path
    fs.close()


# -- zarr-python -----------------------------------------------------------------------------------

CODECS: dict[str, tuple[list[Any], Any]] = {
    "none": ([], None),
    "zlib": ([], numcodecs.Zlib(1)),
    "gzip": ([], numcodecs.GZip(5)),
    "bz2": ([], numcodecs.BZ2(1)),
    "lzma": ([], numcodecs.LZMA(preset=1)),
    "lz4": ([], numcodecs.LZ4()),
    "zstd": ([], numcodecs.Zstd(3)),
    "zstd-checksum": ([], numcodecs.Zstd(3, checksum=True)),
    **{
        f"blosc-{name}-{shuffle}": ([], numcodecs.Blosc(cname=name, clevel=5, shuffle=shuffle))
        for name in ("lz4", "lz4hc", "blosclz", "zlib", "zstd")
        for shuffle in (0, 1, 2)
    },
    "shuffle-zlib": ([numcodecs.Shuffle(4)], numcodecs.Zlib(4)),
    "delta": ([numcodecs.Delta("<i4")], numcodecs.Zlib(1)),
    "delta-astype": ([numcodecs.Delta("<i4", "<i8")], None),
    "packed": ([numcodecs.FixedScaleOffset(0, 1, "<i4", "<i2")], numcodecs.Zlib(1)),
    "crc32": ([numcodecs.CRC32()], None),
    "crc32-at-end": ([], numcodecs.CRC32(location="end")),
    "adler32": ([], numcodecs.Adler32()),
    "fletcher32": ([], numcodecs.Fletcher32()),
    "jenkins": ([], numcodecs.JenkinsLookup3()),
    "two-filters": ([numcodecs.Delta("<i4"), numcodecs.Shuffle(4)], numcodecs.Zstd()),
}


@pytest.mark.parametrize("name", CODECS)
def test_every_codec_of_zarr_python_is_read(name: str, tmp_path: Path) -> None:
    filters, compressor = CODECS[name]
    store = tmp_path / "d.zarr"
    values = RNG.integers(0, 900, (23, 11)).astype("<i4")
    with without_warnings():
        array = zarr.create_array(
            str(store),
            shape=values.shape,
            dtype=values.dtype,
            chunks=(5, 4),
            zarr_format=2,
            filters=filters or None,
            compressors=compressor,
            fill_value=-1,
        )
        array[...] = values
    check(store, {"": values})


@pytest.mark.parametrize(
    "filters",
    [
        [numcodecs.Quantize(3, "<f8")],
        [numcodecs.BitRound(10)],
        [numcodecs.FixedScaleOffset(offset=10, scale=100, dtype="<f8", astype="<u2")],
        [numcodecs.AsType(encode_dtype="<f4", decode_dtype="<f8")],
    ],
    ids=lambda filters: str(filters[0].codec_id),
)
def test_what_a_lossy_filter_leaves_is_what_zarr_python_reads(
    filters: list[Any], tmp_path: Path
) -> None:
    store = tmp_path / "d.zarr"
    kind = "f4" if filters[0].codec_id == "bitround" else "f8"
    values = RNG.random((9, 7)).astype(kind) * 50 + 10
    with without_warnings():
        array = zarr.create_array(
            str(store),
            shape=values.shape,
            dtype=values.dtype,
            chunks=(4, 4),
            zarr_format=2,
            filters=filters,
            compressors=numcodecs.Zlib(1),
        )
        array[...] = values
        expected = np.asarray(array[...])
    assert not np.array_equal(expected, values)
    check(store, {"": expected})


NUMBERS = ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16", "?")
DTYPES = [
    *(f"{order}{code}" for code in NUMBERS for order in ("<", ">")),
    *("S5", "<U3", ">U3", "V6", "<M8[s]", ">M8[ns]", "<m8[ms]"),
]


def values_of(dtype: np.dtype[Any], shape: tuple[int, ...]) -> Values:
    count = int(np.prod(shape))
    match dtype.kind:
        case "S":
            values = np.array([b"ab", b"", b"a\xffc", b"abcde"] * count)[:count]
        case "U":
            values = np.array(["é", "", "abc", "漢字"] * count)[:count]
        case "V" | "M" | "m":
            values = np.frombuffer(RNG.bytes(count * dtype.itemsize), dtype)
        case "b":
            values = RNG.integers(0, 2, count)
        case _:
            values = np.arange(count) % 100
    return values.astype(dtype).reshape(shape)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("typestr", DTYPES)
def test_every_type_of_zarr_python_is_read_in_both_orders(
    typestr: str, order: str, tmp_path: Path
) -> None:
    store = tmp_path / "d.zarr"
    dtype = np.dtype(typestr)
    values = values_of(dtype, (5, 7))
    with without_warnings():
        array = zarr.create_array(
            str(store),
            shape=values.shape,
            dtype=dtype,
            chunks=(2, 3),
            zarr_format=2,
            order=order,  # type: ignore[arg-type]
            compressors=numcodecs.Zlib(1),
        )
        array[:4] = values[:4]  # the last row of chunks is half written
        expected = np.asarray(array[...])
    check(store, {"": expected})


@pytest.mark.parametrize("fill", [0, 7, -1.5, np.nan, np.inf, -np.inf, None])
def test_what_was_never_written_is_the_fill_value(fill: float | None, tmp_path: Path) -> None:
    store = tmp_path / "d.zarr"
    with without_warnings():
        array = zarr.create_array(
            str(store), shape=(6,), dtype="f4", chunks=(2,), zarr_format=2, fill_value=fill
        )
        array[2:4] = 1.0
        expected = np.asarray(array[...])
    undefined = np.array([0, 0, 1, 1, 0, 0], "f4")  # zeros here, anything there
    check(store, {"": undefined if fill is None else expected})


@pytest.mark.parametrize("separator", [".", "/"])
@pytest.mark.parametrize("shape", [(), (0,), (4, 0, 2), (1,), (3, 4, 5)], ids=str)
def test_every_shape_is_read_with_both_separators(
    shape: tuple[int, ...], separator: str, tmp_path: Path
) -> None:
    store = tmp_path / "d.zarr"
    values = np.asarray(RNG.random(shape))
    with without_warnings():
        array = zarr.create_array(
            str(store),
            shape=shape,
            dtype="f8",
            chunks=tuple(min(2, max(1, n)) for n in shape),
            zarr_format=2,
            chunk_key_encoding={"name": "v2", "separator": separator},
        )
        array[...] = values
    check(store, {"": values})


@pytest.mark.parametrize("shape", [(), (0,), (2,)], ids=str)
def test_the_commands_show_a_root_array_of_every_length(
    shape: tuple[int, ...], tmp_path: Path
) -> None:
    store = tmp_path / "d.zarr"
    with without_warnings():
        zarr.create_array(str(store), shape=shape, dtype="i4", zarr_format=2, fill_value=3)
    done = run_nczfs("info", store)
    assert done.stderr == ""
    assert json.loads(done.stdout)["shape"] == list(shape)
    values = run_nczfs("cat", "--json", store)
    assert json.loads(values.stdout) == np.full(shape, 3).tolist()
    with nczfs.open(str(store)) as dataset:
        assert bool(dataset["d.zarr"]) is True


def test_texts_of_variable_length_are_read(tmp_path: Path) -> None:
    store = tmp_path / "d.zarr"
    values = np.array(["a", "", "zwölf", "漢字", "x" * 300], object)
    with without_warnings():
        root = zarr.open_group(str(store), mode="w", zarr_format=2)
        array = root.create_array("s", shape=(5,), dtype=str, chunks=(2,), fill_value="")
        array[...] = values
    check(store, {"s": values})


def test_structured_values_are_read(tmp_path: Path) -> None:
    store = tmp_path / "d.zarr"
    dtype = np.dtype([("a", "<i4"), ("b", ">f8"), ("c", "S3")])
    values = np.array([(i, i / 3, b"abc"[: i % 4]) for i in range(7)], dtype)
    with without_warnings():
        array = zarr.create_array(
            str(store), shape=(7,), dtype=dtype, chunks=(3,), zarr_format=2, compressors=None
        )
        array[...] = values
    native = values.astype([("a", "=i4"), ("b", "=f8"), ("c", "S3")])
    check(store, {"": native})


ATTRIBUTES: dict[str, Any] = {
    "text": "Größe",
    "empty": "",
    "int": 3,
    "big": 2**63,
    "float": 2.5,
    "ints": [1, 2, 3],
    "floats": [1.0, 2.5],
    "texts": ["a", "b"],
    "flag": True,
    "nothing": None,
    "nested": {"a": [1, {"b": None}], "é": "x"},
    "with/slash": 1,
    " blank ": "x",
    "100%": 1,
    ".hidden": "y",
}


@pytest.mark.parametrize("is_consolidated", [False, True])
def test_a_hierarchy_of_zarr_python_is_read_with_its_attributes(
    is_consolidated: bool, tmp_path: Path
) -> None:
    store = tmp_path / "d.zarr"
    expected = {}
    with without_warnings():
        root = zarr.open_group(str(store), mode="w", zarr_format=2)
        root.attrs.update(ATTRIBUTES)
        for path in ("a", "g/b", "g/h/c", "g/with blank", "g/ü%20"):
            values = RNG.random((4, 3))
            array = root.create_array(path, shape=values.shape, dtype="f8", chunks=(2, 2))
            array[...] = values
            array.attrs.update(ATTRIBUTES | {"_ARRAY_DIMENSIONS": ["y", "x"]})
            expected[path] = values
        if is_consolidated:
            zarr.consolidate_metadata(str(store), zarr_format=2)
    check(store, expected)
    fs = mount_tree(str(store))
    top = "datasets/d.zarr"
    assert json.loads(read(fs, f"{top}/info.json"))["attributes"] == unwrapped(ATTRIBUTES)
    info = json.loads(read(fs, f"{top}/g/ü%20/info.json"))
    assert info["attributes"] == unwrapped(ATTRIBUTES)
    assert [d["name"] for d in info["dimensions"]] == ["y", "x"]
    assert read(fs, f"{top}/attributes/text").decode() == "Größe\n"
    assert read(fs, f"{top}/attributes/floats") == b"1. 2.5\n"
    assert json.loads(read(fs, f"{top}/attributes/nested")) == ATTRIBUTES["nested"]
    assert read(fs, f"{top}/attributes/with%2Fslash") == b"1\n"
    assert (".zmetadata" in listing(fs, "objects")) is is_consolidated
    fs.close()


def unwrapped(attributes: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in attributes.items() if not name.startswith("_")}


def test_groups_that_only_their_members_imply_are_read(tmp_path: Path) -> None:
    """Zarr v2 as zarr-python 2 and GDAL write it: a prefix without .zgroup between two nodes."""
    store = tmp_path / "d.zarr"
    with without_warnings():
        root = zarr.open_group(str(store), mode="w", zarr_format=2)
        array = root.create_array("a/b/v", shape=(3,), dtype="i4")
        array[...] = [1, 2, 3]
    for group in ("a", "a/b"):
        (store / group / ".zgroup").unlink()
        (store / group / ".zattrs").unlink(missing_ok=True)
    fs = mount_tree(str(store))
    assert read(fs, "datasets/d.zarr/a/b/v/values.raw") == np.array([1, 2, 3], "i4").tobytes()
    fs.close()
    with nczfs.open(str(store)) as dataset:
        variable = dataset["a/b/v"]
        assert isinstance(variable, nczfs.Variable)
        assert list(variable[...]) == [1, 2, 3]


def test_single_documents_win_over_stale_consolidated_ones(tmp_path: Path) -> None:
    """In a local store, where asking is cheap."""
    store = tmp_path / "d.zarr"
    with without_warnings():
        root = zarr.open_group(str(store), mode="w", zarr_format=2)
        array = root.create_array("v", shape=(4,), dtype="i4", chunks=(2,))
        array[...] = [1, 2, 3, 4]
        zarr.consolidate_metadata(str(store), zarr_format=2)
        array.resize((6,))
        array[4:] = [5, 6]
        added = root.create_array("added", shape=(1,), dtype="u1")
        added[...] = 9
    stale = json.loads((store / ".zmetadata").read_text())["metadata"]
    assert stale["v/.zarray"]["shape"] == [4]
    assert "added/.zarray" not in stale
    check(store, {"v": np.arange(1, 7, dtype="i4"), "added": np.array([9], "u1")})
    fs = mount_tree(str(store))
    (problem,) = json.loads(read(fs, "datasets/d.zarr/info.json"))["problems"]
    assert "(.zmetadata) are stale" in problem
    assert "v/.zarray" in problem
    fs.close()


# -- xarray ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_consolidated", [False, True])
def test_a_dataset_of_xarray_is_read(is_consolidated: bool, tmp_path: Path) -> None:
    store = tmp_path / "d.zarr"
    time = np.array(["2020-01-01", "2020-02-01", "2020-03-01"], "M8[ns]")
    made = xarray.Dataset(
        {
            "t2m": (("time", "lat", "lon"), RNG.random((3, 4, 5)), {"units": "K"}),
            "mask": (("lat", "lon"), RNG.integers(0, 2, (4, 5)).astype(bool)),
            "packed": (("lat",), np.array([1.5, np.nan, 2.5, 3.0])),
            "name": (("lat",), np.array(["a", "bb", "ccc", "é"])),
            "crs": ((), np.int32(4326), {"grid_mapping_name": "latitude_longitude"}),
        },
        coords={"time": time, "lat": [1.0, 2.0, 3.0, 4.0], "lon": np.arange(5)},
        attrs={"title": "made here", "levels": [1, 2, 3]},
    )
    encoding = {
        "packed": {"dtype": "i2", "scale_factor": 0.5, "add_offset": 1.0, "_FillValue": -999},
        "t2m": {"chunks": (2, 4, 3)},
    }
    with without_warnings():
        made.to_zarr(store, zarr_format=2, encoding=encoding, consolidated=is_consolidated)
        stored = zarr.open_group(str(store), mode="r", zarr_format=2)
        expected = {
            name: np.asarray(array[...])
            for name, array in stored.arrays()
            if array.dtype.kind not in "OT"
        }
        raw = xarray.open_zarr(
            store, decode_cf=False, consolidated=is_consolidated, zarr_format=2, chunks=None
        ).load()
    assert set(expected) >= {"t2m", "mask", "packed", "crs", "time", "lat", "lon"}
    check(store, expected)
    with nczfs.open(str(store)) as dataset:
        assert set(dataset.variables) == set(raw.variables)
        assert {d.name: d.size for d in dataset.dimensions.values()} == dict(raw.sizes)
        assert dataset.attrs["title"] == "made here"
        for name, variable in dataset.variables.items():
            assert variable.dimensions == raw[name].dims, name
            np.testing.assert_array_equal(np.asarray(variable[...]), raw[name].values)
            for key, value in raw[name].attrs.items():
                if key == "_FillValue":  # xarray's word for what fill_value is in Zarr v2
                    np.testing.assert_array_equal(variable.fill_value, value)
                    continue
                np.testing.assert_array_equal(variable.attrs[key], value)
        assert dataset.variables["packed"][1] == -999  # values are shown as stored: SEMANTICS D12


# -- netcdf-c --------------------------------------------------------------------------------------

NC_TYPES = ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8")


def write_with_netcdf_c(url: str) -> None:
    with netCDF4.Dataset(url, "w") as dataset:
        dataset.createDimension("time", None)
        dataset.createDimension("x", 5)
        dataset.createDimension("y", 3)
        compressed: dict[str, Any] = {"zlib": True, "complevel": 3, "chunksizes": (2, 3)}
        dataset.createVariable("shuffled", "i4", ("time", "x"), shuffle=True, **compressed)[0:5] = (
            np.arange(25).reshape(5, 5)
        )
        dataset.createVariable("bytes", "u1", ("time", "x"), shuffle=True, **compressed)[0:5] = 200
        dataset.createVariable("plain", "f8", ("time", "x"), shuffle=False, **compressed)[0:5] = (
            RNG.random((5, 5))
        )
        dataset.createVariable("checked", "f8", ("x", "y"), fletcher32=True, chunksizes=(2, 2))[
            :
        ] = RNG.random((5, 3))
        dataset.createVariable(
            "all", "f4", ("x", "y"), fletcher32=True, zlib=True, shuffle=True, chunksizes=(2, 2)
        )[:] = RNG.random((5, 3))
        dataset.createVariable("text", "S1", ("x", "y"))[:] = np.array([list("abc")] * 5, "S1")
        dataset.createVariable("string", str, ("x",))[:] = np.array(
            ["a", "bb", "ccé", "", "eeeee"], object
        )
        dataset.createVariable("scalar", "f4", ())[...] = 7.5
        dataset.createVariable("big", ">i4", ("x",), endian="big")[:] = [1, 2, 3, 4, 5]
        dataset.createVariable("filled", "i2", ("x", "y"), fill_value=-9, chunksizes=(2, 2))[0] = 4
        for code in NC_TYPES:
            dataset.createVariable(f"unwritten_{code}", code, ("x",))
        for code in NC_TYPES:
            variable = dataset.createVariable(f"n_{code}", code, ("x",))
            variable[:] = np.arange(5)
            variable.setncattr("one", np.array(3, code))
            variable.setncattr("many", np.array([1, 2, 3], code))
        dataset.title = "plain text"
        dataset.setncattr_string("strings", ["one", "two"])
        dataset.empty = ""
        dataset.special = np.array([1.5, np.nan, np.inf, -np.inf])
        dataset.tiny = np.float32(1.1754944e-38)
        group = dataset.createGroup("g")
        group.createDimension("y", 2)
        group.createVariable("v", "f4", ("y", "x"))[:] = 1.25
        group.note = "in a group"
        inner = group.createGroup("h")
        inner.createVariable("u", "u1", ("time", "y"))[0:2] = 7


def compare(ours: nczfs.Group, theirs: netCDF4.Dataset) -> None:
    """Two libraries' views of a group and all below it."""
    assert list(ours.variables) == list(theirs.variables)
    assert list(ours.groups) == list(theirs.groups)
    assert ours.problems == ()
    compare_attributes(ours.attrs, theirs)
    declared = {d.name: (d.size, d.unlimited) for d in ours.tree().header.dimensions}
    assert declared == {
        name: (len(dimension), dimension.isunlimited())
        for name, dimension in theirs.dimensions.items()
    }
    for name, variable in theirs.variables.items():
        found = ours.variables[name]
        assert found.dimensions == variable.dimensions, name
        assert found.shape == variable.shape, name
        values = np.asarray(found[...])
        if variable.dtype is str:
            assert list(values) == list(variable[...])
        elif name.startswith("unwritten_f"):
            # netcdf-c prints six digits of its default and then reads them; here it is exact.
            exact = netCDF4.default_fillvals[name.removeprefix("unwritten_")]
            assert set(values.tolist()) == {float(values.dtype.type(exact))}
            np.testing.assert_allclose(variable[...], values, rtol=1e-6)
        else:
            assert values.tobytes() == np.asarray(variable[...]).astype(values.dtype).tobytes()
        compare_attributes(found.attrs, variable)
    for name, group in theirs.groups.items():
        compare(ours.groups[name], group)


def compare_attributes(ours: Any, theirs: Any) -> None:
    names = theirs.ncattrs()
    assert list(ours) == names
    for name in names:
        expected = theirs.getncattr(name)
        np.testing.assert_array_equal(ours[name], expected)
        if isinstance(expected, np.generic | np.ndarray):
            assert np.asarray(ours[name]).dtype == expected.dtype, name


def test_a_dataset_of_netcdf_c_is_read_as_it_reads_it(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/d#mode=nczarr,file"
    write_with_netcdf_c(url)
    with nczfs.open(url) as ours, netCDF4.Dataset(url) as theirs:
        theirs.set_auto_mask(False)
        theirs.set_auto_scale(False)
        theirs.set_always_mask(False)
        theirs.set_auto_chartostring(False)
        assert ours.tree().header.format == "nczarr-L3"
        compare(ours, theirs)
        expected = {
            name: np.asarray(variable[...])
            for name, variable in theirs.variables.items()
            if variable.dtype is not str and not name.startswith("unwritten_f")
        }
        expected["g/h/u"] = np.asarray(theirs["g/h/u"][...])
    check(tmp_path / "d", expected)


def test_a_shuffled_variable_of_netcdf_c_is_not_what_zarr_python_reads(tmp_path: Path) -> None:
    """netcdf-c stores elementsize 0, which numcodecs takes literally: the trap that we know."""
    url = f"file://{tmp_path}/d#mode=nczarr,file"
    write_with_netcdf_c(url)
    document = json.loads((tmp_path / "d/shuffled/.zarray").read_text())
    assert document["filters"] == [{"id": "shuffle", "elementsize": 0}]
    check(tmp_path / "d", {"shuffled": np.arange(25, dtype="i4").reshape(5, 5)})


def test_text_that_is_json_is_kept_where_netcdf_c_loses_digits(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/d#mode=nczarr,file"
    with netCDF4.Dataset(url, "w") as dataset:
        dataset.version = "1.50"
        dataset.document = '{"a": [1, 2]}'
    with nczfs.open(url) as ours, netCDF4.Dataset(url) as theirs:
        assert theirs.version == "1"
        assert ours.attrs["version"] == "1.50"
        assert ours.attrs["document"] == theirs.document == '{"a": [1,2]}'


CDL = r"""netcdf f {
dimensions:
    t = 3 ;
    x = 4 ;
variables:
    double t(t) ;
        t:units = "days since 2000-01-01" ;
    float v(t, x) ;
        v:_FillValue = -1.f ;
        v:_ChunkSizes = 2, 3 ;
        v:valid_range = 0.f, 1.e20f ;
    short packed(x) ;
        packed:scale_factor = 0.5 ;
    uint64 big(x) ;
    char letters(x) ;

// global attributes:
        :title = "made by \"ncgen\"" ;
        :levels = 1, 2, 3 ;
        :bytes = 1b, -1b ;
data:
 t = 1, 2, 3 ;
 v = 0.5, 1.5, 2.5, 3.5, _, _, _, _, 8, 9, 10, 11 ;
 packed = 1, -2, 3, -4 ;
 big = 0, 1, 2, 18446744073709551615 ;
 letters = "abcd" ;

group: g {
  dimensions:
    y = 2 ;
  variables:
    int w(y, x) ;
  data:
   w = 1, 2, 3, 4, 5, 6, 7, 8 ;
}
}
"""


def test_a_dataset_of_an_old_ncgen_is_read(tmp_path: Path) -> None:
    """Debian's netcdf-c 4.9.0: keys in upper case, and <U1 for text."""
    (tmp_path / "f.cdl").write_text(CDL)
    url = f"file://{tmp_path}/d#mode=nczarr,file"
    subprocess.run(["ncgen", "-4", "-lb", "-o", url, str(tmp_path / "f.cdl")], check=True)
    dumped = subprocess.run(["ncdump", "-h", url], check=True, capture_output=True, text=True)
    fs = mount_tree(str(tmp_path / "d"))
    shown = header_lines(read(fs, "datasets/d/d.cdl").decode())
    fs.close()
    assert shown == header_lines(dumped.stdout)
    with nczfs.open(url) as dataset:
        assert dataset.tree().header.format == "nczarr-L2U"
    values = np.array([0.5, 1.5, 2.5, 3.5, -1, -1, -1, -1, 8, 9, 10, 11], "f4").reshape(3, 4)
    check(
        tmp_path / "d",
        {
            "t": np.array([1.0, 2.0, 3.0]),
            "v": values,
            "packed": np.array([1, -2, 3, -4], "i2"),
            "big": np.array([0, 1, 2, 2**64 - 1], "u8"),
            "letters": np.array(list("abcd"), "S1"),
            "g/w": np.arange(1, 9, dtype="i4").reshape(2, 4),
        },
    )


def test_pure_zarr_of_netcdf_c_is_read(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/d#mode=zarr,file"
    with netCDF4.Dataset(url, "w") as dataset:
        dataset.createDimension("x", 4)
        dataset.createVariable("v", "i4", ("x",), zlib=True)[:] = [1, 2, 3, 4]
        dataset.title = "pure"
    with nczfs.open(url) as ours:
        assert ours.tree().header.format == "zarr2"
        assert ours.attrs["title"] == "pure"
        assert ours.variables["v"].dimensions == ("x",)
    check(tmp_path / "d", {"v": np.array([1, 2, 3, 4], "i4")})


# -- tensorstore -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "compressor",
    [
        None,
        {"id": "zlib", "level": 1},
        {"id": "gzip", "level": 1},
        {"id": "bz2", "level": 1},
        {"id": "zstd", "level": 1},
        {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1},
    ],
    ids=lambda compressor: compressor["id"] if compressor else "none",
)
@pytest.mark.parametrize(
    ("typestr", "order", "separator"), [("<f4", "C", "."), (">i2", "F", "/"), ("|b1", "C", "/")]
)
def test_an_array_of_tensorstore_is_read(
    compressor: dict[str, Any] | None, typestr: str, order: str, separator: str, tmp_path: Path
) -> None:
    metadata = {
        "shape": [7, 9],
        "chunks": [3, 4],
        "dtype": typestr,
        "compressor": compressor,
        "filters": None,
        "fill_value": None,
        "order": order,
        "dimension_separator": separator,
    }
    made = tensorstore.open(
        {
            "driver": "zarr",
            "kvstore": {"driver": "file", "path": f"{tmp_path}/d/"},
            "metadata": metadata,
            "create": True,
        }
    ).result()
    made[:5] = np.arange(45).reshape(5, 9).astype(made.dtype.numpy_dtype)
    expected = np.asarray(made.read().result()).astype(np.dtype(typestr).newbyteorder("="))
    check(tmp_path / "d", {"": expected})
