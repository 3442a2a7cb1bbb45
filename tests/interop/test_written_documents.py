"""Other programs open the metadata that are written here, and find in them what was meant."""

from __future__ import annotations

import subprocess
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest
import xarray
import zarr

from nczfs.cdl.printer import header
from nczfs.formats.base import FormatOptions, MetadataFormat, Node
from nczfs.formats.registry import FORMATS
from nczfs.model.declaration import ElementType
from nczfs.model.dtypes import CODE_OF_NC_TYPE, DEFAULT_FILL, NcType
from nczfs.model.hierarchy import (
    ArrayDescription,
    Attribute,
    CodecSpec,
    Dimension,
    GroupHeader,
    Variable,
)
from nczfs.testing.documents import DictDocuments, documents_in, read_group
from tests.support.cdl import header_lines

ZLIB = (CodecSpec("shuffle"), CodecSpec("zlib", {"level": 4}))
CHECKED = (*ZLIB, CodecSpec("fletcher32"))

NUMBERS = tuple(
    Attribute(f"n_{code}", nc_type, (1, 2))
    for nc_type, code in CODE_OF_NC_TYPE.items()
    if not code.startswith("f")
)
FLOATS = (
    Attribute("f", NcType.FLOAT, (float(np.float32(0.1)), float("nan"))),
    Attribute("d", NcType.DOUBLE, (1.0, 0.1, 1e300, float("-inf"))),
    Attribute("whole", NcType.DOUBLE, (2.0,)),
)
TEXTS = (
    Attribute("units", NcType.CHAR, "°C"),
    Attribute("looks", NcType.CHAR, "12"),
    Attribute("list", NcType.CHAR, "[1,2]"),
    Attribute("word", NcType.CHAR, "true"),
    Attribute("lines", NcType.CHAR, 'a\n\t"b"\\'),
)
STRINGS = (
    Attribute("one", NcType.STRING, ("solo",)),
    Attribute("many", NcType.STRING, ("é", "12", "{a}")),
)


class Written:
    """A dataset of documents alone, below a directory.

    Parameters
    ----------
    unlimited : whether the layout has unlimited dimensions.
    """

    def __init__(self, place: Path, name: str, *, unlimited: bool = False) -> None:
        self.place = place
        self.format: MetadataFormat = FORMATS.named(name, FormatOptions())
        self.time = Dimension("time", 4, unlimited)
        self.lat = Dimension("lat", 3)
        self.own = Dimension("gd", 2, group="g")

    def write(self, node: Node) -> None:
        for key, data in self.format.write_node(node, DictDocuments({})):
            file = self.place / key
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)

    def variable(
        self,
        path: str,
        wanted: ElementType,
        dimensions: tuple[Dimension, ...],
        *,
        fill: object = None,
        attributes: tuple[Attribute, ...] = (),
        codecs: tuple[CodecSpec, ...] = (),
    ) -> Variable:
        stored = self.format.stored_type(wanted, byte_order=None, string_bytes=None)
        chain = self.format.codec_chain((*stored.filters, *codecs), stored.dtype)
        shape = tuple(d.size for d in dimensions)
        array = ArrayDescription(shape, shape, stored.dtype, fill, chain)
        return Variable(path, path, self.format.name, array, dimensions, attributes)

    def typed(self) -> Iterator[Variable]:
        """A variable of each number type."""
        for nc_type, code in CODE_OF_NC_TYPE.items():
            yield self.variable(f"v_{code}", nc_type, (self.lat,), fill=DEFAULT_FILL[nc_type])

    def hierarchy(self, variables: tuple[Variable, ...], attributes: tuple[Attribute, ...]) -> None:
        """A root with two dimensions, a group with one, and the variables."""
        name = self.format.name
        is_pure = name == "zarr2"
        top = tuple(v.path for v in variables if "/" not in v.path)
        inner = tuple(v.name for v in variables if "/" in v.path)
        declared = () if is_pure else (self.time, self.lat)
        self.write(GroupHeader("", name, declared, attributes, top, ("g",)))
        below = () if is_pure else (self.own,)
        self.write(GroupHeader("g", name, below, (), inner, ()))
        for variable in variables:
            self.write(variable)


def described(group: Any) -> dict[str, Any]:
    """What netCDF4-python shows of a group."""
    found: dict[str, Any] = {
        "dimensions": {n: (len(d), d.isunlimited()) for n, d in group.dimensions.items()},
        "attributes": plain_attributes(group),
        "variables": {
            name: (str(v.dtype), v.dimensions, v.shape, plain_attributes(v))
            for name, v in group.variables.items()
        },
    }
    return found | {"groups": {name: described(inner) for name, inner in group.groups.items()}}


def plain_attributes(holder: Any) -> dict[str, tuple[Any, str | None]]:
    found = {}
    for name in holder.ncattrs():
        value = holder.getncattr(name)
        dtype = str(value.dtype) if hasattr(value, "dtype") else None
        found[name] = (value.tolist() if hasattr(value, "tolist") else value, dtype)
    return found


def of_model(attributes: tuple[Attribute, ...]) -> dict[str, tuple[Any, str | None]]:
    """The same of attributes of the model."""
    found: dict[str, tuple[Any, str | None]] = {}
    for attribute in attributes:
        value: Any = attribute.value
        if isinstance(value, tuple):
            value = value[0] if len(value) == 1 else list(value)
        code = CODE_OF_NC_TYPE.get(attribute.type)
        dtype = str(np.dtype(code)) if code else None
        if attribute.type is NcType.FLOAT:
            value = np.array(value, "f4").tolist()
        found[attribute.name] = (value, dtype)
    return found


def test_netcdf_c_finds_in_l3_what_was_written(tmp_path: Path) -> None:
    written = Written(tmp_path / "d", "nczarr-L3", unlimited=True)
    time, lat, own = written.time, written.lat, written.own
    attributes = (*TEXTS, *NUMBERS, *FLOATS, *STRINGS)
    variables = (
        *written.typed(),
        written.variable("t", NcType.FLOAT, (time, lat), attributes=attributes, codecs=ZLIB),
        written.variable("c", NcType.CHAR, (lat,), fill=b"x"),
        written.variable("s", NcType.STRING, (lat,), fill=b""),
        written.variable("scalar", NcType.DOUBLE, (), fill=1.5),
        written.variable("g/x", NcType.SHORT, (own, lat), fill=-1, codecs=CHECKED),
    )
    written.hierarchy(variables, attributes)
    with netCDF4.Dataset(f"file://{tmp_path}/d#mode=nczarr,file") as dataset:
        found = described(dataset)
        assert dataset["t"].filters()["zlib"]
        assert dataset["g/x"].filters()["fletcher32"]
        unwritten = {name: np.ma.getdata(dataset[name][...]) for name in ("c", "scalar", "g/x")}
    assert found["dimensions"] == {"time": (4, True), "lat": (3, False)}
    assert repr(found["attributes"]) == repr(of_model(attributes))
    assert repr(found["variables"]["t"]) == repr(
        ("float32", ("time", "lat"), (4, 3), of_model(attributes))
    )
    assert {name: found["variables"][name][:3] for name in ("c", "s", "scalar")} == {
        "c": ("|S1", ("lat",), (3,)),
        "s": ("<class 'str'>", ("lat",), (3,)),
        "scalar": ("float64", (), ()),
    }
    assert [found["variables"][f"v_{code}"][0] for code in CODE_OF_NC_TYPE.values()] == [
        str(np.dtype(code)) for code in CODE_OF_NC_TYPE.values()
    ]
    assert found["groups"]["g"]["dimensions"] == {"gd": (2, False)}
    assert found["groups"]["g"]["variables"]["x"][:3] == ("int16", ("gd", "lat"), (2, 3))
    assert unwritten["c"].tolist() == [b"x"] * 3
    assert unwritten["scalar"].tolist() == 1.5
    assert unwritten["g/x"].tolist() == [[-1] * 3] * 2


@pytest.mark.parametrize("value", [{"a": [1, {}]}, [1, "a"], [], None, True])
def test_json_and_attributes_without_values_leave_an_l3_dataset_open(
    tmp_path: Path, value: Any
) -> None:
    written = Written(tmp_path / "d", "nczarr-L3")
    odd = (Attribute("j", NcType.JSON, value), Attribute("none", NcType.INT, ()))
    written.hierarchy((written.variable("v", NcType.INT, (written.lat,), attributes=odd),), odd)
    with netCDF4.Dataset(f"file://{tmp_path}/d#mode=nczarr,file") as dataset:
        assert dataset.ncattrs() == ["j", "none"]
        assert dataset["v"].none == ""


def test_netcdf_c_finds_in_pure_zarr_what_was_written(tmp_path: Path) -> None:
    written = Written(tmp_path / "d", "zarr2")
    time, lat = written.time, written.lat
    whole = (*TEXTS, Attribute("i", NcType.INT, (7,)), Attribute("d", NcType.DOUBLE, (1.0, 0.1)))
    variables = (
        *written.typed(),
        written.variable("t", NcType.FLOAT, (time, lat), attributes=whole, codecs=ZLIB),
        written.variable("g/x", NcType.SHORT, (written.own,), fill=-1, codecs=CHECKED),
    )
    written.hierarchy(variables, (*whole, Attribute("none", NcType.INT, ())))
    with netCDF4.Dataset(f"file://{tmp_path}/d#mode=zarr,file") as dataset:
        found = described(dataset)
    assert found["dimensions"] == {"lat": (3, False), "time": (4, False)}
    assert found["attributes"] == of_model(whole) | {"none": ("", None)}
    assert found["variables"]["t"] == ("float32", ("time", "lat"), (4, 3), of_model(whole))
    assert found["groups"]["g"]["variables"]["x"][:3] == ("int16", ("gd",), (2,))


KINDS: dict[str, tuple[ElementType, object]] = {
    "bool": (np.dtype(bool), True),
    "half": (np.dtype("f2"), 0.5),
    "complex": (np.dtype("c8"), complex(1, float("nan"))),
    "date": (np.dtype("M8[s]"), np.datetime64("NaT", "s")),
    "span": (np.dtype("m8[ns]"), np.timedelta64(5, "ns")),
    "wide": (np.dtype("U3"), "é漢"),
    "fixed": (np.dtype("S3"), b"ab"),
    "char": (NcType.CHAR, b"x"),
    "text": (NcType.STRING, "é"),
    "raw": (np.dtype("V2"), b"ab"),
    "fields": (np.dtype([("a", "<i2"), ("b", "<f4")]), np.array((1, 2.5), "<i2,<f4")[()]),
    "big": (np.dtype(">f8"), float("inf")),
}


@pytest.mark.parametrize("kind", KINDS)
def test_zarr_python_has_the_type_and_the_fill_value_that_was_written(
    tmp_path: Path, kind: str
) -> None:
    wanted, fill = KINDS[kind]
    written = Written(tmp_path / "d", "zarr2")
    variable = written.variable("v", wanted, (written.lat,), fill=fill)
    written.hierarchy((variable,), TEXTS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some types have no v3 specification
        found = zarr.open_group(tmp_path / "d", mode="r", zarr_format=2)
        array = found["v"]
        assert isinstance(array, zarr.Array)
        values = np.asarray(array[...])
    assert dict(found.attrs) == {a.name: a.value for a in TEXTS}
    if variable.array.dtype.vlen is not None:
        assert values.tolist() == [fill] * 3
        return
    stored = variable.array.dtype.stored
    assert values.dtype == stored
    expected = np.full(3, fill, stored) if kind != "raw" else np.array([fill] * 3, stored)
    assert values.tobytes() == expected.tobytes()


def test_zarr_python_decodes_by_the_codecs_that_were_written(tmp_path: Path) -> None:
    written = Written(tmp_path / "d", "zarr2")
    codecs = (CodecSpec("delta"), *CHECKED)
    variable = written.variable("v", NcType.INT, (written.time,), fill=0, codecs=codecs)
    written.hierarchy((variable,), ())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numcodecs' filters have no v3 specification
        array = zarr.open_array(tmp_path / "d" / "v", mode="r+", zarr_format=2)
        array[...] = np.arange(4, dtype="i4")
        again = zarr.open_array(tmp_path / "d" / "v", mode="r", zarr_format=2)
        assert np.asarray(again[...]).tolist() == [0, 1, 2, 3]


def test_xarray_has_the_names_of_dimensions_and_scalars(tmp_path: Path) -> None:
    written = Written(tmp_path / "d", "zarr2")
    time, lat = written.time, written.lat
    attributes = (Attribute("units", NcType.CHAR, "K"), Attribute("n", NcType.DOUBLE, (1.0, 2.5)))
    variables = (
        written.variable("t", NcType.FLOAT, (time, lat), fill=-1.0, attributes=attributes),
        written.variable("scalar", NcType.INT, (), fill=7),
    )
    written.hierarchy(variables, attributes)
    with xarray.open_zarr(tmp_path / "d", consolidated=False, zarr_format=2, chunks=None) as found:
        assert dict(found.sizes) == {"time": 4, "lat": 3}
        assert found["t"].dims == ("time", "lat")
        assert found["t"].attrs == {"units": "K", "n": [1.0, 2.5]}
        assert found["scalar"].dims == ()
        assert np.isnan(found["t"].values).all()
        assert found.attrs == {"units": "K", "n": [1.0, 2.5]}


@pytest.mark.parametrize("name", ["nczarr-L2U", "nczarr-L1"])
def test_netcdf_c_4_9_0_prints_of_the_early_layouts_what_was_written(
    tmp_path: Path, name: str
) -> None:
    # No scalars: 4.9.0 ends with a segmentation fault on those that it has written itself.
    written = Written(tmp_path / "d", name)
    time, lat, own = written.time, written.lat, written.own
    attributes = (*TEXTS, *NUMBERS, *FLOATS, Attribute("j", NcType.JSON, [1, {"a": "b"}]))
    one = Attribute("one", NcType.STRING, ("solo",))
    empty = Attribute("none", NcType.INT, ())
    variables = (
        *(replace(v, attributes=()) for v in written.typed()),
        written.variable("t", NcType.FLOAT, (time, lat), attributes=(*attributes, one, empty)),
        written.variable("c", NcType.CHAR, (lat,), fill=b"x"),
        written.variable("g/x", NcType.SHORT, (own, lat), fill=-1),
    )
    written.hierarchy(variables, attributes)
    printed = subprocess.run(
        ["ncdump", "-h", f"file://{tmp_path}/d#mode=nczarr,file"],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    ).stdout
    ours = header(read_group(documents_in(tmp_path / "d")), name="d")
    assert header_lines(printed) == header_lines(ours)
