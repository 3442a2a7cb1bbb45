"""``nczfs``: picks a command, and turns its outcome into messages and an exit status."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import NoReturn

from nczfs.cli import (
    cat,
    completion,
    convert_metadata,
    copy,
    create,
    demo,
    dependents,
    diff,
    doctor,
    du,
    dump,
    evict,
    exec_,
    export,
    import_,
    info,
    install_helper,
    interrupts,
    ls,
    man,
    mount,
    plot,
    process,
    recover,
    rm,
    serve,
    status,
    top,
    tree,
    umount,
    verify,
    version,
    warm,
    zip_compact,
    zom,
)
from nczfs.cli.command import Command, parse, parser_of
from nczfs.cli.spelling import nearest
from nczfs.cli.terminal import complain, prepare, words_of
from nczfs.errors import NczfsError, UsageError

log = logging.getLogger(__name__)

COMMANDS: Mapping[str, Command] = {
    command.name: command
    for command in (
        mount.COMMAND,
        exec_.COMMAND,
        umount.COMMAND,
        status.COMMAND,
        top.COMMAND,
        warm.COMMAND,
        evict.COMMAND,
        doctor.COMMAND,
        ls.COMMAND,
        tree.COMMAND,
        du.COMMAND,
        info.COMMAND,
        dump.COMMAND,
        cat.COMMAND,
        plot.COMMAND,
        verify.COMMAND,
        create.COMMAND,
        copy.COMMAND,
        diff.COMMAND,
        rm.COMMAND,
        import_.COMMAND,
        export.COMMAND,
        serve.COMMAND,
        convert_metadata.COMMAND,
        zom.COMMAND,
        dependents.COMMAND,
        recover.COMMAND,
        zip_compact.COMMAND,
        demo.COMMAND,
        install_helper.COMMAND,
        completion.command(lambda: COMMANDS),
        man.command(lambda: COMMANDS),
        version.COMMAND,
    )
}

DONE, FAILED, USAGE = 0, 1, 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line. Returns the exit status: 0 done, 1 failed, 2 wrong usage.

    130 and 143 after SIGINT and SIGTERM, 141 when the reader of the output had enough.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    command = by_name(words[0]) if words else None
    trouble = FAILED if command is None else command.trouble_status
    try:
        prepare()
        return _dispatch(words)
    except UsageError as error:
        return _tell(error, USAGE)
    except NczfsError as error:
        return _tell(error, trouble)
    except interrupts.Ended as end:
        _drop_output()
        return end.status
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except BrokenPipeError:
        _drop_output()
        return 128 + signal.SIGPIPE
    except OSError as error:
        _drop_output()  # what it could not print would be tried again at the end
        return _tell(words_of(error), trouble)
    except Exception as error:
        log.debug("unexpected", exc_info=error)
        return _tell(
            f"internal error: {type(error).__name__}: {error} (--debug shows where)", trouble
        )


def _drop_output() -> None:
    """Keep Python from waiting at its end for a reader that takes no more output."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.close(null)


def _tell(what: Exception | str, code: int) -> int:
    complain("nczfs", what)
    return code


def _dispatch(argv: list[str]) -> int:
    if not argv or argv[0] in ("-h", "--help", "help"):
        text = usage() if len(argv) < 2 else parser_of(_named(argv[1])).format_help().rstrip()
        print(text, flush=True)
        return DONE if argv else USAGE
    argv = [version.COMMAND.name if argv[0] == "--version" else argv[0], *argv[1:]]
    command = by_name(argv[0])
    if command is not None:
        with nullcontext() if command.owns_signals else interrupts.handled():
            status = command.run(parse(command, argv[1:]))
            sys.stdout.flush()
            return status
    if _looks_like_mount(argv):
        return mount.COMMAND.run(parse(mount.COMMAND, argv))
    raise _no_such_command(argv[0])


def by_name(word: str) -> Command | None:
    """Return the command that has a word as its name or alias."""
    aliases = (command for command in COMMANDS.values() if word in command.aliases)
    return COMMANDS.get(word) or next(aliases, None)


def _named(word: str) -> Command:
    command = by_name(word)
    if command is None:
        raise _no_such_command(word)
    return command


def _looks_like_mount(argv: list[str]) -> bool:
    """Return whether mount(8) calls: ``nczfs URL MOUNTPOINT -o …``, for the type fuse.nczfs."""
    places = [word for word in argv[:2] if not word.startswith("-")]
    return len(places) == 2 and ("/" in places[0] or os.path.exists(places[0]))


def _no_such_command(word: str) -> UsageError:
    aliases = [alias for command in COMMANDS.values() for alias in command.aliases]
    near = nearest(word, [*COMMANDS, *aliases, "--help", "--version"])
    hint = f"did you mean `nczfs {near}`?" if near else "`nczfs --help` lists them"
    return UsageError(f"no command is called {word!r}; {hint}")


def usage() -> str:
    """Return the overview of all commands."""
    lines = ["usage: nczfs COMMAND ...", "", "Object stores of NCZarr and Zarr as files.", ""]
    width = max(map(len, COMMANDS))
    lines += [f"  {command.name:{width}}  {_summary(command)}" for command in COMMANDS.values()]
    lines += ["", "`nczfs COMMAND --help` shows what a command takes."]
    return "\n".join(lines)


def _summary(command: Command) -> str:
    also = f" (also: {', '.join(command.aliases)})" if command.aliases else ""
    return command.summary + also


def run() -> NoReturn:
    """Run the command line of this process, and end the process."""
    process.run(main)


if __name__ == "__main__":
    run()
