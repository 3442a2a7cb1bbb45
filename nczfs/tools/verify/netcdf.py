"""The checksums of the variables of a netCDF file, for comparison with those of a dataset."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import netCDF4
import numpy as np

from nczfs.buffers import Values
from nczfs.errors import CorruptStore, Unsupported
from nczfs.model.grid import Slices
from nczfs.tools.progress import Progress
from nczfs.tools.verify.digest import (
    BLOCK_BYTES_MAX,
    DigestElements,
    digest_of_elements,
)
from nczfs.tools.verify.digests import DigestJob

_USER_TYPES = (netCDF4.CompoundType, netCDF4.VLType, netCDF4.EnumType)


@contextmanager
def file_jobs(
    path: str | os.PathLike[str], block_bytes_max: int = BLOCK_BYTES_MAX
) -> Iterator[list[DigestJob]]:
    """Return the checksums to compute for a netCDF file, sorted by path.

    Those of variables with user-defined types raise Unsupported.

    Raises
    ------
    CorruptStore : netCDF cannot open it.
    """
    with _translated(str(path)), warnings.catch_warnings(record=True) as left_out:
        warnings.simplefilter("always")
        dataset = netCDF4.Dataset(path)
    try:
        dataset.set_auto_maskandscale(False)
        dataset.set_auto_chartostring(False)
        status = os.stat(path)
        incarnation = f"{status.st_ino} {status.st_size} {status.st_mtime_ns}"
        jobs = [
            DigestJob(
                name,
                int(variable.size),
                lambda: incarnation,
                _digester(str(path), name, variable, block_bytes_max),
            )
            for name, variable in _variables(dataset, "")
        ]
        jobs += [_refusal(str(path), str(warning.message)) for warning in left_out]
        yield sorted(jobs, key=lambda job: job.path)
    finally:
        dataset.close()


def _variables(group: Any, above: str) -> Iterator[tuple[str, Any]]:
    for name, variable in group.variables.items():
        yield f"{above}/{name}", variable
    for name, child in group.groups.items():
        yield from _variables(child, f"{above}/{name}")


def _refusal(file: str, message: str) -> DigestJob:
    """Return a failing checksum for a variable that netCDF4 skips with only a warning."""

    def digest(_progress: Progress) -> str:
        raise Unsupported(f"{file}: {message.removeprefix('WARNING: ')}")

    return DigestJob("/", 0, str, digest)


def _digester(
    file: str, path: str, variable: Any, block_bytes_max: int
) -> Callable[[Progress], str]:
    def digest(progress: Progress) -> str:
        # A string is a VLType, too, but has no name.
        if isinstance(variable.datatype, _USER_TYPES) and variable.dtype is not str:
            raise Unsupported(
                f"{file}: {path}: the type {variable.datatype.name!r} is "
                "user-defined; there is no checksum for it"
            )
        shape = tuple(variable.shape)
        chunking = variable.chunking()
        chunks = tuple(chunking) if isinstance(chunking, list) else (1,) * len(shape)
        dtype = np.dtype(object if variable.dtype is str else variable.dtype)

        def read(selection: Slices) -> Values:
            with _translated(f"{file}: {path}"):
                return np.asarray(variable[selection or ...], dtype)

        return digest_of_elements(
            DigestElements(shape, dtype, chunks, dtype == "S1", read), block_bytes_max, progress
        )

    return digest


@contextmanager
def _translated(where: str) -> Iterator[None]:
    try:
        yield
    except (OSError, RuntimeError, IndexError) as error:
        raise CorruptStore(f"{where}: {error}") from error
