"""``nczfs version``: prints the installed version."""

from __future__ import annotations

import argparse

from nczfs.cli.command import Command, CommandLine
from nczfs.version import VERSION


def _arguments(parser: argparse.ArgumentParser) -> None:
    """Add no arguments."""


def run(request: CommandLine) -> int:
    """Print the version."""
    print(f"nczfs {VERSION}")
    return 0


COMMAND = Command("version", "print the version", _arguments, run, ("nczfs version",))
