"""Datasets from and to netCDF files and CDL: sources that are described, targets that are made."""
