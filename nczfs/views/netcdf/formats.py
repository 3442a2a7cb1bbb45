"""The files that a mount shows groups as: netCDF files and ncstreams."""

from __future__ import annotations

import os
from collections.abc import Collection
from functools import partial

from nczfs.views.elements import ElementsOf
from nczfs.views.layout import Layout
from nczfs.views.netcdf.classic.layout import classic_layout
from nczfs.views.netcdf.content import FileContent
from nczfs.views.netcdf.hdf5.layout import hdf5_layout
from nczfs.views.netcdf.hdf5.templates import Templates
from nczfs.views.netcdf.kinds import CLASSIC, NCSTREAM, NETCDF4
from nczfs.views.netcdf.version import NetcdfFormat

TEMPLATES = "netcdf-templates"


class NetcdfFiles:
    """The formats of the netCDF files of a mount, and what they keep.

    Parameters
    ----------
    record_dimensions : names of dimensions that are unlimited in the files.
    cache_dir : where templates outlive the mount; None: nowhere.
    memory_bytes : that making a file may take.
    """

    def __init__(
        self,
        record_dimensions: Collection[str] = (),
        cache_dir: str | None = None,
        memory_bytes: int | None = None,
    ) -> None:
        self.record_dimensions = frozenset(record_dimensions)
        directory = cache_dir and os.path.join(cache_dir, TEMPLATES)
        self._templates = Templates(directory, memory_bytes)
        self.formats = (
            NetcdfFormat(
                NETCDF4,
                is_of_variables=True,
                is_written=True,
                lay_out=partial(hdf5_layout, templates=self._templates),
            ),
            NetcdfFormat(CLASSIC, is_of_variables=False, is_written=True, lay_out=classic_layout),
            NetcdfFormat(NCSTREAM, is_of_variables=False, is_written=False, lay_out=_stream_layout),
        )

    def close(self) -> None:
        """End what is being made."""
        self._templates.close()


def _stream_layout(content: FileContent, elements: ElementsOf) -> Layout:
    from nczfs.views.ncstream.layout import ncstream_layout  # a mount starts without

    return ncstream_layout(content, elements)
