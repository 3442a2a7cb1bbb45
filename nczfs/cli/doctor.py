"""``nczfs doctor``: checks this machine, and a store."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from nczfs.cli import logs
from nczfs.cli.command import Command, CommandLine
from nczfs.cli.memory_limit import default_memory_limit, usable_memory
from nczfs.cli.options import Scope
from nczfs.cli.store import engine_options, place, store_options
from nczfs.cli.terminal import say

if TYPE_CHECKING:
    from nczfs.doctor.examination import Line

PATIENCE_FACTOR = 2  # a check makes several requests, each of which has the time of one

_WIDTHS = 8, 13


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "url", metavar="URL", nargs="?", help="of a store or a dataset (default: none)"
    )
    parser.add_argument(
        "-o",
        dest="words",
        metavar="OPTION,...",
        action="append",
        help="options of a mount, as in fstab",
    )
    parser.add_argument(
        "--write",
        action="store_true",
        help="try to write: makes objects of its own below URL, and removes them",
    )
    parser.add_argument("--json", action="store_true", help="print a JSON list")


def run(request: CommandLine) -> int:
    """Print a line for each check. Returns 1 if something is wrong."""
    arguments = request.arguments
    os.environ.update(request.words.environment)
    logs.configure_command(request.settings)
    from nczfs.doctor.finding import Grade

    is_wrong = False
    found = []
    for subject, finding in _lines(request):
        is_wrong = is_wrong or finding.grade is Grade.WRONG
        if arguments.json:
            found.append(
                {
                    "check": subject,
                    "grade": finding.grade.value,
                    "text": finding.text,
                    "remedy": finding.remedy,
                }
            )
        else:
            say(f"{finding.grade.value:{_WIDTHS[0]}}  {subject:{_WIDTHS[1]}}  {finding.line}")
            sys.stdout.flush()
    if arguments.json:
        json.dump(found, sys.stdout, indent=2)
        print()
    return int(is_wrong)


def _lines(request: CommandLine) -> Iterator[Line]:
    from nczfs.doctor.examination import (
        MachineQuestion,
        StoreQuestion,
        examine_machine,
        examine_store,
    )
    from nczfs.engine.spool.space import default_spool_dir

    arguments, settings = request.arguments, request.settings
    stores = store_options(settings)
    patience_s = PATIENCE_FACTOR * settings.seconds("request-timeout")
    memory_bytes = settings.maybe_number("memory-limit") or default_memory_limit()
    yield from examine_machine(
        MachineQuestion(
            allow_other=settings.flag("allow-other") or settings.flag("allow-root"),
            spool_dir=Path(settings.maybe_text("spool-dir") or default_spool_dir()),
            cache_dir=settings.maybe_text("cache-dir"),
            cache_bytes_max=settings.maybe_number("max-cache-size"),
            memory_bytes=memory_bytes,
            usable_bytes=usable_memory(),
            connections=stores.connections,
            patience_s=patience_s,
        )
    )
    if arguments.url is not None:
        yield from examine_store(
            StoreQuestion(
                place(arguments.url, settings),
                stores,
                replace(engine_options(settings), memory_limit_bytes=memory_bytes),
                writes=arguments.write,
                patience_s=patience_s,
            )
        )


COMMAND = Command(
    "doctor",
    "find out what keeps nczfs from working here, or with a store",
    _arguments,
    run,
    ("nczfs doctor", "nczfs doctor s3://bucket/era5.zarr", "nczfs doctor s3://bucket/new --write"),
    scopes=frozenset(Scope) - {Scope.SERVICE},
)
