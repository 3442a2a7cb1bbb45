"""What a command is to `main`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass

from nczfs.cli.options import Scope
from nczfs.cli.parser import Parser, add_options, given
from nczfs.cli.sources import MountWords, Settings, read_words, resolve


@dataclass(frozen=True, slots=True)
class Request:
    """What a user asks of a command.

    Attributes
    ----------
    arguments : those of the command itself.
    settings : the options, wherever they were set.
    words : what ``-o`` said.
    """

    arguments: argparse.Namespace
    settings: Settings
    words: MountWords


@dataclass(frozen=True, slots=True)
class Command:
    """A word that can follow ``nczfs``.

    Attributes
    ----------
    add_arguments : gives a parser the arguments of the command.
    run : does it; the exit status.
    examples : command lines that its help shows.
    scopes : which options it takes.
    aliases : other names that do the same.
    short_help : whether ``-h`` is help, and not something of the command's own.
    owns_signals : it becomes a daemon, which has handlers of its own.
    trouble_status : what it exits with after an error.
    """

    name: str
    summary: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[Request], int]
    examples: tuple[str, ...]
    scopes: frozenset[Scope] = frozenset()
    aliases: tuple[str, ...] = ()
    short_help: bool = True
    owns_signals: bool = False
    trouble_status: int = 1


STORE_SCOPES = frozenset({Scope.STORE, Scope.LOG})
"""The options of commands that look into a store without a mount."""


def settings_for(request: Request, url: str) -> Settings:
    """The options of a request, for another URL than its first one."""
    arguments = request.arguments
    return resolve(
        given(arguments),
        request.words.options,
        source=url,
        config=getattr(arguments, "config", None),
    )


def parser_of(command: Command) -> Parser:
    """What reads the command line of a command, and has its help."""
    parser = Parser(
        f"nczfs {command.name}", command.summary, command.examples, short_help=command.short_help
    )
    command.add_arguments(parser)
    # The log matters to a mount; for the other commands it is as far off as the store.
    shared = {Scope.STORE} if Scope.MOUNT in command.scopes else STORE_SCOPES
    add_options(parser, command.scopes, shared if Scope.STORE in command.scopes else set())
    return parser


def parse(command: Command, argv: list[str], *, sloppy: bool = False) -> Request:
    """Read a command line.

    Raises
    ------
    UsageError : it is not one of the command.
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
    return Request(arguments, settings, words)
