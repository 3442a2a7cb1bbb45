"""``nczfs recover``: puts what could not be stored back into the store."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from nczfs.cli import logs
from nczfs.cli.command import Command, CommandLine
from nczfs.cli.options import Scope
from nczfs.cli.store import store_options
from nczfs.errors import NczfsError, SpoolError, UsageError
from nczfs.model.printing import printable

if TYPE_CHECKING:
    from nczfs.engine.spool.found import Found
    from nczfs.tools.recovery import Store
    from nczfs.zmap.registry import StoreOptions


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "names", metavar="NAME", nargs="*", help="an entry, as --list shows it (default: all)"
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--list", action="store_true", help="list the entries")
    what.add_argument("--export", metavar="DIR", type=Path, help="copy the data to files in DIR")
    what.add_argument("--discard", action="store_true", help="delete entries; their data are lost")
    parser.add_argument(
        "--force",
        action="store_true",
        help="overwrite what has changed since, and trust entries of other users",
    )
    parser.add_argument(
        "--url", help="URL with the user name, password or query that the spool does not keep"
    )
    parser.add_argument("--json", action="store_true", help="print a JSON object for each entry")


def run(request: CommandLine) -> int:
    """Go through the spool. Returns 1 if anything remains that was to be put back."""
    logs.configure_command(request.settings)
    from nczfs.engine.spool.space import default_spool_dir
    from nczfs.tools import recovery

    arguments = request.arguments
    spool_dir = Path(request.settings.maybe_text("spool-dir") or default_spool_dir())
    is_read_only = arguments.list or arguments.export is not None
    if arguments.discard and not arguments.names:
        raise UsageError("--discard: name the entries to delete; --list shows them")
    with nullcontext() if is_read_only else recovery.alone(spool_dir):
        found = recovery.entries(spool_dir, force=arguments.force)
        _check(found, arguments.names)
        if not found and not arguments.json:
            print(f"{spool_dir}: nothing is unsaved")
        is_single = is_read_only or arguments.discard
        groups = [[each] for each in found] if is_single else recovery.together(found)
        names = set(arguments.names or [each.name for each in found])
        work = _Work(arguments, store_options(request.settings))
        try:
            done = [work.take(group) for group in groups if names & {each.name for each in group}]
        finally:
            work.close()
    return 0 if all(done) else 1


class _Work:
    """The work to do on each entry, with the stores that were opened for it."""

    def __init__(self, arguments: argparse.Namespace, options: StoreOptions) -> None:
        self._arguments = arguments
        self._options = options
        self._stores: dict[str, Store] = {}

    def take(self, group: list[Found]) -> bool:
        """Carry out the work on entries that are put back together, and print a line for each.

        Returns False if it was not possible for all.
        """
        unsaved: list[tuple[Found, str]] = []
        is_done = True
        for found in group:
            try:
                description, done = self._done(found)
            except (NczfsError, OSError) as error:
                is_done = self._fail(found, error)
            else:
                if done:
                    self._tell(found, description, done)
                else:
                    unsaved.append((found, description))
        return self._put_back(unsaved) and is_done

    def close(self) -> None:
        """Close the stores."""
        for store in self._stores.values():
            store.close()

    def _put_back(self, unsaved: list[tuple[Found, str]]) -> bool:
        """Put entries back and delete them, the oldest first: it goes before what replaces it."""
        if not unsaved:
            return True
        entries, is_done = [found for found, _ in unsaved], True
        problems: Sequence[Exception | None]
        try:
            problems = self._store_of(entries[0]).put_back(entries, force=self._arguments.force)
        except (NczfsError, OSError) as error:
            problems = [error] * len(entries)
        for (found, description), problem in zip(unsaved, problems, strict=True):
            try:
                if problem is not None:
                    raise problem
                found.remove()
            except (NczfsError, OSError) as error:
                is_done = self._fail(found, error)
            else:
                self._tell(found, description, "stored")
        return is_done

    def _done(self, found: Found) -> tuple[str, str]:
        """Do what is asked for with an entry, or nothing if it is to be put back: returns ""."""
        arguments = self._arguments
        is_read_only = arguments.list or arguments.export is not None
        if found.is_foreign and not (is_read_only or arguments.force):
            raise SpoolError(
                f"{found.path}: belongs to another user, who may have put anything there; --export "
                "DIR shows it, --force trusts it"
            )
        if arguments.discard:
            found.remove()
            return str(found.path), "discarded"
        description = found.describe()
        if arguments.export is not None:
            return description, f"written to {found.export(arguments.export)}"
        if found.is_leftover:
            return description, "incomplete"
        if arguments.list:
            if found.is_foreign:
                return description, "of another user"
            return description, "in use by its mount" if found.in_use else "unsaved"
        if found.is_owned:
            return description, "left to its mount, which is running"
        return description, ""

    def _store_of(self, found: Found) -> Store:
        from nczfs.engine.stores import open_store
        from nczfs.tools.recovery import Store
        from nczfs.zmap.url import parse_url

        url = found.whole.url
        if url not in self._stores:
            place = parse_url(url)
            given = self._arguments.url and parse_url(self._arguments.url)
            if given and given.text == place.text:
                place = given
            # What is deleted from the spool must survive a power failure in the store.
            options = replace(self._options, durable=True)
            self._stores[url] = Store(open_store(place, options), place)
        return self._stores[url]

    def _fail(self, found: Found, error: Exception) -> bool:
        self._tell(found, str(error), "damaged" if self._arguments.list else "failed")
        return False

    def _tell(self, found: Found, description: str, done: str) -> None:
        entry = None if found.is_leftover else found.entry
        if self._arguments.json:
            document: dict[str, object] = {"name": found.name, "what": description, "state": done}
            if entry is not None:
                document |= {"reason": entry.reason, "saved_at": entry.saved_at}
            print(json.dumps(document))
            return
        since = ""
        if entry is not None and self._arguments.list:
            saved = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(entry.saved_at))
            since = f" ({saved}: {entry.reason})"
        print(printable(f"{found.name}: {description}: {done}{since}"))


def _check(found: list[Found], names: list[str]) -> None:
    known = {each.name for each in found}
    for name in names:
        if name not in known:
            raise UsageError(f"{name}: not in the spool; --list shows the entries")


COMMAND = Command(
    "recover",
    "put back what could not be stored",
    _arguments,
    run,
    (
        "nczfs recover --list",
        "nczfs recover",
    ),
    scopes=frozenset({Scope.STORE, Scope.SPOOL, Scope.LOG}),
)
