"""Our reader of CDL beside ncgen: what both make of the same text."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest

from nczfs.cdl.parse import Cdl, parse_cdl
from nczfs.errors import BadMetadata, Unsupported
from nczfs.model.declaration import GroupDeclaration, VariableDeclaration
from nczfs.model.dtypes import CODE_OF_NC_TYPE, NcType
from nczfs.model.hierarchy import Attribute
from tests.support.reference import reference_root

# A template whose words in @ another program replaces, and listings that are no CDL.
REFUSED = re.compile(r"ref_any|ref_ut_(map|mapapi)_(create|meta|data|writemeta|writedata)")


def fixtures() -> list[Path]:
    root = reference_root()
    return sorted((root / "netcdf-c").rglob("*.cdl")) if root else []


def generated(text: str, place: Path) -> netCDF4.Dataset:
    """What ncgen makes of a text."""
    source = place / "in.cdl"
    source.write_bytes(text.encode("utf-8", "surrogateescape"))
    subprocess.run(["ncgen", "-4", "-o", str(place / "out.nc"), str(source)], check=True)
    return netCDF4.Dataset(place / "out.nc")


def assert_same(cdl: Cdl, dataset: netCDF4.Dataset) -> None:
    """The same groups, dimensions, variables, attributes and values, in the same order."""
    dataset.set_auto_maskandscale(False)
    dataset.set_auto_chartostring(False)
    compare_group(cdl, cdl.root, dataset, "")


def compare_group(cdl: Cdl, group: GroupDeclaration, dataset: netCDF4.Dataset, prefix: str) -> None:
    assert [(d.name, d.size, d.unlimited or d.size == 0) for d in group.dimensions] == [
        (name, d.size, d.isunlimited()) for name, d in dataset.dimensions.items()
    ]
    compare_attributes(group.attributes, dataset)
    assert [v.name for v in group.variables] == list(dataset.variables)
    for variable in group.variables:
        compare_variable(cdl, variable, dataset.variables[variable.name], prefix)
    assert [child.name for child in group.groups] == list(dataset.groups)
    for child in group.groups:
        compare_group(cdl, child, dataset.groups[child.name], f"{prefix}{child.name}/")


def compare_variable(
    cdl: Cdl, variable: VariableDeclaration, stored: netCDF4.Variable[Any], prefix: str
) -> None:
    assert isinstance(variable.type, NcType)
    assert (variable.type is NcType.STRING) == (stored.dtype is str)
    code = CODE_OF_NC_TYPE.get(variable.type, "S1")
    if stored.dtype is not str:
        assert stored.dtype.newbyteorder("=") == np.dtype(code)
    assert tuple(name.rpartition("/")[2] for name in variable.dimensions) == stored.dimensions
    compare_attributes(variable.attributes, stored)
    if variable.byte_order is not None:
        assert stored.endian() == {"<": "little", ">": "big"}[variable.byte_order]
    if variable.chunk_shape is not None:
        chunks = stored.chunking()
        expected = list(stored.shape) if chunks == "contiguous" else chunks
        assert list(variable.chunk_shape) == expected
    data = cdl.data.get(f"{prefix}{variable.name}")
    if data is not None:
        values = data.array
        assert values.shape == stored.shape
        found = np.asarray(stored[...]).astype(values.dtype)
        np.testing.assert_array_equal(values, found, strict=True)


def compare_attributes(
    attributes: tuple[Attribute, ...], holder: netCDF4.Dataset | netCDF4.Variable[Any]
) -> None:
    # A fill value comes first in a file, wherever it stands in the text.
    assert sorted(a.name for a in attributes) == sorted(holder.ncattrs())
    for attribute in attributes:
        found = holder.getncattr(attribute.name)
        value = attribute.value
        if attribute.type is NcType.CHAR:
            assert isinstance(value, str)
            found = found.decode() if isinstance(found, bytes) else found  # of _FillValue
            assert (value.rstrip("\0") or value) == found
        elif attribute.type is NcType.STRING:
            assert isinstance(value, tuple)
            assert list(value) == (found if isinstance(found, list) else [found])
        else:
            numbers = np.atleast_1d(np.asarray(found))
            expected = np.array(value, CODE_OF_NC_TYPE[attribute.type])
            np.testing.assert_array_equal(numbers, expected, strict=True)


@pytest.mark.parametrize("path", fixtures(), ids=lambda path: path.stem)
def test_texts_of_netcdf_c_are_read_as_ncgen_reads_them(path: Path, tmp_path: Path) -> None:
    text = path.read_text()
    if REFUSED.search(path.name):
        with pytest.raises(BadMetadata, match=rf"{path.name}:\d+: "):
            parse_cdl(text, path.name)
        with pytest.raises(subprocess.CalledProcessError):
            generated(text, tmp_path)
        return
    # ncgen takes no variable of the name of a type, and its ncdump prints one.
    text = text.replace(" byte(", " byte_(").replace("byte:", "byte_:").replace("byte =", "byte_ =")
    with generated(text, tmp_path) as dataset:
        assert_same(parse_cdl(text, path.name), dataset)


TEXT = r"""
/* Comments of both kinds, */ netcdf a\ name {   // anywhere
:first = 1 ;
types:
dimensions:
    time = UNLIMITED , n = 4, k = 2 ; ragged = UNLIMITED ;
variables:
    byte b(n) ; char c(n), c0, rows(k, n) ; short s(n) ; int i(n), j ; long l ; float f(n) ;
    real r ; double d(n) ; ubyte ub(n) ; ushort us(n) ; uint ui(n) ; int64 i64(n) ;
    uint64 u64(n) ; string st(n), st0 ;
    int two(time, ragged), three(time, k, ragged), inner(k, ragged, n), plain(time, n) ;
    char lines(k, ragged) ;
    int x\ y(n), \1a, é, data, with.dot-and+plus@at ;
    b:i = 1, -2 ; b:u = 3000000000 ; b:neg = -3000000000 ; b:big = 5000000000 ;
    b:huge = 18446744073709551615ULL ; b:b = 1b, 255b ; b:s = 2s ; b:l = 5L ; b:ll = 6LL ;
    b:ub = 7UB ; b:us = 8US ; b:ul = 9UL ; b:ull = 10ULL ; b:uu = 4U ; b:octal = 010 ;
    b:f = 1.5f, 2 ; b:d = 1., .5, 1e3, -1.5E-3 ; b:mixed = 1.1f, 2.5 ; b:e = 1e3f ; b:dl = 1.5d ;
    b:nans = NaN, Infinity, -Infinity ; b:nanfs = NaNf, -Infinityf ;
    b:widest = 1b, 2s, 3 ; b:later = 1, 2U ; b:earlier = 2U, 1 ;
    b:letter = 'a' ; b:letters = 'a', '\n', '\101' ;
    b:text = "with \"quotes\", \\ \t and \101" ; b:joined = "abc", "def" ; b:none = "" ; b:empty = ;
    string b:one = "x" ; string b:several = "é", "", "c" ; int b:cut = 1.7, -1.7 ;
    short b:narrowed = 65535LL, 3 ; char b:characters = "ab", 'c', "d" ; double b:whole = 1, 2 ;
    x\ y:with\ blank = 1 ; data :keyword = 2 ; é:ü = "é" ;
    s:_FillValue = -1s ; f:_FillValue = 9 ; rows:_FillValue = "." ; d:_FillValue = NaN ;
    i:_Storage = "chunked" ; i:_ChunkSizes = 2 ; i:_Endianness = "big" ; i:_DeflateLevel = 3 ;
    i:_Shuffle = "true" ; i:_Fletcher32 = "true" ; j:_Storage = "contiguous" ; l:_NoFill = "true" ;
    string :words = "a", "b" ; int :number = 3.9 ; :_Format = "netCDF-4" ;
data:
    b = 255, -128, 'a', 1.9 ;
    c = "ab", 'c' ; c0 = 'x' ; rows = "ab", "c" ;
    s = 1, _, 3 ; i = 010, +3, -4, 1e1 ; j = 5 ; l = 7 ; r = 1.5 ;
    f = 1.1, NaN, _, -Infinityf ; d = 1.1f, 2, _, .5e-3 ;
    ub = 0, 255, -1, _ ; us = 65535, _ ; ui = 4294967295, _ ; i64 = -9223372036854775808, 1 ;
    u64 = 18446744073709551615, 18446744073709551614, _, 1 ;
    st = "a\tb", "", _, "é" ; st0 = "solo" ;
    two = {1, 2, 3}, {4} ; three = {1, 2}, {3}, {4, 5, 6, 7} ; plain = 1, 2, 3, 4, 5 ;
    inner = {1, 2, 3, 4, 5}, {6} ; lines = {"abcde"}, {"fgh"} ;
    x\ y = 1, 2 ; \1a = 3 ; é = 4 ; data = 1 ; data = 5 ; with.dot-and+plus@at = 6 ;
group: g1 {
    dimensions: n = 3 ; own = 2 ; time = 5 ;
    variables:
        int shadowed(n), above(k), full(/k, own), own(own) ;
        shadowed:a = 1 ;
        :g = "group" ;
    data:
        shadowed = 1, 2, 3 ; full = 1, 2, 3, 4 ; own = 7, 8 ;
    group: inner { variables: double v(n, own) ; data: v = 1, 2, 3 ; }
    group: g\ 2 { :only = "attributes" ; }
}
:late = "behind a group" ;
group: h { variables: float v(k) ; data: v = 1, 2 ; /g1/above = 8, 9 ; }
}
"""


def test_everything_that_cdl_has_is_read_as_ncgen_reads_it(tmp_path: Path) -> None:
    with generated(TEXT, tmp_path) as dataset:
        cdl = parse_cdl(TEXT, "in.cdl")
        assert (cdl.name, cdl.format) == ("a name", "netCDF-4")
        assert_same(cdl, dataset)
        assert dataset["i"].filters() == {**dataset["i"].filters(), "shuffle": True, "complevel": 3}


@pytest.mark.parametrize(
    "body",
    [
        "variables: int v(x) ;",
        "dimensions: x = 2 ; x = 3 ;",
        "dimensions: x = ;",
        "dimensions: x = -1 ;",
        "variables: int v ; int v ;",
        "variables: int v",
        "variables: v int ;",
        "variables: int v ; w:a = 1 ;",
        "variables: int v ; v:a = 1, ;",
        'variables: int v ; v:a = 1, "x" ;',
        "variables: int v ; v:a = _ ;",
        "variables: int v ; v:_FillValue = 1, 2 ;",
        'variables: int v ; v:_Shuffle = "yes" ;',
        'variables: int v ; v:_Storage = "tape" ;',
        'variables: int v ; v:_Endianness = "middle" ;',
        'variables: int v ; v:_Filter = "x" ;',
        "data: v = 1 ;",
        "variables: int v ; data: v = x ;",
        "variables: int v ; data: v = 1 2 ;",
        "dimensions: u = UNLIMITED ; k = 2 ; variables: int v(k, u) ; data: v = 1, 2 ;",
        "group: g { } group: g { }",
        "group: g {",
        ":a = 99999999999999999999 ;",
        ':a = "no end ;',
    ],
)
def test_what_ncgen_refuses_is_refused(body: str, tmp_path: Path) -> None:
    text = f"netcdf a {{\n{body}\n}}\n"
    with pytest.raises((BadMetadata, Unsupported), match=r"^in\.cdl:[1-4]: [^\n]+$"):
        parse_cdl(text, "in.cdl")
    (tmp_path / "in.cdl").write_text(text)
    done = subprocess.run(
        ["ncgen", "-4", "-o", tmp_path / "out.nc", tmp_path / "in.cdl"],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode or done.stderr
