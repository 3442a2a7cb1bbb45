"""Datasets in xarray: ``xarray.open_dataset(url, engine="nczfs")``, and `OpenDataset.to_xarray`."""
