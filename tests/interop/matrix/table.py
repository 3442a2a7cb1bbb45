"""The matrix in Markdown, as docs/interoperability.md shows it."""

from __future__ import annotations

from collections.abc import Iterable

from tests.interop.matrix.cases import CASES
from tests.interop.matrix.known import DIFFERENCES, REFUSALS, WRITERS_REFUSE
from tests.interop.matrix.readers import READERS
from tests.interop.matrix.rules import Rule
from tests.interop.matrix.writers import OURS


def table() -> str:
    """Reader by reader, what it does not read of each layout that nczfs writes."""
    layouts = [writer.name.removeprefix("nczfs ") for writer in OURS]
    rows = [
        ["", *(f"`{layout}`" for layout in layouts)],
        ["---"] * (len(layouts) + 1),
        ["nczfs does not write", *(unwritten(writer.name) for writer in OURS)],
        *(
            [reader.name, *(cell(writer.name, reader.name) for writer in OURS)]
            for reader in READERS
        ),
    ]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def unwritten(writer: str) -> str:
    return ", ".join(touched(WRITERS_REFUSE, writer, "", known_cases())) or "–"


def cell(writer: str, reader: str) -> str:
    """What a reader refuses of what a layout holds, and what it shows differently."""
    not_written = touched(WRITERS_REFUSE, writer, "", known_cases())
    written = [name for name in known_cases() if name not in not_written]
    refused = touched(REFUSALS, writer, reader, written)
    different = touched(
        DIFFERENCES, writer, reader, [name for name in written if name not in refused]
    )
    if refused == written:
        return "refuses everything"
    everywhere = len(refused) + len(different) == len(written)
    parts = [
        f"refuses {', '.join(refused)}" if refused else "",
        f"differs: {'everywhere' if everywhere else ', '.join(different)}" if different else "",
    ]
    return "; ".join(part for part in parts if part) or "all"


def known_cases() -> list[str]:
    return [case.name for case in CASES]


def touched(rules: Iterable[Rule], writer: str, reader: str, cases: Iterable[str]) -> list[str]:
    found = tuple(rules)
    return [case for case in cases if any(rule.covers(writer, reader, case) for rule in found)]


if __name__ == "__main__":
    print(table(), end="")
