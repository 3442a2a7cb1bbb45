"""What is known of programs that read and write Zarr v3, in Markdown for docs/zarr-v3.md."""

from __future__ import annotations

from tests.interop.zarr3.known import (
    DIFFERENCES,
    NOT_TRIED,
    READERS_REFUSE,
    WRITERS_REFUSE,
    Rule,
)


def table() -> str:
    """Each rule once, with the program and its words."""
    rows = [["program", "what", "in its own words"], ["---"] * 3]
    for rule in (*WRITERS_REFUSE, *READERS_REFUSE):
        add(rows, rule, f"refuses {rule.what}", f"`{plain(rule.words)}`")
    for rule in NOT_TRIED:
        add(rows, rule, rule.what, f"`{plain(rule.words)}`")
    for rule in DIFFERENCES:
        add(rows, rule, rule.what, "–")
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def add(rows: list[list[str]], rule: Rule, what: str, words: str) -> None:
    row = [rule.writer or rule.reader or "", what, words]
    if row not in rows:
        rows.append(row)


def plain(pattern: str) -> str:
    """The words that a regular expression stands for, in a cell of a table."""
    return pattern.replace(".*", "…").replace("|", " / ").replace("`", "'").strip(": ")


if __name__ == "__main__":
    print(table(), end="")
