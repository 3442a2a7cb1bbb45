"""Work that other processes do, piece by piece, on a cluster of Dask.

`window` keeps pieces under way, tries those again that fail, and collects the outcomes; `dask`
connects to a cluster or starts one; `held` keeps open in a worker what its pieces share. Each kind
of work has a module of its own (`copying`), with the function that does a piece in a worker.
"""
