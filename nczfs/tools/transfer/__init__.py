"""Copies of datasets, and conversion from and to netCDF files and CDL."""
