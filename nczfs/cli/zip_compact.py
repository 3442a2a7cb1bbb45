"""``nczfs zip-compact``: frees the space in an archive that no member uses."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from nczfs.cli import logs
from nczfs.cli.command import Command, CommandLine
from nczfs.cli.options import Scope
from nczfs.errors import UsageError
from nczfs.messages import size_text

if TYPE_CHECKING:
    from nczfs.zmap.zip.compact import Arrangement


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", metavar="ARCHIVE", help="a local zip file")
    parser.add_argument(
        "--dry-run", action="store_true", help="print how much space would be freed"
    )
    parser.add_argument(
        "--ozx",
        action="store_true",
        help="also put all metadata first, and mark the archive, as OME-NGFF's RFC-9 wants it",
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
    arrangement = _arrangement(place.path) if arguments.ozx else None
    done = compact(place.path, dry_run=arguments.dry_run, arrangement=arrangement)
    if arguments.json:
        print(json.dumps(asdict(done) | {"dead_bytes": done.dead_bytes}))
        return 0
    verb = "would be" if arguments.dry_run else "is now"
    change = f", {size_text(done.dead_bytes)} fewer" if done.dead_bytes >= 0 else ""
    print(
        f"{place.path}: {done.members} members in {size_text(done.size_before)}; {verb} "
        f"{size_text(done.size_after)}{change}"
    )
    return 0


def _arrangement(path: str) -> Arrangement:
    """Return the arrangement of an OME-Zarr. Raises UsageError if the archive has none."""
    import nczfs
    from nczfs.zmap.zip.compact import Arrangement
    from nczfs.zmap.zip.ozx import comment_of

    with nczfs.open(path) as root:
        names = root.engine_dataset.format.names
        attributes = root.attrs if isinstance(root, nczfs.Group) else {}
        found = attributes.get("ome") if names.arrays == names.groups else None
        version = found.get("version") if isinstance(found, dict) else None
    if not isinstance(version, str):
        raise UsageError(
            f"{path}: is no OME-Zarr of Zarr v3: the root has no attribute 'ome' with a version"
        )
    return Arrangement(names.nodes[0].encode(), comment_of(version))


COMMAND = Command(
    "zip-compact",
    "free the space of replaced and deleted members of a zip archive",
    _arguments,
    run,
    ("nczfs zip-compact era5.zip --dry-run",),
    scopes=frozenset({Scope.LOG}),
)
