"""Modules of codecs are imported by whichever thread is the first to need them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from nczfs import codecs

PARTS = sorted(
    path.stem
    for path in Path(codecs.__path__[0]).glob("*.py")
    if re.search(r"^(from|import) numcodecs", path.read_text("utf-8"), re.MULTILINE)
)
SCRIPT = """
import sys
import threading
from importlib import import_module

import nczfs.codecs
import numpy

inside, begun = threading.Event(), threading.Event()

class Pause:
    def find_spec(self, name, path=None, target=None):
        if name.startswith("numcodecs.") and not inside.is_set():
            inside.set()
            begun.wait(60)
            other.join(0.3)

def second():
    inside.wait(60)
    begun.set()
    import_module(f"nczfs.codecs.{sys.argv[1]}")

sys.meta_path.insert(0, Pause())
failed = []
threading.excepthook = lambda caught: failed.append(caught.exc_value)
other = threading.Thread(target=second)
other.start()
import numcodecs
other.join()
sys.exit(f"{failed}" if failed else 0)
"""


@pytest.mark.parametrize("part", PARTS)
def test_a_thread_may_import_a_part_while_another_one_imports_numcodecs(part: str) -> None:
    """The first read of a mount failed, if it came just as the mount loaded the rest of itself.

    Of two threads, of which one imports a package that imports a module of it, and the other one
    that module, one gets a module that is not complete (CPython, "concurrent circular import").
    """
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, part], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
