"""A command, as `main` sees it."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from nczfs.cli.options import Scope
from nczfs.cli.parser import Parser, add_options, given
from nczfs.cli.sources import MountWords, Settings, read_words, resolve
from nczfs.plaindata import frozen


@frozen
class CommandLine:
    """What a user requests of a command.

    Attributes
    ----------
    arguments : the arguments of the command itself.
    settings : the options, wherever they were set.
    words : the contents of ``-o``.
    """

    arguments: argparse.Namespace
    settings: Settings
    words: MountWords


@frozen
class Command:
    """A command of ``nczfs``.

    Attributes
    ----------
    add_arguments : gives a parser the arguments of the command.
    run : carries out a request and returns the exit status.
    examples : command lines that its help shows.
    scopes : which options the command takes.
    aliases : other names of the command.
    short_help : whether ``-h`` prints the help; the command may use it for something else.
    owns_signals : whether the command becomes a daemon, which installs its own handlers.
    trouble_status : the exit status after an error.
    """

    name: str
    summary: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[CommandLine], int]
    examples: tuple[str, ...]
    scopes: frozenset[Scope] = frozenset()
    aliases: tuple[str, ...] = ()
    short_help: bool = True
    owns_signals: bool = False
    trouble_status: int = 1


STORE_SCOPES = frozenset({Scope.STORE, Scope.LOG})
"""Options of commands that look into a store without a mount."""


def settings_for(request: CommandLine, url: str) -> Settings:
    """Return the options of a request for a URL other than its first."""
    arguments = request.arguments
    return resolve(
        given(arguments),
        request.words.options,
        source=url,
        config=getattr(arguments, "config", None),
    )


def parser_of(command: Command) -> Parser:
    """Return the parser of a command line, which also prints the command's help."""
    parser = Parser(
        f"nczfs {command.name}", command.summary, command.examples, short_help=command.short_help
    )
    command.add_arguments(parser)
    # A mount's help lists the options of the log; other commands leave them to --help-store.
    shared = {Scope.STORE} if Scope.MOUNT in command.scopes else STORE_SCOPES
    add_options(parser, command.scopes, shared if Scope.STORE in command.scopes else set())
    return parser


def parse(command: Command, argv: list[str], *, sloppy: bool = False) -> CommandLine:
    """Read a command line.

    Raises
    ------
    UsageError : the command does not take these arguments.
    """
    parser = parser_of(command)
    parser.check_known(argv)
    arguments = parser.parse_args(argv)
    parser.check_not_empty(arguments)
    words = read_words(getattr(arguments, "words", None) or (), sloppy=sloppy)
    settings = resolve(
        given(arguments),
        words.options,
        source=getattr(arguments, "url", None) or "",
        config=getattr(arguments, "config", None),
    )
    return CommandLine(arguments, settings, words)
