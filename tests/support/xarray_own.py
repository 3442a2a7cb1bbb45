"""xarray's own tests of its engine zarr, of what it writes, read by the engine nczfs.

    python -m pytest -c /dev/null --rootdir . tests/support/xarray_own.py

Run apart from other tests: xarray's need markers and fixtures of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import xarray as xr
from xarray.tests import conftest, test_backends
from xarray.tests.test_backends import default_zarr_format  # noqa: F401 - a fixture

use_dask = conftest.use_dask  # a fixture

# What they ask of the engine is an argument of zarr-python's, its objects, or a way to write.
OTHERS = (
    "test_load_async",
    "test_compressor_encoding",
    "test_hidden_zarr_keys",
    "test_dimension_names",
    "test_shard_encoding_with_dask",
    "test_zarr_fill_value_setting",
    "test_zarr_fill_value_in_encoding_on_read",
    "test_non_existent_store",
    "test_cache_members",
    "test_roundtrip_timedelta_data_via_dtype",
)
OF_WRITING = ("append", "region", "write", "to_zarr", "mode_", "open_zarr")
NAMES = [name for name in dir(test_backends.TestZarrDirectoryStore) if name.startswith("test_")]
ASIDE = {name: None for name in NAMES if name in OTHERS or any(w in name for w in OF_WRITING)}


class _Reading(test_backends.TestZarrDirectoryStore):
    @contextmanager
    def open(self, path: Any, **options: Any) -> Iterator[xr.Dataset]:
        own = options.pop("backend_kwargs", None) or {}
        given = {name: own[name] for name in own if name == "overwrite_encoded_chunks"}
        options.pop("consolidated", None)
        with xr.open_dataset(path, engine="nczfs", backend_kwargs=given, **options) as dataset:
            yield dataset

    @contextmanager
    def roundtrip(
        self,
        data: Any,
        save_kwargs: Any = None,
        open_kwargs: Any = None,
        allow_cleanup_failure: bool = False,
    ) -> Iterator[xr.Dataset]:
        with self.create_zarr_target() as place:
            self.save(data, place, **(save_kwargs or {}))  # type: ignore[no-untyped-call]
            with self.open(place, **(open_kwargs or {})) as dataset:
                yield dataset


TestReading = type("TestReading", (_Reading,), ASIDE)
