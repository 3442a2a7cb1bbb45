"""NCZarr, the netCDF-4 data model on top of Zarr version 2, in its four layouts."""
