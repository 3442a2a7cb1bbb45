"""``nczfs zip-compact``: frees the space in an archive that no member uses."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

from nczfs.cli import logs
from nczfs.cli.command import Command, CommandLine
from nczfs.cli.options import Scope
from nczfs.errors import UsageError
from nczfs.messages import size_text


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", metavar="ARCHIVE", help="a local zip file")
    parser.add_argument(
        "--dry-run", action="store_true", help="print how much space would be freed"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(request: CommandLine) -> int:
    """Compact an archive, or print how much that would free."""
    logs.configure_command(request.settings)
    from nczfs.zmap.url import parse_url
    from nczfs.zmap.zip.compact import compact

    arguments = request.arguments
    place = parse_url(arguments.url)
    if place.kind != "zip" or not place.path:
        raise UsageError(f"{place.text}: is not a zip archive in a local file")
    done = compact(place.path, dry_run=arguments.dry_run)
    if arguments.json:
        print(json.dumps(asdict(done) | {"dead_bytes": done.dead_bytes}))
        return 0
    verb = "would be" if arguments.dry_run else "is now"
    print(
        f"{place.path}: {done.members} members in {size_text(done.size_before)}; {verb} "
        f"{size_text(done.size_after)}, {size_text(done.dead_bytes)} fewer"
    )
    return 0


COMMAND = Command(
    "zip-compact",
    "free the space of replaced and deleted members of a zip archive",
    _arguments,
    run,
    ("nczfs zip-compact era5.zip --dry-run",),
    scopes=frozenset({Scope.LOG}),
)
