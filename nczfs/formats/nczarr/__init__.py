"""NCZarr, the netCDF-4 data model upon Zarr version 2, in its four layouts."""
