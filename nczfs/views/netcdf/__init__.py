"""Groups as netCDF files: what they show, and the bytes of the two formats."""
