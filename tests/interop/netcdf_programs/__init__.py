"""Programs that know netCDF and nothing of Zarr, as rows of a table.

`field` has the dataset that they read, `program` says what a row is; `commands`, `scripts`,
`libraries` and `by_hand` have the programs, and `table` puts them in order.
"""
