"""What differs between two datasets, or netCDF files: structure, metadata and values."""
