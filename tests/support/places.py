"""Stores that tests write to through mounts: a directory, or a bucket."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import zarr

import nczfs
from nczfs.engine.lease.contention import LEASE
from nczfs.tools.verify.findings import Finding
from nczfs.tools.verify.subject import subject_at
from nczfs.tools.verify.verification import Verification
from nczfs.zmap.keys import ROOT, Prefix
from nczfs.zmap.registry import open_store
from tests.support.sample import Values
from tests.support.servers import S3Server

DATASET = "d.zarr"
SHARDED = "sharded.zarr"


class Place:
    """A store, looked at by others than the mount under test.

    Parameters
    ----------
    url_of : the URL of the store ("") or of a key in it.
    """

    def __init__(self, url_of: Callable[[str], str]) -> None:
        self.url_of = url_of

    @property
    def url(self) -> str:
        return self.url_of("")

    def objects(self, below: str = "") -> dict[str, bytes]:
        """All that is stored, by key; `below` is a directory of it."""
        zmap = open_store(self.url_of(below))
        try:
            return {stat.key: bytes(zmap.read(stat.key).data) for stat in zmap.list(ROOT)}
        finally:
            zmap.close()

    def make_dataset(
        self, variables: Mapping[str, tuple[Values, tuple[int, ...]]], attribute: str = "turn"
    ) -> None:
        """Make the dataset `DATASET`, with one attribute, 0.

        Parameters
        ----------
        variables : name to values and shape of the chunks.
        """
        with nczfs.open(self.url_of(DATASET), "w") as root:
            root.attrs[attribute] = 0
            for name, (values, chunks) in variables.items():
                dimensions = [f"{name}{axis}" for axis in range(values.ndim)]
                for dimension, size in zip(dimensions, values.shape, strict=True):
                    root.create_dimension(dimension, size)
                root.create_variable(name, dimensions, data=values, chunks=chunks)

    def make_shards(self, values: Values, chunks: tuple[int, ...], shards: tuple[int, ...]) -> None:
        """Make the dataset `SHARDED` of Zarr v3, with one variable, ``v``."""
        with nczfs.open(self.url_of(SHARDED), "w", format="zarr3") as root:
            dimensions = [f"x{axis}" for axis in range(values.ndim)]
            for dimension, size in zip(dimensions, values.shape, strict=True):
                root.create_dimension(dimension, size)
            root.create_variable("v", dimensions, data=values, chunks=chunks, shards=shards)

    def wait_until_older(self) -> None:
        """Wait until what is stored is older than what is written from now on, as its times say.

        `nczfs recover` puts nothing over what may be newer, and the times of S3 are whole seconds.
        """
        zmap = open_store(self.url)
        try:
            time.sleep(zmap.features.time_resolution_ns / 1e9)
        finally:
            zmap.close()

    def leases(self, dataset: str) -> list[str]:
        """What contenders for the lease of a dataset have left there."""
        zmap = open_store(self.url)
        try:
            return [entry.name for entry in zmap.search(Prefix(f"{dataset}/{LEASE}"))]
        finally:
            zmap.close()

    def values(self, name: str) -> Values:
        """A variable of the dataset, as a new reader of the store finds it."""
        with nczfs.open(self.url_of(DATASET)) as root:
            return np.asarray(root.variables[name][...])

    def variables(self) -> list[str]:
        """The names of the variables of the dataset, as a new reader of the store finds them."""
        with nczfs.open(self.url_of(DATASET)) as root:
            return list(root.variables)

    def values_by_zarr(self, dataset: str, name: str) -> Values:
        """A variable as zarr-python reads it, from a copy of the objects."""
        with TemporaryDirectory() as copy:
            for key, data in self.objects(dataset).items():
                path = Path(copy, key)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
            return np.asarray(zarr.open_array(Path(copy, name), mode="r")[...])

    def findings(self, dataset: str = DATASET) -> list[Finding]:
        """What `nczfs verify` finds in a dataset."""
        with subject_at(self.url_of(dataset)) as subject:
            return list(Verification(subject).run(""))


def directory_at(path: Path) -> Place:
    """A directory, which is made."""
    path.mkdir()
    return Place(lambda key: str(path / key))


def bucket_of(server: S3Server) -> Place:
    """A new bucket."""
    bucket = server.new_bucket()
    return Place(lambda key: server.url(bucket, key))


def requested_place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A new place of the kind that a fixture has for its parameter: "directory", or a server."""
    if request.param == "directory":
        return directory_at(tmp_path / "store")
    return bucket_of(request.getfixturevalue(request.param))
