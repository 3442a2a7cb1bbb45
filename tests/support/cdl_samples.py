"""Datasets with everything that CDL can say, written by netcdf-c in any of its formats."""

from __future__ import annotations

import warnings
from typing import Any

import netCDF4
import numpy as np

INTEGERS = ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8")


def write_all_types(url: str) -> None:
    """All types, fill values, groups, rows that are wrapped, and texts that need escapes."""
    random = np.random.default_rng(1)
    with warnings.catch_warnings(), netCDF4.Dataset(url, "w") as dataset:
        warnings.simplefilter("ignore")  # netCDF4 says that it will not mask
        for name, size in (("time", None), ("lat", 5), ("lon", 7), ("len", 6), ("big", 400)):
            dataset.createDimension(name, size)
        dataset.createDimension("obs", None)
        values = random.normal(size=(3, 5, 7)).astype("f4") * 1000
        values[0, 0] = -999
        values[1, 1, 1], values[2, 2, 2], values[2, 2, 3] = np.nan, np.inf, -np.inf
        add(dataset, "time", "f8", ("time",), np.array([0.1, 1e10, -1 / 3]))
        add(dataset, "temp", "f4", ("time", "lat", "lon"), values, fill_value=-999.0)
        for code in INTEGERS:
            ends = np.iinfo(code)
            numbers = np.array([0, 1, ends.max, ends.min, 7, 8, 9], code)
            add(dataset, f"e_{code}", code, ("lon",), numbers)
            add(dataset, f"f_{code}", code, ("lon",), numbers, fill_value=numbers[3])
            add(dataset, f"s_{code}", code, (), numbers[1])
        for code in ("f4", "f8"):
            limits = np.finfo(code)
            numbers = np.array([0, 1, -1, limits.max, limits.tiny, np.nan, np.inf], code)
            add(dataset, f"e_{code}", code, ("lon",), numbers)
            add(dataset, f"n_{code}", code, ("lon",), numbers, fill_value=np.nan)
        add(dataset, "never", "i4", ("lat",))
        add(dataset, "no_record", "i4", ("obs",))
        rows = [b"abc", b"", b"a\"b'\\z", b"\t\r\b\f\v\x01", b"full66"]
        add(dataset, "names", "S1", ("lat", "len"), characters(rows, 6))
        add(dataset, "octal", "S1", ("len",), characters([b"\xc3\xa9\x7f"], 6)[0])
        add(dataset, "letter", "S1", (), np.array(b"q", "S1"))
        texts = ["one", "", "tab\tq\"'\\", "é ü", "long " * 20]
        add(dataset, "texts", str, ("lat",), np.array(texts, object))
        add(dataset, "text", str, (), np.array("solo", object))
        words = [[f"word {i} {j} é" for j in range(6)] for i in range(5)]
        add(dataset, "words", str, ("lat", "len"), np.array(words, object))
        add(dataset, "wide", "f8", ("big",), random.normal(size=400))
        add(dataset, "C", "f4", ("lon",), np.array([1, 2.5, np.pi, 1e6, -2, 0, 0]))
        dataset["C"].C_format = "%9.3f"
        dataset.title = "T"
        group = dataset.createGroup("g1")
        group.createDimension("lat", 2)
        add(group, "x", "f8", ("lat", "big"), random.normal(size=(2, 400)))
        add(group, "y", "i4", ("time",), np.array([1, 2, 3]))
        deeper = group.createGroup("deep er")
        deeper.createDimension("z", 3)
        add(deeper, "z", "i4", ("z",), np.array([1, 2, 3]))
        add(deeper, "c", "S1", ("z", "z"), characters([b"abc", b"de", b""], 3))
        add(deeper, "w", "i8", ("z", "z", "lat"), np.arange(18).reshape(3, 3, 2))
        deeper.a = "x"
        dataset.createGroup("empty")


def write_unlimited(url: str) -> None:
    """Variables with several unlimited dimensions, in all places."""
    lengths = {"a": 2, "b": 3, "k": 2, "c": 2}
    with netCDF4.Dataset(url, "w") as dataset:
        for name in lengths:
            dataset.createDimension(name, 2 if name == "k" else None)
        for number, names in enumerate(("ab", "abk", "kb", "akb", "abc", "kabck", "a", "ka")):
            shape = tuple(lengths[name] for name in names)
            values = np.arange(np.prod(shape)).reshape(shape) * 12345678
            add(dataset, f"v{number}", "i4", tuple(names), values)


def copied(source: str, url: str) -> None:
    """A dataset of one group, written again in another format."""
    with (
        warnings.catch_warnings(),
        netCDF4.Dataset(source) as old,
        netCDF4.Dataset(url, "w") as new,
    ):
        warnings.simplefilter("ignore")  # netCDF4 casts its own fill values
        new.setncatts({name: old.getncattr(name) for name in old.ncattrs()})
        for name, dimension in old.dimensions.items():
            new.createDimension(name, None if dimension.isunlimited() else dimension.size)
        for name, variable in old.variables.items():
            variable.set_auto_maskandscale(False)
            attributes = {key: variable.getncattr(key) for key in variable.ncattrs()}
            fill = attributes.pop("_FillValue", None)
            add(new, name, variable.dtype, variable.dimensions, variable[...], fill_value=fill)
            new[name].setncatts(attributes)


def add(
    group: netCDF4.Dataset,
    name: str,
    dtype: Any,
    dimensions: tuple[str, ...],
    values: Any = None,
    fill_value: Any = None,
) -> None:
    variable = group.createVariable(name, dtype, dimensions, fill_value=fill_value)
    variable.set_auto_maskandscale(False)
    variable.set_auto_chartostring(False)
    if values is not None:
        variable[tuple(slice(0, size) for size in np.shape(values)) or ...] = values


def characters(rows: list[bytes], length: int) -> Any:
    """Rows of single characters, as variables of type char hold them."""
    return np.array(rows, f"S{length}").view("S1").reshape(len(rows), length)
