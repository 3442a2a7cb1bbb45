"""CDL as text, brought into a form in which two programs' headers can be compared."""

from __future__ import annotations

import re

_DATA_ENDS = re.compile(r"(group: .*\{|\} // group .*|\})$")
_MADE_UP_NAME = re.compile(r"\b_zdim_(\d+)\b|(?<![\w.])\.zdim_(\d+)\b")

# What `ncdump -s` adds, and what a netCDF library says of itself: no attributes of the dataset.
_NOT_STORED = re.compile(
    r"\w*:(_NCProperties|_Format|_Storage|_ChunkSizes|_Filter|_Codecs|_NoFill|_Endianness)\b"
)


def header_lines(text: str) -> list[str]:
    """The lines of a header, without blanks around them, data, and what depends on the program.

    The name of the dataset, which is that of the file, is left out; comments stay where they tell
    the length of a dimension.
    """
    lines: list[str] = []
    in_data = False
    for raw in text.splitlines()[1:]:
        line = re.sub(r"\s+", " ", raw.strip()).replace(" ;", ";").replace(" = ", "=")
        if line == "data:":
            in_data = True
        elif _DATA_ENDS.match(line):
            in_data = False
        if in_data or not line or line.endswith(" attributes:") or _NOT_STORED.match(line):
            continue
        lines.append(_MADE_UP_NAME.sub(r"_Anonymous_Dim_\1\2", line))
    return lines


def numbers(text: str, variable: str) -> list[float | None]:
    """The values that the data section gives a variable of numbers; None is the fill value."""
    found = re.search(rf"^\s*{re.escape(variable)}\s*=\s*([^;\"]*);", _data(text), re.MULTILINE)
    assert found is not None, f"no data of {variable}"
    words = [word.strip() for word in found[1].split(",")]
    return [None if word == "_" else float(word) for word in words]


def _data(text: str) -> str:
    """What follows the first `data:`; names of attributes stand before it."""
    return text.partition("data:")[2]
