"""The layout of a netCDF-4 file."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from typing import Final

from nczfs.model.hierarchy import Variable
from nczfs.views.elements import ElementSource
from nczfs.views.layout import Layout
from nczfs.views.netcdf.cells import cell_form
from nczfs.views.netcdf.content import Elements, FileContent
from nczfs.views.netcdf.hdf5.template import FileExtent, Template, gaps
from nczfs.views.netcdf.hdf5.templates import Templates
from nczfs.views.segments import FileLiteral, Literal, Padding, Run, Segment

STATUS_BYTES: Final = ((11, 12), (44, 48))
"""Of superblock 2 (HDF5 File Format Specification 3.0, II.A): the flag "open for writing" and the
checksum. HDF5 writes them when it opens a file for writing, and back when it closes it."""


def hdf5_layout(
    content: FileContent,
    elements: Callable[[Variable], ElementSource],
    templates: Templates,
) -> Layout:
    """Return the layout of a netCDF-4 file; blocks while its template is built.

    Parameters
    ----------
    elements : returns the elements of a variable of the dataset, in C order.

    Raises
    ------
    ObjectTooLarge : the file has too many members, or is too large for a file.
    """
    return template_layout(content, elements, templates.find(content))


def template_layout(
    content: FileContent, elements: Callable[[Variable], ElementSource], template: Template
) -> Layout:
    """Return the layout of a netCDF-4 file with a known template."""
    parts = _literals(template) + _runs(content, elements, template)
    parts.sort(key=lambda part: part[0].offset)
    holes = gaps(tuple(place for place, _ in parts), template.size)
    # HDF5 writes whole blocks that contain zeros beside values; they must stay zeros.
    parts += [(hole, Padding(hole.nbytes, is_kept=True)) for hole in holes]
    parts.sort(key=lambda part: part[0].offset)
    return Layout([segment for _, segment in parts])


def _literals(template: Template) -> list[tuple[FileExtent, Segment]]:
    begins = accumulate((place.nbytes for place in template.literals), initial=template.begin)
    found: list[tuple[FileExtent, Segment]] = []
    for place, begin in zip(template.literals, begins, strict=False):
        forgotten = STATUS_BYTES if place.offset == 0 else ()
        segment: Segment
        if isinstance(template.data, bytes):
            segment = Literal(template.data[begin : begin + place.nbytes], forgotten)
        else:
            segment = FileLiteral(template.data, begin, place.nbytes, forgotten)
        found.append((place, segment))
    return found


def _runs(
    content: FileContent, elements: Callable[[Variable], ElementSource], template: Template
) -> list[tuple[FileExtent, Segment]]:
    found: list[tuple[FileExtent, Segment]] = []
    shown = (v.values for v in content.variables() if isinstance(v.values, Elements))
    for values, place in zip(shown, template.runs, strict=True):
        if place.nbytes:
            source = elements(values.variable)
            form = cell_form(source.dtype, values.cell)
            count = place.nbytes // form.width
            found.append((place, Run(source, form, 0, count, is_compared=True)))
    return found
