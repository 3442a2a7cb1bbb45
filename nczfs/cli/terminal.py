"""What users read on a terminal: no name or message of others can control it."""

from __future__ import annotations

import sys

from nczfs.model.printing import printable


def complain(program: str, what: Exception | str) -> None:
    """Print an error as one line on stderr."""
    print(f"{program}: {printable(str(what)) or type(what).__name__}", file=sys.stderr)
