"""Commands of ``nczfs`` in the process of the test: half a second less than in one of their own."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from pathlib import Path

from nczfs.cli.main import main


def printed(*words: str | Path) -> str:
    """What a command prints on standard output. It must succeed."""
    with redirect_stdout(io.TextIOWrapper(io.BytesIO(), "utf-8")) as output:
        status = main([str(word) for word in words])
        output.flush()
        text = output.buffer.getvalue().decode()
    assert status == 0, words
    return text
