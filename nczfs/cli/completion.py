"""``nczfs completion``: a script with which a shell completes command lines of nczfs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping

from nczfs.cli.command import Command, CommandLine, parser_of

SHELLS = ("bash", "zsh", "fish")

_FILES = {"FILE", "URL", "ARCHIVE", "URL/VARIABLE"}
_DIRECTORIES = {"DIR", "MOUNTPOINT"}


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", metavar="SHELL", choices=SHELLS, help=", ".join(SHELLS))


def script(shell: str, commands: Mapping[str, Command]) -> str:
    """Return the script for a shell. Completing needs neither Python nor nczfs."""
    import shtab

    return str(shtab.complete(_whole_parser(commands), shell))


def _whole_parser(commands: Mapping[str, Command]) -> argparse.ArgumentParser:
    """Join the parsers of all commands to one, for completion only."""
    whole = argparse.ArgumentParser("nczfs", description="object stores as files")
    whole.add_argument("--version", action="store_true", help="print the version")
    places = whole.add_subparsers(metavar="COMMAND")
    for command in commands.values():
        parser = places.add_parser(
            command.name,
            aliases=command.aliases,
            help=command.summary,
            description=command.summary,
            parents=[parser_of(command)],
            add_help=False,
        )
        for action in parser._actions:
            _complete(action)
    places.add_parser("help", help="show what a command takes").add_argument(
        "command", choices=list(commands)
    )
    return whole


def _complete(action: argparse.Action) -> None:
    """Declare what completes an action: files, directories, or one of a few words."""
    import shtab

    words = action.metavar if isinstance(action.metavar, str) else ""
    if words in _FILES:
        action.complete = shtab.FILE  # type: ignore[attr-defined]
    elif words in _DIRECTORIES:
        action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
    elif "|" in words:
        action.choices = words.split("|")


def command(commands: Callable[[], Mapping[str, Command]]) -> Command:
    """Return the completion command for the given commands."""

    def run(request: CommandLine) -> int:
        sys.stdout.write(script(request.arguments.shell, commands()))
        return 0

    return Command(
        "completion",
        "print a completion script for a shell",
        _arguments,
        run,
        ("nczfs completion bash",),
    )
