"""Command lines: argparse, fed from the table of options, with errors of one line."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection
from typing import NoReturn

from nczfs.cli.options import OPTIONS, Option, Scope
from nczfs.errors import UsageError


class Parser(argparse.ArgumentParser):
    """A parser that raises `UsageError` and does not guess at abbreviations."""

    def __init__(self, prog: str, summary: str, *, short_help: bool = True) -> None:
        super().__init__(prog=prog, description=summary, allow_abbrev=False, add_help=False)
        names = ("-h", "--help") if short_help else ("--help",)
        self.add_argument(*names, action="help", help="show this text")

    def check_not_empty(self, arguments: argparse.Namespace) -> None:
        """Refuse a place that is "", as of a variable of the shell that nobody set."""
        for action in self._get_positional_actions():
            value = getattr(arguments, action.dest)
            if "" in (value if isinstance(value, list) else [value]):
                self.error(f"{action.metavar} is empty")

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (`{self.prog} --help` shows the usage)")


def add_options(parser: argparse.ArgumentParser, scopes: Collection[Scope]) -> None:
    """Give a command the options of some scopes; those not given leave no trace.

    A letter that the command has taken itself is not theirs: ncdump's ``-v`` is not ``--verbose``.
    """
    taken = parser._option_string_actions
    parser.add_argument("--config", metavar="FILE", help="a further configuration file (TOML)")
    for scope in Scope:
        if scope not in scopes:
            continue
        group = parser.add_argument_group(f"options for {scope.value}")
        for option in OPTIONS:
            if option.scope is scope:
                _add(group, option, taken)


def _add(group: argparse._ArgumentGroup, option: Option, taken: Collection[str]) -> None:
    names = [f"--{option.name}"]
    if option.short is not None and f"-{option.short}" not in taken:
        names.insert(0, f"-{option.short}")
    if option.is_flag:
        group.add_argument(
            *names,
            dest=option.name,
            action="store_true",
            default=argparse.SUPPRESS,
            help=option.help,
        )
    else:
        group.add_argument(
            *names,
            dest=option.name,
            type=typed(option.parse),
            metavar=option.metavar,
            default=argparse.SUPPRESS,
            help=option.help,
        )


def typed(parse: Callable[[str], object]) -> Callable[[str], object]:
    """A parser of text as argparse wants it, with its error for the reason."""

    def convert(text: str) -> object:
        try:
            return parse(text)
        except UsageError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return convert


def given(arguments: argparse.Namespace) -> dict[str, object]:
    """The options that stand on the command line, by name."""
    found = vars(arguments)
    return {option.name: found[option.name] for option in OPTIONS if option.name in found}
