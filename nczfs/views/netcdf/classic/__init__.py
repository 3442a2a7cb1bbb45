"""The classic format of netCDF files: a header, fixed variables, interleaved records."""
