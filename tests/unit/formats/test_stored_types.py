"""Types and codecs of new variables."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from nczfs.errors import Unsupported, UsageError
from nczfs.formats.base import FormatOptions
from nczfs.formats.registry import FORMATS
from nczfs.formats.zarr2.chain import chain_of
from nczfs.model.dtypes import DataType, NcType
from nczfs.model.hierarchy import CodecSpec
from nczfs.model.smallnumbers import SMALL_NUMBERS


def typestr(name: str, wanted: Any, byte_order: str | None = None, size: int | None = None) -> str:
    found = FORMATS.named(name, FormatOptions())
    return found.stored_type(wanted, byte_order=byte_order, string_bytes=size).dtype.typestr


@pytest.mark.parametrize(
    ("name", "wanted", "expected"),
    [
        *[(n, NcType.BYTE, "|i1") for n in ("nczarr-L3", "nczarr-L1", "zarr2")],
        *[(n, NcType.FLOAT, "<f4") for n in ("nczarr-L3", "nczarr-L1", "zarr2")],
        *[(n, np.dtype(">i4"), ">i4") for n in ("nczarr-L3", "nczarr-L1", "zarr2")],
        ("nczarr-L3", NcType.CHAR, ">S1"),
        ("nczarr-L2l", NcType.CHAR, ">S1"),
        ("nczarr-L2U", NcType.CHAR, "<U1"),
        ("nczarr-L1", NcType.CHAR, "<U1"),
        ("zarr2", NcType.CHAR, "|S1"),
        ("nczarr-L3", NcType.STRING, "|S128"),
        ("nczarr-L3", np.dtype("S5"), "|S5"),
        ("zarr2", NcType.STRING, "|O"),
        ("zarr2", np.dtype("O"), "|O"),
        ("zarr2", np.dtype("M8[ns]"), "<M8[ns]"),
        ("zarr2", np.dtype([("a", "<f4"), ("b", "u1", (2,))]), '[["a","<f4"],["b","|u1",[2]]]'),
    ],
)
def test_types_are_spelled_as_each_format_spells_them(
    name: str, wanted: Any, expected: str
) -> None:
    assert typestr(name, wanted) == expected


def test_byte_order_and_string_length_can_be_chosen() -> None:
    assert typestr("nczarr-L3", NcType.INT, ">") == ">i4"
    assert typestr("zarr2", np.dtype("<f8"), ">") == ">f8"
    assert typestr("nczarr-L3", NcType.UBYTE, ">") == "|u1"
    assert typestr("nczarr-L3", NcType.STRING, size=9) == "|S9"
    assert typestr("zarr2", NcType.STRING, size=9) == "|S9"


def test_text_of_early_nczarr_has_one_byte_an_element() -> None:
    found = FORMATS.named("nczarr-L2U", FormatOptions())
    stored = found.stored_type(NcType.CHAR, byte_order=None, string_bytes=None)
    assert stored.dtype.stored == np.dtype("S1")
    assert stored.dtype.nc_type is NcType.CHAR


def test_text_of_variable_length_brings_its_filter() -> None:
    found = FORMATS.named("zarr2", FormatOptions())
    stored = found.stored_type(NcType.STRING, byte_order=None, string_bytes=None)
    assert [codec.name for codec in stored.filters] == ["vlen-utf8"]


@pytest.mark.parametrize("code", ["?", "f2", "c8", "M8[s]", "m8[s]", "U4", "V3", "O", "f4,i2"])
def test_nczarr_refuses_types_that_netcdf_lacks_and_says_what_to_do(code: str) -> None:
    with pytest.raises(Unsupported, match=r"^nczarr-L3 has no type .* or use the format zarr2$"):
        typestr("nczarr-L3", np.dtype(code))


BFLOAT16, INT4 = SMALL_NUMBERS["bfloat16"], SMALL_NUMBERS["int4"]


@pytest.mark.parametrize(
    ("name", "wanted", "message"),
    [
        ("zarr2", BFLOAT16, "Zarr v2 has no type bfloat16; use the format zarr3"),
        ("zarr2", np.dtype([("a", BFLOAT16)]), "Zarr v2 has no type bfloat16; use the format"),
        ("nczarr-L3", BFLOAT16, "type bfloat16; store it as float, or use the format zarr3"),
        ("nczarr-L3", INT4, "type int4; store it as byte, or use the format zarr3"),
        ("nczarr-L1", NcType.STRING, "nczarr-L1 has no strings; use the format nczarr-L3"),
        ("nczarr-L2U", np.dtype("S4"), "nczarr-L2U has no strings; use the format nczarr-L3"),
        ("nczarr-L3", NcType.JSON, "json is a type for attributes only; use string"),
        ("zarr2", NcType.JSON, "json is a type for attributes only; use string"),
        ("zarr2", np.dtype("longdouble"), "has no portable form"),
        ("zarr2", np.dtype([("a", "O")]), "has no portable form"),
        ("zarr2", np.dtype("U"), "has no length"),
        ("zarr2", np.dtype("M8"), "has no unit"),
    ],
)
def test_types_without_a_form_are_refused(name: str, wanted: Any, message: str) -> None:
    with pytest.raises(Unsupported, match=message):
        typestr(name, wanted)


@pytest.mark.parametrize("order", ["<", ">"])
def test_zarr_3_has_the_numbers_of_ml_dtypes(order: str) -> None:
    assert typestr("zarr3", BFLOAT16, order) == "bfloat16"
    assert typestr("zarr3", INT4, order) == "int4"
    record = np.dtype([("a", BFLOAT16), ("b", "i2")])
    assert typestr("zarr3", record, order) == f'[["a","bfloat16"],["b","{order}i2"]]'


def test_strings_of_no_bytes_are_refused() -> None:
    with pytest.raises(UsageError, match="strings of 0 bytes"):
        typestr("nczarr-L3", NcType.STRING, size=0)


F4 = DataType("<f4", np.dtype("<f4"), nc_type=NcType.FLOAT)


def codec(name: str, **configuration: Any) -> CodecSpec:
    return CodecSpec(name, MappingProxyType(configuration))


@pytest.mark.parametrize(
    ("names", "pure", "nczarr"),
    [
        ([], False, False),
        (["shuffle", "zlib"], True, True),
        (["shuffle"], False, True),
        (["zlib", "fletcher32"], False, True),
        (["delta", "blosc"], True, True),
    ],
)
def test_the_compressor_is_what_compresses_or_for_netcdf_c_the_last_one(
    names: list[str], pure: bool, nczarr: bool
) -> None:
    codecs = [codec(name) for name in names]
    for name, expected in (("zarr2", pure), ("nczarr-L3", nczarr)):
        assert FORMATS.named(name, FormatOptions()).codec_chain(codecs, F4).compressed is expected


def test_codecs_learn_the_type_of_what_they_work_on() -> None:
    chain = chain_of(
        [
            codec("fixedscaleoffset", scale=10, offset=0, astype="<i2"),
            codec("delta"),
            codec("shuffle"),
            codec("zlib", level=1),
        ],
        F4,
        order="F",
    )
    scaled, delta, shuffle, zlib = (dict(c.configuration) for c in chain.codecs)
    assert scaled["dtype"] == "<f4"
    assert delta == {"dtype": "<i2"}
    assert shuffle == {"elementsize": 2}
    assert zlib == {"level": 1}
    assert chain.order == "F"


def test_what_was_said_of_a_codec_stays() -> None:
    chain = chain_of([codec("shuffle", elementsize=8), codec("delta", dtype="<f8")], F4)
    assert [dict(c.configuration) for c in chain.codecs] == [{"elementsize": 8}, {"dtype": "<f8"}]
