"""CDL, the text form of netCDF: printed as ncdump does, read as ncgen does."""
