"""Zarr v3: which program reads which array that another one wrote.

- `elements`: the data types, each with values and fill values.
- `arrays`: an array as its document and its values.
- `cases`: the arrays: pairs of types, codecs, shards, fill values, chunk keys and shapes.
- `programs`: zarr-python, tensorstore, nczfs and its mount. Each writes all arrays into one store,
  and reads those of another.
- `known`: what programs refuse or read differently today, each in its own words.
- `page`: the same as docs/zarr-v3.md shows it.
"""
