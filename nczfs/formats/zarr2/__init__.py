"""Zarr version 2, as pure Zarr and as xarray write it."""
