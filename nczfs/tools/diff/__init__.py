"""Differences of two datasets or netCDF files: structure, metadata and values."""
