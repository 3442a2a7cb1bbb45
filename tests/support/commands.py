"""Commands of ``nczfs`` in the process of the test: half a second less than in one of their own."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from pathlib import Path

from nczfs.cli.main import main


def printed(*words: str | Path) -> str:
    """What a command prints on standard output. It must succeed."""
    return printed_bytes(*words).decode()


def printed_bytes(*words: str | Path) -> bytes:
    """What a command writes to standard output. It must succeed."""
    with redirect_stdout(io.TextIOWrapper(io.BytesIO(), "utf-8")) as output:
        status = main([str(word) for word in words])
        output.flush()
        data = output.buffer.getvalue()
    assert status == 0, words
    return data
