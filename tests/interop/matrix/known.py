"""What programs refuse, and what they read differently, each in the program's own words.

The tables are exact both ways: what is not in them must not happen, and what is in them must. A
program that has learnt something makes a test fail; its entry is then to be removed.
"""

from __future__ import annotations

from tests.interop.matrix.known_ours import OUR_DIFFERENCES, OUR_REFUSALS, WE_REFUSE
from tests.interop.matrix.rules import (
    GDAL,
    NC,
    NC_OLD,
    NC_ZARR,
    NCCOPY,
    NCGEN,
    NCZFS,
    NEW_NETCDF,
    OLD_NETCDF,
    PYTHON,
    TENSORSTORE,
    XARRAY,
    ZARR,
    Rule,
)

NETCDF = (*NEW_NETCDF, *OLD_NETCDF)
PLAIN = (ZARR, XARRAY, GDAL, TENSORSTORE)
ATTRIBUTE_READERS = (NC, NC_OLD, ZARR, XARRAY, GDAL, NCZFS)

# -- what is not written ---------------------------------------------------------------------------

WRITERS_REFUSE = (
    Rule(NETCDF, None, ("booleans", "halves", "times"), "Illegal primitive data type"),
    Rule(NETCDF, None, ("complex",), "complex datatypes .* are only supported with"),
    Rule((NCGEN,), None, ("ranks",), "NetCDF: Invalid argument"),  # _Storage of a scalar
    Rule(OLD_NETCDF, None, ("unlimited",), "NetCDF: Invalid dimension size"),
    Rule(OLD_NETCDF, None, ("strings", "bytes", "unicode"), "NetCDF: Invalid argument"),
    Rule(OLD_NETCDF, None, ("unicode-attributes", "text-lists"), "NetCDF: NCZarr error"),
    Rule((NCGEN,), None, ("blosc", "zstd", "bz2"), "filter not available"),
    Rule((GDAL,), None, ("unlimited",), "SIGFPE"),
    Rule((GDAL,), None, ("characters", "strings", "unicode"), "String arrays of unlimited size"),
    Rule((GDAL,), None, ("shuffle-zlib",), "filter shuffle not available"),
    Rule((GDAL,), None, ("bz2",), "Compressor/decompressor for BZ2 not available"),
    Rule((GDAL,), None, ("booleans", "halves", "bytes"), "array with same name already exists"),
    Rule((GDAL,), None, ("complex",), "Invalid fill_value"),
    Rule((GDAL,), None, ("times",), "unsupported format for dtype: <M8"),
    Rule((TENSORSTORE,), None, ("strings",), r"Unsupported zarr dtype: .\|O"),
    Rule((TENSORSTORE,), None, ("times",), "Unsupported zarr dtype: .<M8"),
    Rule((TENSORSTORE,), None, ("unicode",), "Unsupported zarr dtype: .<U3"),
    Rule((TENSORSTORE,), None, ("shuffle-zlib",), "filters are not supported"),
    *WE_REFUSE,
)

# -- what is not read ------------------------------------------------------------------------------

REFUSALS = (
    # zarr-python, and xarray with it.
    Rule(NETCDF, PYTHON, ("small-numbers",), "No Zarr data type found .* '<[iu]1'"),
    Rule(NEW_NETCDF, PYTHON, ("characters",), "No Zarr data type found .* '>S1'"),
    # <U1 with one byte each, where numpy has four.
    Rule(OLD_NETCDF, PYTHON, ("characters",), "When changing to a larger dtype"),
    Rule(NEW_NETCDF, PYTHON, ("bytes",), "Invalid base64-encoded string"),
    Rule((GDAL, TENSORSTORE), (XARRAY,), None, "missing the attribute `_ARRAY_DIMENSIONS`"),
    Rule((NCCOPY,), (XARRAY,), ("ranks",), r"zip\(\) argument 2 is longer"),
    # GDAL
    Rule((*NEW_NETCDF, *PYTHON, TENSORSTORE), (GDAL,), ("bz2",), "Decompressor bz2 not handled"),
    Rule((*NEW_NETCDF, *PYTHON), (GDAL,), ("shuffle-zlib",), "Filter shuffle not handled"),
    Rule(None, (GDAL,), ("complex",), "Invalid fill_value"),
    Rule(OLD_NETCDF, (GDAL,), ("characters",), "has not expected size after filters"),
    Rule(PYTHON, (GDAL,), ("strings",), r"unsupported format for dtype: \|O"),
    Rule((ZARR,), (GDAL,), ("times",), "unsupported format for dtype: <M8"),
    # netcdf-c 4.10.1: one variable or attribute that it does not understand fails the dataset.
    Rule(None, (NC,), ("booleans", "halves", "complex"), "NetCDF: NCZarr error"),
    Rule(OLD_NETCDF, (NC,), ("characters",), "NetCDF: NCZarr error"),
    Rule(PYTHON, (NC,), ("strings", "unicode"), "NetCDF: NCZarr error"),
    Rule((ZARR,), (NC,), ("times",), "NetCDF: NCZarr error"),
    Rule(
        (NC_ZARR, *OLD_NETCDF, *PYTHON),
        (NC,),
        ("mixed-attributes",),
        "Numeric conversion not representable",
    ),
    Rule((GDAL,), (NC,), ("missing",), "SIGABRT"),  # "fill_value": "18446744073709551615"
    # netcdf-c 4.9.0
    Rule(None, (NC_OLD,), ("booleans", "halves", "complex", "bytes", "unicode"), "SIGSEGV"),
    Rule(None, (NC_OLD,), ("strings",), "SIGSEGV"),
    Rule((*NEW_NETCDF, *PLAIN), (NC_OLD,), ("characters",), "SIGSEGV"),
    Rule(OLD_NETCDF, (NC_OLD,), ("characters",), "NetCDF: Invalid argument"),
    Rule((ZARR,), (NC_OLD,), ("times",), "SIGSEGV"),
    Rule((NCCOPY, *PLAIN), (NC_OLD,), ("ranks",), "SIGSEGV"),  # the scalar
    Rule(NEW_NETCDF, (NC_OLD,), ("missing",), "_FillValue type mismatch"),
    Rule((GDAL,), (NC_OLD,), ("missing",), "Numeric conversion not representable"),
    Rule(
        (*NEW_NETCDF, *PYTHON),
        (NC_OLD,),
        ("mixed-attributes",),
        "Numeric conversion not representable",
    ),
    Rule((*NEW_NETCDF, *PYTHON, GDAL), (NC_OLD,), ("text-lists",), "NetCDF: Invalid argument"),
    # tensorstore: the fill value of text must be base64 of its whole length.
    Rule(NEW_NETCDF, (TENSORSTORE,), ("strings", "bytes", "unicode"), "Expected 128 base64"),
    Rule((*NEW_NETCDF, ZARR), (TENSORSTORE,), ("characters",), "Expected 1 base64"),
    Rule(OLD_NETCDF, (TENSORSTORE,), ("characters",), "Unsupported zarr dtype: .<U1"),
    Rule(PYTHON, (TENSORSTORE,), ("bytes",), "Expected 3 base64"),
    Rule(PYTHON, (TENSORSTORE,), ("strings",), r"Unsupported zarr dtype: .\|O"),
    Rule(PYTHON, (TENSORSTORE,), ("unicode",), "Unsupported zarr dtype: .<U3"),
    Rule((ZARR,), (TENSORSTORE,), ("times",), "Unsupported zarr dtype: .<M8"),
    Rule((*NEW_NETCDF, *PYTHON), (TENSORSTORE,), ("shuffle-zlib",), "filters are not supported"),
    # Its Python gives bytes as an array of |S0.
    Rule((TENSORSTORE,), (TENSORSTORE,), ("characters", "bytes"), "cannot reshape array of size 0"),
    Rule((XARRAY,), (TENSORSTORE,), ("characters",), "cannot reshape array of size 0"),
    Rule((GDAL,), (TENSORSTORE,), ("missing",), "Expected 64-bit unsigned integer"),
    Rule((NCGEN,), (TENSORSTORE,), ("missing",), "Invalid JSON"),  # a bare NaN
    *OUR_REFUSALS,
)

# -- what is read differently ----------------------------------------------------------------------

SCALAR = "(dimensions|unlimited|shape) of r0: |variable r0: not there"
ANY_JSON_TEXT = r"attribute \w*:(number|version|word|list|quotes|document): "

DIFFERENCES = (
    # The writer's doing: every reader sees it.
    Rule((GDAL,), None, ("small-numbers",), "type of i1: i2"),
    Rule((NCGEN,), None, ("numbers",), "values of f[48]_awkward: nan 0.0"),
    Rule((XARRAY,), None, ("times",), "(type|values|fill value) of vM8_s: "),
    Rule((XARRAY,), ATTRIBUTE_READERS, ("times",), "(units|calendar): not of the case"),
    Rule(NETCDF, ATTRIBUTE_READERS, ("number-attributes",), r"0\.333333\)?, not"),  # %lg
    Rule((GDAL,), ATTRIBUTE_READERS, ("mixed-attributes",), "largest: "),
    Rule((NCCOPY,), (ZARR, GDAL, TENSORSTORE, NCZFS), ("missing",), "fill value of .*NONE"),
    Rule(NEW_NETCDF, (*PYTHON, NC_OLD, GDAL, TENSORSTORE), ("ranks",), SCALAR),
    Rule((NC_ZARR,), (NC,), ("ranks",), SCALAR),
    Rule((NCCOPY,), (NC, ZARR, GDAL, TENSORSTORE), ("ranks",), SCALAR),
    Rule(NEW_NETCDF, PYTHON, ("strings", "unicode"), "(type|values) of .*: S128"),
    Rule((NC_ZARR,), (NCZFS,), ("strings", "unicode"), "(type|values) of .*: S128"),
    Rule(NEW_NETCDF, (NCZFS,), ("bytes",), "(type|fill value) of vS3: "),
    Rule(NEW_NETCDF, ATTRIBUTE_READERS, ("json-texts",), ANY_JSON_TEXT),
    Rule(OLD_NETCDF, ATTRIBUTE_READERS, ("json-texts",), "document: "),
    Rule(NEW_NETCDF, PYTHON, ("infinite-attributes",), "many: .*'NaN', 'Infinity'"),
    # "elementsize": 0 is no shuffling at all for numcodecs: wrong numbers without an error.
    Rule(NEW_NETCDF, PYTHON, ("shuffle-zlib",), "values of v: "),
    # GDAL
    Rule(None, (GDAL,), ("small-numbers",), "type of i1: i2"),
    Rule(None, (GDAL,), ("booleans",), "type of v: u1"),
    Rule(None, (GDAL,), ("halves",), "type of vf2: f4"),
    Rule(None, (GDAL,), ("characters", "bytes", "unicode"), "type of .*: str"),
    Rule(NEW_NETCDF, (GDAL,), ("bytes",), "fill value of vS3: 'l'"),
    Rule(
        (*NEW_NETCDF, NCGEN, *PYTHON, TENSORSTORE),
        (GDAL,),
        ("missing",),
        "(fill value|values) of largest: .*9223372036854775807",
    ),
    Rule((*NETCDF, *PYTHON, GDAL), (GDAL,), ("infinite-attributes",), "many: .*'NaN', 'Infinity'"),
    Rule((*NETCDF, *PYTHON, GDAL), (GDAL,), ("mixed-attributes",), "largest: .*e.19"),
    # netcdf-c 4.10.1
    Rule(OLD_NETCDF, (NC,), None, "_NCZARR_ATTR: not of the case"),
    Rule(OLD_NETCDF, (NC,), ("number-attributes", "infinite-attributes"), "type of attribute"),
    Rule(OLD_NETCDF, (NC,), ("groups",), "dimensions of outer/.*_Anonymous_Dim_"),
    Rule(PLAIN, (NC,), ("ranks",), "variable r0: not there"),
    Rule((ZARR, XARRAY, TENSORSTORE), (NC, NC_OLD), ("missing",), "fill value of .*NONE"),
    Rule((NC_ZARR, *PLAIN), (NC,), ("characters",), "type of words?: str"),
    Rule(None, (NC,), ("bytes",), "(type|fill value) of vS3: "),
    Rule(NEW_NETCDF, (NC,), ("unicode",), "type of vU3: str"),
    Rule((NC,), (NCZFS,), ("unicode",), "type of vU3: str"),
    Rule((NC_ZARR, ZARR, XARRAY, GDAL), (NC,), ("text-lists",), r'several: .\["one","two"\]'),
    Rule(PYTHON, (NC, NC_OLD), ("unicode-attributes",), "Gru00f6u00dfe"),  # JSON's \u escapes
    # netcdf-c 4.9.0
    Rule(
        (NC,),
        (NC_OLD,),
        ("number-attributes", "infinite-attributes", "groups"),
        "type of attribute",
    ),
    Rule((NC,), (NC_OLD,), ("unlimited",), "unlimited of "),
    Rule((*NEW_NETCDF, *PYTHON), (NC_OLD,), ("groups",), "shape of outer/"),
    # Debian's has no filters, and says nothing: wrong numbers without an error.
    Rule(
        (*NEW_NETCDF, *PLAIN),
        (NC_OLD,),
        ("zlib", "shuffle-zlib", "blosc", "zstd", "bz2"),
        "values of v: ",
    ),
    *OUR_DIFFERENCES,
)
