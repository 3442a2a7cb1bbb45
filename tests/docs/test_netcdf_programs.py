"""The table of programs in docs/netcdf.md says what the tests try."""

from __future__ import annotations

from tests.interop.netcdf_programs.page import PAGE, cells, rows_of
from tests.interop.netcdf_programs.table import PROGRAMS


def test_every_program_has_a_row_that_says_what_is_tested() -> None:
    rows = rows_of(PAGE.read_text("utf-8"))
    assert [[name, *tried] for name, _, *tried in rows] == [cells(each) for each in PROGRAMS]


def test_every_row_has_a_version() -> None:
    rows = rows_of(PAGE.read_text("utf-8"))
    assert [name for name, version, *_ in rows if not version] == []
