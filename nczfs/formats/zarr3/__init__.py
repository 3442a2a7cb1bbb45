"""Zarr version 3: one document for each group and array."""
