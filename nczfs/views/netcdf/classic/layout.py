"""The layout of a classic file."""

from __future__ import annotations

from nczfs.views.elements import ElementsOf
from nczfs.views.layout import Layout
from nczfs.views.netcdf.cells import cell_form, text_cells
from nczfs.views.netcdf.classic.plan import VariableExtent, planned
from nczfs.views.netcdf.content import FileContent, Texts
from nczfs.views.records import Records
from nczfs.views.segments import Literal, LiteralRow, Padding, Run, Segment


def classic_layout(content: FileContent, elements: ElementsOf) -> Layout:
    """Return the layout of a file in the oldest version of the format that can hold it.

    Parameters
    ----------
    content : fitted for the classic kind.
    elements : returns the elements of a variable of the dataset.

    Raises
    ------
    Unsupported : no version can hold it.

    Notes
    -----
    The zeros behind the header are part of it, so a program that makes the header longer there is
    refused. Those behind values, which netcdf-c fills, may be written without effect.
    """
    plan = planned(content)
    segments: list[Segment] = [Literal(plan.header.ljust(plan.data_begin, b"\0"))]
    members: list[tuple[int, Run | LiteralRow]] = []
    for place in plan.places:
        values = _values(place, elements)
        if place.is_record:
            members.append((place.begin - plan.records_begin, values))
        else:
            segments += [values, Padding(-place.size % 4)]
    if members:
        segments.append(Records(tuple(members), plan.record_bytes, plan.record_count))
    return Layout(segments)


def _values(place: VariableExtent, elements: ElementsOf) -> Run | LiteralRow:
    """Return all values of a fixed variable, or those of the first record."""
    values = place.variable.values
    if isinstance(values, Texts):
        return LiteralRow(text_cells(values.values, place.variable.shape[-1]), width=place.size)
    source = elements(values.variable)
    form = cell_form(values.variable.array.dtype.native, values.cell.newbyteorder(">"))
    return Run(source, form, 0, place.size // form.width, is_compared=True)
