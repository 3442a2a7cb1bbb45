"""The programs that mount(8) and umount(8) call: ``mount.nczfs`` and ``umount.nczfs``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from nczfs.cli import mount, process
from nczfs.cli.command import parse
from nczfs.cli.parser import Parser
from nczfs.cli.terminal import complain
from nczfs.cli.umount import left_text, unmount
from nczfs.errors import NczfsError, UsageError
from nczfs.fuse import mounting
from nczfs.fuse.mounting import MountError

# mount(8), EXIT STATUS.
DONE, USAGE, BUG, INTERRUPTED, FAILURE = 0, 1, 4, 8, 32


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``mount.nczfs URL DIR [-fnsv] [-o OPTIONS] [-t TYPE] [-N NAMESPACE]``."""
    return _guarded("mount.nczfs", _mount, list(sys.argv[1:] if argv is None else argv))


def umount_main(argv: Sequence[str] | None = None) -> int:
    """Run ``umount.nczfs DIR [-flnrv] [-t TYPE] [-N NAMESPACE]``."""
    return _guarded("umount.nczfs", _umount, list(sys.argv[1:] if argv is None else argv))


def run() -> NoReturn:
    """Run this process as ``mount.nczfs``, and end the process."""
    process.run(main)


def run_umount() -> NoReturn:
    """Run this process as ``umount.nczfs``, and end the process."""
    process.run(umount_main)


def _guarded(program: str, work: Callable[[list[str]], None], argv: list[str]) -> int:
    try:
        work(argv)
    except UsageError as error:
        return _tell(program, error, USAGE)
    except (NczfsError, OSError) as error:
        return _tell(program, error, FAILURE)
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 (a boot log wants a line, not a traceback)
        return _tell(program, f"internal error: {type(error).__name__}: {error}", BUG)
    return DONE


def _tell(program: str, what: Exception | str, code: int) -> int:
    complain(program, what)
    return code


def mount_parser() -> Parser:
    """Return the parser of ``mount.nczfs``."""
    parser = Parser("mount.nczfs", "mount a store; called by mount(8)")
    parser.add_argument("url", metavar="URL", help="of the store")
    parser.add_argument("mountpoint", metavar="MOUNTPOINT", help="a directory")
    parser.add_argument(
        "-f", "--fake", action="store_true", help="check everything, but do not mount"
    )
    parser.add_argument("-s", "--sloppy", action="store_true", help="ignore unknown options")
    _common(parser)
    return parser


def _mount(argv: list[str]) -> None:
    arguments = mount_parser().parse_args(argv)
    _enter_namespace(arguments, argv)
    line = [arguments.url, arguments.mountpoint]
    for words in arguments.words or ():
        line += ["-o", words]
    if arguments.verbose:
        line.append("-v")
    request = parse(mount.COMMAND, line, sloppy=arguments.sloppy)
    if not arguments.fake:
        mount.run(request)


def umount_parser() -> Parser:
    """Return the parser of ``umount.nczfs``."""
    parser = Parser("umount.nczfs", "end a mount; called by umount(8)")
    parser.add_argument("mountpoint", metavar="MOUNTPOINT", help="a directory")
    parser.add_argument(
        "-f", "--force", action="store_true", help="also when the daemon does not answer"
    )
    parser.add_argument(
        "-l", "--lazy", action="store_true", help="detach now, end when the last file is closed"
    )
    parser.add_argument("-r", dest="read_only", action="store_true", help="ignored")
    _common(parser)
    return parser


def _umount(argv: list[str]) -> None:
    arguments = umount_parser().parse_args(argv)
    _enter_namespace(arguments, argv)
    if arguments.force:
        mounting.force_unmount(mounting.resolve(arguments.mountpoint))
        return
    if left := left_text(unmount(arguments.mountpoint, lazy=arguments.lazy)):
        raise MountError(f"{arguments.mountpoint}: is unmounted, but {left}")


EXAMPLES = ("mount -t nczfs s3://bucket/era5.zarr /mnt/era5 -o ro,_netdev",)


def _common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-n", dest="no_mtab", action="store_true", help="ignored")
    parser.add_argument("-v", "--verbose", action="store_true", help="log more")
    parser.add_argument(
        "-o", dest="words", action="append", metavar="OPTIONS", help="see nczfs-mount(1)"
    )
    parser.add_argument("-t", dest="type", metavar="TYPE", help="ignored")
    parser.add_argument(
        "-N",
        dest="namespace",
        metavar="NAMESPACE",
        help="mount namespace to enter: a process id or a file",
    )


def _enter_namespace(arguments: argparse.Namespace, argv: list[str]) -> None:
    namespace = arguments.namespace
    if namespace is None:
        return
    path = f"/proc/{namespace}/ns/mnt" if namespace.isdecimal() else namespace
    position = argv.index("-N") if "-N" in argv else None
    if position is None:
        rest = [word for word in argv if not word.startswith("-N")]
    else:
        rest = argv[:position] + argv[position + 2 :]
    os.execvp("nsenter", ["nsenter", f"--mount={path}", "--", sys.argv[0], *rest])
