"""The Zarr Object Model: a hierarchy of one version of Zarr as plain data, without values.

Here are its nodes, JSON, flat form, and metadata documents; ``nczfs.zom`` compares and stores them.
"""
