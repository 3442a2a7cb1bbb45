"""What of nczfs's writing is refused or read differently, and what nczfs refuses to write."""

from __future__ import annotations

from tests.interop.matrix.rules import (
    GDAL,
    NC,
    NC_OLD,
    NCZFS,
    PYTHON,
    TENSORSTORE,
    XARRAY,
    ZARR,
    Rule,
)

L3 = "nczfs nczarr-L3"
L2L = "nczfs nczarr-L2l"
L2U = "nczfs nczarr-L2U"
L1 = "nczfs nczarr-L1"
ZARR2 = "nczfs zarr2"
LATE = (L3, L2L)
EARLY = (L2U, L1)
NCZARR = (*LATE, *EARLY)
ALL = (*NCZARR, ZARR2)

WE_REFUSE = (
    Rule(NCZARR, None, ("booleans",), "has no type bool; store it as ubyte"),
    Rule(NCZARR, None, ("halves",), "has no type float16; store it as float"),
    Rule(NCZARR, None, ("complex",), "has no type complex64; store it as two variables"),
    Rule(NCZARR, None, ("times",), r"has no type datetime64\[s\]; store it as int64"),
    Rule(NCZARR, None, ("unicode",), "has no type <U3; store it as string"),
    Rule(EARLY, None, ("unlimited",), r"has no unlimited dimensions \(time\)"),
    Rule(EARLY, None, ("strings", "bytes"), "has no strings; use the format nczarr-L3"),
    Rule(EARLY, None, ("text-lists",), "this layout has no lists of strings"),
)

OUR_REFUSALS = (
    # zarr-python, and xarray with it: netcdf-c's types of characters.
    Rule(LATE, PYTHON, ("characters",), "No Zarr data type found .* '>S1'"),
    Rule(EARLY, PYTHON, ("characters",), "When changing to a larger dtype"),
    # GDAL
    Rule(ALL, (GDAL,), ("bz2",), "Decompressor bz2 not handled"),
    Rule(ALL, (GDAL,), ("shuffle-zlib",), "Filter shuffle not handled"),
    Rule(EARLY, (GDAL,), ("characters",), "has not expected size after filters"),
    Rule((ZARR2,), (GDAL,), ("strings",), r"unsupported format for dtype: \|O"),
    Rule((ZARR2,), (GDAL,), ("times",), "unsupported format for dtype: <M8"),
    # netcdf-c 4.10.1
    Rule(EARLY, (NC,), ("characters",), "NetCDF: NCZarr error"),  # <U1
    Rule((ZARR2,), (NC,), ("strings", "unicode", "times"), "NetCDF: NCZarr error"),
    Rule((*EARLY, ZARR2), (NC,), ("mixed-attributes",), "Numeric conversion not representable"),
    # netcdf-c 4.9.0
    Rule((*LATE, ZARR2), (NC_OLD,), ("characters",), "SIGSEGV"),
    Rule(EARLY, (NC_OLD,), ("characters",), "NetCDF: Invalid argument"),  # also of its own
    Rule((*EARLY, ZARR2), (NC_OLD,), ("ranks",), "SIGSEGV"),  # the scalar; also of its own
    Rule((ZARR2,), (NC_OLD,), ("times",), "SIGSEGV"),
    Rule((*LATE, ZARR2), (NC_OLD,), ("missing",), "_FillValue type mismatch"),
    Rule((*LATE, ZARR2), (NC_OLD,), ("mixed-attributes",), "Numeric conversion not representable"),
    Rule((*LATE, ZARR2), (NC_OLD,), ("text-lists",), "NetCDF: Invalid argument"),
    # tensorstore
    Rule(ALL, (TENSORSTORE,), ("shuffle-zlib",), "filters are not supported"),
    Rule(LATE, (TENSORSTORE,), ("characters", "strings", "bytes"), "Expected .* base64"),
    Rule(EARLY, (TENSORSTORE,), ("characters",), "Unsupported zarr dtype: .<U1"),
    Rule((ZARR2,), (TENSORSTORE,), ("characters", "bytes"), "cannot reshape array of size 0"),
    Rule((ZARR2,), (TENSORSTORE,), ("strings",), r"Unsupported zarr dtype: .\|O"),
    Rule((ZARR2,), (TENSORSTORE,), ("unicode",), "Unsupported zarr dtype: .<U3"),
    Rule((ZARR2,), (TENSORSTORE,), ("times",), "Unsupported zarr dtype: .<M8"),
)

SCALAR = "(dimensions|unlimited|shape) of r0: |variable r0: not there"

OUR_DIFFERENCES = (
    # NCZarr's scalar is an array of one element for those who do not know NCZarr.
    Rule((L3,), (NC_OLD,), ("ranks",), SCALAR),
    Rule((L2L,), (NC_OLD,), ("ranks",), SCALAR),
    Rule(EARLY, (NC,), ("ranks",), SCALAR),
    Rule(NCZARR, (ZARR, XARRAY, GDAL, TENSORSTORE), ("ranks",), SCALAR),
    Rule((ZARR2,), (NC,), ("ranks",), "variable r0: not there"),
    # The types of attributes, and NaN, are NCZarr's: others see JSON.
    Rule(NCZARR, PYTHON, ("infinite-attributes",), "many: .*'NaN', 'Infinity'"),
    Rule(EARLY, (NC,), ("number-attributes", "infinite-attributes"), "type of attribute"),
    Rule(
        LATE, (NC_OLD,), ("number-attributes", "infinite-attributes", "groups"), "type of attribute"
    ),
    # Strings are bytes of fixed length.
    Rule(LATE, PYTHON, ("strings",), "type of .*: S128"),
    Rule(LATE, (NCZFS,), ("bytes",), "type of vS3: str"),
    # netcdf-c 4.9.3 and later reads the early layouts as plain Zarr.
    Rule((L2U,), (NC,), None, "_NCZARR_ATTR: not of the case"),
    # netcdf-c 4.10.1 and plain Zarr
    Rule((ZARR2,), (NC,), ("characters",), "type of words?: str"),
    Rule((ZARR2,), (NC,), ("text-lists",), r'several: .\["one","two"\]'),
    # netcdf-c 4.9.0 reads the late layouts as plain Zarr.
    Rule(LATE, (NC_OLD,), ("unlimited",), "unlimited of "),
    Rule((*LATE, ZARR2), (NC_OLD,), ("groups",), "shape of outer/"),
    Rule(ALL, (NC_OLD,), ("zlib", "shuffle-zlib", "blosc", "zstd", "bz2"), "values of v: "),
    # GDAL
    Rule(ALL, (GDAL,), ("infinite-attributes",), "many: .*'NaN', 'Infinity'"),
    Rule(ALL, (GDAL,), ("mixed-attributes",), "largest: .*e.19"),
    Rule(ALL, (GDAL,), ("missing",), "(fill value|values) of largest: .*9223372036854775807"),
)
