"""The table of programs in docs/netcdf.md, made from the report of a run of the tests.

    scripts/netcdf-table

runs them, the long form too, and writes it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from xml.etree import ElementTree

from tests.interop.netcdf_programs.program import FORMATS, REPOSITORY, Program
from tests.interop.netcdf_programs.table import PROGRAMS

PAGE = REPOSITORY / "docs/netcdf.md"
HEAD = ("program", "version", *FORMATS, "changes values", "remarks")
TABLE = re.compile(r"^\| program \| version \|.*\n(?:\|.*\n)+", re.MULTILINE)
YES, NO = "yes", "–"


def cells(program: Program) -> list[str]:
    """A row of the table, without the version: what the tests of a program ask of it."""
    tried = (*(form in program.formats for form in FORMATS), program.edit is not None)
    return [program.name, *(YES if each else NO for each in tried), program.remarks]


def rows_of(page: str) -> list[list[str]]:
    """The cells of the rows of the table."""
    found = TABLE.search(page)
    assert found is not None, "no table of programs"
    lines = found[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def table(versions: Mapping[str, str]) -> str:
    """The table, with the versions of the programs by their names."""
    lines = [HEAD, ["---"] * len(HEAD)]
    for program in PROGRAMS:
        name, *tried, remarks = cells(program)
        lines.append([name, versions[name], *tried, remarks])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def versions_of(report: Path) -> dict[str, str]:
    """The versions of the programs that a report of JUnit tells of.

    A test that failed, or a row without one, ends the program.
    """
    found: dict[str, str] = {}
    tried: set[tuple[str, str]] = set()
    for case in ElementTree.parse(report).iter("testcase"):
        told = {each.get("name"): each.get("value", "") for each in case.iter("property")}
        if case.find("failure") is not None or case.find("error") is not None:
            sys.exit(f"{case.get('name')} has failed")
        if "program" in told:
            found[told["program"]] = told["version"]
            tried.add((told["program"], told["what"]))
    missing = sorted(_promised(PROGRAMS) - tried)
    if missing:
        sys.exit(f"not tried: {missing}")
    return found


def _promised(programs: Iterable[Program]) -> set[tuple[str, str]]:
    return {
        (program.name, what)
        for program in programs
        for form in program.formats
        for what in (form, *([f"edits {form}"] if program.edit else []))
    }


if __name__ == "__main__":
    text = PAGE.read_text("utf-8")
    made = table(versions_of(Path(sys.argv[1])))
    PAGE.write_text(TABLE.sub(lambda _: made, text), "utf-8")
