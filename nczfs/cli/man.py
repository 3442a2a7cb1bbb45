"""``nczfs man``: writes manual pages from the parsers of the commands."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from nczfs.cli import helper
from nczfs.cli.command import Command, CommandLine, parser_of
from nczfs.cli.parser import Parser
from nczfs.version import VERSION

_DESCRIPTION = "Object stores of NCZarr and Zarr datasets as ordinary files."
_STATUS = "0: done; 1: failed; 2: wrong usage. An error is one line on stderr."
_HELPER_STATUS = "That of mount(8): 1 wrong usage, 4 a bug, 8 interrupted, 32 failed."


class Page(NamedTuple):
    """A manual page: its section, its name, and its text."""

    section: int
    name: str
    text: str

    @property
    def path(self) -> str:
        """The file of the page, relative to a directory of manuals."""
        return f"man{self.section}/{self.name}.{self.section}"


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "directory",
        metavar="DIR",
        nargs="?",
        default="~/.local/share/man",
        help="where to write them (default ~/.local/share/man)",
    )


def pages(commands: Mapping[str, Command]) -> Iterator[Page]:
    """Return the manual pages of all commands, and of the programs that mount(8) calls."""
    yield _overview(commands)
    for command in commands.values():
        name = f"nczfs-{command.name}"
        more = {"EXIT STATUS": _STATUS, "SEE ALSO": "nczfs(1)"}
        yield _page(1, name, command.summary, parser_of(command), more, command.examples)
    more = {"EXIT STATUS": _HELPER_STATUS, "SEE ALSO": "nczfs-mount(1), nczfs-umount(1)"}
    summary = "mount an object store; called by mount(8)"
    yield _page(8, "mount.nczfs", summary, helper.mount_parser(), more, helper.EXAMPLES)
    summary = "end a mount of an object store; called by umount(8)"
    yield _page(8, "umount.nczfs", summary, helper.umount_parser(), more, ())


def _overview(commands: Mapping[str, Command]) -> Page:
    parser = Parser("nczfs", "")
    parser.description = _DESCRIPTION
    parser.add_argument("command", metavar="COMMAND", help="one of those below")
    parser.add_argument("arguments", metavar="ARGUMENT", nargs="*", help="what it takes")
    parser.add_argument("--version", action="store_true", help="print the version")
    also = [f"nczfs-{name}(1)" for name in commands]
    more = {
        "COMMANDS": "\n".join(
            f".TP\n.B {_escaped(' '.join((command.name, *command.aliases)))}\n"
            f"{_escaped(command.summary)}"
            for command in commands.values()
        ),
        "ENVIRONMENT": "Every option can be set by a variable: \\-\\-memory\\-limit by "
        "NCZFS_MEMORY_LIMIT.",
        "FILES": "/etc/nczfs/config.toml, ~/.config/nczfs/config.toml",
        "EXIT STATUS": _STATUS,
        "SEE ALSO": _escaped(", ".join([*also, "mount.nczfs(8)", "umount.nczfs(8)"])),
    }
    return _page(1, "nczfs", "object stores of NCZarr and Zarr as files", parser, more, ())


def _page(
    section: int,
    name: str,
    summary: str,
    parser: Parser,
    more: Mapping[str, str],
    examples: Sequence[str],
) -> Page:
    from argparse_manpage.manpage import Manpage

    page = Manpage(parser)
    page.prog, page.description, page.section = name, summary, section
    page.manual, page.source = "nczfs", f"nczfs {VERSION}"
    moment = int(os.environ.get("SOURCE_DATE_EPOCH", time.time()))
    page.date = time.strftime("%B %d, %Y", time.gmtime(moment))  # hyphens would be escaped
    if examples:
        lines = "\n".join(map(_escaped, examples))
        page.add_section("examples", "=", f".nf\n{lines}\n.fi")
    for heading, content in more.items():
        page.add_section(heading, "=", content)
    return Page(section, name, str(page))


def _remedy(top: Path) -> str:
    """Return how to read the pages in a directory."""
    program = shutil.which("manpath")
    found = b""
    if program is not None:
        found = subprocess.run([program, "-q"], capture_output=True, check=False).stdout
    if str(top.resolve()) in os.fsdecode(found).strip().split(":"):
        return "`man nczfs` begins here"
    where = shlex.quote(str(top.resolve()))
    return (
        f"`man -M {where} nczfs` begins here; with the line `export MANPATH={where}:` in"
        " ~/.profile, `man nczfs` does, too"
    )


def _escaped(text: str) -> str:
    """Escape a text for troff."""
    return text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("~", "\\(ti")


def command(commands: Callable[[], Mapping[str, Command]]) -> Command:
    """Return the command that writes the pages of the given commands."""

    def run(request: CommandLine) -> int:
        top = Path(request.arguments.directory).expanduser()
        for page in pages(commands()):
            path = top / page.path
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                path.write_text(page.text, "utf-8")
            except OSError as error:
                error.filename = path  # which a failed write does not know
                raise
        print(f"{top}: {_remedy(top)}")
        return 0

    return Command(
        "man",
        "write the manual pages",
        _arguments,
        run,
        ("nczfs man", "nczfs man /usr/local/share/man"),
    )
