"""Parsers of command lines: argparse, fed from the table of options, with one-line errors.

``--help`` shows what belongs to the command, ``--help-store`` the options that all commands with a
URL share.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NoReturn

from nczfs.cli.options import OPTIONS, Option, Scope
from nczfs.cli.spelling import hint
from nczfs.errors import UsageError

SHARED_HELP = "--help-store"


class Parser(argparse.ArgumentParser):
    """A parser that raises `UsageError` and does not guess at abbreviations.

    Parameters
    ----------
    examples : command lines that its help shows.
    short_help : whether ``-h`` prints the help; the command may use it for something else.
    """

    def __init__(
        self, prog: str, summary: str, examples: Sequence[str] = (), *, short_help: bool = True
    ) -> None:
        super().__init__(
            prog=prog,
            description=summary[:1].upper() + summary[1:] + ".",
            allow_abbrev=False,
            add_help=False,
        )
        self._positionals.title = "arguments"
        self.examples = tuple(examples)
        self.shared: list[argparse._ArgumentGroup] = []
        names = ("-h", "--help") if short_help else ("--help",)
        self.add_argument(*names, action=_Help, help="show this text")

    def format_usage(self) -> str:
        places = self._get_positional_actions()
        words = self._get_formatter()._format_actions_usage(places, [])
        return " ".join(f"usage: {self.prog} [OPTION...] {words}".split()) + "\n"

    def format_help(self) -> str:
        """Return the command's own arguments and an example."""
        own = [group for group in self._action_groups if group not in self.shared]
        text = f"{self.format_usage()}\n{self._sections(own, self.description)}"
        if self.examples:
            lines = "".join(f"  {example}\n" for example in self.examples)
            text += f"\nexample{'s' if len(self.examples) > 1 else ''}:\n{lines}"
        if self.shared:
            about = " and ".join(
                str(group.title).removeprefix("options for ") for group in self.shared
            )
            text += f"\n`{self.prog} {SHARED_HELP}` lists the options for {about}.\n"
        return text

    def format_shared_help(self) -> str:
        """Return the help on the options that all commands with a URL have."""
        return f"{self.format_usage()}\n{self._sections(self.shared, None)}"

    def check_known(self, argv: Iterable[str]) -> None:
        """Refuse options that do not exist, before argparse finds something missing."""
        known = self._option_string_actions
        for word in argv:
            if word == "--":
                return
            name = word.partition("=")[0]
            if " " in word or not word.startswith("-") or name in known:
                continue
            letter = known.get(word[:2])
            is_meant_long = f"-{name}" in known and (letter is None or letter.nargs == 0)
            if word.startswith("--") or is_meant_long:
                self.error(f"no option is called {name}{hint('--' + name.lstrip('-'), known)}")

    def check_not_empty(self, arguments: argparse.Namespace) -> None:
        """Refuse an empty URL or path, such as an unset variable of the shell."""
        for action in self._get_positional_actions():
            if action.nargs == argparse.PARSER:
                continue  # words of another program
            value = getattr(arguments, action.dest)
            if "" in (value if isinstance(value, list) else [value]):
                self.error(f"{action.metavar} is empty")

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (`{self.prog} --help` shows the usage)")

    def _sections(self, groups: Iterable[argparse._ArgumentGroup], description: str | None) -> str:
        formatter = self._get_formatter()
        formatter.add_text(description)
        for group in groups:
            formatter.start_section(group.title)
            formatter.add_arguments(group._group_actions)
            formatter.end_section()
        return formatter.format_help()


class _Help(argparse.Action):
    """An option that prints a help text and ends the command."""

    def __init__(self, option_strings: Sequence[str], dest: str, help: str | None = None) -> None:
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, help=help)

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> NoReturn:
        assert isinstance(parser, Parser)
        is_shared = option_string == SHARED_HELP
        text = parser.format_shared_help() if is_shared else parser.format_help()
        print(text, end="", flush=True)
        parser.exit()


def add_options(
    parser: Parser, scopes: Collection[Scope], shared: Collection[Scope] = frozenset()
) -> None:
    """Add the options of some scopes to a command. Options that are not given set no attribute.

    A letter that the command itself uses is not added: ncdump's ``-v`` is not ``--verbose``.

    Parameters
    ----------
    shared : scopes that ``--help-store`` shows instead of ``--help``.
    """
    if not scopes:
        return
    taken = parser._option_string_actions
    parser.add_argument("--config", metavar="FILE", help="another configuration file (TOML)")
    if shared:
        parser.add_argument(SHARED_HELP, action=_Help, help="show the options for the store")
    for scope in Scope:
        if scope not in scopes:
            continue
        group = parser.add_argument_group(f"options for {scope.value}")
        for option in OPTIONS:
            if option.scope is scope:
                _add(group, option, taken)
        if scope in shared:
            parser.shared.append(group)


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
    """Adapt a parser of text to argparse, keeping the reason in its error."""

    def convert(text: str) -> object:
        try:
            return parse(text)
        except UsageError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return convert


def given(arguments: argparse.Namespace) -> dict[str, object]:
    """Return the options that are on the command line, by name."""
    found = vars(arguments)
    return {option.name: found[option.name] for option in OPTIONS if option.name in found}
