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
    TENSORSTORE,
    XARRAY,
    Rule,
)

NETCDF = (*NEW_NETCDF, *OLD_NETCDF)

# -- what is not written: by others, it is not tried -----------------------------------------------

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
    Rule(None, (GDAL,), ("complex",), "Invalid fill_value"),
    # netcdf-c 4.10.1: one variable or attribute that it does not understand fails the dataset.
    Rule(None, (NC,), ("booleans", "halves", "complex"), "NetCDF: NCZarr error"),
    # netcdf-c 4.9.0
    Rule(None, (NC_OLD,), ("booleans", "halves", "complex", "bytes", "unicode"), "SIGSEGV"),
    Rule(None, (NC_OLD,), ("strings",), "SIGSEGV"),
    *OUR_REFUSALS,
)

# -- what is read differently ----------------------------------------------------------------------

ANY_JSON_TEXT = r"attribute \w*:(number|version|word|list|quotes|document): "

DIFFERENCES = (
    # The writer's doing: every reader sees it.
    Rule((GDAL,), None, ("small-numbers",), "type of i1: i2"),
    Rule((NCGEN,), None, ("numbers",), "values of f[48]_awkward: nan 0.0"),
    Rule((XARRAY,), None, ("times",), "(type|values|fill value) of vM8_s: "),
    Rule((XARRAY,), (NCZFS,), ("times",), "(units|calendar): not of the case"),
    Rule(NETCDF, (NCZFS,), ("number-attributes",), r"0\.333333\)?, not"),  # %lg
    Rule((GDAL,), (NCZFS,), ("mixed-attributes",), "largest: "),
    Rule((NCCOPY,), (NCZFS,), ("missing",), "fill value of .*NONE"),
    Rule((NC_ZARR,), (NCZFS,), ("strings", "unicode"), "(type|values) of .*: S128"),
    Rule(NEW_NETCDF, (NCZFS,), ("bytes",), "(type|fill value) of vS3: "),
    Rule((NC,), (NCZFS,), ("unicode",), "type of vU3: str"),
    Rule(NEW_NETCDF, (NCZFS,), ("json-texts",), ANY_JSON_TEXT),
    Rule(OLD_NETCDF, (NCZFS,), ("json-texts",), "document: "),
    # GDAL
    Rule(None, (GDAL,), ("small-numbers",), "type of i1: i2"),
    Rule(None, (GDAL,), ("booleans",), "type of v: u1"),
    Rule(None, (GDAL,), ("halves",), "type of vf2: f4"),
    Rule(None, (GDAL,), ("characters", "bytes", "unicode"), "type of .*: str"),
    # netcdf-c 4.10.1
    Rule(None, (NC,), ("bytes",), "(type|fill value) of vS3: "),
    *OUR_DIFFERENCES,
)
