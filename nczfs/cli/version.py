"""``nczfs version``: prints the installed version."""

from __future__ import annotations

import argparse
from importlib.metadata import version

from nczfs.cli.command import Command, CommandLine


def _arguments(parser: argparse.ArgumentParser) -> None:
    """Add no arguments."""


def run(request: CommandLine) -> int:
    """Print the version."""
    print(f"nczfs {version('nczfs')}")
    return 0


COMMAND = Command("version", "print the version", _arguments, run, ("nczfs version",))
