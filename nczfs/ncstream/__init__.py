"""ncstream, the messages of netcdf-java and of CDM Remote: headers and data, written and read."""
